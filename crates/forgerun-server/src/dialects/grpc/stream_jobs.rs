//! `StreamJobs`: pushes jobs as they come, never more than the worker's limit.
//!
//! ```text
//!   claim ──► ready ──► sent ──► held until a commit says otherwise: ack, nack, cancel, end of the lease
//!     ▲                                                        │
//!     └──────── as many as there is room for ◄─────────────────┘
//! ```
//!
//! - Flow control is a count: jobs claimed and not yet released, sent or not. A claim asks for no
//!   more than is left of `max_concurrent`.
//! - A running claim is not cancelled, or its jobs would be idle until their lease ends; when the
//!   stream ends, they go back.
//! - A client that disconnects keeps its jobs until the lease ends, since it may still be working;
//!   unsent ones go back at once.
//! - A paused queue hands out nothing, and the stream waits.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::id::JobId;
use forgerun_core::limits::CLAIM_JOBS_MAX;
use forgerun_core::queue::Owner;
use forgerun_core::time::Time;
use forgerun_engine::Error;
use forgerun_wire::body::{self, violation};
use forgerun_wire::grpc::{request, v1};
use forgerun_wire::ojs::worker::{FetchRequest, read_fetch};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tonic::Status;

use super::call::{late, with_body};
use super::feed::MessageFeed;
use super::workers::handed_out;
use crate::app::App;
use crate::auth::{Caller, caller as auth};
use crate::dialects::ojs::scope::Scope;
use crate::dialects::ojs::taking::hand_back;
use crate::dialects::ojs::work::AssignedJob;
use crate::dialects::ojs::{refusals, work};
use crate::events::sse::{self, StreamPermit};
use crate::http::{ApiError, routing::Call};
use crate::limits::{
    KEY_FRESH, OJS_ENVELOPE_BYTES_MAX, STREAM_CLAIM_GRACE, STREAM_CLAIM_JOBS_MAX, STREAM_CLAIM_WAIT,
    STREAM_HOLDS_CHECKED_MAX, STREAM_LINGER_MAX, STREAM_LINGER_MIN,
};
use crate::streamed_jobs::ReleasedJobs;

type Claiming = Pin<Box<dyn Future<Output = Result<Vec<AssignedJob>, ApiError>> + Send>>;

pub(super) struct JobFeed {
    app: Arc<App>,
    caller: Caller,
    request_id: Box<str>,
    owner: Owner,
    request: FetchRequest,
    /// Claimed and not yet sent.
    ready: VecDeque<AssignedJob>,
    /// Claimed and not yet released, including ready ones.
    held: HashMap<JobId, StreamLease>,
    /// Recent mean duration of holds.
    mean_hold: Duration,
    released: Arc<ReleasedJobs>,
    claiming: Option<Claiming>,
    /// Set while few places are free: waits a moment for more.
    lingering: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// When to recheck the key and the held jobs.
    check: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The last job that was rechecked; the next check continues after it.
    checked: Option<JobId>,
    permit: StreamPermit,
}

struct StreamLease {
    fence: u64,
    since: Time,
}

/// Opens a stream of jobs.
pub(super) async fn open(call: Call<'_>, message: v1::StreamJobsRequest) -> Result<JobFeed, ApiError> {
    if !(0..=CLAIM_JOBS_MAX as i32).contains(&message.max_concurrent) {
        let detail = format!("must be from 1 to {CLAIM_JOBS_MAX}");
        let violations = vec![violation("max_concurrent", &detail, "range")];
        return Err(body::refused(Kind::MalformedRequest, violations, &[]).into());
    }
    let call = with_body(call, request::stream_jobs(&message), OJS_ENVELOPE_BYTES_MAX)?;
    let request = read_fetch(&call.body)?;
    let caller = call.caller();
    let permit = sse::admit(call.app, call.exchange, caller)?;
    Ok(JobFeed {
        app: call.app.shared(),
        caller: caller.clone(),
        request_id: call.exchange.request_id().into(),
        owner: Scope::of(&call)?.owner()?,
        request,
        ready: VecDeque::new(),
        held: HashMap::new(),
        mean_hold: Duration::ZERO,
        released: Arc::default(),
        claiming: None,
        lingering: None,
        check: call.app.clock.sleep(check_after(call.app, caller)),
        checked: None,
        permit,
    })
}

