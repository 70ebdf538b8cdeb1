//! Running commands against a store, and taking the answers apart.

use std::sync::{Arc, Mutex};

use forgerun_core::command::{Answer, Command, FailureCommand, Refusal};
use forgerun_core::item::ItemEnd;
use forgerun_core::job::Job;
use forgerun_core::rows::{Changes, Object, Render};
use forgerun_core::time::Time;
use forgerun_core::{Batch, Rows, Wants, decide, wants};
use tokio::task::JoinSet;

use crate::{Error, Fault, Store};

/// How often a batch is tried again that lost its races: far more than a healthy store needs.
const TRIES_MAX: usize = 100;

/// Where chance comes from in cases that do not care.
const SEED: u64 = 7;

/// An outcome in so many words, made of nothing but the job.
pub(super) struct Plain;

impl Render for Plain {
    fn outcome(&self, job: &Job, _: &[ItemEnd]) -> Object {
        let text = format!("{:?} of {} attempt {}", job.state, job.execution, job.attempt);
        let mut digest = [0; 32];
        for (at, byte) in text.bytes().enumerate() {
            digest[at % 32] ^= byte.rotate_left(at as u32 % 8);
        }
        Object { bytes: text.into_bytes(), digest }
    }
}

/// One transaction with these commands, as the committer makes it.
pub(super) async fn commit(
    store: &Arc<dyn Store>,
    now: Time,
    commands: Vec<Command>,
) -> Result<Changes, Error> {
    commit_batch(store, Batch { now, seed: SEED, commands }).await
}

pub(super) async fn commit_batch(store: &Arc<dyn Store>, batch: Batch) -> Result<Changes, Error> {
    let wants = wants(&batch);
    store.transact(wants, Box::new(move |rows| decide(&batch, rows, &Plain))).await
}

/// The same, until it is written: a batch that lost its races too often was not, and is tried again, as the committer does.
pub(super) async fn commit_until_done(store: &Arc<dyn Store>, batch: Batch) -> Changes {
    for _ in 0..TRIES_MAX {
        match commit_batch(store, batch.clone()).await {
            Ok(changes) => return changes,
            Err(error) if error.fault == Fault::Busy => tokio::task::yield_now().await,
            Err(error) => panic!("the store failed: {error}\n{batch:?}"),
        }
    }
    panic!("the store was busy {TRIES_MAX} times in a row");
}

/// The answers to these commands, decided in one transaction.
pub(super) async fn run(store: &Arc<dyn Store>, now: Time, commands: Vec<Command>) -> Vec<Answer> {
    let n_commands = commands.len();
    let changes = commit_until_done(store, Batch { now, seed: SEED, commands }).await;
    assert_eq!(changes.answers.len(), n_commands, "one answer per command");
    changes.answers
}

/// The answer to one command.
pub(super) async fn ask(store: &Arc<dyn Store>, now: Time, command: Command) -> Answer {
    run(store, now, vec![command]).await.remove(0)
}

/// What a batch with these wants sees. It changes nothing.
pub(super) async fn look(store: &Arc<dyn Store>, wants: Wants) -> Rows {
    let seen = Arc::new(Mutex::new(Rows::default()));
    let keep = seen.clone();
    let deciding = move |rows| {
        *keep.lock().unwrap() = rows;
        Changes::default()
    };
    let changes = store.transact(wants, Box::new(deciding)).await.unwrap();
    assert!(changes.is_empty());
    std::mem::take(&mut *seen.lock().unwrap())
}

/// Runs `task` so many times at once, on several threads, and gives what they returned.
pub(super) async fn at_once<T, F>(n_tasks: u64, task: impl Fn(u64) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut tasks: JoinSet<T> = (0..n_tasks).map(task).collect();
    let mut results = Vec::new();
    while let Some(result) = tasks.join_next().await {
        match result {
            Ok(result) => results.push(result),
            Err(broken) => std::panic::resume_unwind(broken.into_panic()),
        }
    }
    results
}

/// The jobs of a submission that was accepted as new.
#[track_caller]
pub(super) fn accepted(answer: Answer) -> Vec<Job> {
    match answer {
        Answer::Submitted { jobs, existing: false } => jobs,
        other => panic!("not accepted as new: {other:?}"),
    }
}

/// The jobs that answered a submission because they were there before.
#[track_caller]
pub(super) fn existing(answer: Answer) -> Vec<Job> {
    match answer {
        Answer::Submitted { jobs, existing: true } => jobs,
        other => panic!("not answered with what exists: {other:?}"),
    }
}

/// The jobs that a claim got.
#[track_caller]
pub(super) fn claimed(answer: Answer) -> Vec<Job> {
    match answer {
        Answer::Claimed { jobs, .. } => jobs,
        other => panic!("not a claim: {other:?}"),
    }
}

/// The one job that a claim got.
#[track_caller]
pub(super) fn the_one(answer: Answer) -> Job {
    let mut jobs = claimed(answer);
    assert_eq!(jobs.len(), 1, "one job and no more");
    jobs.remove(0)
}

/// The job that a command changed.
#[track_caller]
pub(super) fn done(answer: Answer) -> Job {
    match answer {
        Answer::Done(job) => job,
        other => panic!("not done: {other:?}"),
    }
}

/// Why a command was refused.
#[track_caller]
pub(super) fn refused(answer: Answer) -> Refusal {
    match answer {
        Answer::Refused(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// How many jobs were due.
#[track_caller]
pub(super) fn n_due(answer: Answer) -> usize {
    match answer {
        Answer::Due { n_jobs, .. } => n_jobs,
        other => panic!("not about what is due: {other:?}"),
    }
}

/// Adds up failures that are due, as the timers do.
pub(super) async fn fold(store: &Arc<dyn Store>, now: Time) {
    fold_with(store, now, SEED).await;
}

/// The same with a seed of its own: versions of records are drawn, and two nodes never draw the same.
pub(super) async fn fold_with(store: &Arc<dyn Store>, now: Time, seed: u64) {
    let failures = match ask(store, now, Command::Due(0)).await {
        Answer::Due { failures, .. } => failures,
        other => panic!("not about what is due: {other:?}"),
    };
    let commands = vec![Command::Failure(FailureCommand::Fold(failures))];
    commit_until_done(store, Batch { now, seed, commands }).await;
}
