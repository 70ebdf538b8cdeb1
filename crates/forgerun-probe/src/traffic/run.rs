//! A run, from the first connection to the summary.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use forgerun_client::raw::Connector;
use forgerun_client::{Client, Clock, SystemClock};
use http::{HeaderValue, Uri};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use url::{Host, Url};

use super::audit::audit;
use super::call::{Call, Key};
use super::journey;
use super::own_server::{OwnServer, OwnServerOptions};
use super::plan::{Arrivals, Planner};
use super::receiver::Receiver;
use super::rotation::new_client;
use super::scenario::{Phase, Scenario};
use super::summary::Summary;
use super::tally::{PhaseCounts, Tick};
use super::workers;
use super::world::{ApiClient, World};
use crate::Running;
use crate::clock::{cpu_s, now, sleep, sleep_until};
use crate::limits::{CONCURRENCY_MAX, RAW_MAX, STREAMS_MAX};
use crate::pool::Pool;

pub struct Options {
    pub scenario: Scenario,
    /// Determines all random choices.
    pub seed: u64,
    /// Base URL; ignored if `own` is set.
    pub url: String,
    /// A key for all requests, instead of new clients.
    pub key: Option<String>,
    /// The operator's token, if creating clients needs it.
    pub admin_token: Option<String>,
    /// Whether a server on another machine is intended.
    pub remote: bool,
    /// Start a server.
    pub own: Option<OwnServerOptions>,
    /// How often to kill that server.
    pub n_kills: u32,
    pub n_connections: usize,
    /// How long to wait for open jobs after the last phase.
    pub drain: Duration,
    /// What makes connections, with the certificates to trust.
    pub connector: Connector,
}

/// Why a run is impossible.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    #[error("{0}")]
    Usage(String),
    /// Clients cannot be created, or the key is refused.
    #[error("{0}")]
    NotAuthorised(String),
    #[error("could not reach {0}")]
    Unreachable(String),
    /// The started server does not run.
    #[error("could not start a server: {0}")]
    OwnServer(#[from] io::Error),
}

/// Plays a scenario. `watch` is called every second.
///
/// # Errors
/// If the server cannot be reached or refuses the credentials.
pub fn run(
    options: &Options,
    watch: impl FnMut(&Tick) + 'static,
) -> Running<'_, Result<Summary, TrafficError>> {
    Box::pin(checked(options, Box::new(watch)))
}

async fn checked(options: &Options, watch: Box<dyn FnMut(&Tick)>) -> Result<Summary, TrafficError> {
    options.scenario.check().map_err(|wrong| TrafficError::Usage(wrong.to_string()))?;
    LocalSet::new().run_until(play(options, watch)).await
}

type Watch = Rc<RefCell<Box<dyn FnMut(&Tick)>>>;

async fn play(options: &Options, watch: Box<dyn FnMut(&Tick)>) -> Result<Summary, TrafficError> {
    let mut own = match &options.own {
        Some(own) => Some(OwnServer::start(own, &options.scenario.server).await?),
        None => None,
    };
    let url = own.as_ref().map_or(options.url.clone(), |own| format!("http://{}", own.address));
    let world = Rc::new(prepare(options, &url).await?);
    let started_at = SystemClock.now();
    let began = now();
    world.deadline.set(began + options.scenario.duration() + options.drain);
    let phase_name = Rc::new(RefCell::new(String::new()));
    let watch: Watch = Rc::new(RefCell::new(watch));
    let ticker = spawn_local(tick(world.clone(), began, phase_name.clone(), watch));
    let workers = start_workers(&world, options);
    let process = own.as_ref().and_then(OwnServer::process);
    let killer = spawn_local(kill(
        world.clone(),
        own.take(),
        options.n_kills,
        options.seed,
        options.scenario.duration(),
    ));
    let mut n = 0;
    for (index, phase) in options.scenario.phase.iter().enumerate() {
        phase.name.clone_into(&mut phase_name.borrow_mut());
        play_phase(&world, options, index, phase, &mut n).await;
    }
    "drain".clone_into(&mut phase_name.borrow_mut());
    drain(&world).await;
    let (n_killed, own) = killer.await.map_err(io::Error::other)??;
    audit(&world).await;
    world.fleet.settle(&world);
    is_alive(&world).await;
    ticker.abort();
    workers.into_iter().for_each(|worker| worker.abort());
    let process = own.as_ref().and_then(OwnServer::process).or(process);
    let summary = summarise(&world, options, url, started_at, began, n_killed, process);
    drop(own);
    Ok(summary)
}

