//! A server in this process, its clock, and clients of it.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Claim, Fail, HeldJob, LeaseProof, Output, Succeed, WorkError, WorkerKind};
use forgerun_core::job::{Job, Lane, Name};
use forgerun_core::queue::QueueId;
use forgerun_core::time::Time;
use forgerun_engine::{Clock, SystemClock};
use forgerun_server::config::{Config, File, Sources};
use forgerun_server::connections::{self, ConnectionTerms};
use forgerun_server::http::HttpService;
use forgerun_server::{App, Bounds, pages};
use forgerun_store::Store;
use forgerun_store::memory::Memory;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::http::{Answer, Call};

/// The machine's clock, moved by hand.
#[derive(Default)]
pub(crate) struct MovableClock {
    ahead_us: AtomicI64,
    /// When it was stopped; 0 while it runs.
    stopped_at_us: AtomicI64,
}

impl MovableClock {
    pub(crate) fn advance(&self, span: Duration) {
        self.ahead_us.fetch_add(span.as_micros() as i64, Ordering::SeqCst);
    }

    /// Stands still from now on, so that a slow machine has as much time as it needs.
    pub(crate) fn stop(&self) {
        self.stop_at(SystemClock.now());
    }

    /// The same, at this moment of the machine's clock.
    pub(crate) fn stop_at(&self, moment: Time) {
        self.stopped_at_us.store(moment.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for MovableClock {
    fn now(&self) -> Time {
        let machine = match self.stopped_at_us.load(Ordering::SeqCst) {
            0 => SystemClock.now(),
            stopped_at_us => Time::from_micros(stopped_at_us),
        };
        machine + Duration::from_micros(self.ahead_us.load(Ordering::SeqCst) as u64)
    }

    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        SystemClock.sleep(span)
    }

    fn random(&self) -> u128 {
        SystemClock.random()
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) app: Arc<App>,
    pub(crate) clock: Arc<MovableClock>,
    pub(crate) address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Server {
    pub(crate) async fn start() -> Server {
        Server::with(&[]).await
    }

    /// With these keys of the configuration.
    pub(crate) async fn with(settings: &[(&str, &str)]) -> Server {
        Server::on(Arc::new(Memory::new()), settings, Bounds::default()).await
    }

    /// With a configuration file of this text.
    pub(crate) async fn declaring(text: &str) -> Server {
        let file = Some(File { path: "test.toml".into(), text: text.into() });
        let config = Config::load(&Sources { file, ..Sources::default() }).unwrap();
        Server::configured(Arc::new(Memory::new()), config, Bounds::default()).await
    }

    pub(crate) async fn on(store: Arc<dyn Store>, settings: &[(&str, &str)], bounds: Bounds) -> Server {
        let variable = |(key, value): &(&str, &str)| {
            (format!("FORGERUN_{}", key.replace('.', "__")).into(), (*value).into())
        };
        let mut environment: Vec<_> = settings.iter().map(variable).collect();
        let is_set = |name: &str| settings.iter().any(|(key, _)| *key == name);
        if is_set("server.public_base_url") && !is_set("auth.registration") {
            // A server that others reach registers nobody by itself (C-115), and most tests are
            // about something else.
            environment.push(variable(&("auth.registration", "open")));
        }
        let config = Config::load(&Sources { environment, ..Sources::default() }).unwrap();
        Server::configured(store, config, bounds).await
    }

    async fn configured(store: Arc<dyn Store>, config: Config, bounds: Bounds) -> Server {
        let clock = Arc::new(MovableClock::default());
        let app = App::start(config, store, clock.clone(), bounds).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let doors = HttpService::new(app.clone(), pages::router(&app));
        let terms = ConnectionTerms::new(&app.config.limits);
        let serving = tokio::spawn(connections::serve(listener, doors, terms, std::future::pending()));
        Server { app, clock, address, serving }
    }

    pub(crate) fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.address, method, path)
    }

    /// A client of its own, with a key.
    pub(crate) async fn client(&self) -> Client {
        let client = self.call("POST", "/v1/clients").send().await.expect(201);
        let id = client["client_id"].as_str().unwrap().to_owned();
        let key = self.call("POST", &format!("/v1/clients/{id}/keys")).send().await.expect(201);
        let text = |name: &str| key[name].as_str().unwrap().to_owned();
        Client { address: self.address, id, key: text("api_key"), key_id: text("key_id") }
    }

    /// Takes the next job, as the built-in worker would.
    pub(crate) async fn claim(&self, start: bool) -> Job {
        self.claim_as(WorkerKind::BuiltIn, "default", start).await
    }

    /// Takes the next job of a queue, as a worker outside would, of whichever client has one there.
    pub(crate) async fn claim_outside(&self, queue: &str) -> Job {
        let store = self.app.engine.store();
        let shelves = store.shelf_names(Lane::External, String::new(), 100).await.unwrap();
        let queues = shelves.iter().map(QueueId::parse);
        let found = queues.into_iter().find(|found| found.name.as_str() == queue).expect("a job is waiting");
        self.claim_as(WorkerKind::External(found.owner.expect("a queue of its owner")), queue, true).await
    }

    /// Takes the next job of a queue.
    pub(crate) async fn claim_as(&self, worker_kind: WorkerKind, queue: &str, start: bool) -> Job {
        let claim = Claim {
            worker: Name::new("tester").unwrap(),
            worker_kind,
            queues: vec![Name::new(queue).unwrap()],
            limit: 1,
            lease: None,
            lease_default: Duration::from_secs(30),
            start,
            active_max: None,
        };
        let jobs = self.app.engine.claim(claim, Duration::from_secs(10)).await.unwrap();
        jobs.into_iter().next().expect("a job is waiting")
    }

    /// Takes the next job and does it well.
    pub(crate) async fn succeed(&self) -> Job {
        let job = self.claim(true).await;
        self.succeed_held(&job).await
    }

    /// Does a job in hand well.
    pub(crate) async fn succeed_held(&self, job: &Job) -> Job {
        let output = Output::inline("application/json", br#"{"answer":42}"#);
        let succeed = Succeed { held: held(job), output: Some(Arc::new(output)) };
        self.app.engine.act(Command::Succeed(succeed)).await.unwrap().0
    }

    /// Takes the next job and fails it.
    pub(crate) async fn fail(&self, kind: Kind) -> Job {
        self.fail_saying(kind, "it went wrong").await
    }

    /// Takes the next job and fails it with these words.
    pub(crate) async fn fail_saying(&self, kind: Kind, message: &str) -> Job {
        let job = self.claim(true).await;
        let fail = Fail { held: held(&job), error: WorkError::new(kind, message) };
        self.app.engine.act(Command::Fail(fail)).await.unwrap().0
    }

    /// Fails a job in hand.
    pub(crate) async fn fail_held(&self, job: &Job, kind: Kind) -> Job {
        let fail = Fail { held: held(job), error: WorkError::new(kind, "it went wrong") };
        self.app.engine.act(Command::Fail(fail)).await.unwrap().0
    }

    /// How many jobs there are, whoever owns them, and where the journal ends: what a refusal must
    /// not change.
    pub(crate) async fn traces(&self) -> (usize, i64) {
        let store = self.app.engine.store();
        let filter = forgerun_store::Filter { limit: 10_000, ..Default::default() };
        (store.jobs(filter).await.unwrap().len(), store.journal_end().await.unwrap())
    }
}

pub(crate) fn held(job: &Job) -> HeldJob {
    HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None }
}

/// A client and its key.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) key_id: String,
}

