//! The only writer. Commands wait in a bounded queue. When a lane of the store becomes free, all
//! waiting commands form a batch, up to the weight limit of a transaction. There is no timer: an
//! idle engine adds no delay, and a busy one forms large batches. A store with several lanes gets
//! another batch in parallel once enough commands wait.
//!
//! A batch is one transaction. If the store rejects its data, or the rules panic, it is halved
//! until the failing command stands alone, so that it does not affect the others. A command that
//! fails because of a row that it found by itself runs without that row ([`isolate`]).

mod isolate;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forgerun_core::decide::Batch;
use forgerun_core::job::Shelf;
use forgerun_core::rows::Render;
use forgerun_core::set_aside::{RowId, SetAside};
use forgerun_core::{Answer, Changes, Command, decide, wants};
use forgerun_store::{Fault, Store};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::clock::Clock;
use crate::journal::JournalSignal;
use crate::observer::{Commit, Observer};
use crate::options::Options;
use crate::timers::Alarm;
use crate::wakeups::Wakeups;
use isolate::Probe;

pub(crate) type Reply = oneshot::Sender<Result<Answer, Error>>;

pub(crate) struct QueuedCommand {
    command: Command,
    reply: Reply,
}

/// Sends commands to the committer. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CommandQueue {
    queue: mpsc::Sender<QueuedCommand>,
}

impl CommandQueue {
    /// Runs a command, or refuses it at once if the queue is full. Cancel-safe: a dropped command
    /// may still run, like a request whose connection breaks.
    pub(crate) async fn try_run(&self, command: Command) -> Result<Answer, Error> {
        let (reply, answer) = oneshot::channel();
        self.queue.try_send(QueuedCommand { command, reply }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Error::Overloaded,
            mpsc::error::TrySendError::Closed(_) => Error::Stopped,
        })?;
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Sends a command without waiting for its answer; dropped if the queue is full.
    pub(crate) fn try_enqueue(&self, command: Command) {
        let (reply, _) = oneshot::channel();
        let _ = self.queue.try_send(QueuedCommand { command, reply });
    }

    /// Like `try_enqueue`, but if the queue is full the command waits for a place in the
    /// background.
    pub(crate) fn enqueue(&self, command: Command) {
        let (reply, _) = oneshot::channel();
        if let Err(mpsc::error::TrySendError::Full(late)) =
            self.queue.try_send(QueuedCommand { command, reply })
        {
            let queue = self.queue.clone();
            // A stopping engine accepts no more commands.
            tokio::spawn(async move { queue.send(late).await.ok() });
        }
    }

    /// Runs a command, waiting for a place in the queue: for internal loops, which must not give
    /// up.
    pub(crate) async fn run(&self, command: Command) -> Result<Answer, Error> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(QueuedCommand { command, reply }).await.map_err(|_| Error::Stopped)?;
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Runs each command on its own, waiting for places in the queue; answers in order. All are
    /// sent before the first is answered, so that they share a transaction if there is room.
    pub(crate) async fn run_all(&self, commands: Vec<Command>) -> Vec<Result<Answer, Error>> {
        let mut waiting = Vec::with_capacity(commands.len());
        for command in commands {
            let (reply, answer) = oneshot::channel();
            waiting.push(self.queue.send(QueuedCommand { command, reply }).await.map(|()| answer));
        }
        // The last one first: it is answered last, so the others wake no task.
        let mut answers = Vec::with_capacity(waiting.len());
        for sent in waiting.into_iter().rev() {
            answers.push(match sent {
                Ok(answer) => answer.await.unwrap_or_else(|_| Err(lost())),
                Err(_) => Err(Error::Stopped),
            });
        }
        answers.reverse();
        answers
    }
}

/// A cancelled batch answers no command. The engine has not stopped, though: the timers go on.
pub(crate) fn lost() -> Error {
    forgerun_store::Error::new(Fault::Unknown, "the batch broke off").into()
}