fn summarise(
    world: &World,
    options: &Options,
    target: String,
    started_at: SystemTime,
    began: Instant,
    n_kills: u32,
    process: Option<u32>,
) -> Summary {
    let tally = world.tally.take();
    let violations = world.violations.take();
    let n_webhooks = world.receiver.as_ref().map_or(0, |receiver| receiver.n_deliveries());
    let about = super::summary::About {
        scenario: options.scenario.name.clone(),
        target,
        seed: options.seed,
        started_at,
        duration: now() - began,
        n_kills,
        n_webhooks,
        own_cpu_s: cpu_s(),
        server_cpu_s: process.and_then(server_cpu_s),
    };
    Summary::new(about, tally, violations, &options.scenario.expect)
}

/// Processor time of another process, from `/proc`; `None` if the system has none.
fn server_cpu_s(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let rest = stat.rsplit_once(')')?.1;
    let mut fields = rest.split_whitespace().skip(11);
    let ticks: f64 = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    // Linux counts in hundredths of a second here, on every machine.
    Some(ticks / 100.0)
}

async fn prepare(options: &Options, url: &str) -> Result<World, TrafficError> {
    let wrong = |reason: String| TrafficError::Usage(format!("{url:?} is no address of a server: {reason}"));
    let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
    if !is_loopback(&parsed) && !options.remote {
        let host = parsed.host_str().unwrap_or_default();
        return Err(TrafficError::Usage(format!(
            "{host} is not this machine, and traffic is load that its owner should know of; say --yes-remote if you mean it"
        )));
    }
    let uri: Uri =
        parsed.as_str().parse().map_err(|error: http::uri::InvalidUri| wrong(error.to_string()))?;
    let receiver = match is_loopback(&parsed) {
        true => Some(Receiver::start().await?),
        false => None,
    };
    let mut world = World {
        base: url.to_owned(),
        run: format!("{:012x}", SystemClock.random() as u64 & 0xffff_ffff_ffff),
        pool: Pool::new(options.connector.clone(), uri, options.n_connections.max(1)),
        clients: Vec::new(),
        registrar: options.admin_token.as_deref().map(bearer).transpose()?.flatten(),
        receiver,
        fleet: workers::Fleet::default(),
        streams: Semaphore::new(STREAMS_MAX),
        raw: Semaphore::new(RAW_MAX),
        tally: RefCell::default(),
        violations: RefCell::default(),
        acknowledged: RefCell::default(),
        is_down: Cell::new(false),
        is_killed_at_times: options.n_kills > 0,
        deadline: Cell::new(now() + options.scenario.duration() + options.drain),
        journey_ended: Notify::new(),
    };
    let health = Call::get("/health".to_owned(), &None);
    if world.send(&health, now()).await.is_err() {
        return Err(TrafficError::Unreachable(url.to_owned()));
    }
    world.clients = clients(&world, options).await?;
    // The preparation is not part of the run.
    world.tally.take();
    world.violations.take();
    Ok(world)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn bearer(key: &str) -> Result<Key, TrafficError> {
    let wrong = |_| TrafficError::Usage("the key has characters that no header can hold".to_owned());
    let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(wrong)?;
    value.set_sensitive(true);
    Ok(Some(Rc::new(value)))
}

async fn clients(world: &World, options: &Options) -> Result<Vec<ApiClient>, TrafficError> {
    let streaming = |key: &Key| {
        let builder = Client::builder(&world.base).streams(STREAMS_MAX).over(options.connector.clone());
        let text = key.as_ref().and_then(|key| key.to_str().ok()).and_then(|key| key.strip_prefix("Bearer "));
        let client = match text {
            Some(key) => builder.key(key).build(),
            None => builder.build(),
        };
        client.map_err(|error| TrafficError::Usage(error.to_string()))
    };
    if let Some(key) = &options.key {
        let key = bearer(key)?;
        let call = Call::get("/v1/jobs?limit=1".to_owned(), &key);
        if let Ok(answer) = world.send(&call, now()).await
            && matches!(answer.status, 401 | 403)
        {
            return Err(TrafficError::NotAuthorised("the server does not accept the key".to_owned()));
        }
        return Ok(vec![ApiClient { streaming: streaming(&key)?, key }]);
    }
    let mut clients = Vec::new();
    for _ in 0..options.scenario.clients {
        let Some((_, key)) = new_client(world).await else {
            let how = "clients cannot be made there without the operator's token; give --admin-token, or --key to use one client for all";
            return Err(TrafficError::NotAuthorised(how.to_owned()));
        };
        clients.push(ApiClient { streaming: streaming(&key)?, key });
    }
    Ok(clients)
}

fn start_workers(world: &Rc<World>, options: &Options) -> Vec<JoinHandle<()>> {
    let needs = options.scenario.phase.iter().any(|phase| phase.behaviour.work + phase.behaviour.flow > 0.0);
    // Every client's queue has a worker.
    let n = if needs { options.scenario.workers.max(world.clients.len()) } else { 0 };
    (0..n).map(|number| spawn_local(workers::work(world.clone(), number, options.seed))).collect()
}

/// Begins the journeys of a phase, each at its moment.
async fn play_phase(world: &Rc<World>, options: &Options, index: usize, phase: &Phase, n: &mut u64) {
    let planner = Planner::new(phase, options.seed, world.clients.len());
    let (began, n_before) = (now(), *n);
    let requests_before = world.tally.borrow().requests;
    let end = began + phase.duration;
    match (phase.rate, phase.concurrency) {
        (Some(rate), _) => {
            for after in Arrivals::new(options.seed, index, rate).take_while(|after| *after < phase.duration)
            {
                let intended = began + after;
                if intended > now() {
                    sleep_until(intended).await;
                }
                begin(world, planner.plan(*n), intended);
                *n += 1;
            }
            sleep_until(end).await;
        }
        (None, at_once) => {
            let at_once = at_once.unwrap_or(1) as u64;
            while now() < end {
                while world.tally.borrow().in_flight < at_once {
                    begin(world, planner.plan(*n), now());
                    *n += 1;
                }
                let _ = tokio::time::timeout(
                    end.saturating_duration_since(now()),
                    world.journey_ended.notified(),
                )
                .await;
            }
        }
    }
    let mut tally = world.tally.borrow_mut();
    let requests = tally.requests - requests_before;
    tally.phases.push(PhaseCounts {
        name: phase.name.clone(),
        duration: now() - began,
        journeys: *n - n_before,
        requests,
    });
}

fn begin(world: &Rc<World>, plan: super::plan::Plan, intended: Instant) {
    if world.tally.borrow().in_flight >= CONCURRENCY_MAX as u64 {
        // So many wait already that more would only use up memory.
        return world.tally.borrow_mut().error();
    }
    world.tally.borrow_mut().in_flight += 1;
    let world = world.clone();
    spawn_local(async move {
        journey::play(world.clone(), plan, intended).await;
        world.tally.borrow_mut().in_flight -= 1;
        world.journey_ended.notify_one();
    });
}

/// Waits for all journeys to end.
async fn drain(world: &World) {
    while world.tally.borrow().in_flight > 0 && !world.is_over() {
        let left = world.deadline.get().saturating_duration_since(now());
        let _ = tokio::time::timeout(left.min(Duration::from_secs(1)), world.journey_ended.notified()).await;
    }
    // The audit gets a moment too, even if the journeys used up the time.
    world.deadline.set(world.deadline.get().max(now() + Duration::from_secs(10)));
}

async fn is_alive(world: &World) {
    let call = Call::get("/health".to_owned(), &None);
    match world.send_patiently(&call, now()).await {
        Some(answer) if answer.status == 200 => {}
        answer => world.violate("FR-ERR-06", "the server is not healthy in the end", &call, answer.as_ref()),
    }
}

async fn tick(world: Rc<World>, began: Instant, phase: Rc<RefCell<String>>, watch: Watch) {
    for second in 1.. {
        sleep_until(began + Duration::from_secs(second)).await;
        let violations = world.violations.borrow().n();
        let tick = world.tally.borrow_mut().tick(second, &phase.borrow(), violations);
        (watch.borrow_mut())(&tick);
    }
}

/// Kills and restarts the server, spread over the run. Returns how often, and the server.
async fn kill(
    world: Rc<World>,
    own: Option<OwnServer>,
    n_kills: u32,
    seed: u64,
    duration: Duration,
) -> io::Result<(u32, Option<OwnServer>)> {
    let Some(mut own) = own else {
        return Ok((0, None));
    };
    let began = now();
    for n in 0..n_kills {
        // Slightly irregular, by the seed.
        let off = (seed.wrapping_mul(31).wrapping_add(u64::from(n) * 17) % 100) as f64 / 200.0;
        let at = duration.mul_f64((f64::from(n) + 0.5 + off) / (f64::from(n_kills) + 0.5));
        sleep_until(began + at).await;
        world.is_down.set(true);
        own.kill().await?;
        own.restart().await?;
        // Requests under way at its death fail within this time.
        sleep(Duration::from_millis(50)).await;
        world.is_down.set(false);
    }
    Ok((n_kills, Some(own)))
}
