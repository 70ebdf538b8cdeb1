//! Commands in a few words, with defaults for whatever a test does not care about.

use std::string::String;
use std::sync::Arc;
use std::time::Duration;
use std::vec::Vec;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{
    Answer, Cancel, Claim, Command, Conclude, Extend, Fail, HeldJob, Idempotency, JobPause, LeaseProof,
    NewJob, Note, Output, Owned, QueueChange, QueueCommand, Refusal, Retry, Submit, Succeed, WorkError,
    WorkerKind,
};
use forgerun_core::id::{ClientId, ExecutionId, JobId};
use forgerun_core::item::{ItemEnd, ItemError, Items};
use forgerun_core::job::{Head, IdempotencyKey, Job, Limit, Name};
use forgerun_core::queue::{Owner, QueueId};
use forgerun_core::retry::{Jitter, RetryPolicy};
use forgerun_core::state::State;
use forgerun_core::time::Time;

use super::World;

/// Who owns the jobs unless a test says otherwise.
pub(crate) const CLIENT: ClientId = ClientId::from_u128(1);

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn id(n: u128) -> JobId {
    JobId::from_u128(n)
}

pub(crate) fn ids(ns: impl IntoIterator<Item = u128>) -> Vec<JobId> {
    ns.into_iter().map(id).collect()
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Job number `n`, in queue `q`, with exact waits.
pub(crate) fn job(n: u128, set: impl FnOnce(&mut Head)) -> NewJob {
    let mut head = Head::new(CLIENT, name("q"), Time::from_millis(1_000_000));
    head.retry.jitter = Jitter::None;
    set(&mut head);
    NewJob { id: id(n), id_given: false, head: Arc::new(head), input: Arc::default() }
}

pub(crate) fn plain(n: u128) -> NewJob {
    job(n, |_| {})
}

/// The automatic policy, with exact waits of 2 s, 4 s, …
pub(crate) fn auto(head: &mut Head) {
    head.retry = RetryPolicy { jitter: Jitter::None, ..RetryPolicy::auto() };
}

pub(crate) fn limit(concurrency: Option<u32>) -> Limit {
    Limit { key: name("shared"), concurrency, rate: None }
}

pub(crate) fn submit(jobs: impl IntoIterator<Item = NewJob>) -> Command {
    Command::Submit(Submit {
        jobs: jobs.into_iter().collect(),
        idempotency: None,
        queue_max: None,
        refuse_paused: false,
    })
}

/// One job under an idempotency key. The digest of the request is all `digest`.
pub(crate) fn keyed(n: u128, key: &str, digest: u8) -> Command {
    let key = IdempotencyKey { client: CLIENT, operation: "submit".into(), key: key.into() };
    let jobs = [job(n, |head| head.idempotency = Some(key.clone()))].into();
    Command::Submit(Submit {
        jobs,
        idempotency: Some(Idempotency { key, fingerprint: [digest; 32], too_late: false }),
        queue_max: None,
        refuse_paused: false,
    })
}

/// Up to `limit` jobs of these queues (names parted by spaces) for worker `w`, for ten seconds.
pub(crate) fn claim(queues: &str, limit: usize) -> Command {
    claim_as(queues, limit, |_| {})
}

pub(crate) fn claim_as(queues: &str, limit: usize, set: impl FnOnce(&mut Claim)) -> Command {
    let mut claim = Claim {
        worker: name("w"),
        worker_kind: WorkerKind::External(Owner::client(CLIENT)),
        queues: queues.split(' ').map(name).collect(),
        limit,
        lease: None,
        lease_default: secs(10),
        start: false,
        active_max: None,
    };
    set(&mut claim);
    Command::Claim(claim)
}

fn held(n: u128, token: u64) -> HeldJob {
    HeldJob { job: id(n), proof: LeaseProof::Token(token), client: None }
}

pub(crate) fn start(n: u128, token: u64) -> Command {
    Command::Start(held(n, token))
}

pub(crate) fn hand_back(n: u128, token: u64) -> Command {
    Command::HandBack(held(n, token))
}

pub(crate) fn extend(n: u128, token: u64, lease: Option<Duration>) -> Command {
    Command::Extend(Extend { held: held(n, token), lease, note: None })
}

pub(crate) fn progress(n: u128, token: u64, percent: u8) -> Command {
    let note = Note::Progress { percent, message: Some(std::format!("{percent} done")) };
    Command::Extend(Extend { held: held(n, token), lease: None, note: Some(note) })
}

pub(crate) fn succeed(n: u128, token: u64) -> Command {
    let output = Output::inline("text/plain", b"done");
    Command::Succeed(Succeed { held: held(n, token), output: Some(Arc::new(output)) })
}

/// How a batch ended, a letter per item: `c` completed, `f` failed, `r` failed and worth another
/// try, `t` timed out.
pub(crate) fn conclude(n: u128, token: u64, letters: &str) -> Command {
    let error = |kind, retryable| Some(ItemError { kind, message: "it broke".into(), retryable });
    let end = |(place, letter): (usize, char)| ItemEnd {
        id: std::format!("{place}"),
        error: match letter {
            'c' => None,
            'f' => error(Kind::HandlerError, false),
            'r' => error(Kind::HandlerTransient, true),
            't' => error(Kind::HandlerTimeout, true),
            other => panic!("{other} is no letter for an item"),
        },
    };
    Command::Conclude(Conclude { held: held(n, token), ends: letters.chars().enumerate().map(end).collect() })
}

/// Makes a batch of so many items.
pub(crate) fn batch(n: u32) -> impl FnOnce(&mut Head) {
    move |head| head.items = Some(Items { n, simulated: false })
}

/// A failure that is worth another try.
pub(crate) fn fail(n: u128, token: u64) -> Command {
    fail_as(n, token, |_| {})
}

pub(crate) fn fail_as(n: u128, token: u64, set: impl FnOnce(&mut WorkError)) -> Command {
    let mut error = WorkError::new(Kind::HandlerTransient, "it broke");
    set(&mut error);
    Command::Fail(Fail { held: held(n, token), error })
}

pub(crate) fn owned(n: u128) -> Owned {
    Owned { job: id(n), client: Some(CLIENT) }
}

pub(crate) fn cancel(n: u128) -> Command {
    Command::Cancel(Cancel {
        owned: owned(n),
        execution: None,
        by: "user".into(),
        reason: "changed my mind".into(),
        compensate: true,
    })
}

pub(crate) fn hold_back(n: u128, paused: bool) -> Command {
    Command::Pause(JobPause { owned: owned(n), paused })
}

/// A retry whose execution is number `execution`.
pub(crate) fn retry(n: u128, execution: u128) -> Command {
    again(n, execution, false)
}

pub(crate) fn revive(n: u128, execution: u128) -> Command {
    again(n, execution, true)
}

fn again(n: u128, execution: u128, afresh: bool) -> Command {
    let execution = ExecutionId::from_u128(execution);
    Command::Retry(Retry { owned: owned(n), execution, afresh, dead_letter: false, from: None })
}

/// Tries a failed job again, dead letter or not, with a full budget.
pub(crate) fn revive_any(n: u128, execution: u128) -> Command {
    let execution = ExecutionId::from_u128(execution);
    Command::Retry(Retry { owned: owned(n), execution, afresh: true, dead_letter: false, from: None })
}

pub(crate) fn activate(n: u128) -> Command {
    Command::Activate(owned(n))
}

pub(crate) fn forget(n: u128) -> Command {
    Command::Forget(owned(n))
}

pub(crate) fn pause(queue: &str, paused: bool) -> Command {
    let change = QueueChange { paused: Some(paused), ..QueueChange::default() };
    Command::Queue(QueueCommand { queue: QueueId::shared(name(queue)), change })
}

/// What became of a command, in a word: the state of the job, `same` where nothing was done, or the
/// refusal.
pub(crate) fn word(answer: &Answer) -> String {
    match answer {
        Answer::Done(job) => std::format!("{:?}", job.state),
        Answer::Unchanged(_) => "same".into(),
        Answer::Refused(Refusal::WrongState(_)) => "wrong state".into(),
        Answer::Refused(Refusal::AlreadyCompleted(_)) => "completed".into(),
        Answer::Refused(Refusal::AlreadyCanceled) => "canceled".into(),
        Answer::Refused(refusal) => std::format!("{refusal:?}"),
        Answer::Settled => "settled".into(),
        other => std::format!("{other:?}"),
    }
}

/// The ids of the jobs in an answer.
pub(crate) fn named(answer: &Answer) -> Vec<JobId> {
    match answer {
        Answer::Submitted { jobs, .. } | Answer::Claimed { jobs, .. } => {
            jobs.iter().map(|job| job.id).collect()
        }
        Answer::Done(job) | Answer::Unchanged(job) => [job.id].into(),
        _ => Vec::new(),
    }
}

impl World {
    /// Job number `n` as it stands.
    pub(crate) fn job(&self, n: u128) -> &Job {
        &self.jobs[&id(n)]
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, span: Duration) -> &mut World {
        self.now = self.now + span;
        self
    }

    /// Does what is due now; how many jobs that was.
    pub(crate) fn due(&mut self) -> usize {
        match self.ask(Command::Due(usize::MAX)) {
            Answer::Due { n_jobs, .. } => n_jobs,
            other => panic!("{other:?}"),
        }
    }

    /// A new world with job 1 in `state`; once claimed, its token is 1.
    pub(crate) fn with_job_in(state: State, set: impl FnOnce(&mut Head)) -> World {
        let mut world = World::new();
        let new = job(1, |head| {
            head.hold = state == State::Created;
            set(head);
        });
        world.ask(submit([new]));
        let steps: &[Command] = match state {
            State::Created | State::Queued => &[],
            State::Assigned => &[claim("q", 1)],
            State::Running => &[claim("q", 1), start(1, 1)],
            State::Succeeded => &[claim("q", 1), start(1, 1), succeed(1, 1)],
            State::Failed => &[claim("q", 1), start(1, 1), fail(1, 1)],
            State::Canceled => &[cancel(1)],
        };
        for step in steps {
            world.ask(step.clone());
        }
        assert_eq!(world.job(1).state, state, "arranged as asked");
        world
    }

    /// Claims one job of `q`, begins it and lets it fail; the job is in the state that follows.
    pub(crate) fn fail_once(&mut self, n: u128, set: impl FnOnce(&mut WorkError)) {
        self.ask(claim_as("q", 1, |claim| claim.start = true));
        let token = self.job(n).fence;
        self.ask(fail_as(n, token, set));
    }
}
