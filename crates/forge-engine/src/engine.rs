//! The handle, and the life of the loops behind it.

use std::sync::Arc;
use std::time::Duration;

use forge_core::command::{Claim, Owned, Retry, Submit};
use forge_core::id::{ClientId, ExecutionId, JobId, KeyId, WebhookId};
use forge_core::job::Job;
use forge_core::rows::Render;
use forge_core::time::Time;
use forge_core::{Answer, Command};
use forge_store::{Store, Wakeup};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::committer::{self, CommandQueue, CommitContext};
use crate::ids::Ids;
use crate::intake::Intake;
use crate::journal::JournalReader;
use crate::options::Options;
use crate::timers::Alarm;
use crate::wakeups::{ShelfCheck, Waiter};
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
    ids: Ids,
    result_bytes_max: u64,
    stop: watch::Sender<bool>,
    /// Every loop holds a receiver, and lets go of it when it ends.
    running: watch::Sender<()>,
    loops: Vec<JoinHandle<()>>,
}

/// Hears when the engine stops.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Ready once the engine is stopping. Safe to drop.
    pub(crate) async fn told(&mut self) {
        // An engine that is gone without a word has stopped too.
        let _ = self.0.wait_for(|stopping| *stopping).await;
    }
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
        let (stop, stopped) = watch::channel(false);
        let stopped = Stop(stopped);
        let running = watch::Sender::new(());
        let (commands, committer) = committer::committer(context.clone(), &options, stopped.clone());
        let timers = timers::run(context.clone(), commands.clone(), options.clone(), stopped.clone());
        let listener =
            listen(context.clone(), context.store.wakeups(), options.news_refresh, stopped.clone());
        let sweeper = sweeper::run(context.clone(), options, stopped);
        let loops = vec![
            spawn(&running, committer),
            spawn(&running, timers),
            spawn(&running, sweeper),
            spawn(&running, listener),
        ];
        let ids = Ids::default();
        Engine {
            inner: Arc::new(EngineState { context, commands, ids, result_bytes_max, stop, running, loops }),
        }
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
    pub fn tell(&self, command: Command) {
        if !self.is_stopping() {
            self.inner.commands.tell(command);
        }
    }

    /// Submits jobs, all or none: the jobs as they stand, and whether they were there before.
    pub async fn submit(&self, submit: Submit) -> Result<(Vec<Job>, bool), Error> {
        match self.run(Command::Submit(submit)).await? {
            Answer::Submitted { jobs, existing } => Ok((jobs, existing)),
            answer => unreachable!("a submission was answered with {answer:?}"),
        }
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
        // What was fixed at submission does not change until the command is decided.
        let head = self.store().job(owned.job).await?.map(|job| job.head.clone());
        let unique = head.and_then(|head| head.unique.as_ref().map(|unique| unique.key));
        self.act(Command::Retry(Retry { owned, execution: self.execution_id(), afresh, unique })).await
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
        let mut stop = Stop(self.inner.stop.subscribe());
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
            tokio::select! {
                biased;
                () = stop.told() => return Ok(Vec::new()),
                () = waiter.woken() => {}
                () = &mut over => return Ok(Vec::new()),
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
    pub fn keep(&self, media_type: impl Into<String>, file_name: Option<String>) -> Intake {
        let EngineState { context, ids, result_bytes_max, .. } = &*self.inner;
        let blob = ids.blob(&*context.clock);
        Intake::new(context.clone(), blob, media_type.into(), file_name, *result_bytes_max)
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

    /// When the delivery loop must look next.
    pub(crate) fn delivery_alarm(&self) -> &Alarm {
        &self.inner.context.delivery_alarm
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.context.clock
    }

    pub(crate) fn stop_signal(&self) -> Stop {
        Stop(self.inner.stop.subscribe())
    }

    /// Whether the engine has been told to stop.
    pub fn is_stopping(&self) -> bool {
        *self.inner.stop.borrow()
    }

    /// Stops: no new commands, waiting claims return empty, what was accepted is written, then the loops end. May be called
    /// any number of times, and dropped: each call returns when all of it is over.
    pub async fn stop(&self) {
        self.inner.stop.send_replace(true);
        self.inner.running.closed().await;
        self.inner.context.journal_signal.close();
    }
}

impl Drop for EngineState {
    fn drop(&mut self) {
        self.loops.iter().for_each(JoinHandle::abort);
    }
}

fn spawn(running: &watch::Sender<()>, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let running = running.subscribe();
    tokio::spawn(async move {
        work.await;
        drop(running);
    })
}

/// Passes on what other nodes made possible. On a shared store it also looks everywhere once in a while: a node that dies
/// between its commit and its news must not leave work lying.
async fn listen(
    context: Arc<CommitContext>,
    mut news: broadcast::Receiver<Wakeup>,
    refresh: Duration,
    mut stop: Stop,
) {
    let is_shared = context.store.is_shared();
    loop {
        let wakeup = tokio::select! {
            biased;
            () = stop.told() => return,
            wakeup = news.recv() => wakeup,
            () = context.clock.sleep(refresh), if is_shared => Ok(Wakeup::Everything),
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
