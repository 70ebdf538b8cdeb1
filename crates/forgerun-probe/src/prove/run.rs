//! A run, from the first node to the verdict.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::task::{JoinHandle, LocalSet, spawn_local};

use super::ending::read_end;
use super::history::{Event, History, VERSION};
use super::judge::{Verdict, judge};
use super::load::client;
use super::nodes::{Fault, Node};
use super::receiver;
use super::workers::{LEASE, work};
use super::world::{Ask, World};
use crate::Running;
use crate::clock::{now, sleep};

const N_CLIENTS: u64 = 4;
const N_WORKERS: usize = 4;
const N_CONNECTIONS: usize = 32;

/// Schedules with a tick each second.
const SCHEDULES: [&str; 2] = ["prove-a", "prove-b"];

/// How long everything may take to end once there are no faults any more.
const DRAIN: Duration = Duration::from_secs(120);

/// Where and how to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's program.
    pub program: PathBuf,
    /// A store that is empty.
    pub database_url: String,
    /// Its name in the report.
    pub store: String,
    pub n_nodes: usize,
    pub duration: Duration,
    /// Determines clients, workers and faults.
    pub seed: u64,
    /// The file for the history.
    pub history: PathBuf,
}

/// A second of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub at_s: u64,
    pub acknowledged: u64,
    pub claimed: u64,
    pub delivered: u64,
    pub faults: u64,
    /// Clients and faults have ended.
    pub is_over: bool,
}

/// A run that came to its end.
#[derive(Clone, Debug)]
pub struct Summary {
    pub options: Options,
    pub verdict: Verdict,
    pub seconds: Vec<Progress>,
    /// Faults, for the time line.
    pub faults: Vec<Event>,
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    #[error("could not write the history {}: {error}", path.display())]
    History { path: PathBuf, error: io::Error },
    #[error("could not start a node: {0}")]
    Node(#[source] io::Error),
    #[error("could not prepare the run: {0}")]
    Prepare(String),
}

/// Runs to the verdict. `watch` is called every second.
///
/// # Errors
/// If the history cannot be written, or the nodes cannot be started.
pub fn run(
    options: &Options,
    watch: impl FnMut(&Progress) + 'static,
) -> Running<'_, Result<Summary, ProveError>> {
    Box::pin(async move { LocalSet::new().run_until(play(options, Box::new(watch))).await })
}

async fn play(options: &Options, watch: Box<dyn FnMut(&Progress)>) -> Result<Summary, ProveError> {
    let history = written(&options.history, History::create(&options.history))?;
    let mut nodes = Vec::new();
    for _ in 0..options.n_nodes {
        let node = Node::start(options.program.clone(), options.database_url.clone(), N_CONNECTIONS);
        nodes.push(node.await.map_err(ProveError::Node)?);
    }
    let world = Rc::new(World::new(history, nodes));
    let Options { seed, store, n_nodes, .. } = options;
    let lease_ms = LEASE.as_millis() as u64;
    let first = Event::Run { version: VERSION, seed: *seed, store: store.clone(), nodes: *n_nodes, lease_ms };
    world.history.add(first);
    let (url, arrivals) = receiver::listen(world.clone()).await.map_err(ProveError::Node)?;
    prepare(&world, &url).await?;

    let ticker = spawn_local(tick(world.clone(), now(), watch));
    let workers: Vec<JoinHandle<()>> =
        (0..N_WORKERS).map(|worker| spawn_local(work(world.clone(), worker, *seed))).collect();
    let clients: Vec<_> = (0..N_CLIENTS).map(|n| spawn_local(client(world.clone(), n, *seed))).collect();
    let broken = trouble(&world, options.duration, *seed).await;
    world.is_over.set(true);
    for client in clients {
        let _ = client.await;
    }
    for schedule in SCHEDULES {
        let path = format!("/v1/schedules/{schedule}/pause");
        world.ask_until_answered(&Ask::post(&path, &json!({}))).await;
    }
    world.history.add(Event::End { at_ms: world.history.ms() });
    read_end(&world, &arrivals, now() + DRAIN).await;
    for task in workers {
        let _ = task.await;
    }
    let seconds = ticker.await.unwrap_or_default();
    let findings = world.nodes[0].check().await.map_err(ProveError::Node)?;
    world.history.add(Event::Check { findings });
    for node in &world.nodes {
        node.stop().await.map_err(ProveError::Node)?;
    }
    broken.map_err(ProveError::Node)?;
    let events = written(&options.history, world.history.finish())?;
    let verdict = judge(&events);
    let faults = events.into_iter().filter(|event| matches!(event, Event::Fault { .. })).collect();
    Ok(Summary { options: options.clone(), verdict, seconds, faults })
}

