//! The engine's handle, and the start and stop of its loops.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{Claim, Content, Output, Owned, Retry, Submit};
use forgerun_core::id::{ClientId, ExecutionId, JobId, KeyId, WebhookId};
use forgerun_core::job::Job;
use forgerun_core::rows::Render;
use forgerun_core::time::Time;
use forgerun_core::{Answer, Command};
use forgerun_store::{Store, Wakeup};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::audit::with_entry;
use crate::clock::Clock;
use crate::committer::{self, CommandQueue, CommitContext};
use crate::ids::Ids;
use crate::intake::{self, Intake};
use crate::journal::JournalReader;
use crate::loops::Loops;
use crate::options::Options;
use crate::timers::Alarm;
use crate::wakeups::{ShelfCheck, Waiter, Wakeups};
use crate::worker::QueueHints;
use crate::{Error, sweeper, timers};

/// A running engine. Cheap to clone; [`Engine::stop`] ends the loops, dropping the last handle cuts
/// them off.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<EngineState>,
}

struct EngineState {
    context: Arc<CommitContext>,
    commands: CommandQueue,
    ids: Arc<Ids>,
    result_bytes_max: u64,
    loops: Loops,
}

impl Engine {
    /// Starts an engine on a store. Waiting, scheduled and leased jobs go on: recovery is the check
    /// of what is due.
    pub fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        render: Arc<dyn Render>,
        options: Options,
    ) -> Engine {
        let context = Arc::new(CommitContext {
            store,
            clock,
            render,
            wakeups: Default::default(),
            alarm: Default::default(),
            delivery_alarm: Default::default(),
            journal_signal: Default::default(),
            observer: options.observer.clone(),
        });
        let result_bytes_max = options.result_bytes_max;
        let stop = CancellationToken::new();
        let mut loops = Loops::new(stop.clone());
        let (commands, committer) = committer::committer(context.clone(), &options, stop.clone());
        if context.store.blocks() {
            loops.spawn_vital_thread("forge-committer", committer);
        } else {
            loops.spawn_vital(committer);
        }
        let ids = Arc::new(Ids::default());
        let timers =
            timers::run(context.clone(), commands.clone(), ids.clone(), options.clone(), stop.clone());
        loops.spawn_vital(timers);
        let news = context.store.wakeups();
        let refresh = options.news_refresh;
        loops.spawn_vital(sweeper::run(context.clone(), options, stop.clone()));
        loops.spawn(listen(context.clone(), news, refresh, stop));
        Engine { inner: Arc::new(EngineState { context, commands, ids, result_bytes_max, loops }) }
    }

    /// Runs a command. Refuses at once if the queue is full.
    pub async fn run(&self, command: Command) -> Result<Answer, Error> {
        if self.is_stopping() {
            return Err(Error::Stopped);
        }
        self.inner.commands.try_run(with_entry(command)).await
    }

    /// Sends a command whose answer is not needed, such as the last use of a key. Silently dropped
    /// if the queue is full.
    pub fn try_enqueue(&self, command: Command) {
        if !self.is_stopping() {
            self.inner.commands.try_enqueue(command);
        }
    }

    /// Sends a command that must not be lost, such as a hand-back: if the queue is full it waits in
    /// the background. Only for consequences of executed commands, so that there are few.
    pub fn enqueue(&self, command: Command) {
        if !self.is_stopping() {
            self.inner.commands.enqueue(command);
        }
    }

    /// Submits jobs, all or nothing: returns the jobs, and whether they existed.
    pub async fn submit(&self, submit: Submit) -> Result<(Vec<Job>, bool), Error> {
        match self.run(Command::Submit(submit)).await? {
            Answer::Submitted { jobs, existing } => Ok((jobs, existing)),
            answer => unreachable!("a submission was answered with {answer:?}"),
        }
    }

    /// Submits each on its own, waiting for places in the queue; answers in order. For sources that
    /// can wait, such as a broker. If dropped, it is unknown which were submitted.
    pub async fn submit_each(&self, submits: Vec<Submit>) -> Vec<Result<(Vec<Job>, bool), Error>> {
        let answers = self.inner.commands.run_all(submits.into_iter().map(Command::Submit).collect()).await;
        let answer = |answer| match answer {
            Answer::Submitted { jobs, existing } => (jobs, existing),
            answer => unreachable!("a submission was answered with {answer:?}"),
        };
        answers.into_iter().map(|answered| answered.map(answer)).collect()
    }

    /// Runs each command on its own, waiting for places in the queue; answers in order. They share
    /// a transaction if there is room.
    pub async fn run_each(&self, commands: Vec<Command>) -> Vec<Result<Answer, Error>> {
        self.inner.commands.run_all(commands.into_iter().map(with_entry).collect()).await
    }

    /// Runs a command about one job: returns the job, and whether it changed.
    pub async fn act(&self, command: Command) -> Result<(Job, bool), Error> {
        match self.run(command).await? {
            Answer::Done(job) => Ok((job, true)),
            Answer::Unchanged(job) => Ok((job, false)),
            answer => unreachable!("a command about one job was answered with {answer:?}"),
        }
    }

    /// Retries a failed job: returns the job, and whether it changed. `afresh` as in [`Retry`].
    pub async fn retry(&self, owned: Owned, afresh: bool) -> Result<(Job, bool), Error> {
        let execution = self.execution_id();
        self.act(Command::Retry(Retry { owned, execution, afresh, dead_letter: false, from: None })).await
    }

    /// Retries a failed workflow. `from` as in [`Retry`].
    pub async fn retry_workflow(&self, owned: Owned, from: Option<u32>) -> Result<(Job, bool), Error> {
        let execution = self.execution_id();
        self.act(Command::Retry(Retry { owned, execution, afresh: false, dead_letter: false, from })).await
    }

    /// Retries a dead letter with a full budget; refused if the job is not one.
    pub async fn revive(&self, owned: Owned) -> Result<(Job, bool), Error> {
        let execution = self.execution_id();
        self.act(Command::Retry(Retry { owned, execution, afresh: true, dead_letter: true, from: None }))
            .await
    }

    /// Retries many dead letters, each on its own, in shared transactions. Returns the result of
    /// each.
    pub async fn revive_all(&self, jobs: Vec<Owned>) -> Vec<Result<(), Error>> {
        let retry = |owned| {
            Command::Retry(Retry {
                owned,
                execution: self.execution_id(),
                afresh: true,
                dead_letter: true,
                from: None,
            })
        };
        let answers =
            self.inner.commands.run_all(jobs.into_iter().map(retry).map(with_entry).collect()).await;
        let settled = |answered: Result<Answer, Error>| match answered? {
            Answer::Refused(refusal) => Err(Error::Refused(refusal)),
            _ => Ok(()),
        };
        answers.into_iter().map(settled).collect()
    }

    /// Claims jobs, waiting up to `wait` for the first one. The list is empty if there is none in
    /// time, or the engine stops.
    ///
    /// If dropped, jobs that were just claimed come back only when their lease ends.
    pub async fn claim(&self, claim: Claim, wait: Duration) -> Result<Vec<Job>, Error> {
        if self.is_stopping() {
            return Err(Error::Stopped);
        }
        if claim.limit == 0 {
            // A real claim would find nothing, and mark the shelves as idle for others.
            return Ok(Vec::new());
        }
        let context = &self.inner.context;
        let mut waiter = context.wakeups.wait_for(claim.shelves().collect());
        let stop = self.stop_signal();
        // One sleep for the whole wait: a clock that is set back does not prolong it.
        let mut over = context.clock.sleep(wait);
        loop {
            let look = waiter.look();
            if look.worthwhile {
                match self.claim_once(&claim, &mut waiter, &look).await {
                    Ok(jobs) if jobs.is_empty() => {}
                    Err(Error::Stopped) => return Ok(Vec::new()),
                    done => return done,
                }
            }
            if wait.is_zero() {
                return Ok(Vec::new());
            }
            waiter.place_claim(&claim);
            let mut is_over = false;
            let answer = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                answer = waiter.woken() => answer,
                () = &mut over => {
                    is_over = true;
                    None
                }
            };
            let answer = match answer {
                None => waiter.withdraw().await,
                answer => answer,
            };
            match answer {
                Some(Ok(Answer::Claimed { jobs, more, .. })) if !jobs.is_empty() => {
                    waiter.took(more);
                    return Ok(jobs);
                }
                Some(Err(Error::Stopped)) => return Ok(Vec::new()),
                Some(Err(error)) => return Err(error),
                // Nothing claimable, or a limit of zero.
                Some(Ok(_)) | None if is_over || stop.is_cancelled() => return Ok(Vec::new()),
                Some(Ok(_)) | None => {}
            }
        }
    }

    async fn claim_once(
        &self,
        claim: &Claim,
        waiter: &mut Waiter,
        look: &ShelfCheck,
    ) -> Result<Vec<Job>, Error> {
        loop {
            match self.run(Command::Claim(claim.clone())).await? {
                Answer::Claimed { jobs, more, .. } if !jobs.is_empty() => {
                    waiter.took(more);
                    return Ok(jobs);
                }
                Answer::Claimed { capped: true, .. } => {
                    waiter.found_cap(look);
                    return Ok(Vec::new());
                }
                Answer::Claimed { more: false, .. } => {
                    waiter.found_nothing(look);
                    return Ok(Vec::new());
                }
                // All seen jobs were parked or expired: those behind were not checked.
                Answer::Claimed { .. } => {}
                answer => unreachable!("a claim was answered with {answer:?}"),
            }
        }
    }

    /// Receives the result of an attempt in parts, before its end is reported.
    pub fn begin_result(&self, media_type: impl Into<String>, file_name: Option<String>) -> Intake {
        let EngineState { context, ids, result_bytes_max, .. } = &*self.inner;
        let blob = ids.blob(&*context.clock);
        Intake::new(context.clone(), blob, media_type.into(), file_name, *result_bytes_max)
    }

    /// Deletes a blob that is no longer the upload of a lease.
    pub async fn discard(&self, output: &Output) -> Result<(), forgerun_store::Error> {
        match &output.content {
            Content::Inline(_) => Ok(()),
            Content::Stored(blob) => intake::discard(&self.inner.context, blob.id).await,
        }
    }

    /// A reader of the journal, from the row after `after` on.
    pub fn journal(&self, after: i64) -> JournalReader {
        JournalReader::new(self.inner.context.store.clone(), &self.inner.context.journal_signal, after)
    }

    /// The store, for reading. Only the committer writes.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.context.store
    }

    /// The current time of this engine.
    pub fn now(&self) -> Time {
        self.inner.context.clock.now()
    }

    /// A new job id, greater than all before.
    pub fn job_id(&self) -> JobId {
        self.inner.ids.job(&*self.inner.context.clock)
    }

    pub fn execution_id(&self) -> ExecutionId {
        self.inner.ids.execution(&*self.inner.context.clock)
    }

    pub fn key_id(&self) -> KeyId {
        self.inner.ids.key(&*self.inner.context.clock)
    }

    pub fn webhook_id(&self) -> WebhookId {
        self.inner.ids.webhook(&*self.inner.context.clock)
    }

    pub fn client_id(&self) -> ClientId {
        ClientId::v4(self.inner.context.clock.random())
    }

    /// For internal loops, which wait for a place in the queue.
    pub(crate) fn commands(&self) -> &CommandQueue {
        &self.inner.commands
    }

    /// Hints where the built-in worker finds work.
    pub(crate) fn queue_hints(&self) -> QueueHints {
        self.inner.context.wakeups.queue_hints.clone()
    }

    pub(crate) fn wakeups(&self) -> &Wakeups {
        &self.inner.context.wakeups
    }

    /// Wakes the delivery loop.
    pub(crate) fn delivery_alarm(&self) -> &Alarm {
        &self.inner.context.delivery_alarm
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.context.clock
    }

    pub(crate) fn stop_signal(&self) -> CancellationToken {
        self.inner.loops.stop_signal()
    }

    /// Resolves when the engine stops, on request or because a part of it failed. Cancel-safe.
    pub async fn stopping(&self) {
        self.stop_signal().cancelled().await;
    }

    pub fn is_stopping(&self) -> bool {
        self.inner.loops.is_stopping()
    }

    /// Stops: no new commands, waiting claims return empty, accepted commands are written, then the
    /// loops end. Idempotent and cancel-safe: each call returns when all has ended.
    pub async fn stop(&self) {
        self.inner.loops.stop().await;
        self.inner.context.journal_signal.close();
    }
}

