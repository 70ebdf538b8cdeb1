//! One client, from its submission to the end of its job and its checks.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use serde_json::{Value, json};

use super::call::{Call, Key};
use super::check::Watched;
use super::follow::{self, EndNotice};
use super::plan::{Plan, Story, Way};
use super::state::State;
use super::tally::Class;
use super::world::World;
use super::{abuse, flows, rotation, workers};
use crate::clock::{now, sleep};
use crate::http::Answer;

pub(super) async fn play(world: Rc<World>, plan: Plan, intended: Instant) {
    match &plan.story {
        Story::Nonsense(which) => abuse::play(&world, &plan, *which).await,
        Story::Flow => Box::pin(flows::play(&world, &plan, intended)).await,
        Story::Work => Box::pin(workers::submit(&world, &plan, intended)).await,
        Story::Rotate(kind) => Box::pin(rotation::play(&world, &plan, kind, intended)).await,
        Story::Single(_) | Story::Batch(_) => submit_and_follow(world, &plan, intended).await,
    }
}

async fn submit_and_follow(world: Rc<World>, plan: &Plan, intended: Instant) {
    let key = world.clients[plan.client].key.clone();
    let callback = world.receiver.as_ref().filter(|_| plan.way == Way::Webhook);
    let callback = callback.map(|receiver| receiver.expect(plan.n, plan.n_failures_of_receiver));
    let Some((job, answer)) = submit(&world, plan, &key, callback.as_deref(), intended).await else {
        return;
    };
    let slow = async {
        if plan.slow {
            Box::pin(abuse::unread_stream(&world, &job.key)).await;
        }
    };
    let cancel = async {
        match plan.cancel_after {
            Some(after) => cancel(&job, after).await,
            None => None,
        }
    };
    let follow = async {
        match plan.way {
            Way::Abandon => None,
            way => follow::follow(&job, plan, way, &answer).await,
        }
    };
    let ((canceled, end), ()) = join(join(cancel, follow), slow).await;
    let Some((end, notice)) = end else {
        return;
    };
    world.ended(&job.id, end, Some(now() - job.intended));
    if let Some(said) = canceled.filter(|said| said.is_final() && *said != end) {
        let call = job.status_call();
        world.violate(
            "FR-CAN-06",
            format!("the answer to a cancellation said {said}, and it became {end}"),
            &call,
            None,
        );
    }
    let leaves_result = matches!(plan.story, Story::Single(_));
    conclude(&job, end, notice, leaves_result).await;
    if plan.retry && end == State::Failed {
        Box::pin(retry(&job, plan)).await;
    }
}

/// Submits, once or several times concurrently. Returns the job, if there is one.
async fn submit(
    world: &Rc<World>,
    plan: &Plan,
    key: &Key,
    callback: Option<&str>,
    intended: Instant,
) -> Option<(Watched, Answer)> {
    world.tally.borrow_mut().jobs.submitted += 1;
    let repeatable = plan.n_submissions > 1 || world.is_killed_at_times;
    let idempotency = repeatable.then(|| format!("traffic-{}-{}", world.run, plan.n));
    let (path, body) = body(plan, callback);
    let call = Call::post(path, key, body.to_string()).class(Class::Submit).idempotent(idempotency.clone());
    let answers = match plan.n_submissions {
        0 | 1 => vec![world.send_patiently(&call, intended).await],
        n => join_all((0..n).map(|_| world.send_patiently(&call, intended))).await,
    };
    let mut answers = answers.into_iter().flatten();
    let first = answers.next()?;
    let job = accepted(world, &call, &first, key, intended)?;
    for again in answers {
        same_job(&job, &call, &again);
    }
    // A key belongs to one route.
    let is_single = matches!(plan.story, Story::Single(_));
    if let Some(used) = idempotency.filter(|_| plan.n_submissions > 1 && is_single) {
        other_body(&job, key, used).await;
    }
    Some((job, first))
}

fn body(plan: &Plan, callback: Option<&str>) -> (String, Value) {
    let correlation = format!("traffic-{}", plan.n);
    let mut body = match &plan.story {
        Story::Batch(kinds) => {
            let items: Vec<Value> = kinds.iter().map(|kind| json!({ "work_kind": &**kind })).collect();
            json!({ "items": items })
        }
        Story::Single(kind) | Story::Rotate(kind) => {
            json!({"type": "EXECUTE", "work_kind": &**kind, "correlation_id": correlation})
        }
        Story::Nonsense(_) | Story::Work | Story::Flow => json!({"type": "EXECUTE"}),
    };
    if let Some(url) = callback {
        body["callback"] = url.into();
    }
    let path = if matches!(plan.story, Story::Batch(_)) { "/v1/jobs/batch" } else { "/v1/jobs" };
    (path.to_owned(), body)
}

/// Checks the answer to a submission.
pub(super) fn accepted(
    world: &Rc<World>,
    call: &Call,
    answer: &Answer,
    key: &Key,
    intended: Instant,
) -> Option<Watched> {
    if answer.status != 202 {
        world.tally.borrow_mut().jobs.refused += 1;
        if !matches!(answer.status, 429 | 500..=599) {
            world.violate(
                "FR-SUB-02",
                format!("a submission is answered {}", answer.status),
                call,
                Some(answer),
            );
        }
        return None;
    }
    let body = answer.object();
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let (id, state) = (text("job_id"), State::parse(text("state")));
    if id.is_empty() || state.is_none() || text("created_at").is_empty() {
        world.violate("FR-SUB-02", "an acceptance lacks job_id, state or created_at", call, Some(answer));
        return None;
    }
    if !answer.header("location").ends_with(id) {
        world.violate("AO-SUB-02", "Location does not lead to the job", call, Some(answer));
    }
    world.tally.borrow_mut().accepted();
    if !world.acknowledge(id, key) {
        world.tally.borrow_mut().jobs.doubled += 1;
        world.violate("FR-SUB-15", "an id was given twice", call, Some(answer));
    }
    Some(Watched {
        world: world.clone(),
        id: id.to_owned(),
        key: key.clone(),
        intended,
        seen: Cell::new(state.unwrap_or(State::Created)),
        retried: Cell::new(false),
    })
}

