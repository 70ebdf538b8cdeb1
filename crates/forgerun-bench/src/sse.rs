//! Many open streams, some events per second: how late they arrive, and what a stream costs in memory.
//!
//! The server is a process of its own, the listeners are this one. Streams are spread over clients; each submission of a
//! client is told twice (created, queued) to each of its streams. What is counted are deliveries. The delay is that between
//! the moment in the event and its arrival, by the same clock.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forgerun_engine::{Clock, SystemClock};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::http::{first_key, post};
use crate::load::{LoadResult, ask};
use crate::processes::ServerProcess;

/// What to measure.
#[derive(Clone, Debug)]
pub(crate) struct SseOptions {
    /// Streams that are open at once.
    pub(crate) n_streams: usize,
    /// Deliveries per second, over all streams.
    pub(crate) events_per_second: u64,
    /// How long events come.
    pub(crate) span: Duration,
    /// Where the data go; an empty folder, removed by the caller.
    pub(crate) data: PathBuf,
}

/// Clients that the streams are spread over: as many as one address may register in a minute, or nearly.
const CLIENTS_MAX: usize = 500;

/// Events that a submission makes.
const EVENTS_PER_JOB: u64 = 2;

/// How many streams are opened at the same time.
const OPENING: usize = 64;

/// How long the last events may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Files that a process has open beside its streams.
const OTHER_FILES: usize = 200;

#[derive(Default)]
pub(crate) struct StreamDelays {
    n_open: AtomicU64,
    delays_us: Mutex<Vec<u64>>,
}

/// Starts this program again with as many open files as the streams need, each one on either side, or as the system allows.
pub(crate) fn run_raised(n_streams: usize, arguments: &[String]) -> io::Result<()> {
    let script = "ulimit -n \"$0\" 2>/dev/null || ulimit -n \"$(ulimit -Hn)\"; exec \"$@\"";
    let n_files = (n_streams + OTHER_FILES).to_string();
    let program = std::env::current_exe()?;
    let ended = Command::new("sh").args(["-c", script, &n_files]).arg(program).args(arguments).status()?;
    if ended.success() { Ok(()) } else { Err(io::Error::other("the benchmark did not end well")) }
}

/// Measures, and prints a table.
pub(crate) async fn run(options: &SseOptions) -> io::Result<()> {
    check_files(options.n_streams)?;
    let server = start(options)?;
    let n_clients = options.n_streams.clamp(1, CLIENTS_MAX);
    let mut keys = Vec::new();
    for _ in 0..n_clients {
        keys.push(first_key(server.address).await?);
    }
    // What is built up once is no cost of a stream.
    let heard = Arc::new(StreamDelays::default());
    let mut streams = JoinSet::new();
    open(server.address, &keys, 1, &heard, &mut streams).await?;
    let before = resident_bytes(&server)?;
    open(server.address, &keys, options.n_streams.saturating_sub(1), &heard, &mut streams).await?;
    let opened = resident_bytes(&server)?;
    heard.delays().clear();
    let n_expected = drive(options, server.address, &keys, &heard).await?;
    let told = resident_bytes(&server)?;
    let per_stream =
        |bytes: u64| bytes.saturating_sub(before) as f64 / 1000.0 / options.n_streams.max(2) as f64;
    let mut delays = heard.delays().clone();
    delays.sort_unstable();
    let at = |share: f64| {
        let last = delays.len().saturating_sub(1);
        delays.get(((delays.len() as f64 * share) as usize).min(last)).map_or(0.0, |us| *us as f64 / 1e3)
    };
    println!(
        "| streams | deliveries | of | per second | p50 | p99 | most | memory per stream, opened | told |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    println!(
        "| {} | {} | {n_expected} | {:.0} | {:.1} ms | {:.1} ms | {:.1} ms | {:.1} kB | {:.1} kB |",
        heard.n_open.load(Ordering::Relaxed),
        delays.len(),
        delays.len() as f64 / options.span.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(1.0),
        per_stream(opened),
        per_stream(told),
    );
    Ok(())
}

fn start(options: &SseOptions) -> io::Result<ServerProcess> {
    let data = options.data.to_string_lossy().into_owned();
    let environment = [
        ("FORGERUN_LIMITS__RATE_PER_MINUTE", "1000000000"),
        ("FORGERUN_LIMITS__QUEUE_SIZE", "1000000000"),
        ("FORGERUN_LIMITS__MAX_STREAMS_PER_CLIENT", "1000000"),
        ("FORGERUN_WORKERS__COUNT", "0"),
        ("FORGERUN_LOG__LEVEL", "error"),
    ];
    ServerProcess::start(&["serve", "--listen", "127.0.0.1:0", "--data", &data], &environment)
}

