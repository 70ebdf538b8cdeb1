//! The redrive loop. A redrive is a job like any other: a node claims it and extends its lease, and
//! another node continues an abandoned one. The result of a step is stored with the step
//! (`forgerun-core/src/redrive.rs`).

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{
    Claim, Extend, Fail, HeldJob, LeaseProof, Output, RedriveCommand, RedriveStep, RedriveTarget, Succeed,
    WorkError, WorkerKind,
};
use forgerun_core::failure::FailureId;
use forgerun_core::id::{ExecutionId, JobId};
use forgerun_core::job::{Job, Name};
use forgerun_core::queue::Owner;
use forgerun_core::redrive::{CLIENT, QUEUE, Redrive};
use forgerun_core::retry::RetryVerdict;
use forgerun_core::state::State;
use forgerun_core::{Answer, Command, limits};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::loops::Loops;
use crate::{Engine, Error};

/// Wait of a claim before it is repeated.
const WAIT: Duration = Duration::from_secs(3600);

/// Interval of lease extensions: a third of the lease.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// Wait after a store error.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// Redrives that a node runs at once. The others wait.
const AT_ONCE: usize = 8;

pub struct RedriveLoop;

impl RedriveLoop {
    /// Starts the loop, until the handle stops it or is dropped.
    pub fn start(engine: Engine) -> RedriveHandle {
        let stop = CancellationToken::new();
        let mut loops = Loops::new(stop.clone());
        loops.spawn(work(engine, stop));
        RedriveHandle(loops)
    }
}

/// Handle of the loop. Dropping it kills the loop: its redrives come back when their lease ends.
pub struct RedriveHandle(Loops);

impl RedriveHandle {
    /// Stops: running redrives are handed back for another node, or for this one after a restart.
    /// Call it before [`Engine::stop`], which refuses that. Idempotent and cancel-safe.
    pub async fn stop(&self) {
        self.0.stop().await;
    }
}

async fn work(engine: Engine, stop: CancellationToken) {
    let node = format!("redrive-{:08x}", engine.clock().random() as u32);
    let worker = Name::new(&node).expect("a short name");
    let mut under_way = JoinSet::new();
    loop {
        while under_way.len() >= AT_ONCE {
            under_way.join_next().await;
        }
        let claim = Claim {
            worker: worker.clone(),
            worker_kind: WorkerKind::External(Owner::client(CLIENT)),
            queues: vec![Name::new(QUEUE).expect("a short name")],
            limit: 1,
            lease: None,
            lease_default: limits::LEASE,
            start: true,
            active_max: None,
        };
        let claimed = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            claimed = engine.claim(claim, WAIT) => claimed,
        };
        match claimed {
            Ok(jobs) if jobs.is_empty() && engine.is_stopping() => break,
            Ok(jobs) => jobs.into_iter().for_each(|job| {
                under_way.spawn(carry_out(engine.clone(), job, stop.clone()));
            }),
            Err(Error::Stopped) => break,
            Err(error) => {
                tracing::warn!(%error, "claiming redrives failed: retrying");
                engine.clock().sleep(STORE_RETRY).await;
            }
        }
    }
    // Each redrive sees the stop signal and hands its job back.
    while under_way.join_next().await.is_some() {}
}

enum Ending {
    Done(Redrive),
    Stopped(Redrive),
    /// The redrive does not exist any more.
    Unknown,
}

async fn carry_out(engine: Engine, job: Job, stop: CancellationToken) {
    let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: Some(CLIENT) };
    let ending = tokio::select! {
        biased;
        () = stop.cancelled() => {
            // For another node, or for this one after a restart.
            let _ = engine.commands().run(Command::HandBack(held)).await;
            return;
        }
        ending = drive(&engine, &job, &held) => ending,
    };
    let report = match ending {
        Ok(Ending::Done(redrive)) => {
            let output = Output::inline("application/json", summary(&redrive));
            Command::Succeed(Succeed { held, output: Some(Arc::new(output)) })
        }
        Ok(Ending::Stopped(redrive)) => {
            let Redrive { failed_again, redriven, .. } = redrive;
            failing(held, &format!("stopped: {failed_again} of {redriven} redriven jobs failed again"))
        }
        Ok(Ending::Unknown) => failing(held, "there is no such redrive any more"),
        // Cancelled, or taken over by another node.
        Err(Error::Refused(_) | Error::Stopped) => return,
        Err(error) => {
            tracing::warn!(job.id = %job.id, %error, "redrive waiting for the store");
            return;
        }
    };
    if let Err(error) = engine.commands().run(report).await {
        tracing::info!(job.id = %job.id, %error, "end of redrive not written: it is repeated");
    }
}

