//! gRPC against HTTP, in one run and on one server: submissions, jobs that are streamed and acknowledged against jobs that are fetched, and what a stream
//! that waits costs in memory.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forgerun_engine::{Clock, SystemClock};
use forgerun_wire::grpc::{LEASE_TOKEN, LEASE_TOKEN_MEMBER, json, v1};
use prost::Message;
use prost_types::value::Kind;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::http::{HttpOptions, first_key, load, median, post, row, start_server_with};
use crate::http2::{Arrived, Http2, PreparedCall};
use crate::load::{LoadResult, drive, gathered};
use crate::ojs::{JOB, enqueue as over_http, fetched, fill, say, work_off};
use crate::processes::ServerProcess;
use crate::sse::resident_bytes;
use crate::usage::Usage;

/// Calls that are under way at once, as many as connections over HTTP.
const N_CALLERS: usize = 64;

/// Jobs that a worker may hold, and that one fetch brings.
const IN_HAND: i32 = 32;

/// Streams that wait, and connections that they share.
const N_IDLE: usize = 1000;
const N_IDLE_CONNECTIONS: usize = 8;

/// Measures, and prints a table.
pub(crate) async fn run(options: &HttpOptions) -> io::Result<()> {
    let settings =
        [("FORGERUN_GRPC__ADDR", "127.0.0.1:0"), ("FORGERUN_LIMITS__MAX_STREAMS_PER_CLIENT", "100000")];
    let server = start_server_with(options, "0", &settings)?;
    let grpc = server.grpc.ok_or_else(|| io::Error::other("the server does not serve gRPC"))?;
    let key = first_key(server.address).await?;
    idle_streams(&server, grpc, &key).await?;
    println!("\n| what | at once | HTTP /s | gRPC /s | ratio | p50 | p99 |");
    println!("|---|---|---|---|---|---|---|");
    let call = enqueue_call(&key)?;
    let http = load(options, server.address, N_CALLERS, 201, over_http(&key));
    let (mut of_http, mut of_grpc) = (Vec::new(), Vec::new());
    for _ in 0..options.n_rounds {
        of_http.push(drive(&http).await?);
        of_grpc.push(enqueue(grpc, &call, options.span).await?);
    }
    row("submit", N_CALLERS, &median(of_http), &median(of_grpc));
    bare(options, &call).await?;
    println!();
    let n_jobs = options.n_whole_jobs;
    fill(server.address, &key, "fetched", n_jobs).await?;
    let before = Usage::of(&server);
    let over_http = work_off(server.address, &key, "fetched", IN_HAND as u64, N_CALLERS).await?;
    say(&fetched(IN_HAND as u64, N_CALLERS), &over_http, before, &server);
    fill(server.address, &key, "streamed", n_jobs).await?;
    let streamed = stream_off(grpc, &key, "streamed", n_jobs).await?;
    println!(
        "jobs streamed and acknowledged, of jobs fetched and acknowledged: {:.2}",
        streamed / over_http.per_second()
    );
    Ok(())
}

/// The same calls to handlers that keep nothing: what the two protocols cost by themselves.
async fn bare(options: &HttpOptions, call: &PreparedCall) -> io::Result<()> {
    let bare = ServerProcess::start_bare(&options.data.join("bare"), None)?;
    let grpc = bare.grpc.ok_or_else(|| io::Error::other("the bare handlers do not serve gRPC"))?;
    let http = load(options, bare.address, N_CALLERS, 202, post("/bare", ""));
    let (mut of_http, mut of_grpc) = (Vec::new(), Vec::new());
    for _ in 0..options.n_rounds {
        of_http.push(drive(&http).await?);
        of_grpc.push(enqueue(grpc, call, options.span).await?);
    }
    row("bare handlers", N_CALLERS, &median(of_http), &median(of_grpc));
    Ok(())
}

fn metadata(key: &str) -> String {
    format!("Bearer {key}")
}

fn enqueue_call(key: &str) -> io::Result<PreparedCall> {
    let job: Value = serde_json::from_str(JOB).map_err(io::Error::other)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let message = v1::EnqueueRequest {
        r#type: text(&job["type"]),
        args: json::read_list(job["args"].to_string().as_bytes()),
        options: Some(v1::EnqueueOptions { queue: text(&job["options"]["queue"]), ..Default::default() }),
    };
    let bearer = metadata(key);
    let fields = [("authorization", bearer.as_str())];
    Ok(PreparedCall::new("/ojs.v1.OJSService/Enqueue", &fields, &message.encode_to_vec()))
}

