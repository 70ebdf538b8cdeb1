//! Builders with sensible defaults: a case says only what it is about.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{
    Cancel, Claim, Command, Conclude, Extend, Fail, HeldJob, Idempotency, LeaseProof, NewJob, Note, Output,
    Owned, QueueChange, QueueCommand, Retry, Submit, Succeed, WorkError, WorkerKind,
};
use forgerun_core::id::{ClientId, ExecutionId, JobId};
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{Conflict, Head, IdempotencyKey, Input, Job, Lane, Limit, Name, Shelf, Unique};
use forgerun_core::limits;
use forgerun_core::pace::QueueRate;
use forgerun_core::queue::{Owner, QueueId};
use forgerun_core::retry::{Jitter, RetryPolicy};
use forgerun_core::rows::Counts;
use forgerun_core::time::Time;

/// When every case begins.
pub(super) const START: Time = Time::from_millis(1_700_000_000_000);

/// So many seconds after the beginning.
pub(super) fn at(seconds: u64) -> Time {
    START + Duration::from_secs(seconds)
}

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn name(text: &str) -> Name {
    Name::new(text).expect("a case uses good names")
}

pub(super) fn client(n: u128) -> ClientId {
    ClientId::from_u128(0xc11e_0000 + n)
}

/// The id of job `n`; a higher number is a younger job.
pub(super) fn id(n: u64) -> JobId {
    JobId::v7(START.unix_ms() + n, u128::from(n))
}

/// The id that a manual retry gives its execution.
pub(super) fn execution(n: u64) -> ExecutionId {
    ExecutionId::v7(START.unix_ms() + n, (1 << 70) + u128::from(n))
}

/// Job `n`, plain, of client 1.
pub(super) fn job(n: u64, queue: &str) -> NewJob {
    job_with(n, queue, |_| {})
}

/// Job `n` with whatever `set` makes of its head.
pub(super) fn job_with(n: u64, queue: &str, set: impl FnOnce(&mut Head)) -> NewJob {
    let mut head = Head::new(client(1), name(queue), START);
    set(&mut head);
    let input = Input { payload: format!("payload {n}").into_bytes(), ..Input::default() };
    NewJob { id: id(n), id_given: false, head: Arc::new(head), input: Arc::new(input) }
}

/// A policy that retries by itself, `wait` after each failure.
pub(super) fn patient(attempts_max: u32, wait: Duration) -> RetryPolicy {
    RetryPolicy { attempts_max, initial: wait, max: wait, jitter: Jitter::None, ..RetryPolicy::auto() }
}

/// A unique key that blocks while its holder has not ended.
pub(super) fn unique(key: u8, on_conflict: Conflict) -> Unique {
    Unique { key: [key; 32], facets: Unique::UNFINISHED, until: None, on_conflict }
}

/// A limit on how many jobs with this key workers may hold at once.
pub(super) fn at_once(key: &str, concurrency: u32) -> Limit {
    Limit { key: name(key), concurrency: Some(concurrency), rate: None }
}

/// The shelf of client 1's queue, of a shared queue, or of a limit.
pub(super) fn shelf(lane: Lane, of: &str) -> Shelf {
    let name = match lane {
        Lane::External | Lane::Dead => mine(of),
        Lane::BuiltIn | Lane::Parked | Lane::Failed | Lane::Behind => name(of),
    };
    Shelf { lane, name }
}

/// The key of a queue of client 1.
pub(super) fn mine(queue: &str) -> Name {
    Owner::client(client(1)).scoped(queue)
}

/// Workers outside, of client 1.
pub(super) fn outside() -> WorkerKind {
    WorkerKind::External(Owner::client(client(1)))
}

/// So many jobs in each state; nothing held, waiting or expired.
pub(super) fn by_state(
    [created, queued, assigned, running, succeeded, failed, canceled]: [i64; 7],
) -> Counts {
    Counts([created, queued, assigned, running, succeeded, failed, canceled, 0, 0, 0])
}

/// One submission of one job.
pub(super) fn submit(new: NewJob) -> Command {
    submit_all(vec![new])
}

/// One submission of several jobs, all or none.
pub(super) fn submit_all(jobs: Vec<NewJob>) -> Command {
    Command::Submit(Submit { jobs, idempotency: None, queue_max: None, refuse_paused: false })
}

