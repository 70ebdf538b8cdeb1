//! The loop of a worker.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Mutex, SemaphorePermit, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::active::Active;
use super::builder::{WorkerBuilder, fits};
use super::exchange::{EndReport, exchange_ends};
use super::handler::{Canceled, Context, Failure, Handler, Output};
use super::report::{Reported, away};
use super::room::Room;
use crate::client::Client;
use crate::error::Error;
#[cfg(feature = "grpc")]
use crate::grpc::JobSource;
use crate::limits::{FETCH_GRACE, FETCH_JOBS_MAX, FETCH_PAUSE, FETCH_WAIT, TAKEN_AHEAD_WAIT};
use crate::ojs::{ClaimedJob, Fetch, Heartbeat};

/// Something worth a line in a log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Note<'a> {
    /// A job begins.
    Took(&'a ClaimedJob),
    /// A job went well.
    Succeeded(&'a ClaimedJob),
    /// A job failed.
    Failed(&'a ClaimedJob, &'a Failure),
    /// A job was cancelled, or is no longer ours.
    Lost(&'a ClaimedJob),
    /// A job went back unfinished, because the worker stops.
    HandedBack(&'a ClaimedJob),
    /// The server cannot be reached for now.
    Away {
        /// Why.
        error: &'a Error,
        /// When it is tried again.
        wait: Duration,
    },
    /// The worker takes no more and waits for this many.
    Draining(usize),
    /// The end of a job could not be reported, and never will be.
    NotReported(&'a ClaimedJob, &'a Error),
}

/// How a worker stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Jobs that ended well.
    pub succeeded: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that went back unfinished.
    pub handed_back: u64,
}

/// Takes jobs and does them.
#[derive(Clone)]
pub struct Worker {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) id: Arc<str>,
    pub(super) queues: Vec<String>,
    handlers: Vec<(String, Arc<dyn Handler>)>,
    pub(super) concurrency: usize,
    pub(super) room: Room,
    pub(super) lease: Duration,
    drain: Duration,
    grace: Duration,
    hand_back_others: bool,
    pub(super) notes: Arc<dyn Fn(&Note<'_>) + Send + Sync>,
    /// Whether the server takes ends of many jobs in one request.
    pub(super) exchanges: AtomicBool,
    /// Where ends go on their way to such a server, while the worker runs.
    pub(super) ends: std::sync::Mutex<Option<mpsc::Sender<EndReport>>>,
    /// Held by the one request that asks for jobs.
    pub(super) asking: Mutex<()>,
    /// Where jobs are streamed from, if they are.
    #[cfg(feature = "grpc")]
    source: Option<JobSource>,
    active: Active,
    /// What the server wants of us.
    pub(super) directive: watch::Sender<Directive>,
    /// Whether nothing is begun any more.
    pub(super) stopping: watch::Sender<bool>,
    /// Whether to wait no longer for what runs.
    hurry: watch::Sender<bool>,
    succeeded: AtomicU64,
    failed: AtomicU64,
    handed_back: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    Running,
    Quiet,
    Terminate,
}

impl Worker {
    pub(super) fn new(builder: WorkerBuilder) -> Result<Worker, Error> {
        #[cfg(feature = "grpc")]
        let source = match &builder.grpc {
            Some(url) => Some(JobSource::new(&builder.client, url)?),
            None => None,
        };
        let id = builder.id.unwrap_or_else(|| format!("worker-{}", builder.client.new_key()));
        let shared = Shared {
            client: builder.client,
            id: id.into(),
            queues: builder.queues,
            handlers: builder.handlers,
            concurrency: builder.concurrency,
            room: Room::new(builder.concurrency),
            lease: builder.lease,
            drain: builder.drain,
            grace: builder.grace,
            hand_back_others: builder.hand_back_others,
            notes: builder.notes,
            exchanges: AtomicBool::new(false),
            ends: std::sync::Mutex::default(),
            asking: Mutex::new(()),
            #[cfg(feature = "grpc")]
            source,
            active: Active::default(),
            directive: watch::Sender::new(Directive::Running),
            stopping: watch::Sender::new(false),
            hurry: watch::Sender::new(false),
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            handed_back: AtomicU64::new(0),
        };
        Ok(Worker { shared: Arc::new(shared) })
    }

    /// Waits no longer for what runs: cancels it and hands it back. Only of use after `stop`.
    pub fn hurry(&self) {
        self.shared.hurry.send_replace(true);
    }

    /// Works until `stop` ends or the server says so, then waits for what runs. Dropping it drops the handlers; their jobs
    /// come back when their leases end.
    ///
    /// # Errors
    /// If the server cannot be reached at the start, or refuses us at any time.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<Stopped, Error> {
        let shared = &self.shared;
        shared.beat("running").await?;
        let (sender, ends) = mpsc::channel(2 * shared.concurrency);
        shared.ends.lock().unwrap_or_else(PoisonError::into_inner).replace(sender);
        let (passing_on, mut taken) = mpsc::channel(1);
        let _beating = Background(tokio::spawn(heartbeats(shared.clone())));
        let _exchanging = Background(tokio::spawn(exchange_ends(shared.clone(), ends, passing_on)));
        let mut jobs = JoinSet::new();
        #[cfg(feature = "grpc")]
        let ended = match &shared.source {
            Some(source) => shared.take_streamed(source, &mut jobs, stop).await,
            None => shared.take_jobs(&mut jobs, &mut taken, stop).await,
        };
        #[cfg(not(feature = "grpc"))]
        let ended = shared.take_jobs(&mut jobs, &mut taken, stop).await;
        shared.stopping.send_replace(true);
        // What came just before the stop goes back; what comes later is refused, and goes back too.
        taken.close();
        while let Some(late) = taken.recv().await {
            late.into_iter().for_each(|job| shared.begin_taken(job, &mut jobs));
        }
        shared.finish(&mut jobs).await;
        ended?;
        Ok(Stopped {
            succeeded: shared.succeeded.load(Ordering::Relaxed),
            failed: shared.failed.load(Ordering::Relaxed),
            handed_back: shared.handed_back.load(Ordering::Relaxed),
        })
    }
}

/// A task that ends with the worker.
struct Background(JoinHandle<()>);

impl Drop for Background {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn heartbeats(shared: Arc<Shared>) {
    loop {
        shared.client.clock().sleep(shared.lease / 3).await;
        // A server that is away is noticed, and said, by whoever wants something of it.
        let _ = shared.beat("running").await;
    }
}

impl Shared {
    /// Extends all leases, and hears what the server wants.
    pub(super) async fn beat(&self, state: &str) -> Result<(), Error> {
        let held = self.active.tokens();
        let tokens = held.iter().filter_map(|(id, token)| Some((id.clone(), token.clone()?)));
        let beat = Heartbeat {
            worker_id: &self.id,
            state,
            active_jobs: held.iter().map(|(id, _)| id.clone()).collect(),
            lease_tokens: tokens.collect(),
            visibility_timeout_ms: self.lease.as_millis() as u64,
            queues: &self.queues,
            concurrency: self.concurrency,
            pid: std::process::id(),
        };
        let answer = self.ojs().heartbeat(&beat).await?;
        for (id, token) in &held {
            if answer.cancelled_jobs.contains(id) || !answer.jobs_extended.contains(id) {
                self.active.cancel(id, token.as_deref(), Canceled::ByServer);
            }
        }
        self.exchanges.store(answer.exchange, Ordering::Relaxed);
        self.directive.send_replace(match answer.state.as_str() {
            "quiet" => Directive::Quiet,
            "terminate" => Directive::Terminate,
            _ => Directive::Running,
        });
        Ok(())
    }

    /// Takes jobs until it is asked to stop.
    async fn take_jobs(
        self: &Arc<Self>,
        jobs: &mut JoinSet<()>,
        taken: &mut mpsc::Receiver<Vec<ClaimedJob>>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let mut directive = self.directive.subscribe();
        let mut stop = pin!(stop);
        let mut tries = 0;
        loop {
            while jobs.try_join_next().is_some() {}
            let free = async {
                let _ = directive.wait_for(|directive| *directive != Directive::Quiet).await;
                self.room.free().await;
                self.asking.lock().await
            };
            let _asking = tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                Some(batch) = taken.recv() => {
                    batch.into_iter().for_each(|job| self.begin_taken(job, jobs));
                    continue;
                }
                asking = free => asking,
            };
            let n_free = self.room.n_free();
            if n_free == 0 {
                continue;
            }
            if *self.directive.borrow() == Directive::Terminate {
                return Ok(());
            }
            let asked_at = self.client.clock().now();
            let mut fetch = pin!(self.fetch(n_free));
            let (fetched, stopped) = tokio::select! {
                () = &mut stop => {
                    // The server gives nothing to a worker that ends; what it gave just before comes in a moment.
                    let _ = timeout(FETCH_GRACE, self.beat("terminate")).await;
                    (timeout(FETCH_GRACE, fetch).await.unwrap_or(Ok(Vec::new())), true)
                }
                fetched = &mut fetch => (fetched, false),
            };
            match fetched {
                Ok(taken) if stopped => {
                    for job in taken {
                        let _ = self.hand_back(&job).await;
                    }
                    return Ok(());
                }
                Ok(taken) => {
                    tries = 0;
                    let took = self.client.clock().now().duration_since(asked_at).unwrap_or_default();
                    let hurried = taken.is_empty() && took < FETCH_PAUSE;
                    taken.into_iter().for_each(|job| self.begin(job, jobs));
                    // A server that does not hold requests is not to be asked all the time.
                    if hurried {
                        tokio::select! {
                            () = &mut stop => return Ok(()),
                            () = self.client.clock().sleep(FETCH_PAUSE) => {}
                        }
                    }
                }
                Err(_) if stopped => return Ok(()),
                Err(error) if error.is_retryable() => {
                    let asked = error.api().and_then(|said| said.retry_after).unwrap_or_default();
                    let wait = away(tries).max(asked);
                    tries += 1;
                    (self.notes)(&Note::Away { error: &error, wait });
                    tokio::select! {
                        () = &mut stop => return Ok(()),
                        () = self.client.clock().sleep(wait) => {}
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn fetch(&self, n_free: usize) -> Result<Vec<ClaimedJob>, Error> {
        let fetch = Fetch {
            worker_id: &self.id,
            queues: &self.queues,
            count: n_free.min(FETCH_JOBS_MAX),
            visibility_timeout_ms: self.lease.as_millis() as u64,
            wait_ms: FETCH_WAIT.as_millis() as u64,
        };
        self.ojs().fetch(&fetch).await
    }

    /// Begins a job that was taken, or lets it wait for a handler.
    pub(super) fn begin(self: &Arc<Self>, job: ClaimedJob, jobs: &mut JoinSet<()>) {
        self.room.take();
        self.begin_taken(job, jobs);
    }

    /// The same for a job that the room knows of.
    fn begin_taken(self: &Arc<Self>, job: ClaimedJob, jobs: &mut JoinSet<()>) {
        jobs.spawn(self.clone().work(Arc::new(job)));
    }

    /// Whether jobs are asked for, rather than streamed.
    pub(super) fn takes_by_fetch(&self) -> bool {
        #[cfg(feature = "grpc")]
        return self.source.is_none();
        #[cfg(not(feature = "grpc"))]
        true
    }

    /// Whatever goes wrong, the job is not held any longer than that: heartbeats about it would keep it from everybody else for ever.
    async fn work(self: Arc<Self>, job: Arc<ClaimedJob>) {
        if let Err(panic) = catch(self.work_on(&job)).await {
            self.active.remove(&job);
            let _ = self.report_failure(&job, &panicked("worker", &*panic)).await;
        }
    }

    async fn work_on(&self, job: &Arc<ClaimedJob>) {
        let place = self.room.place();
        if self.hand_back_others && self.handler(job).is_none() {
            let _ = self.hand_back(job).await;
            // Somebody else should have the chance to take it before we are given it again.
            self.client.clock().sleep(FETCH_PAUSE).await;
            return;
        }
        let canceled = self.active.add(job.clone());
        let context = Context {
            client: self.client.clone(),
            worker: self.id.clone(),
            job: job.clone(),
            canceled,
            steps: Arc::default(),
            logs: Arc::default(),
        };
        let Some(handler) = self.wait_for_handler(job, &context).await else {
            self.active.remove(job);
            return;
        };
        (self.notes)(&Note::Took(job));
        let began_at = self.client.clock().now();
        let outcome = self.run_handler(job, &context).await;
        self.room.worked(self.client.clock().now().duration_since(began_at).unwrap_or_default());
        // The next job begins while the server hears of this one.
        let _report = self.room.report().await;
        drop((handler, place));
        context.logs.finish().await;
        let reason = *context.canceled.borrow();
        let reported = match (reason, &outcome) {
            (Some(Canceled::ByServer), _) => Ok(Reported::Lost),
            (Some(Canceled::ByStop), Err(_)) => {
                self.handed_back.fetch_add(1, Ordering::Relaxed);
                (self.notes)(&Note::HandedBack(job));
                self.hand_back(job).await
            }
            (_, Ok(output)) => self.succeeded(job, output).await,
            (None, Err(Failure { suspension: Some(suspension), .. })) => {
                self.handed_back.fetch_add(1, Ordering::Relaxed);
                self.suspend(job, suspension).await
            }
            (None, Err(failure)) => self.failed(job, failure).await,
        };
        self.active.remove(job);
        if let Ok(Output::File { path, remove: true, .. }) = &outcome {
            let _ = tokio::fs::remove_file(path).await;
        }
        match reported {
            Ok(Reported::Heard) => {}
            Ok(Reported::Lost) => (self.notes)(&Note::Lost(job)),
            Err(error) => (self.notes)(&Note::NotReported(job, &error)),
        }
    }

    /// Waits until a handler is free; `None` if the job is not ours any more by then. A job that was taken ahead goes back when it would
    /// have to wait long, or when nothing is begun any more.
    async fn wait_for_handler(&self, job: &ClaimedJob, context: &Context) -> Option<SemaphorePermit<'_>> {
        let mut stopping = self.stopping.subscribe();
        tokio::select! {
            biased;
            _ = context.canceled() => {
                (self.notes)(&Note::Lost(job));
                return None;
            }
            _ = stopping.wait_for(|stopping| *stopping) => {
                self.handed_back.fetch_add(1, Ordering::Relaxed);
                (self.notes)(&Note::HandedBack(job));
            }
            handler = self.room.handler() => return Some(handler),
            () = self.client.clock().sleep(TAKEN_AHEAD_WAIT) => self.room.waited_in_vain(),
        }
        let _ = self.hand_back(job).await;
        None
    }

    async fn succeeded(&self, job: &ClaimedJob, output: &Output) -> Result<Reported, Error> {
        match self.report_success(job, output).await {
            // The server does not want this result and never will: that is a failure, with its reason.
            Err(error) if error.api().is_some() || matches!(error, Error::File { .. } | Error::Usage(_)) => {
                let failure = Failure::new(format!("the result was not taken: {error}")).never_again();
                self.failed(job, &failure).await
            }
            Ok(Reported::Heard) => {
                self.succeeded.fetch_add(1, Ordering::Relaxed);
                (self.notes)(&Note::Succeeded(job));
                Ok(Reported::Heard)
            }
            other => other,
        }
    }

    async fn failed(&self, job: &ClaimedJob, failure: &Failure) -> Result<Reported, Error> {
        // Said once the server has heard it: of a job that it took back meanwhile, that is its end.
        let reported = self.report_failure(job, failure).await?;
        if reported == Reported::Heard {
            self.failed.fetch_add(1, Ordering::Relaxed);
            (self.notes)(&Note::Failed(job, failure));
        }
        Ok(reported)
    }

    /// Runs the handler in a task of its own, so that its panic is not ours.
    async fn run_handler(&self, job: &Arc<ClaimedJob>, context: &Context) -> Result<Output, Failure> {
        let Some((_, handler)) = self.handlers.iter().find(|(pattern, _)| fits(pattern, &job.job_type))
        else {
            let failure = Failure::new(format!("no handler for jobs of type {:?}", job.job_type));
            return Err(Failure { code: "handler_not_found".to_owned(), ..failure });
        };
        let mut running = Running(tokio::spawn(handler.run(ClaimedJob::clone(job), context.clone())));
        let joined = tokio::select! {
            joined = &mut running.0 => joined,
            _ = context.canceled() => match timeout(self.grace, &mut running.0).await {
                Ok(joined) => joined,
                Err(_) => return Err(Failure::new("the handler did not stop when it was cancelled")),
            },
        };
        joined.unwrap_or_else(|error| {
            Err(match error.try_into_panic() {
                Ok(panic) => panicked("handler", &*panic),
                Err(_) => Failure { code: "panic".to_owned(), ..Failure::new("the handler was dropped") },
            })
        })
    }

    fn handler(&self, job: &ClaimedJob) -> Option<&Arc<dyn Handler>> {
        let fitting = self.handlers.iter().find(|(pattern, _)| fits(pattern, &job.job_type));
        fitting.map(|(_, handler)| handler)
    }

    /// Waits for what runs, then cancels it.
    async fn finish(&self, jobs: &mut JoinSet<()>) {
        let n_active = self.active.len();
        if n_active > 0 {
            (self.notes)(&Note::Draining(n_active));
        }
        let mut hurry = self.hurry.subscribe();
        let done = tokio::select! {
            () = all(jobs) => true,
            () = self.client.clock().sleep(self.drain) => false,
            _ = hurry.wait_for(|hurry| *hurry) => false,
        };
        if !done {
            self.active.cancel_all(Canceled::ByStop);
            all(jobs).await;
        }
    }
}

async fn all(jobs: &mut JoinSet<()>) {
    while jobs.join_next().await.is_some() {}
}

/// A handler that is dropped with whoever waits for it.
struct Running(JoinHandle<Result<Output, Failure>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Awaits something and catches its panic.
async fn catch<T>(work: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut work = pin!(work);
    poll_fn(|context| {
        // After a panic it is not polled again, and what it shares is behind locks and atomics.
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

fn panicked(who: &str, panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = format!("the {who} panicked: {}", text.unwrap_or("no reason given"));
    Failure { code: "panic".to_owned(), ..Failure::new(message) }
}
