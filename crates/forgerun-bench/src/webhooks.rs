//! Deliveries to one fast receiver, and submissions while a thousand receivers hang.
//!
//! Server and receivers share the machine with the load generator, so the rates are a lower bound; the ratio is what counts.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::http::{first_key, median, member, plain};
use crate::load::{LoadPlan, LoadResult, Request, ask, drive};
use crate::processes::ServerProcess;

/// What to measure.
#[derive(Clone, Debug)]
pub(crate) struct WebhookOptions {
    /// How long one round takes.
    pub(crate) span: Duration,
    /// Rounds of each kind; the median counts.
    pub(crate) n_rounds: usize,
    /// Where the data go; an empty folder, removed by the caller.
    pub(crate) data: PathBuf,
    /// Deliveries to the fast receiver.
    pub(crate) n_deliveries: u64,
    /// Receivers that hang.
    pub(crate) n_hanging: usize,
}

/// What is told of a job that nobody runs: that it was created, and that it waits.
const EVENTS_PER_JOB: u64 = 2;

/// Measures, and prints.
pub(crate) async fn run(options: &WebhookOptions) -> io::Result<()> {
    fast_receiver(options).await?;
    hanging_receivers(options).await
}

/// Jobs that all report to one receiver, as many as can be submitted; from the first submission to the last delivery.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn fast_receiver(options: &WebhookOptions) -> io::Result<()> {
    let server = start(&options.data.join("fast"))?;
    let key = first_key(server.address).await?;
    let n_arrived = Arc::new(AtomicU64::new(0));
    let receiver = receive(n_arrived.clone()).await?;
    let began = Instant::now();
    let load = LoadPlan {
        n_requests_max: options.n_deliveries / EVENTS_PER_JOB,
        span: Duration::from_secs(120),
        ..load(options, server.address, &key, &body(Some(&format!("http://{receiver}/hook"))))
    };
    let submitted = drive(&load).await?;
    let took_submitting = began.elapsed();
    let n_expected = submitted.n_good * EVENTS_PER_JOB;
    while n_arrived.load(Ordering::Relaxed) < n_expected && began.elapsed() < Duration::from_secs(300) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = began.elapsed();
    let n_arrived = n_arrived.load(Ordering::Relaxed);
    println!(
        "{n_arrived} of {n_expected} deliveries to one receiver: {:.0}/s; {} jobs submitted in {:.2} s, all delivered after {:.2} s",
        n_arrived as f64 / took.as_secs_f64(),
        submitted.n_good,
        took_submitting.as_secs_f64(),
        took.as_secs_f64(),
    );
    Ok(())
}

/// Rounds against two servers in turn: one whose receivers all hang, and one that has none.
async fn hanging_receivers(options: &WebhookOptions) -> io::Result<()> {
    let calm = start(&options.data.join("calm"))?;
    let plagued = start(&options.data.join("plagued"))?;
    let n_held = Arc::new(AtomicU64::new(0));
    let receiver = hang(n_held.clone()).await?;
    let (calm_key, plagued_key) = (first_key(calm.address).await?, first_key(plagued.address).await?);
    for n in 0..options.n_hanging {
        // Each URL is an endpoint of its own.
        submit(plagued.address, &plagued_key, &body(Some(&format!("http://{receiver}/{n}")))).await?;
    }
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..options.n_rounds {
        without.push(drive(&load(options, calm.address, &calm_key, &body(None))).await?);
        with.push(drive(&load(options, plagued.address, &plagued_key, &body(None))).await?);
    }
    let (without, with): (LoadResult, LoadResult) = (median(without), median(with));
    println!(
        "submissions/s at 64 connections: {:.0} without, {:.0} while {} receivers hang: {:.2} (p99 {:.2} ms and {:.2} ms; {} connections held at the end)",
        without.per_second(),
        with.per_second(),
        options.n_hanging,
        with.per_second() / without.per_second(),
        without.quantile(0.99).as_secs_f64() * 1e3,
        with.quantile(0.99).as_secs_f64() * 1e3,
        n_held.load(Ordering::Relaxed),
    );
    Ok(())
}

fn start(data: &Path) -> io::Result<ServerProcess> {
    let data = data.to_string_lossy().into_owned();
    let environment = [
        ("FORGERUN_LIMITS__RATE_PER_MINUTE", "1000000000"),
        ("FORGERUN_LIMITS__QUEUE_SIZE", "1000000000"),
        ("FORGERUN_WORKERS__COUNT", "0"),
        ("FORGERUN_WEBHOOKS__MAX_RETRIES", "20"),
        ("FORGERUN_LOG__LEVEL", "error"),
    ];
    ServerProcess::start(&["serve", "--listen", "127.0.0.1:0", "--data", &data], &environment)
}

fn authorised(method: &str, path: &str, key: &str, body: &str) -> String {
    let headers = format!("\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n");
    plain(method, path, body).replacen("\r\n", &headers, 1)
}

fn body(callback: Option<&str>) -> String {
    json!({"type": "EXECUTE", "work_kind": "PAYLOAD_SMALL", "payload": {"report": "monthly"}, "callback": callback})
        .to_string()
}

async fn submit(server: SocketAddr, key: &str, body: &str) -> io::Result<String> {
    let (_, job) = ask(server, &authorised("POST", "/v1/jobs", key, body)).await?;
    member(&job, "job_id")
}

fn load(options: &WebhookOptions, address: SocketAddr, key: &str, body: &str) -> LoadPlan {
    let request = authorised("POST", "/v1/jobs", key, body).replacen("Connection: close\r\n", "", 1);
    let request: Request = Arc::new(move |_, _| request.clone().into_bytes());
    LoadPlan {
        address,
        n_connections: 64,
        span: options.span,
        n_requests_max: 50_000_000,
        status: 202,
        request,
    }
}

/// A receiver that takes everything, as fast as it can.
pub(crate) async fn receive(n_arrived: Arc<AtomicU64>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(take(connection, n_arrived.clone()));
        }
    });
    Ok(address)
}

async fn take(mut connection: TcpStream, n_arrived: Arc<AtomicU64>) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let Some(length) = request_length(&bytes) else {
            if connection.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
            continue;
        };
        while bytes.len() < length {
            if connection.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        }
        bytes.drain(..length);
        connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
        n_arrived.fetch_add(1, Ordering::Relaxed);
    }
}

/// The bytes of the first request with its body, once its head is there.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = std::str::from_utf8(&bytes[..head]).ok()?;
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    Some(head + 4 + length.parse::<usize>().ok()?)
}

/// A receiver that takes connections and never says a word.
async fn hang(n_held: Arc<AtomicU64>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            n_held.fetch_add(1, Ordering::Relaxed);
            let n_held = n_held.clone();
            tokio::spawn(async move {
                // Until the server hangs up.
                let _ = connection.read_to_end(&mut Vec::new()).await;
                n_held.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    Ok(address)
}