/// A submission that may be repeated. The job carries the key, as the engine sees to.
pub(super) fn submit_once(new: NewJob, key: &str, fingerprint: u8) -> Command {
    let key = IdempotencyKey { client: new.head.client, operation: "submit".into(), key: key.into() };
    submit_keyed(new, key, fingerprint)
}

pub(super) fn submit_keyed(mut new: NewJob, key: IdempotencyKey, fingerprint: u8) -> Command {
    Arc::make_mut(&mut new.head).idempotency = Some(key.clone());
    let idempotency = Some(Idempotency { key, fingerprint: [fingerprint; 32], too_late: false });
    Command::Submit(Submit { jobs: vec![new], idempotency, queue_max: None, refuse_paused: false })
}

/// A claim of a worker outside that begins later.
pub(super) fn claim(queues: &[&str], limit: usize) -> Claim {
    Claim {
        worker: name("worker"),
        worker_kind: outside(),
        queues: queues.iter().map(|queue| name(queue)).collect(),
        limit,
        lease: None,
        lease_default: limits::LEASE,
        start: false,
        active_max: None,
    }
}

/// How the items of a batch ended.
pub(super) fn conclude(job: &Job, ends: &[ItemEnd]) -> Command {
    Command::Conclude(Conclude { held: held(job), ends: ends.into() })
}

/// A claim of a worker outside that begins at once.
pub(super) fn take(queues: &[&str], limit: usize) -> Command {
    Command::Claim(Claim { start: true, ..claim(queues, limit) })
}

/// The holder of the newest claim of this job.
pub(super) fn held(job: &Job) -> HeldJob {
    HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None }
}

/// Job `n`, asked for by the operator.
pub(super) fn owned(n: u64) -> Owned {
    Owned { job: id(n), client: None }
}

pub(super) fn start(job: &Job) -> Command {
    Command::Start(held(job))
}

pub(super) fn hand_back(job: &Job) -> Command {
    Command::HandBack(held(job))
}

pub(super) fn succeed(job: &Job) -> Command {
    Command::Succeed(Succeed { held: held(job), output: None })
}

pub(super) fn succeed_with(job: &Job, media_type: &str, bytes: &[u8]) -> Command {
    let output = Output::inline(media_type, bytes);
    Command::Succeed(Succeed { held: held(job), output: Some(Arc::new(output)) })
}

pub(super) fn fail(job: &Job) -> Command {
    Command::Fail(Fail { held: held(job), error: WorkError::new(Kind::HandlerTransient, "it did not work") })
}

pub(super) fn progress(job: &Job, percent: u8) -> Command {
    let note = Note::Progress { percent, message: Some(format!("at {percent}")) };
    Command::Extend(Extend { held: held(job), lease: None, note: Some(note) })
}

pub(super) fn cancel(n: u64) -> Command {
    Command::Cancel(Cancel {
        owned: owned(n),
        execution: None,
        by: "user".into(),
        reason: "no longer needed".into(),
        compensate: true,
    })
}

pub(super) fn retry(n: u64, execution: ExecutionId) -> Command {
    Command::Retry(Retry { owned: owned(n), execution, afresh: false, dead_letter: false, from: None })
}

/// A retry with a full budget, at once.
pub(super) fn revive(n: u64, execution: ExecutionId) -> Command {
    Command::Retry(Retry { owned: owned(n), execution, afresh: true, dead_letter: false, from: None })
}

pub(super) fn forget(n: u64) -> Command {
    Command::Forget(owned(n))
}

/// The operator pauses or resumes all queues of a name.
pub(super) fn pause(queue: &str, paused: bool) -> Command {
    set(QueueId::shared(name(queue)), paused)
}

/// Client 1 pauses or resumes a queue of its own.
pub(super) fn pause_mine(queue: &str, paused: bool) -> Command {
    set(QueueId::parse(&mine(queue)), paused)
}

fn set(queue: QueueId, paused: bool) -> Command {
    let change = QueueChange { paused: Some(paused), ..QueueChange::default() };
    Command::Queue(QueueCommand { queue, change })
}

/// The operator sets how many jobs of all queues of a name are handed out per 1000 seconds.
pub(super) fn set_rate(queue: &str, per_1000_s: u32) -> Command {
    let rate = Some(Some(QueueRate::per_1000_s(per_1000_s)));
    let change = QueueChange { rate, ..QueueChange::default() };
    Command::Queue(QueueCommand { queue: QueueId::shared(name(queue)), change })
}