/// Fails it without a retry.
fn failing(held: HeldJob, message: &str) -> Command {
    let error =
        WorkError { verdict: Some(RetryVerdict::Discard), ..WorkError::new(Kind::HandlerError, message) };
    Command::Fail(Fail { held, error })
}

fn summary(redrive: &Redrive) -> String {
    let Redrive { failure, matched, redriven, skipped, failed_again, .. } = redrive;
    format!(
        r#"{{"group":"{failure}","matched":{matched},"redriven":{redriven},"skipped":{skipped},"failed_again":{failed_again}}}"#
    )
}

async fn drive(engine: &Engine, job: &Job, held: &HeldJob) -> Result<Ending, Error> {
    let store = engine.store();
    let Some(failure) = job.head.tags.first().and_then(|tag| tag.parse::<FailureId>().ok()) else {
        return Ok(Ending::Unknown);
    };
    let known: Option<Redrive> = store.record(failure.to_string()).await?;
    let Some(mut redrive) = known.filter(|known| known.job == job.id) else { return Ok(Ending::Unknown) };
    let pace = Pace::of(&redrive);
    let mut after = None;
    loop {
        let (failed_again, watched) = look_after(engine, &redrive).await?;
        let (targets, next) = targets(engine, &redrive, after, pace.step).await?;
        after = next;
        let step = RedriveStep { held: held.clone(), failure, targets, failed_again, watched };
        // Repeated failures are counted first: a redrive that must stop makes no further step.
        let must_stop =
            Redrive { failed_again: redrive.failed_again + failed_again, ..redrive.clone() }.must_stop();
        let step = if must_stop { RedriveStep { targets: Vec::new(), ..step } } else { step };
        redrive = match engine.commands().run(Command::Redrive(RedriveCommand::Step(step))).await? {
            Answer::Redriven(redrive) => *redrive,
            answer => unreachable!("a step of a redrive was answered with {answer:?}"),
        };
        match () {
            () if redrive.must_stop() => return Ok(Ending::Stopped(redrive)),
            () if after.is_none() || redrive.left() == 0 => return Ok(Ending::Done(redrive)),
            () => rest(engine, held, pace.pause).await?,
        }
    }
}

/// Size of a step, and the wait after it.
struct Pace {
    step: usize,
    pause: Duration,
}

impl Pace {
    fn of(redrive: &Redrive) -> Pace {
        let Some(per_1000_s) = redrive.terms.per_1000_s.filter(|rate| *rate > 0) else {
            return Pace { step: limits::REDRIVE_STEP_MAX, pause: Duration::ZERO };
        };
        // At most ten steps a second.
        let step =
            usize::try_from(per_1000_s / 10_000).unwrap_or(usize::MAX).clamp(1, limits::REDRIVE_STEP_MAX);
        let pause = Duration::from_secs(1000).mul_f64(step as f64 / per_1000_s as f64);
        Pace { step, pause }
    }
}

/// Counts redriven jobs that have failed again, and returns those that have not ended.
async fn look_after(engine: &Engine, redrive: &Redrive) -> Result<(u64, Vec<(JobId, ExecutionId)>), Error> {
    let watched = &redrive.watched;
    if watched.is_empty() || redrive.terms.failures_max.is_none() {
        return Ok((0, Vec::new()));
    }
    let jobs = engine.store().jobs_by_id(watched.iter().map(|(job, _)| *job).collect()).await?;
    let (mut failed_again, mut open) = (0, Vec::new());
    for (id, execution) in watched {
        let job = jobs.iter().find(|job| job.id == *id && job.execution == *execution);
        match job.map(|job| job.state) {
            Some(State::Failed) => failed_again += 1,
            Some(State::Succeeded | State::Canceled) | None => {}
            Some(State::Created | State::Queued | State::Assigned | State::Running) => {
                open.push((*id, *execution))
            }
        }
    }
    Ok((failed_again, open))
}

