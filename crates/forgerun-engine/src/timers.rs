//! One loop for all effects of time: schedules, waits, leases, timeouts, expiry, retention. It
//! sleeps until the next due moment and is woken when a commit brings an earlier one. It does not
//! poll, except periodically for jobs that another node left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use forgerun_core::command::{FailureCommand, FailuresDue, WorkerCommand, WorkerLost};
use forgerun_core::record::Stored;
use forgerun_core::schedule::Schedule;
use forgerun_core::set_aside::SetAside;
use forgerun_core::time::Time;
use forgerun_core::{Answer, Command};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::clock::Clock;
use crate::committer::{CommandQueue, CommitContext};
use crate::ids::Ids;
use crate::lists::Lists;
use crate::options::Options;
use crate::schedules;

/// Rows set aside that are restored when the engine starts.
const RESTORED_MAX: usize = 1000;

/// Schedules whose next ticks are checked when the engine starts: pages, and schedules of a page.
const SCHEDULE_PAGES_MAX: usize = 200;
/// See [`SCHEDULE_PAGES_MAX`].
const SCHEDULE_PAGE: usize = 1000;

/// When the loop must check next.
#[derive(Clone)]
pub(crate) struct Alarm {
    inner: Arc<AlarmState>,
}

struct AlarmState {
    /// Microseconds of the earliest known due moment.
    earliest: AtomicI64,
    earlier: Notify,
}

impl Default for Alarm {
    fn default() -> Self {
        let inner = AlarmState { earliest: AtomicI64::new(i64::MAX), earlier: Notify::new() };
        Alarm { inner: Arc::new(inner) }
    }
}

impl Alarm {
    /// A job or delivery is due at this moment.
    pub(crate) fn set(&self, at: Time) {
        if self.learn(at) {
            self.inner.earlier.notify_one();
        }
    }

    /// Stores a moment without waking the loop, and returns whether it is earlier than the known
    /// one: for the loop itself, which would otherwise wake itself for ever.
    pub(crate) fn learn(&self, at: Time) -> bool {
        at.as_micros() < self.inner.earliest.fetch_min(at.as_micros(), Ordering::AcqRel)
    }

    fn earliest(&self) -> Time {
        Time::from_micros(self.inner.earliest.load(Ordering::Acquire))
    }

    /// Forgets the known moment.
    pub(crate) fn clear(&self) {
        self.inner.earliest.store(i64::MAX, Ordering::Release);
    }

    /// Resolves when something is due, or after `span_max`. An earlier moment only shortens the
    /// sleep: what is not due costs no query. Cancel-safe.
    pub(crate) async fn wait(&self, clock: &dyn Clock, span_max: Duration) {
        loop {
            let span = self.earliest().since(clock.now()).min(span_max);
            if span.is_zero() {
                return;
            }
            tokio::select! {
                biased;
                () = self.inner.earlier.notified() => {}
                () = clock.sleep(span) => return,
            }
        }
    }
}

/// Runs until stopped. Cancel-safe: a command already sent to the committer is still written.
pub(crate) async fn run(
    context: Arc<CommitContext>,
    commands: CommandQueue,
    ids: Arc<Ids>,
    options: Options,
    stop: CancellationToken,
) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = work(&context, &commands, &ids, &options) => {}
    }
}

/// Ends only with the committer; a failed store is retried.
async fn work(context: &Arc<CommitContext>, commands: &CommandQueue, ids: &Ids, options: &Options) {
    let clock = &*context.clock;
    restore(context, commands).await;
    if context.store.is_shared() {
        bring_forward(context, commands).await;
    }
    let mut lists = Lists::default();
    loop {
        match work_off(context, commands, ids, options, &mut lists).await {
            Ok(()) => context.alarm.wait(clock, options.due_refresh).await,
            Err(Error::Stopped) => return,
            Err(error) => {
                tracing::warn!(%error, "due processing failed: retrying");
                clock.sleep(options.store_retry).await;
            }
        }
    }
}