/// What the committer shares: store, clock, and the parts to notify after a commit.
pub(crate) struct CommitContext {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) render: Arc<dyn Render>,
    pub(crate) wakeups: Wakeups,
    pub(crate) alarm: Alarm,
    /// Wakes the delivery loop.
    pub(crate) delivery_alarm: Alarm,
    pub(crate) journal_signal: JournalSignal,
    pub(crate) observer: Arc<dyn Observer>,
}

/// The committer's queue, and its loop.
pub(crate) fn committer(
    context: Arc<CommitContext>,
    options: &Options,
    stop: CancellationToken,
) -> (CommandQueue, impl Future<Output = ()> + Send + use<>) {
    let (queue, requests) = mpsc::channel(options.commands_waiting_max);
    (CommandQueue { queue }, run(context, requests, options.batch_max, stop))
}

/// Weight of the waiting commands, per batch under way, before another lane is used. A batch costs
/// the store much the same whatever its size, so few large ones have more throughput than many
/// small ones.
const WEIGHT_PER_LANE_IN_USE: usize = 32;

/// Commands wait for others to share a batch no longer than this, nor longer than a running commit:
/// one that is stuck delays no other.
const LANE_PATIENCE: Duration = Duration::from_millis(5);

/// Ends on stop, after every accepted command is answered. Dropping it cancels the batches under
/// way.
async fn run(
    context: Arc<CommitContext>,
    mut requests: mpsc::Receiver<QueuedCommand>,
    batch_max: usize,
    stop: CancellationToken,
) {
    let n_lanes = context.store.lanes().max(1);
    let mut commits = JoinSet::new();
    let mut waiting = Vec::new();
    loop {
        // First a free lane, then everything that waits by then.
        while commits.len() >= n_lanes {
            commits.join_next().await.into_iter().for_each(note);
        }
        gather(&*context.clock, &mut requests, &mut waiting, &mut commits, batch_max, &stop).await;
        if waiting.is_empty() {
            break;
        }
        let batch = first_of(&mut waiting, batch_max);
        commits.spawn(context.clone().commit(batch));
    }
    while let Some(done) = commits.join_next().await {
        note(done);
    }
}

/// Collects commands until a batch is worth a lane; stays empty once the engine stops and the queue
/// is empty.
async fn gather(
    clock: &dyn Clock,
    requests: &mut mpsc::Receiver<QueuedCommand>,
    waiting: &mut Vec<QueuedCommand>,
    commits: &mut JoinSet<()>,
    batch_max: usize,
    stop: &CancellationToken,
) {
    while waiting.len() < batch_max
        && let Ok(next) = requests.try_recv()
    {
        waiting.push(next);
    }
    let mut patience = None;
    loop {
        let weight_worthwhile = (commits.len() * WEIGHT_PER_LANE_IN_USE).clamp(1, batch_max);
        if weigh_at_least(waiting, weight_worthwhile) {
            return;
        }
        if !waiting.is_empty() && patience.is_none() {
            patience = Some(clock.sleep(LANE_PATIENCE));
        }
        let impatient = async {
            if let Some(patience) = &mut patience {
                patience.await
            }
        };
        let (n_free, is_first) = (batch_max - waiting.len(), waiting.is_empty());
        tokio::select! {
            biased;
            n = requests.recv_many(waiting, n_free) => if n == 0 { return },
            Some(done) = commits.join_next() => note(done),
            () = impatient, if !is_first => return,
            // Closed without waiting for all senders: a caller that never reads its answer must not
            // delay the end.
            () = stop.cancelled(), if !requests.is_closed() => requests.close(),
        }
    }
}

/// Whether these commands weigh at least `weight_min` together. One that brings many jobs is worth
/// a lane of its own; a claim counts once whatever it asks for, because it may find nothing.
fn weigh_at_least(waiting: &[QueuedCommand], weight_min: usize) -> bool {
    let mut weight = 0;
    waiting.iter().any(|request| {
        weight += if matches!(request.command, Command::Claim(_)) { 1 } else { request.command.weight() };
        weight >= weight_min
    })
}