impl Client {
    pub(crate) fn call(&self, method: &str, path: &str) -> Call {
        let bearer = format!("Bearer {}", self.key);
        Call::new(self.address, method, path).header("authorization", &bearer)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send().await
    }

    pub(crate) async fn post(&self, path: &str) -> Answer {
        self.call("POST", path).send().await
    }

    pub(crate) async fn submit(&self, body: Value) -> Answer {
        self.call("POST", "/v1/jobs").json(body).send().await
    }

    /// Submits a quick job; its id.
    pub(crate) async fn job(&self) -> String {
        self.job_like(json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST"})).await
    }

    pub(crate) async fn job_like(&self, body: Value) -> String {
        self.submit(body).await.expect(202)["job_id"].as_str().unwrap().to_owned()
    }

    /// The same client with a further key of these scopes.
    pub(crate) async fn scoped(&self, name: &str, scopes: &[&str]) -> Client {
        let request = json!({"name": name, "scopes": scopes});
        let key = self.call("POST", &self.keys_path()).json(request).send().await.expect(201);
        let text = |name: &str| key[name].as_str().unwrap().to_owned();
        Client { address: self.address, id: self.id.clone(), key: text("api_key"), key_id: text("key_id") }
    }

    pub(crate) fn keys_path(&self) -> String {
        format!("/v1/clients/{}/keys", self.id)
    }
}