/// Callers that submit one job after the other, each on a connection of its own.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn enqueue(address: SocketAddr, call: &PreparedCall, span: Duration) -> io::Result<LoadResult> {
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..N_CALLERS {
        let call = call.clone();
        callers.spawn(async move {
            let mut connection = Http2::open(address).await?;
            let (mut round, mut aside) = (LoadResult::default(), VecDeque::new());
            while began.elapsed() < span {
                let sent = Instant::now();
                match connection.call(&call, &mut aside).await? {
                    Some(_) => round.good(sent.elapsed()),
                    None => round.n_bad += 1,
                }
            }
            Ok::<_, io::Error>(round)
        });
    }
    gathered(callers, began).await
}

/// Workers that acknowledge jobs one by one as they are streamed to them, until all are done: jobs per second.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn stream_off(address: SocketAddr, key: &str, queue: &str, n_jobs: u64) -> io::Result<f64> {
    let began = Instant::now();
    let n_done = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for n in 0..N_CALLERS {
        let (key, stream, done) = (key.to_owned(), stream_call(key, queue, n, IN_HAND), n_done.clone());
        workers.spawn(async move {
            let mut connection = Http2::open(address).await?;
            connection.send(&stream).await?;
            let mut waiting: VecDeque<Vec<u8>> = VecDeque::new();
            loop {
                let job = match waiting.pop_front() {
                    Some(job) => job,
                    None => match connection.arrived().await? {
                        Arrived::Message(_, job) => job,
                        Arrived::End(_) => return Err(io::Error::other("the stream ended")),
                    },
                };
                let job = v1::Job::decode(job.as_slice()).map_err(io::Error::other)?;
                let acked = connection.call(&ack_call(&key, &job), &mut waiting).await?;
                acked.ok_or_else(|| io::Error::other("an ack was refused"))?;
                if done.fetch_add(1, Ordering::Relaxed) + 1 == n_jobs {
                    return Ok::<(), io::Error>(());
                }
            }
        });
    }
    // The one that does the last job ends first; the others wait for more.
    if let Some(ended) = workers.join_next().await {
        ended.map_err(io::Error::other)??;
    }
    let per_second = n_jobs as f64 / began.elapsed().as_secs_f64();
    println!(
        "{n_jobs} jobs, streamed {IN_HAND} at a time and acknowledged one by one by {N_CALLERS} workers: {per_second:.0}/s"
    );
    Ok(per_second)
}

fn stream_call(key: &str, queue: &str, n: usize, max_concurrent: i32) -> PreparedCall {
    let message = v1::StreamJobsRequest {
        queues: vec![queue.to_owned()],
        worker_id: format!("bench-{n}"),
        max_concurrent,
        ..Default::default()
    };
    let bearer = metadata(key);
    let fields = [("authorization", bearer.as_str())];
    PreparedCall::new("/ojs.v1.OJSService/StreamJobs", &fields, &message.encode_to_vec())
}

fn ack_call(key: &str, job: &v1::Job) -> PreparedCall {
    let token = job.meta.as_ref().and_then(|meta| meta.fields.get(LEASE_TOKEN_MEMBER));
    let token = match token.and_then(|token| token.kind.as_ref()) {
        Some(Kind::StringValue(token)) => token.as_str(),
        _ => "",
    };
    let bearer = metadata(key);
    let fields = [("authorization", bearer.as_str()), (LEASE_TOKEN, token)];
    let message = v1::AckRequest { job_id: job.id.clone(), result: None };
    PreparedCall::new("/ojs.v1.OJSService/Ack", &fields, &message.encode_to_vec())
}

/// Opens streams that nothing comes on, and looks how much the server grows.
async fn idle_streams(server: &ServerProcess, address: SocketAddr, key: &str) -> io::Result<()> {
    let mut connections = Vec::new();
    for n in 0..N_IDLE_CONNECTIONS {
        let mut connection = Http2::open(address).await?;
        // The first of each connection is not counted: it brings the connection along.
        connection.send(&stream_call(key, "idle", n, 1)).await?;
        connections.push(connection);
    }
    settle().await;
    let before = resident_bytes(server)?;
    for n in 0..N_IDLE {
        let at = n % connections.len();
        connections[at].send(&stream_call(key, "idle", n, 1)).await?;
    }
    settle().await;
    let grown = resident_bytes(server)?.saturating_sub(before);
    println!(
        "{N_IDLE} streams of jobs that wait, on {N_IDLE_CONNECTIONS} connections: {:.1} kB of memory each",
        grown as f64 / N_IDLE as f64 / 1000.0
    );
    Ok(())
}

/// Lets the server take in what was sent.
async fn settle() {
    SystemClock.sleep(Duration::from_secs(2)).await;
}
