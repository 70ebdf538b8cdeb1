//! The built-in worker: simulated work in virtual time, in good days and bad ones.

mod batches;
mod cancel;
mod kinds;
mod leases;
mod order;
mod queues;
mod retries;
mod stop;
mod trouble;

use std::time::Duration;

use forgerun_core::history::{Event, EventKind};
use forgerun_core::id::JobId;
use forgerun_core::job::{Head, Job};
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_core::work::{Definition, WorkKind};
use forgerun_engine::{BuiltInWorker, WorkerHandle, WorkerOptions};

use crate::support::World;

/// The default runtime limit.
const MAX_RUNTIME: Duration = Duration::from_secs(125);

/// Time is counted in steps of a millisecond, and a report takes one at most.
const A_MOMENT: Duration = Duration::from_millis(3);

/// One worker that runs one job at a time.
fn single() -> WorkerOptions {
    WorkerOptions { count: 1, ..WorkerOptions::default() }
}

/// Many workers whose work takes no time.
fn instant() -> WorkerOptions {
    WorkerOptions { time_scale: 0.0, ..WorkerOptions::default() }
}

/// Shapes a job as a dialect would.
fn simulated(kind: WorkKind) -> impl Fn(&mut Head) {
    move |head| {
        head.definition = Some(Definition::of(kind, MAX_RUNTIME.as_millis() as u32));
        head.timeout = Some(MAX_RUNTIME);
    }
}

impl World {
    fn worker(&self, options: WorkerOptions) -> WorkerHandle {
        BuiltInWorker::start(self.engine.clone(), options)
    }

    async fn submit_kind(&self, kind: WorkKind) -> JobId {
        self.submit_with("default", simulated(kind)).await.id
    }

    /// The job, which exists.
    async fn found(&self, id: JobId) -> Job {
        self.job(id).await.expect("the job exists")
    }

    /// Every event so far, in order.
    async fn events(&self) -> Vec<(JobId, Event)> {
        let rows = self.engine.store().journal(0, usize::MAX).await.unwrap();
        rows.iter().flat_map(|row| row.job_events()).map(|(job, event)| (job, *event)).collect()
    }

    /// The progress that a job has shown, in order.
    async fn progress(&self, id: JobId) -> Vec<u8> {
        let events = self.events().await.into_iter().filter(|(job, _)| *job == id);
        events
            .filter_map(|(_, event)| match event.kind {
                EventKind::Progress(percent) => Some(percent),
                EventKind::Moved { .. } | EventKind::Emitted => None,
            })
            .collect()
    }
}

/// Where the job went, its birth first.
fn states(job: &Job) -> Vec<State> {
    let to = |event: Event| match event.kind {
        EventKind::Moved { to, .. } => Some(to),
        EventKind::Progress(_) | EventKind::Emitted => None,
    };
    job.history.events().filter_map(to).collect()
}

/// How long the last attempt ran.
fn ran_for(job: &Job) -> Duration {
    job.finished_at.unwrap().since(job.started_at.unwrap())
}

fn assert_about(found: Duration, expected: Duration, what: &str) {
    assert!((expected..=expected + A_MOMENT).contains(&found), "{what}: {found:?}, not {expected:?}");
}

fn assert_about_at(found: Time, expected: Time, what: &str) {
    assert!((expected..=expected + A_MOMENT).contains(&found), "{what}: {found:?}, not {expected:?}");
}
