//! The handle, and the life of the loops behind it.

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

/// A running engine. Cheap to clone; the loops end with [`Engine::stop`], or are cut off when the last handle is dropped.
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
    /// Starts an engine on a store. What was waiting, scheduled or leased there goes on: recovery is nothing but looking
    /// at what is due.
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

    /// Runs a command. Refuses at once when too many are waiting.
    pub async fn run(&self, command: Command) -> Result<Answer, Error> {
        if self.is_stopping() {
            return Err(Error::Stopped);
        }
        self.inner.commands.try_run(command).await
    }

    /// Runs a command whose answer nobody needs, such as a note of when a key was used. Given up silently when too many are
    /// waiting.
    pub fn try_enqueue(&self, command: Command) {
        if !self.is_stopping() {
            self.inner.commands.try_enqueue(command);
        }
    }

    /// The same for one that counts, such as to hand back a job: it waits, in the background, where too many do. Only for what follows from a command
    /// that was carried out, so that there are never many.
    pub fn enqueue(&self, command: Command) {
        if !self.is_stopping() {
            self.inner.commands.enqueue(command);
        }
    }

    /// Submits jobs, all or none: the jobs as they stand, and whether they were there before.
    pub async fn submit(&self, submit: Submit) -> Result<(Vec<Job>, bool), Error> {
        match self.run(Command::Submit(submit)).await? {
            Answer::Submitted { jobs, existing } => Ok((jobs, existing)),
            answer => unreachable!("a submission was answered with {answer:?}"),
        }
    }

    /// Submits each for itself, waiting for places in the queue of the committer; the answers in order. For intake that can wait,
    /// such as that of a broker. Being dropped leaves open which of them were submitted.
    pub async fn submit_each(&self, submits: Vec<Submit>) -> Vec<Result<(Vec<Job>, bool), Error>> {
        let answers = self.inner.commands.run_all(submits.into_iter().map(Command::Submit).collect()).await;
        let answer = |answer| match answer {
            Answer::Submitted { jobs, existing } => (jobs, existing),
            answer => unreachable!("a submission was answered with {answer:?}"),
        };
        answers.into_iter().map(|answered| answered.map(answer)).collect()
    }

    /// Runs commands, each for itself, waiting for places in the queue of the committer; the answers in order. They share a transaction if
    /// there is room.
    pub async fn run_each(&self, commands: Vec<Command>) -> Vec<Result<Answer, Error>> {
        self.inner.commands.run_all(commands).await
    }

    /// Runs a command about one job: the job as it stands, and whether the command changed it.
    pub async fn act(&self, command: Command) -> Result<(Job, bool), Error> {
        match self.run(command).await? {
            Answer::Done(job) => Ok((job, true)),
            Answer::Unchanged(job) => Ok((job, false)),
            answer => unreachable!("a command about one job was answered with {answer:?}"),
        }
    }

    /// Opens another execution of a failed job: the job as it stands, and whether that changed it. `afresh` as in [`Retry`].
    pub async fn retry(&self, owned: Owned, afresh: bool) -> Result<(Job, bool), Error> {
        let execution = self.execution_id();
        self.act(Command::Retry(Retry { owned, execution, afresh, dead_letter: false, from: None })).await
    }

    /// Opens another execution of a failed workflow. `from` as in [`Retry`].
    pub async fn retry_workflow(&self, owned: Owned, from: Option<u32>) -> Result<(Job, bool), Error> {
        let execution = self.execution_id();
        self.act(Command::Retry(Retry { owned, execution, afresh: false, dead_letter: false, from })).await
    }

    /// The same for a dead letter, with a full budget; refused if the job is none.
    pub async fn revive(&self, owned: Owned) -> Result<(Job, bool), Error> {
        let execution = self.execution_id();
        self.act(Command::Retry(Retry { owned, execution, afresh: true, dead_letter: true, from: None }))
            .await
    }

    /// The same for many, each for itself; they share transactions. Says of each whether it went well.
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
        let answers = self.inner.commands.run_all(jobs.into_iter().map(retry).collect()).await;
        let settled = |answered: Result<Answer, Error>| match answered? {
            Answer::Refused(refusal) => Err(Error::Refused(refusal)),
            _ => Ok(()),
        };
        answers.into_iter().map(settled).collect()
    }

    /// Claims jobs, waiting up to `wait` for the first one. Nothing to be had, or an engine that is told to stop meanwhile,
    /// gives an empty list.
    ///
    /// Being dropped is safe for the engine, but jobs that were just claimed then come back only when their lease ends.
    pub async fn claim(&self, claim: Claim, wait: Duration) -> Result<Vec<Job>, Error> {
        if self.is_stopping() {
            return Err(Error::Stopped);
        }
        if claim.limit == 0 {
            // Asked in earnest it would find nothing, and others would believe that there is nothing.
            return Ok(Vec::new());
        }
        let context = &self.inner.context;
        let mut waiter = context.wakeups.wait_for(claim.shelves().collect());
        let stop = self.stop_signal();
        // One sleep for the whole wait: a clock that is set back meanwhile does not prolong it.
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
                // Nothing that it may take, or nobody asked for it.
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
                // Everything it saw was parked or expired: what is behind has not been looked at.
                Answer::Claimed { .. } => {}
                answer => unreachable!("a claim was answered with {answer:?}"),
            }
        }
    }

    /// Takes in the result of an attempt, in parts, before the attempt is reported as done.
    pub fn begin_result(&self, media_type: impl Into<String>, file_name: Option<String>) -> Intake {
        let EngineState { context, ids, result_bytes_max, .. } = &*self.inner;
        let blob = ids.blob(&*context.clock);
        Intake::new(context.clone(), blob, media_type.into(), file_name, *result_bytes_max)
    }

    /// Deletes what was uploaded for a lease and is not its upload any more.
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

    /// What time it is for this engine.
    pub fn now(&self) -> Time {
        self.inner.context.clock.now()
    }

    /// A new job id, later than all before.
    pub fn job_id(&self) -> JobId {
        self.inner.ids.job(&*self.inner.context.clock)
    }

    /// A new execution id.
    pub fn execution_id(&self) -> ExecutionId {
        self.inner.ids.execution(&*self.inner.context.clock)
    }

    /// A new key id.
    pub fn key_id(&self) -> KeyId {
        self.inner.ids.key(&*self.inner.context.clock)
    }

    /// A new webhook id.
    pub fn webhook_id(&self) -> WebhookId {
        self.inner.ids.webhook(&*self.inner.context.clock)
    }

    /// A new client id.
    pub fn client_id(&self) -> ClientId {
        ClientId::v4(self.inner.context.clock.random())
    }

    /// For loops of our own, which wait for a place in the queue.
    pub(crate) fn commands(&self) -> &CommandQueue {
        &self.inner.commands
    }

    /// Where work for the built-in worker is announced.
    pub(crate) fn queue_hints(&self) -> QueueHints {
        self.inner.context.wakeups.queue_hints.clone()
    }

    /// Where workers wait.
    pub(crate) fn wakeups(&self) -> &Wakeups {
        &self.inner.context.wakeups
    }

    /// When the delivery loop must look next.
    pub(crate) fn delivery_alarm(&self) -> &Alarm {
        &self.inner.context.delivery_alarm
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.context.clock
    }

    /// Tells when the engine stops.
    pub(crate) fn stop_signal(&self) -> CancellationToken {
        self.inner.loops.stop_signal()
    }

    /// Ready once the engine stops, because it was told to or because a part of it broke down. Safe to drop.
    pub async fn stopping(&self) {
        self.stop_signal().cancelled().await;
    }

    /// Whether the engine has been told to stop.
    pub fn is_stopping(&self) -> bool {
        self.inner.loops.is_stopping()
    }

    /// Stops: no new commands, waiting claims return empty, what was accepted is written, then the loops end. May be called
    /// any number of times, and dropped: each call returns when all of it is over.
    pub async fn stop(&self) {
        self.inner.loops.stop().await;
        self.inner.context.journal_signal.close();
    }
}

/// Passes on what other nodes made possible. On a shared store it also looks everywhere once in a while: a node that dies
/// between its commit and its news must not leave work lying.
async fn listen(
    context: Arc<CommitContext>,
    mut news: broadcast::Receiver<Wakeup>,
    refresh: Duration,
    stop: CancellationToken,
) {
    let is_shared = context.store.is_shared();
    // Kept from turn to turn, and asked before the news: however much of it comes, the look is taken.
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
                // Perhaps what happened is that a job ended, and the bound on active jobs is the same for all nodes.
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