fn written<T>(path: &Path, done: io::Result<T>) -> Result<T, ProveError> {
    done.map_err(|error| ProveError::History { path: path.to_owned(), error })
}

/// A client with a key, a webhook for all events, and schedules.
async fn prepare(world: &World, url: &str) -> Result<(), ProveError> {
    let client = expect(world, Ask::post("/v1/clients", &json!({}))).await?;
    let path = format!("/v1/clients/{}/keys", client["client_id"].as_str().unwrap_or_default());
    let key = expect(world, Ask::post(&path, &json!({}))).await?;
    let bearer = format!("Bearer {}", key["api_key"].as_str().unwrap_or_default());
    let mut value = HeaderValue::try_from(bearer).map_err(|error| ProveError::Prepare(error.to_string()))?;
    value.set_sensitive(true);
    *world.key.borrow_mut() = Some(value);
    let hook = json!({"url": url, "events": ["*"], "envelope": "cloudevents-binary"});
    expect(world, Ask::post("/v1/webhooks", &hook)).await?;
    for schedule in SCHEDULES {
        let body = json!({
            "cron": "* * * * * *", "overlap_policy": "allow", "catch_up": "all",
            "job": {"type": "EXECUTE", "work_kind": "SUCCESS_FAST"},
        });
        let path = format!("/v1/schedules/{schedule}");
        expect(world, Ask { method: http::Method::PUT, ..Ask::post(&path, &body) }).await?;
    }
    Ok(())
}

async fn expect(world: &World, ask: Ask<'_>) -> Result<serde_json::Value, ProveError> {
    let path = ask.path.to_owned();
    match world.ask_until_answered(&ask).await {
        Some(told) if told.status < 300 => Ok(told.body),
        Some(told) => Err(ProveError::Prepare(format!("{path} is answered {}: {}", told.status, told.body))),
        None => Err(ProveError::Prepare(format!("{path} is not answered"))),
    }
}

/// Faults until the time is over, one at a time for each node.
async fn trouble(world: &Rc<World>, duration: Duration, seed: u64) -> io::Result<()> {
    let until = now() + duration;
    let nodes = (0..world.nodes.len()).map(|number| trouble_one(world, number, until, seed));
    futures_util::future::try_join_all(nodes).await.map(drop)
}

async fn trouble_one(world: &World, number: usize, until: Instant, seed: u64) -> io::Result<()> {
    let mut dice = StdRng::seed_from_u64(seed ^ (number as u64) << 56);
    loop {
        let calm = Duration::from_millis(dice.random_range(400..3000));
        if now() + calm >= until {
            sleep(until.saturating_duration_since(now())).await;
            return Ok(());
        }
        sleep(calm).await;
        let pause = |dice: &mut StdRng, most: u64| Duration::from_millis(dice.random_range(50..most));
        let fault = match dice.random_range(0..10) {
            0..6 => Fault::Kill(pause(&mut dice, 1000)),
            6..9 => Fault::Freeze(pause(&mut dice, 3500)),
            _ => Fault::Restart,
        };
        world.n_faults.set(world.n_faults.get() + 1);
        world.nodes[number].suffer(number, fault, &world.history).await?;
    }
}

/// Reports every second, and keeps the seconds for the plots.
async fn tick(world: Rc<World>, began: Instant, mut watch: Box<dyn FnMut(&Progress)>) -> Vec<Progress> {
    let mut seconds = Vec::new();
    while !world.is_drained.get() {
        sleep(Duration::from_secs(1)).await;
        let progress = Progress {
            at_s: (now() - began).as_secs(),
            acknowledged: world.jobs.borrow().len() as u64,
            claimed: world.n_claims.get(),
            delivered: world.n_deliveries.get(),
            faults: world.n_faults.get(),
            is_over: world.is_over.get(),
        };
        watch(&progress);
        seconds.push(progress);
    }
    seconds
}