/// Opens so many streams, spread over the clients, and waits until each has said something.
pub(crate) async fn open(
    address: SocketAddr,
    keys: &[String],
    n_streams: usize,
    heard: &Arc<StreamDelays>,
    streams: &mut JoinSet<io::Result<()>>,
) -> io::Result<()> {
    for n in 0..n_streams {
        let key = &keys[n % keys.len()];
        let mut stream = TcpStream::connect(address).await?;
        let request = format!(
            "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nAccept: text/event-stream\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        streams.spawn(listen(stream, heard.clone()));
        // Not more than so many that have not been answered.
        let n_asked = streams.len() as u64;
        while n_asked - heard.n_open.load(Ordering::Relaxed) > OPENING as u64 {
            tokio::task::yield_now().await;
        }
    }
    while heard.n_open.load(Ordering::Relaxed) < streams.len() as u64 {
        tokio::task::yield_now().await;
    }
    Ok(())
}

impl StreamDelays {
    /// What was heard in so long, as the answers of a round.
    pub(crate) fn told(&self, took: Duration) -> LoadResult {
        let mut told = LoadResult::default();
        self.delays().iter().for_each(|us| told.good(Duration::from_micros(*us)));
        told.finish(took);
        told
    }

    pub(crate) fn delays(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.delays_us.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a stream until it ends, with little memory of its own.
async fn listen(stream: TcpStream, heard: Arc<StreamDelays>) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(1024, stream);
    let mut line = String::new();
    loop {
        line.clear();
        if lines.read_line(&mut line).await? == 0 {
            return Err(io::Error::other("a stream ended"));
        }
        if line.starts_with("HTTP/1.1 ") && !line.contains(" 200 ") {
            return Err(io::Error::other(format!("no stream but {line:?}")));
        }
        if line.starts_with("retry:") {
            heard.n_open.fetch_add(1, Ordering::Relaxed);
        }
        let moment = line.split_once("\"timestamp\":\"").and_then(|(_, rest)| rest.split_once('"'));
        if let Some(told) = moment.and_then(|(moment, _)| forgerun_wire::time::parse(moment)) {
            heard.delays().push(SystemClock.now().since(told).as_micros() as u64);
        }
    }
}

/// Submits at an even pace, client after client, and waits for the last event; how many deliveries there should be.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn drive(
    options: &SseOptions,
    address: SocketAddr,
    keys: &[String],
    heard: &StreamDelays,
) -> io::Result<u64> {
    let per_client = (options.n_streams as u64).div_ceil(keys.len() as u64);
    let pause =
        Duration::from_secs_f64((per_client * EVENTS_PER_JOB) as f64 / options.events_per_second as f64);
    let (began, mut n_expected) = (Instant::now(), 0);
    for n in 0.. {
        let due = pause * n;
        if due >= options.span {
            break;
        }
        tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
        let client = n as usize % keys.len();
        let request = String::from_utf8(post("/v1/jobs", &keys[client])(0, 0)).map_err(io::Error::other)?;
        let (status, _) = ask(address, &request.replacen("\r\n", "\r\nConnection: close\r\n", 1)).await?;
        if status != 202 {
            return Err(io::Error::other(format!("a submission was answered with {status}")));
        }
        // The first stream of all was opened apart from the others.
        let of_client = (options.n_streams - 1 - client).div_ceil(keys.len()) + usize::from(client == 0);
        n_expected += of_client as u64 * EVENTS_PER_JOB;
    }
    let all_submitted = Instant::now();
    while (heard.delays().len() as u64) < n_expected && all_submitted.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(n_expected)
}

/// Without enough files the server would leave the last streams waiting, and so would we.
fn check_files(n_streams: usize) -> io::Result<()> {
    let limits = std::fs::read_to_string("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let n_files = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    match n_files {
        Some(n_files) if n_files < n_streams + OTHER_FILES => {
            let text =
                format!("{n_streams} streams are too many: a process may have {n_files} files open here");
            Err(io::Error::other(text))
        }
        _ => Ok(()),
    }
}

/// Memory of the server that is in use, as Linux counts it.
pub(crate) fn resident_bytes(server: &ServerProcess) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("the system does not tell"))
}