/// Restores rows that were set aside: this version may be able to use them.
async fn restore(context: &CommitContext, commands: &CommandQueue) {
    let rows = match context.store.set_aside(RESTORED_MAX).await {
        Ok(rows) => rows,
        Err(error) => {
            tracing::warn!(%error, "restoring rows: query failed");
            return;
        }
    };
    for SetAside { row, .. } in rows {
        if let Err(error) = commands.run(Command::Restore(row)).await {
            tracing::warn!(?row, %error, "row stays set aside");
        }
    }
}

/// Corrects schedules whose stored tick is later than their next one: the database's clock was
/// ahead when it was set, and the schedule would be silent until then.
async fn bring_forward(context: &CommitContext, commands: &CommandQueue) {
    let mut after = String::new();
    for _ in 0..SCHEDULE_PAGES_MAX {
        let page = match context.store.records::<Schedule>(None, after, SCHEDULE_PAGE).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "schedule check failed");
                return;
            }
        };
        let Some(last) = page.last() else { return };
        after = last.key();
        let now = context.clock.now();
        for firing in page.into_iter().filter_map(|schedule| schedules::brought_forward(schedule, now)) {
            if let Err(error) = commands.run(firing).await {
                tracing::warn!(%error, "schedule correction failed");
            }
        }
    }
}

/// Processes all that is due, step by step, then learns the next due moment.
async fn work_off(
    context: &Arc<CommitContext>,
    commands: &CommandQueue,
    ids: &Ids,
    options: &Options,
    lists: &mut Lists,
) -> Result<(), Error> {
    // Cleared before the query, so that a moment set meanwhile is kept.
    context.alarm.clear();
    loop {
        match context.store.next_due().await? {
            Some(at) if at <= context.clock.now() => {}
            Some(at) => {
                context.alarm.learn(at);
                return Ok(());
            }
            None => return Ok(()),
        }
        match commands.run(Command::Due(options.due_max)).await? {
            // Another node holds the due rows, or the clock went back: check again later.
            Answer::Due { n_jobs: 0, n_records: 0, more: false, .. } => return Ok(()),
            Answer::Due { workers_lost, failures, schedules, lists: wanted, .. } => {
                lists.read(context, commands, wanted).await;
                // A failure here must not stop the rest.
                let folded = fold(commands, failures).await;
                let fired = fire(context, commands, ids, schedules, options.queue_max).await;
                let taken_back = take_back(commands, workers_lost).await;
                folded.and(fired).and(taken_back)?;
            }
            answer => unreachable!("a look at what is due was answered with {answer:?}"),
        }
    }
}

/// Processes the ticks of schedules, in as few transactions as possible.
async fn fire(
    context: &CommitContext,
    commands: &CommandQueue,
    ids: &Ids,
    schedules: Vec<Schedule>,
    queue_max: Option<u64>,
) -> Result<(), Error> {
    let clock = &*context.clock;
    let now = clock.now();
    let firing = |schedule| schedules::fire(schedule, now, queue_max, || ids.job(clock));
    let answers = commands.run_all(schedules.into_iter().map(firing).collect()).await;
    answers.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
}

/// Takes back the jobs of lost workers.
async fn take_back(commands: &CommandQueue, lost: Vec<WorkerLost>) -> Result<(), Error> {
    for lost in &lost {
        tracing::info!(worker = %lost.worker.name, jobs = lost.jobs.len(), "worker lost: its jobs are taken back");
    }
    let take_back = |lost| Command::Worker(WorkerCommand::Lost(lost));
    let answers = commands.run_all(lost.into_iter().map(take_back).collect()).await;
    answers.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
}

/// Adds failures to their groups, and deletes expired or surplus groups.
async fn fold(commands: &CommandQueue, due: FailuresDue) -> Result<(), Error> {
    let mut over = due.over.clone();
    if !due.batches.is_empty() {
        match commands.run(Command::Failure(FailureCommand::Fold(due))).await? {
            Answer::Folded { surplus } => over.extend(surplus),
            answer => unreachable!("a command about failures was answered with {answer:?}"),
        }
    }
    if !over.is_empty() {
        commands.run(Command::Failure(FailureCommand::Forget(over))).await?;
    }
    Ok(())
}
