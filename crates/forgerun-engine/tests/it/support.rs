//! A world to test in: clock, store, engine, and short words for jobs and commands.

use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forgerun_core::command::{
    Claim, HeldJob, LeaseProof, NewJob, QueueChange, QueueCommand, Submit, Succeed, WorkerKind,
};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{Head, Job, Lane, Limit, Name, Shelf};
use forgerun_core::queue::{Owner, QueueId};
use forgerun_core::random::mix;
use forgerun_core::rows::{Object, Render};
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_core::work::{Definition, WorkKind};
use forgerun_core::{Command, limits};
use forgerun_engine::{Clock, Engine, Error, Options};
use forgerun_store::Store;
use tokio::task::JoinSet;

use crate::store::TestStore;

/// Longer than any test that goes right lets pass.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Follows tokio's clock, which tests pause; and can be set back.
pub(crate) struct TestClock {
    began: tokio::time::Instant,
    offset_micros: AtomicI64,
    random: AtomicU64,
}

impl TestClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the test's clock is tokio's, which stands still by itself"
    )]
    fn new() -> TestClock {
        let began = tokio::time::Instant::now();
        // 2027-01-15, in the middle of a millisecond so that nobody relies on whole ones.
        TestClock { began, offset_micros: AtomicI64::new(1_800_000_000_000_500), random: AtomicU64::new(7) }
    }

    pub(crate) fn set_back(&self, span: Duration) {
        self.offset_micros.fetch_sub(span.as_micros() as i64, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time::from_micros(self.offset_micros.load(Ordering::SeqCst)) + self.began.elapsed()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the test's clock is tokio's, which stands still by itself"
    )]
    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(span))
    }

    fn random(&self) -> u128 {
        let high = mix(self.random.fetch_add(1, Ordering::SeqCst));
        u128::from(high) << 64 | u128::from(mix(high))
    }
}

/// The outcome says the state. A job of type `panic` panics, as a bug would.
pub(crate) struct PlainRender;

impl Render for PlainRender {
    fn outcome(&self, job: &Job, _: &[ItemEnd]) -> Object {
        assert_ne!(job.head.job_type, "panic", "asked to panic");
        Object { bytes: format!("{:?}", job.state).into_bytes(), digest: [0; 32] }
    }
}

pub(crate) struct World {
    pub(crate) store: Arc<TestStore>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) engine: Engine,
}

