//! Events to a broker: while they happen, and many that wait; and submissions while the broker is dead.
//!
//! The broker is yours: start it first. It shares the machine with server and load generator, so the rates are a lower bound.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http::{median, plain};
use crate::load::{LoadPlan, Request, ask, drive};
use crate::processes::ServerProcess;

/// What to measure.
#[derive(Clone, Debug)]
pub(crate) struct SinkBenchOptions {
    /// Brokers: the section of the configuration, its key, and where the broker is.
    pub(crate) brokers: Vec<(&'static str, &'static str, String)>,
    /// Events that are sent while they happen.
    pub(crate) n_events: u64,
    /// Events that wait when the broker comes back.
    pub(crate) n_behind: u64,
    /// How long one round of submissions takes.
    pub(crate) span: Duration,
    /// Rounds of submissions; the median counts.
    pub(crate) n_rounds: usize,
    /// Where the data go; an empty folder, removed by the caller.
    pub(crate) data: PathBuf,
}

/// What is told of a job that nobody runs: that it was created, and that it waits.
const EVENTS_PER_JOB: u64 = 2;

/// How long the last event may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Measures, and prints.
pub(crate) async fn run(options: &SinkBenchOptions) -> io::Result<()> {
    for (section, key, url) in &options.brokers {
        let broker = |url: &str| (format!("FORGERUN_{section}__{key}"), url.to_owned());
        let dead = broker(&dead(section));
        let alive = broker(url);
        let name = section.to_lowercase();
        while_they_happen(options, &name, &alive).await?;
        behind(options, &name, &alive, &dead).await?;
        dead_broker(options, &name, &dead).await?;
    }
    Ok(())
}

/// A place where nobody listens.
fn dead(section: &str) -> String {
    match section {
        "KAFKA" => "127.0.0.1:1".to_owned(),
        "NATS" => "nats://127.0.0.1:1".to_owned(),
        _ => "amqp://127.0.0.1:1".to_owned(),
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn while_they_happen(
    options: &SinkBenchOptions,
    name: &str,
    broker: &(String, String),
) -> io::Result<()> {
    let server = start(&options.data.join(format!("{name}-live")), name, Some(broker))?;
    let began = Instant::now();
    let n_events = submit(options.n_events, server.address).await?;
    let took_submitting = began.elapsed();
    wait_for_sent(server.address, name, n_events).await?;
    let took = began.elapsed();
    println!(
        "{name}: {n_events} events sent and confirmed while they happened: {:.0}/s (submitted within {:.2} s, confirmed after {:.2} s)",
        n_events as f64 / took.as_secs_f64(),
        took_submitting.as_secs_f64(),
        took.as_secs_f64(),
    );
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn behind(
    options: &SinkBenchOptions,
    name: &str,
    alive: &(String, String),
    dead: &(String, String),
) -> io::Result<()> {
    let data = options.data.join(format!("{name}-behind"));
    let server = start(&data, name, Some(dead))?;
    let n_events = submit(options.n_behind, server.address).await?;
    drop(server);
    let server = start(&data, name, Some(alive))?;
    let began = Instant::now();
    wait_for_sent(server.address, name, n_events).await?;
    let took = began.elapsed();
    println!(
        "{name}: {n_events} events behind, sent and confirmed in {:.2} s: {:.0}/s",
        took.as_secs_f64(),
        n_events as f64 / took.as_secs_f64(),
    );
    Ok(())
}

/// Rounds against two servers in turn: one whose broker is dead, and one that has none.
async fn dead_broker(options: &SinkBenchOptions, name: &str, dead: &(String, String)) -> io::Result<()> {
    let calm = start(&options.data.join(format!("{name}-calm")), name, None)?;
    let plagued = start(&options.data.join(format!("{name}-plagued")), name, Some(dead))?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..options.n_rounds {
        without.push(drive(&load(calm.address, options.span, u64::MAX)).await?);
        with.push(drive(&load(plagued.address, options.span, u64::MAX)).await?);
    }
    let (without, with) = (median(without), median(with));
    println!(
        "{name}: submissions/s at 64 connections: {:.0} without a broker, {:.0} with a dead one: {:.2}",
        without.per_second(),
        with.per_second(),
        with.per_second() / without.per_second(),
    );
    Ok(())
}

fn start(data: &Path, name: &str, broker: Option<&(String, String)>) -> io::Result<ServerProcess> {
    let data = data.to_string_lossy().into_owned();
    let events = format!("FORGERUN_{}__EVENTS", name.to_uppercase());
    let mut environment = vec![
        ("FORGERUN_AUTH__MODE", "open"),
        ("FORGERUN_LIMITS__RATE_PER_MINUTE", "0"),
        ("FORGERUN_LIMITS__QUEUE_SIZE", "1000000000"),
        ("FORGERUN_WORKERS__COUNT", "0"),
        ("FORGERUN_LOG__LEVEL", "error"),
        (&events, "all"),
    ];
    environment.extend(broker.map(|(name, value)| (name.as_str(), value.as_str())));
    ServerProcess::start(&["serve", "--listen", "127.0.0.1:0", "--data", &data], &environment)
}

/// Submits jobs that make so many events, and says how many they made.
async fn submit(n_events: u64, address: SocketAddr) -> io::Result<u64> {
    let n_jobs = n_events / EVENTS_PER_JOB;
    Ok(drive(&load(address, PATIENCE, n_jobs)).await?.n_good * EVENTS_PER_JOB)
}

fn load(address: SocketAddr, span: Duration, n_requests_max: u64) -> LoadPlan {
    let body = json!({"type": "EXECUTE", "work_kind": "PAYLOAD_SMALL", "payload": {"report": "monthly"}})
        .to_string();
    let request = plain("POST", "/v1/jobs", &body)
        .replacen("\r\n", "\r\nContent-Type: application/json\r\n", 1)
        .replacen("Connection: close\r\n", "", 1);
    let request: Request = Arc::new(move |_, _| request.clone().into_bytes());
    LoadPlan {
        address,
        n_connections: 64,
        span,
        n_requests_max: n_requests_max.min(50_000_000),
        status: 202,
        request,
    }
}

/// Waits until the broker has confirmed so many events.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn wait_for_sent(address: SocketAddr, name: &str, n_events: u64) -> io::Result<()> {
    let began = Instant::now();
    let line = format!("sink_sent_total{{sink=\"{name}\"}} ");
    while began.elapsed() < PATIENCE {
        let (_, metrics) = ask(address, &plain("GET", "/metrics", "")).await?;
        let sent = metrics.lines().find_map(|found| found.strip_prefix(&line)?.parse::<f64>().ok());
        if sent.is_some_and(|sent| sent as u64 >= n_events) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(io::Error::other(format!("{name} did not confirm {n_events} events in time; is the broker there?")))
}