/// The first commands that fit into one transaction, at least one.
fn first_of(waiting: &mut Vec<QueuedCommand>, weight_max: usize) -> Vec<QueuedCommand> {
    let mut weight = 0;
    let fits = |request: &&QueuedCommand| {
        weight += request.command.weight();
        weight <= weight_max
    };
    let n_first = waiting.iter().take_while(fits).count().max(1);
    let rest = waiting.split_off(n_first);
    std::mem::replace(waiting, rest)
}

fn note(done: Result<(), JoinError>) {
    if let Err(error) = done {
        tracing::error!(%error, "batch aborted");
    }
}

/// Number of accepted heartbeats.
fn heartbeats(commands: &[Command], answers: &[Answer]) -> usize {
    let both = commands.iter().zip(answers);
    both.filter(|(command, answer)| {
        matches!(command, Command::Extend(_)) && !matches!(answer, Answer::Refused(_))
    })
    .count()
}

impl CommitContext {
    /// Writes a batch, in halves if necessary, and answers its commands.
    async fn commit(self: Arc<Self>, mut requests: Vec<QueuedCommand>) {
        self.add_standing_claims(&mut requests);
        requests.retain(|request| !request.is_pointless());
        // Claims last, so that they find the jobs of the batch. A worker that reports and claims at
        // once has sent its claim last.
        requests.sort_by_key(|request| matches!(request.command, Command::Claim(_)));
        let (commands, replies) =
            requests.into_iter().map(|request| (request.command, request.reply)).unzip();
        let mut todo: Vec<(Vec<Command>, Vec<Reply>)> = vec![(commands, replies)];
        while let Some((commands, mut replies)) = todo.pop() {
            if commands.is_empty() {
                continue;
            }
            let batch = self.batch(commands);
            let mut done = self.transact(batch.clone(), Probe::default()).await;
            if let (Err(error), [command]) = (&done, &batch.commands[..])
                && error.fault == Fault::Rejected
                && CommitContext::looks_around(command)
            {
                done = self.isolate(command).await;
            }
            match done {
                Ok(changes) => self.succeed(&batch, replies, changes),
                Err(error) if is_of_one_command(error.fault) && replies.len() > 1 => {
                    let mut commands = Arc::unwrap_or_clone(batch).commands;
                    let half = replies.len() / 2;
                    // The first half is popped, and so decided, first.
                    todo.push((commands.split_off(half), replies.split_off(half)));
                    todo.push((commands, replies));
                }
                Err(error) => self.give_up(replies, error),
            }
        }
    }

    /// Adds standing claims for the jobs of the batch that its own claims do not take.
    fn add_standing_claims(&self, requests: &mut Vec<QueuedCommand>) {
        if !self.wakeups.has_standing_claims() {
            return;
        }
        let now = self.clock.now();
        let mut brought: BTreeMap<Shelf, usize> = BTreeMap::new();
        for request in &*requests {
            let Command::Submit(submit) = &request.command else { continue };
            for shelf in submit.jobs.iter().filter_map(|job| job.shelf_at(now)) {
                *brought.entry(shelf).or_default() += 1;
            }
        }
        for request in &*requests {
            let Command::Claim(claim) = &request.command else { continue };
            for shelf in claim.shelves() {
                brought.entry(shelf).and_modify(|n_jobs| *n_jobs = n_jobs.saturating_sub(claim.limit));
            }
        }
        brought.retain(|_, n_jobs| *n_jobs > 0);
        let claims = self.wakeups.take_standing(&brought).into_iter();
        requests.extend(
            claims.map(|left| QueuedCommand { command: Command::Claim(left.claim), reply: left.reply }),
        );
    }

    fn batch(&self, commands: Vec<Command>) -> Arc<Batch> {
        Arc::new(Batch { now: self.clock.now(), seed: self.clock.random() as u64, commands })
    }