impl World {
    pub(crate) fn new() -> World {
        World::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> World {
        World::on(TestStore::new(), options)
    }

    pub(crate) fn on(store: TestStore, options: Options) -> World {
        World::start(Arc::new(store), Arc::new(TestClock::new()), options)
    }

    /// A world for more than one engine.
    pub(crate) fn shared() -> World {
        World::on(TestStore::shared(), Options::default())
    }

    fn start(store: Arc<TestStore>, clock: Arc<TestClock>, options: Options) -> World {
        let engine = Engine::start(store.clone(), clock.clone(), Arc::new(PlainRender), options);
        World { store, clock, engine }
    }

    /// Another engine on the same store and clock: a second node.
    pub(crate) fn node(&self) -> World {
        World::start(self.store.clone(), self.clock.clone(), Options::default())
    }

    /// Kills the engine without a word, and after a while starts another on what it left.
    pub(crate) async fn crash(self, down_for: Duration) -> World {
        drop(self.engine);
        self.clock.sleep(down_for).await;
        World::start(self.store, self.clock, Options::default())
    }

    /// Lets time pass. The clock stands still while anybody has something to do.
    pub(crate) async fn pass(&self, span: Duration) {
        self.clock.sleep(span).await;
    }

    /// Returns when everybody waits.
    pub(crate) async fn settle(&self) {
        self.pass(Duration::from_millis(1)).await;
    }

    /// Submits a plain job.
    pub(crate) async fn submit(&self, queue: &str) -> Job {
        self.submit_with(queue, |_| {}).await
    }

    pub(crate) async fn submit_with(&self, queue: &str, shape: impl FnOnce(&mut Head)) -> Job {
        submit(&self.engine, new_job(&self.engine, queue, shape)).await.unwrap()
    }

    /// Submits many jobs at once, all or none.
    pub(crate) async fn submit_many(&self, queue: &str, n: usize, shape: impl Fn(&mut Head)) -> Vec<Job> {
        let mut jobs = Vec::new();
        for _ in 0..n.div_ceil(limits::SUBMISSION_JOBS_MAX) {
            let n_left = (n - jobs.len()).min(limits::SUBMISSION_JOBS_MAX);
            let new = (0..n_left).map(|_| new_job(&self.engine, queue, &shape)).collect();
            let submit = Submit { jobs: new, idempotency: None, queue_max: None, refuse_paused: false };
            jobs.extend(self.engine.submit(submit).await.unwrap().0);
        }
        jobs
    }

    /// Claims what there is, without waiting.
    pub(crate) async fn claim_now(&self, queue: &str) -> Vec<Job> {
        self.engine.claim(claim(&[queue]), Duration::ZERO).await.unwrap()
    }

    /// Claims and begins the only job there is.
    pub(crate) async fn take(&self, queue: &str) -> Job {
        self.claim_now(queue).await.pop().expect("there is a job")
    }

    pub(crate) async fn job(&self, id: JobId) -> Option<Job> {
        let store: Arc<dyn Store> = self.store.clone();
        store.job(id).await.unwrap().map(|job| (*job).clone())
    }

    pub(crate) async fn state(&self, id: JobId) -> Option<State> {
        self.job(id).await.map(|job| job.state)
    }

    /// How many jobs stand on a shelf.
    pub(crate) async fn n_claimable(&self, queue: &str) -> usize {
        let store: Arc<dyn Store> = self.store.clone();
        let shelf = Shelf { lane: Lane::External, name: Owner::client(client()).scoped(queue) };
        store.shelf(shelf, None, usize::MAX).await.unwrap().len()
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn client() -> ClientId {
    ClientId::from_u128(1)
}

pub(crate) fn new_job(engine: &Engine, queue: &str, shape: impl FnOnce(&mut Head)) -> NewJob {
    let mut head = Head::new(client(), name(queue), engine.now());
    shape(&mut head);
    NewJob { id: engine.job_id(), id_given: false, head: Arc::new(head), input: Arc::default() }
}

pub(crate) fn submission(new: NewJob) -> Command {
    Command::Submit(Submit { jobs: vec![new], idempotency: None, queue_max: None, refuse_paused: false })
}

pub(crate) async fn submit(engine: &Engine, new: NewJob) -> Result<Job, Error> {
    let submit = Submit { jobs: vec![new], idempotency: None, queue_max: None, refuse_paused: false };
    Ok(engine.submit(submit).await?.0.remove(0))
}

/// The operator pauses or resumes a queue.
pub(crate) fn pause(queue: &str, paused: bool) -> Command {
    let change = QueueChange { paused: Some(paused), ..QueueChange::default() };
    Command::Queue(QueueCommand { queue: QueueId::shared(name(queue)), change })
}

/// Makes a job work for the built-in worker.
pub(crate) fn simulated(head: &mut Head) {
    head.definition = Some(Definition::of(WorkKind::SuccessFast, 120_000));
}

/// Makes a job that is announced, and not handed out by the batch that brings it: a limit is looked
/// at only once its job is stored.
pub(crate) fn announced(head: &mut Head) {
    head.limits = vec![Limit { key: name("roomy"), concurrency: Some(1000), rate: None }];
}

/// A worker that takes one job at a time and begins at once.
pub(crate) fn claim(queues: &[&str]) -> Claim {
    Claim {
        worker: name("worker"),
        worker_kind: WorkerKind::External(Owner::client(client())),
        queues: queues.iter().map(|queue| name(queue)).collect(),
        limit: 1,
        lease: None,
        lease_default: limits::LEASE,
        start: true,
        active_max: None,
    }
}

pub(crate) fn held(job: &Job) -> HeldJob {
    HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None }
}

pub(crate) fn succeed(job: &Job) -> Command {
    Command::Succeed(Succeed { held: held(job), output: None })
}

/// Runs `n` of them at the same time; the results in order.
pub(crate) async fn at_once<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    n: usize,
    one: impl Fn(usize) -> F,
) -> Vec<T> {
    let mut tasks = JoinSet::new();
    let results: Arc<Mutex<Vec<Option<T>>>> = Arc::new(Mutex::new((0..n).map(|_| None).collect()));
    for index in 0..n {
        let (work, results) = (one(index), results.clone());
        tasks.spawn(async move {
            let result = work.await;
            results.lock().unwrap()[index] = Some(result);
        });
    }
    tasks.join_all().await;
    let mut results = results.lock().unwrap();
    results.iter_mut().map(|result| result.take().expect("every task has ended")).collect()
}

/// Polls a future once: whether it is ready.
pub(crate) async fn is_ready<F: Future + Unpin>(future: &mut F) -> bool {
    tokio::time::timeout(Duration::ZERO, future).await.is_ok()
}
