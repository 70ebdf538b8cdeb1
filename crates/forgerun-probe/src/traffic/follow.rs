//! Waits for the end of a job: by polling, stream or webhook.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::call::Key;
use super::check::Watched;
use super::plan::{Plan, Way};
use super::state::State;
use super::world::World;
use crate::clock::{now, sleep_until};
use crate::http::Answer;
use crate::limits::POLL_DEFAULT;

/// How a client was notified of the end, and with which body.
pub(super) struct EndNotice {
    pub(super) name: &'static str,
    pub(super) body: Bytes,
}

/// Waits for the end. `None` if the run is over before.
pub(super) async fn follow(
    job: &Watched,
    plan: &Plan,
    way: Way,
    answer: &Answer,
) -> Option<(State, Option<EndNotice>)> {
    let told = match way {
        Way::Stream => Box::pin(stream(job, plan)).await,
        Way::Webhook => Box::pin(webhook(job, plan)).await,
        Way::Poll | Way::Abandon => None,
    };
    // A notified client polls once more.
    let end = poll(job, plan.poll_every, if told.is_some() { None } else { Some(answer) }).await?;
    Some((end, told.flatten()))
}

/// Polls until the job has ended, no sooner than the server allows; at once if there is no answer
/// yet.
async fn poll(job: &Watched, every: Option<Duration>, before: Option<&Answer>) -> Option<State> {
    let mut wait = before.map_or(Duration::ZERO, |answer| wait_of(answer, every));
    loop {
        let intended = now() + wait;
        sleep_until(intended).await;
        if job.world.is_over() {
            return None;
        }
        let call = job.status_call();
        let answer = job.world.send_patiently(&call, intended).await?;
        if let Some(state) = job.status(&call, &answer)
            && state.is_final()
        {
            return Some(state);
        }
        if matches!(answer.status, 401 | 403 | 404 | 410) {
            return None;
        }
        wait = wait_of(&answer, every);
    }
}

/// Wait before the next poll.
fn wait_of(answer: &Answer, every: Option<Duration>) -> Duration {
    let said = answer.header("retry-after").parse().ok().map(Duration::from_secs);
    match answer.status {
        429 | 503 => said.unwrap_or(POLL_DEFAULT),
        _ => every.or(said).unwrap_or(POLL_DEFAULT),
    }
}

/// Follows the stream to the end of the job. Returns its failure object, if any; `None` without an
/// end.
async fn stream(job: &Watched, plan: &Plan) -> Option<Option<EndNotice>> {
    let world = &job.world;
    let _permit = world.streams.try_acquire().ok()?;
    let mut events = world.clients[plan.client].streaming.forge().events(&job.id).ok()?;
    let mut last_id = String::new();
    loop {
        let left = world.deadline.get().saturating_duration_since(now());
        let event = timeout(left, events.next()).await.ok()?.ok()??;
        let call = job.status_call();
        if !event.id.is_empty() {
            if event.id <= last_id {
                world.violate("AJ-SSE-04", "a stream told an event twice, or out of order", &call, None);
            }
            last_id.clone_from(&event.id);
        }
        if serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&event.data).is_err() {
            world.violate("AJ-SSE-03", "the data of an event is no JSON object", &call, None);
        }
        if event.is_end() {
            let failed = event.name != "job-completed";
            return Some(failed.then(|| EndNotice { name: "stream", body: event.data.into() }));
        }
    }
}

/// Waits for the webhook about the end. Returns its failure object, if any; `None` if it did not
/// come.
async fn webhook(job: &Watched, plan: &Plan) -> Option<Option<EndNotice>> {
    let world = &job.world;
    let receiver = world.receiver.as_ref()?;
    let left = world.deadline.get().saturating_duration_since(now());
    let inbox = timeout(left, receiver.end_of(plan.n)).await;
    let told = receiver.close(plan.n);
    let call = job.status_call();
    if told.out_of_order {
        world.violate("FR-WHK-04", "webhooks of one job came out of order", &call, None);
    }
    if inbox.is_err() {
        world.violate("FR-EVT-07", "no webhook told of the end of a job", &call, None);
        return None;
    }
    Some(told.failure.map(|body| EndNotice { name: "webhook", body }))
}

/// Waits for the end of a job that no client follows.
pub(super) async fn follow_quietly(world: &Rc<World>, id: &str, key: &Key, seen: State) -> Option<State> {
    let job = Watched {
        world: world.clone(),
        id: id.to_owned(),
        key: key.clone(),
        intended: now(),
        seen: Cell::new(seen),
        retried: Cell::new(true),
    };
    poll(&job, None, None).await
}
