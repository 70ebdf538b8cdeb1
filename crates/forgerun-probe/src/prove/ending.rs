//! The end of a run: waits until everything has ended, then reads every job, workflow and event.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use serde_json::Value;

use super::history::{Event, JobEvent, StepEnd, Tick};
use super::receiver::Arrivals;
use super::world::{Ask, World};
use crate::clock::{now, sleep};

/// Requests at once.
const AT_ONCE: usize = 8;
const PAUSE: Duration = Duration::from_millis(100);

/// Reads the end into the history. What has not ended by `deadline` is read as it is.
pub(super) async fn read_end(world: &Rc<World>, arrivals: &Arrivals, deadline: Instant) {
    drain(world, deadline).await;
    world.is_drained.set(true);
    let mut jobs = all_jobs(world).await;
    jobs.extend(world.jobs.borrow().iter().cloned());
    let expected: Vec<Vec<String>> =
        stream::iter(jobs).map(|job| read_job(world, job)).buffer_unordered(AT_ONCE).collect().await;
    let workflows = world.workflows.borrow().clone();
    for workflow in workflows {
        read_workflow(world, workflow).await;
    }
    let expected: Vec<String> = expected.into_iter().flatten().collect();
    while now() < deadline && !expected.iter().all(|event| arrivals.has(event)) {
        sleep(PAUSE).await;
    }
}

fn is_final(state: &Value) -> bool {
    state.as_str().is_some_and(|state| ["SUCCEEDED", "FAILED", "CANCELED"].contains(&state))
}

/// Waits for the ends of jobs and workflows, one after the other.
async fn drain(world: &World, deadline: Instant) {
    let paths = |ids: &[String], kind: &str| -> Vec<String> {
        ids.iter().map(|id| format!("/v1/{kind}/{id}")).collect()
    };
    let workflows = paths(&world.workflows.borrow(), "workflows");
    let jobs = paths(&world.jobs.borrow(), "jobs");
    let waits = jobs.into_iter().chain(workflows).map(|path| async move {
        while now() < deadline {
            match world.ask_until_answered(&Ask::get(&path)).await {
                Some(told) if told.status == 200 && !is_final(&told.body["state"]) => sleep(PAUSE).await,
                _ => return,
            }
        }
    });
    stream::iter(waits).buffer_unordered(AT_ONCE).for_each(|()| async {}).await;
}

/// Every job of the client, also those that nothing acknowledged.
async fn all_jobs(world: &World) -> BTreeSet<String> {
    let (mut jobs, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let path = format!("/v1/jobs?limit=200{cursor}");
        let Some(told) = world.ask_until_answered(&Ask::get(&path)).await else { return jobs };
        let page = told.body["jobs"].as_array().cloned().unwrap_or_default();
        jobs.extend(page.iter().filter_map(|job| job["job_id"].as_str().map(str::to_owned)));
        match told.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return jobs,
        }
    }
}

/// Reads a job into the history, and returns the ids of its events.
async fn read_job(world: &World, job: String) -> Vec<String> {
    let (report, view) = (format!("/v1/jobs/{job}/report"), format!("/ojs/v1/jobs/{job}"));
    let state = format!("/v1/jobs/{job}");
    let state = world.ask_until_answered(&Ask::get(&state)).await.filter(|told| told.status == 200);
    let view = world.ask_until_answered(&Ask::get(&view)).await.filter(|told| told.status == 200);
    let (Some(state), Some(view)) = (state, view) else {
        world.history.add(Event::Gone { job });
        return Vec::new();
    };
    let report = world.ask_until_answered(&Ask::get(&report)).await.map(|told| told.body).unwrap_or_default();
    let view = &view.body["job"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let events: Vec<JobEvent> = report["events"].as_array().into_iter().flatten().map(event).collect();
    let tick = text(&view["meta"]["cron_name"]).zip(text(&view["meta"]["cron_triggered_at"]));
    let ids = events.iter().map(|event| event.id.clone()).collect();
    world.history.add(Event::Final {
        job,
        state: text(&state.body["state"]).unwrap_or_default(),
        op: view["args"][0]["op"].as_u64(),
        tick: tick.map(|(schedule, at)| Tick { schedule, at }),
        value: view["result"]["value"].as_u64(),
        events,
    });
    ids
}

fn event(view: &Value) -> JobEvent {
    let text = |name: &str| view[name].as_str().map(str::to_owned);
    JobEvent {
        id: text("event_id").unwrap_or_default(),
        prev: text("prev_state"),
        next: text("next_state").unwrap_or_default(),
        will_retry: view["will_retry"] == true,
    }
}

async fn read_workflow(world: &World, workflow: String) {
    let path = format!("/v1/workflows/{workflow}");
    let told = world.ask_until_answered(&Ask::get(&path)).await.filter(|told| told.status == 200);
    let Some(told) = told else { return world.history.add(Event::Gone { job: workflow }) };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let step = |step: &Value| StepEnd {
        id: text(&step["id"]).unwrap_or_default(),
        job: text(&step["job_id"]),
        state: text(&step["state"]).unwrap_or_default(),
    };
    let steps: Vec<StepEnd> = told.body["steps"].as_array().into_iter().flatten().map(step).collect();
    let mut value = None;
    if let Some(job) = steps.first().and_then(|step| step.job.as_deref()) {
        let path = format!("/v1/jobs/{job}/result");
        let told = world.ask_until_answered(&Ask::get(&path)).await;
        value = told.and_then(|told| told.body["value"].as_u64());
    }
    let state = text(&told.body["state"]).unwrap_or_default();
    world.history.add(Event::WorkflowFinal { workflow, state, value, steps });
}