/// The next jobs that had failed when the redrive began, and where to continue; `None` at the end.
async fn targets(
    engine: &Engine,
    redrive: &Redrive,
    after: Option<JobId>,
    step: usize,
) -> Result<(Vec<RedriveTarget>, Option<JobId>), Error> {
    let limit = step.min(usize::try_from(redrive.left()).unwrap_or(usize::MAX)).max(1);
    let page = engine.store().failed_jobs(redrive.failure, after, limits::REDRIVE_STEP_MAX).await?;
    let (page, next) = cut(page, limit);
    let meant = page.iter().filter(|job| job.finished_at.is_some_and(|at| at <= redrive.started_at));
    let target =
        |job: &Job| RedriveTarget { job: job.id, failed: job.execution, next: engine.execution_id() };
    Ok((meant.map(target).collect(), next))
}

/// The part of a page for one step, and the start of the next page. A page omits unreadable rows,
/// so a short page need not be the last; an empty one is.
fn cut(mut page: Vec<Job>, limit: usize) -> (Vec<Job>, Option<JobId>) {
    page.truncate(limit.min(n_in_one_step(&page)));
    let next = page.last().map(|last| last.id);
    (page, next)
}

/// How many of these jobs fit into one transaction: workflows count by their steps; at least one.
fn n_in_one_step(jobs: &[Job]) -> usize {
    let mut n_steps = 0;
    let fits = |job: &&Job| {
        let items = job.head.workflow_head.as_ref().and(job.head.items.as_ref());
        n_steps += items.map_or(0, |items| items.n as usize);
        n_steps <= limits::REDRIVE_WORKFLOW_STEPS_MAX
    };
    jobs.iter().take_while(fits).count().max(1)
}

/// Waits, extending the lease meanwhile.
async fn rest(engine: &Engine, held: &HeldJob, mut span: Duration) -> Result<(), Error> {
    while !span.is_zero() {
        let nap = span.min(SIGN_OF_LIFE);
        engine.clock().sleep(nap).await;
        span -= nap;
        if !span.is_zero() {
            let extend = Extend { held: held.clone(), lease: None, note: None };
            engine.commands().run(Command::Extend(extend)).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use forgerun_core::id::ClientId;
    use forgerun_core::job::Head;
    use forgerun_core::time::Time;
    use forgerun_core::workflow::{WorkflowForm, WorkflowHead};

    use super::*;

    fn workflow(n_steps: usize) -> Job {
        let about = WorkflowHead { form: WorkflowForm::Group, name: String::new() };
        let head = about.own_job(ClientId::from_u128(1), n_steps, Time::ZERO);
        Job::decode(JobId::from_u128(n_steps as u128), Arc::new(head), &[]).unwrap()
    }

    #[test]
    fn a_short_page_is_not_the_last_and_an_empty_one_is() {
        let (page, next) = cut(vec![workflow(1), workflow(2), workflow(3)], 2);
        assert_eq!((page.len(), next), (2, Some(JobId::from_u128(2))));
        assert_eq!(cut(vec![workflow(1)], 2).1, Some(JobId::from_u128(1)));
        assert_eq!(cut(Vec::new(), 2).1, None);
    }

    #[test]
    fn a_step_has_no_more_workflows_than_one_transaction_should_write() {
        let plain =
            Job::decode(JobId::from_u128(1), Arc::new(Head::new(CLIENT, Name::joined("q"), Time::ZERO)), &[])
                .unwrap();
        for (jobs, n) in [
            (vec![plain.clone(), plain.clone()], 2),
            (vec![workflow(400), plain.clone(), workflow(600), plain], 4),
            (vec![workflow(400), workflow(601), workflow(1)], 1),
            (vec![workflow(limits::WORKFLOW_STEPS_MAX), workflow(1)], 1),
        ] {
            assert_eq!(n_in_one_step(&jobs), n);
        }
    }
}