    fn succeed(&self, batch: &Batch, replies: Vec<Reply>, mut changes: Changes) {
        let answers = std::mem::take(&mut changes.answers);
        // Notified first: when a caller gets its answer, all parts of the engine know of the
        // commit.
        self.notify(&changes);
        let (n_commands, took) = (batch.commands.len(), self.clock.now().since(batch.now));
        let n_heartbeats = heartbeats(&batch.commands, &answers);
        self.observer.committed(&Commit { changes: &changes, n_commands, n_heartbeats, took });
        replies.into_iter().zip(answers).for_each(|(reply, answer)| send(reply, answer));
    }

    fn give_up(&self, replies: Vec<Reply>, error: forgerun_store::Error) {
        tracing::error!(n_commands = replies.len(), %error, "batch write failed");
        self.observer.failed(error.fault, replies.len());
        if error.fault == Fault::Unknown {
            // It may be written, and no other part would announce what it made possible.
            self.wakeups.wake_all();
            self.journal_signal.ring();
        }
        let error = Error::from(error);
        for reply in replies {
            let _ = reply.send(Err(error.clone()));
        }
    }

    async fn transact(&self, batch: Arc<Batch>, probe: Probe) -> Result<Changes, forgerun_store::Error> {
        let mut wants = wants(&batch);
        probe.add_wants(&mut wants);
        let render = self.render.clone();
        let broken = Arc::new(AtomicBool::new(false));
        let rules_broke = broken.clone();
        let decide = move |mut rows| {
            probe.look(batch.commands.first().filter(|_| batch.commands.len() == 1), &mut rows);
            // The panicking closure shares only the batch, which it does not change.
            let decided = catch_unwind(AssertUnwindSafe(|| decide(&batch, rows, &*render)));
            rules_broke.store(decided.is_err(), Ordering::Release);
            // Without changes the store writes nothing.
            decided.unwrap_or_default()
        };
        let changes = self.store.transact(wants, Box::new(decide)).await?;
        if broken.load(Ordering::Acquire) {
            return Err(forgerun_store::Error::new(Fault::Rejected, "the rules broke on it"));
        }
        Ok(changes)
    }

    fn notify(&self, changes: &Changes) {
        changes.set_aside.iter().for_each(log_set_aside);
        if changes.wake_all {
            self.wakeups.wake_all();
        }
        self.wakeups.wake(&changes.woken);
        self.wakeups.queue_hints.call_off(&changes.journal);
        if changes.counts.values().any(|counts| counts.active() < 0) {
            self.wakeups.wake_capped();
        }
        if let Some(next_due) = changes.next_due {
            self.alarm.set(next_due);
        }
        if let Some(due) = changes.delivery_due {
            self.delivery_alarm.set(due);
        }
        if !changes.journal.is_empty() {
            self.journal_signal.ring();
        }
    }
}

/// Whether a single command may have caused this fault, so that the others can succeed without it.
const fn is_of_one_command(fault: Fault) -> bool {
    match fault {
        Fault::Rejected | Fault::Corrupt | Fault::Sealed => true,
        Fault::Unavailable | Fault::Timeout | Fault::Busy | Fault::Full | Fault::TooNew | Fault::Unknown => {
            false
        }
    }
}

fn log_set_aside(SetAside { row, reason, .. }: &SetAside) {
    match row {
        RowId::Job(id) => tracing::error!(job.id = %id, reason, "job set aside"),
        RowId::Delivery(id) => tracing::error!(delivery.id = %id, reason, "delivery set aside"),
    }
}

impl QueuedCommand {
    /// Claims of disconnected workers are skipped: their jobs would be locked until the lease ends.
    /// All other commands run.
    fn is_pointless(&self) -> bool {
        matches!(self.command, Command::Claim(_)) && self.reply.is_closed()
    }
}

fn send(reply: Reply, answer: Answer) {
    // A disconnected caller needs no answer.
    let _ = reply.send(match answer {
        Answer::Refused(refusal) => Err(Error::Refused(refusal)),
        answer => Ok(answer),
    });
}