/// How long a key is trusted: as anywhere, or until it expires.
fn check_after(app: &App, caller: &Caller) -> Duration {
    let usual = app.bounds.stream_heartbeat.min(KEY_FRESH);
    caller.good_for(app.clock.now()).map_or(usual, |good_for| good_for.min(usual))
}

enum Woken {
    Stopping,
    Check,
    ReleasedJobs,
    Lingered,
    Claimed(Result<Vec<AssignedJob>, ApiError>),
}

impl MessageFeed for JobFeed {
    type Message = v1::Job;

    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` would hold the feed twice, in every open stream"
    )]
    fn next(mut self) -> impl Future<Output = Option<(Result<v1::Job, Status>, JobFeed)>> + Send {
        async move {
            loop {
                self.note_released();
                if let Some(handed) = self.ready.pop_front() {
                    return Some((Ok(handed_out(&handed)), self));
                }
                self.claim_if_there_is_room();
                let error = match self.woken().await {
                    Woken::ReleasedJobs | Woken::Lingered => continue,
                    Woken::Claimed(Ok(jobs)) => {
                        self.take(jobs);
                        continue;
                    }
                    Woken::Check => match Box::pin(self.check()).await {
                        Ok(()) => continue,
                        Err(error) => error,
                    },
                    Woken::Stopping => Error::Stopped.into(),
                    Woken::Claimed(Err(error)) => error,
                };
                let status = late(&self.app, &self.request_id, error);
                return Some((Err(status), self));
            }
        }
    }
}

impl JobFeed {
    fn note_released(&mut self) {
        let released = self.released.take();
        if released.is_empty() {
            return;
        }
        let now = self.app.clock.now();
        for hold in released.iter().filter_map(|job| self.held.remove(job)) {
            self.mean_hold = (self.mean_hold * 7 + now.since(hold.since)) / 8;
        }
    }

    fn room(&self) -> usize {
        self.request.count.saturating_sub(self.held.len())
    }

    /// With this many free places a claim is worthwhile at once.
    fn refill(&self) -> usize {
        self.request.count / 2
    }

    /// Begins a claim, unless one is running. With few free places it first waits a moment for
    /// more: many small claims would cost more than the moment.
    fn claim_if_there_is_room(&mut self) {
        let room = self.room();
        if room == 0 || self.claiming.is_some() {
            return;
        }
        if room < self.refill() {
            // A handler that is idle for so small a part of a job's time is not missed.
            let moment = (self.mean_hold / 8).clamp(STREAM_LINGER_MIN, STREAM_LINGER_MAX);
            let app = &self.app;
            self.lingering.get_or_insert_with(|| app.clock.sleep(moment));
        } else {
            self.claim();
        }
    }

    fn claim(&mut self) {
        self.lingering = None;
        let limit = self.room().min(STREAM_CLAIM_JOBS_MAX);
        let claim = work::claim_of(self.owner.clone(), &self.request, limit);
        let app = self.app.clone();
        self.claiming = Some(Box::pin(async move {
            let asking = app.attendance.asks(&claim);
            let claimed = app.engine.claim(claim, STREAM_CLAIM_WAIT).await;
            drop(asking);
            let jobs = claimed.map_err(|error| refusals::of_engine(&app, error))?;
            let taken: Vec<(JobId, u64)> = jobs.iter().map(|job| (job.id, job.fence)).collect();
            let handed_out = work::handed_out(&app, jobs).await;
            if handed_out.is_err() {
                taken.into_iter().for_each(|(job, fence)| hand_back(&app, job, fence));
            }
            handed_out
        }));
    }

    fn take(&mut self, jobs: Vec<AssignedJob>) {
        let since = self.app.clock.now();
        for AssignedJob { job, .. } in &jobs {
            self.held.insert(job.id, StreamLease { fence: job.fence, since });
            self.app.streamed_jobs.watch(job.id, &self.released);
        }
        self.ready.extend(jobs);
    }

    /// Waits for the first event. Cancel-safe.
    async fn woken(&mut self) -> Woken {
        // While it lingers, single released jobs do not wake it.
        let worth = if self.lingering.is_some() { self.refill().saturating_sub(self.room()) } else { 1 };
        let JobFeed { app, released, claiming, lingering, check, permit, .. } = self;
        let claimed = async {
            match claiming {
                Some(claiming) => claiming.as_mut().await,
                None => std::future::pending().await,
            }
        };
        let lingered = async {
            match lingering {
                Some(lingering) => lingering.as_mut().await,
                None => std::future::pending().await,
            }
        };
        let woken = tokio::select! {
            biased;
            () = app.stopping() => Woken::Stopping,
            // Its sender lives as long as the permit.
            _ = permit.keys.changed() => Woken::Check,
            () = check.as_mut() => Woken::Check,
            claimed = claimed => Woken::Claimed(claimed),
            () = released.heard(worth.max(1)) => Woken::ReleasedJobs,
            () = lingered => Woken::Lingered,
        };
        match woken {
            Woken::Claimed(_) => self.claiming = None,
            Woken::Lingered => self.claim(),
            Woken::Stopping | Woken::Check | Woken::ReleasedJobs => {}
        }
        woken
    }

    /// Rechecks the key; and if there is no free place, whether held jobs were released on another
    /// node.
    async fn check(&mut self) -> Result<(), ApiError> {
        self.check = self.app.clock.sleep(check_after(&self.app, &self.caller));
        if !auth::is_good(&self.app, &self.caller).await {
            return Err(auth::unauthenticated("The API key is not good any more."));
        }
        if self.room() > 0 {
            return Ok(());
        }
        let some = next_to_check(&self.held, self.checked);
        self.checked = some.last().map(|(job, _)| *job);
        for (id, fence) in some {
            let job = self.app.engine.store().job(id).await?;
            if !job.is_some_and(|job| job.state.is_active() && job.fence == fence) {
                self.held.remove(&id);
                self.app.streamed_jobs.forget([&id], &self.released);
            }
        }
        Ok(())
    }
}

/// Some of the held jobs, after `after` and cyclic, so that eventually all are checked.
fn next_to_check(held: &HashMap<JobId, StreamLease>, after: Option<JobId>) -> Vec<(JobId, u64)> {
    let mut held: Vec<(JobId, u64)> = held.iter().map(|(job, hold)| (*job, hold.fence)).collect();
    held.sort_unstable_by_key(|(job, _)| *job);
    let begin = held.partition_point(|(job, _)| after.is_some_and(|after| *job <= after));
    held.rotate_left(begin);
    held.truncate(STREAM_HOLDS_CHECKED_MAX);
    held
}

impl Drop for JobFeed {
    fn drop(&mut self) {
        // A claim that is being written cannot be cancelled. Its jobs go back too, or they would be
        // idle until their lease ends.
        if let (Some(claiming), Ok(runtime)) = (self.claiming.take(), Handle::try_current()) {
            let app = self.app.clone();
            runtime.spawn(async move {
                if let Ok(Ok(jobs)) = timeout(STREAM_CLAIM_GRACE, claiming).await {
                    jobs.iter().for_each(|AssignedJob { job, .. }| hand_back(&app, job.id, job.fence));
                }
            });
        }
        for AssignedJob { job, .. } in &self.ready {
            hand_back(&self.app, job.id, job.fence);
        }
        self.app.streamed_jobs.forget(self.held.keys(), &self.released);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_held_is_checked_in_turn() {
        let ids = (1..=100_u128).map(|n| uuid(n).parse().unwrap());
        let held: HashMap<JobId, StreamLease> =
            ids.map(|id: JobId| (id, StreamLease { fence: 1, since: Time::ZERO })).collect();
        let (mut seen, mut after) = (std::collections::HashSet::new(), None);
        for _ in 0..4 {
            let some = next_to_check(&held, after);
            assert_eq!(some.len(), STREAM_HOLDS_CHECKED_MAX);
            after = some.last().map(|(job, _)| *job);
            seen.extend(some.into_iter().map(|(job, _)| job));
        }
        assert_eq!(seen.len(), 100);
    }

    fn uuid(n: u128) -> String {
        format!("019461a8-1a2b-7c3d-8e4f-{n:012x}")
    }
}