/// Processes the news of other nodes. On a shared store it also checks everything periodically: a
/// node may die between its commit and its news.
async fn listen(
    context: Arc<CommitContext>,
    mut news: broadcast::Receiver<Wakeup>,
    refresh: Duration,
    stop: CancellationToken,
) {
    let is_shared = context.store.is_shared();
    // Kept across iterations, and polled before the news: however much news arrives, the check
    // runs.
    let mut next_look = context.clock.sleep(refresh);
    loop {
        let wakeup = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = &mut next_look, if is_shared => {
                next_look = context.clock.sleep(refresh);
                Ok(Wakeup::Everything)
            }
            wakeup = news.recv() => wakeup,
        };
        match wakeup {
            Ok(Wakeup::Shelf(shelf)) => context.wakeups.wake([&shelf]),
            Ok(Wakeup::Journal) => {
                context.journal_signal.ring();
                // A job may have ended, and the bound on active jobs is shared by all nodes.
                context.wakeups.wake_capped();
            }
            Ok(Wakeup::Deliveries) => context.delivery_alarm.set(context.clock.now()),
            Ok(Wakeup::Everything) | Err(broadcast::error::RecvError::Lagged(_)) => {
                context.wakeups.wake_all();
                context.journal_signal.ring();
                context.delivery_alarm.set(context.clock.now());
            }
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}