/// A repetition must return the same job.
fn same_job(job: &Watched, call: &Call, again: &Answer) {
    let id = again.object().get("job_id").and_then(Value::as_str).unwrap_or_default().to_owned();
    if again.status == 202 && id != job.id {
        job.world.tally.borrow_mut().jobs.doubled += 1;
        job.violate("FR-IDM-03", "one idempotency key made two jobs", call, again);
    } else if again.status != 202 && !matches!(again.status, 429 | 500..=599) {
        job.violate("FR-IDM-03", format!("a repetition is answered {}", again.status), call, again);
    }
}

/// The same key with another body must be refused.
async fn other_body(job: &Watched, key: &Key, used: String) {
    let body = json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "payload": {"other": true}});
    let call = Call::post("/v1/jobs".to_owned(), key, body.to_string()).idempotent(Some(used));
    let Some(answer) = job.world.send_patiently(&call, now()).await else {
        return;
    };
    if !matches!(answer.status, 409 | 429 | 500..=599) {
        job.violate(
            "FR-IDM-04",
            format!("another body with the same key is answered {}", answer.status),
            &call,
            &answer,
        );
    }
}

/// Cancels after a while. Returns the state in the answer.
async fn cancel(job: &Watched, after: Duration) -> Option<State> {
    sleep(after).await;
    let call = Call::post(format!("/v1/jobs/{}/cancel", job.id), &job.key, "");
    let answer = job.world.send(&call, now()).await.ok()?;
    let state = answer.object().get("state").and_then(Value::as_str).and_then(State::parse);
    if answer.status == 200 && !state.is_some_and(State::is_final) {
        let word = state.map_or("no state", State::word);
        job.violate("FR-CAN-01", format!("a cancellation is answered with {word}"), &call, &answer);
    }
    state
}

/// Checks an ended job: the failure object of two dialects and of the notification, report, result.
pub(super) async fn conclude(job: &Watched, end: State, notice: Option<EndNotice>, leaves_result: bool) {
    let world = &job.world;
    if end != State::Succeeded {
        failure_objects(job, notice).await;
    } else if leaves_result {
        let call = Call::get(format!("/v1/jobs/{}/result", job.id), &job.key);
        if let Some(answer) = world.send_patiently(&call, now()).await
            && answer.status == 404
        {
            job.violate("AO-RES-01", "a job that succeeded has no result", &call, &answer);
        }
    }
    let call = Call::get(format!("/v1/jobs/{}/report", job.id), &job.key);
    if let Some(answer) = world.send_patiently(&call, now()).await
        && !matches!(answer.status, 429 | 500..=599)
    {
        job.report(end, &call, &answer);
    }
}

async fn failure_objects(job: &Watched, notice: Option<EndNotice>) {
    let call = job.status_call().for_problem();
    let Some(first) = job.world.send_patiently(&call, now()).await.filter(|answer| answer.status == 200)
    else {
        return;
    };
    job.failure(&call, &first);
    let other = Call::get(format!("/api/v1/jobs/{}", job.id), &job.key).for_problem();
    // This dialect shows executions, and after a retry the id belongs to the first one.
    if !job.retried.get()
        && let Some(answer) = job.world.send_patiently(&other, now()).await
        && answer.status == 200
        && answer.body != first.body
    {
        job.violate(
            "C-96",
            "the failure object of /api/v1 has other bytes than that of /v1",
            &other,
            &answer,
        );
    }
    if let Some(notice) = notice
        && notice.body != first.body
    {
        let told = String::from_utf8_lossy(&notice.body).into_owned();
        let what = format!("the failure object by {} has other bytes than the status", notice.name);
        job.violate("C-96", what, &call, &Answer { body: told.into(), ..first.clone() });
    }
}

/// Retries a failed job, and follows it again.
async fn retry(job: &Watched, plan: &Plan) {
    let before = job.world.send_patiently(&job.status_call(), now()).await;
    let attempt = |answer: &Answer| answer.object().get("attempt").and_then(Value::as_u64);
    let before = before.as_ref().and_then(attempt);
    let call = Call::post(format!("/v1/jobs/{}/retry", job.id), &job.key, "");
    let Ok(answer) = job.world.send(&call, now()).await else {
        return;
    };
    match answer.status {
        200 => {}
        // No retry is left, or it is not worthwhile.
        409 | 429 | 500..=599 => return,
        other => return job.violate("FR-RTY-01", format!("a retry is answered {other}"), &call, &answer),
    }
    if let (Some(before), Some(after)) = (before, attempt(&answer))
        && after != before + 1
    {
        job.violate("FR-RTY-03", format!("the attempt went from {before} to {after}"), &call, &answer);
    }
    job.retried.set(true);
    if let Some((end, _)) = follow::follow(job, plan, Way::Poll, &answer).await {
        job.world.ended(&job.id, end, None);
        conclude(job, end, None, matches!(plan.story, Story::Single(_))).await;
    }
}
