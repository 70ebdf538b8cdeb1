//! Workers outside over Open Job Spec: submissions against those of `/api/v1`, whole jobs, a backlog exchanged, fetched and acknowledged, and
//! how soon a waiting worker has a new job.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forgerun_engine::{Clock, SystemClock};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::http::{HttpOptions, alternate, begin, first_key, load, post_body, row, start_server};
use crate::load::{LoadConnection, Request, drive};
use crate::processes::ServerProcess;
use crate::usage::Usage;

/// Jobs of one submission while a round is prepared.
const BATCH: u64 = 500;

/// Workers that exchange.
const EXCHANGERS: usize = 8;

/// How long one of them waits for jobs while others are submitted.
const WAIT_MS: u64 = 20;

/// How often the latency of a waiting worker is measured.
const N_WAITS: usize = 200;

pub(crate) const JOB: &str = r#"{"type":"bench.job","args":[{"report":"monthly","format":"pdf","recipients":["a@example.com","b@example.com"],"options":{"locale":"en","pages":12,"colour":true,"notes":"a body of about three hundred bytes, as a submission has in real life"}}],"options":{"queue":"bench"}}"#;

/// Measures, and prints a table.
pub(crate) async fn run(options: &HttpOptions) -> io::Result<()> {
    let server = start_server(options, "0")?;
    let key = first_key(server.address).await?;
    println!("| what | connections | /api/v1 /s | /ojs/v1 /s | ratio | p50 | p99 |");
    println!("|---|---|---|---|---|---|---|");
    let operations = load(options, server.address, 64, 202, begin(&key));
    let enqueue = load(options, server.address, 64, 201, enqueue(&key));
    let [operations, enqueue] = alternate(options, [&operations, &enqueue]).await?;
    row("submit", 64, &operations, &enqueue);
    println!();
    for round in 0..options.n_rounds {
        let queue = format!("exchange-{round}");
        whole_jobs(options, &server, &key, &queue).await?;
        fill(server.address, &key, &queue, options.n_whole_jobs).await?;
        let before = Usage::of(&server);
        let drained = exchange_off(server.address, &key, &queue, Until::Empty).await?;
        say(&format!("a backlog exchanged 32 at a time by {EXCHANGERS} workers"), &drained, before, &server);
    }
    for (count, n_workers) in [(32, 64), (1, 64)] {
        let queue = format!("fetch-{count}");
        fill(server.address, &key, &queue, options.n_whole_jobs).await?;
        let before = Usage::of(&server);
        let ended = work_off(server.address, &key, &queue, count, n_workers).await?;
        say(&fetched(count, n_workers), &ended, before, &server);
    }
    waits(server.address, &key).await
}

/// With the whole job in the answer, as `/v1` and `/api/v1` have it.
pub(crate) fn enqueue(key: &str) -> Request {
    post_body("/ojs/v1/jobs", key, JOB)
}

pub(crate) fn request(path: &str, key: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Prefer: return=minimal\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A connection that one worker keeps.
struct WorkerConnection {
    connection: LoadConnection,
    key: String,
}

impl WorkerConnection {
    async fn open(address: SocketAddr, key: &str) -> io::Result<WorkerConnection> {
        Ok(WorkerConnection { connection: LoadConnection::open(address).await?, key: key.to_owned() })
    }

    /// Sends a request; the answer must be a success.
    async fn post(&mut self, path: &str, body: &Value) -> io::Result<Value> {
        let request = request(path, &self.key, &body.to_string());
        let status = self.connection.exchange(&request).await?;
        let answer = &self.connection.body;
        match status {
            200..=299 => serde_json::from_slice(answer).map_err(io::Error::other),
            _ => Err(io::Error::other(format!("{status} {}", String::from_utf8_lossy(answer)))),
        }
    }
}

pub(crate) async fn fill(address: SocketAddr, key: &str, queue: &str, n_jobs: u64) -> io::Result<()> {
    let mut connection = WorkerConnection::open(address, key).await?;
    let mut job: Value = serde_json::from_str(JOB).map_err(io::Error::other)?;
    job["options"]["queue"] = queue.into();
    for begin in (0..n_jobs).step_by(BATCH as usize) {
        let n = BATCH.min(n_jobs - begin) as usize;
        connection.post("/ojs/v1/jobs/batch", &json!({"jobs": vec![&job; n]})).await?;
    }
    Ok(())
}

/// Workers that fetch up to `count` jobs and acknowledge each by itself, until there are none.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) async fn work_off(
    address: SocketAddr,
    key: &str,
    queue: &str,
    count: u64,
    n_workers: usize,
) -> io::Result<EndedJobs> {
    let began = Instant::now();
    let mut workers = JoinSet::new();
    for n in 0..n_workers {
        let mut connection = WorkerConnection::open(address, key).await?;
        let fetch = json!({"queues": [queue], "count": count, "worker_id": format!("bench-{n}")});
        workers.spawn(async move {
            let mut n_done = 0_u64;
            loop {
                let fetched = connection.post("/ojs/v1/workers/fetch", &fetch).await?;
                let Some(jobs) = fetched["jobs"].as_array().filter(|jobs| !jobs.is_empty()) else {
                    return Ok::<u64, io::Error>(n_done);
                };
                for job in jobs {
                    let ack = json!({"job_id": job["id"], "lease_token": job["lease_token"]});
                    connection.post("/ojs/v1/workers/ack", &ack).await?;
                    n_done += 1;
                }
            }
        });
    }
    let mut n_jobs = 0;
    while let Some(worker) = workers.join_next().await {
        n_jobs += worker.map_err(io::Error::other)??;
    }
    Ok(EndedJobs { n_jobs, took: began.elapsed() })
}

/// What [`work_off`] does, in words.
pub(crate) fn fetched(count: u64, n_workers: usize) -> String {
    format!("a backlog fetched {count} at a time and acknowledged one by one by {n_workers} workers")
}

/// How many jobs ended, and in what time.
pub(crate) struct EndedJobs {
    n_jobs: u64,
    took: Duration,
}

impl EndedJobs {
    pub(crate) fn per_second(&self) -> f64 {
        self.n_jobs as f64 / self.took.as_secs_f64()
    }
}

pub(crate) fn say(what: &str, ended: &EndedJobs, before: Option<Usage>, server: &ServerProcess) {
    let usage = Usage::per_job(before, Usage::of(server), ended.n_jobs);
    println!("{} jobs, {what}: {:.0}/s{usage}", ended.n_jobs, ended.per_second());
}

/// When workers that exchange have done enough.
#[derive(Clone, Copy)]
enum Until {
    /// There are no more jobs.
    Empty,
    /// So many have ended.
    Ended(u64),
}

/// Jobs that are submitted singly at 64 connections and done meanwhile by workers that exchange; from the first submission to the last end.
async fn whole_jobs(options: &HttpOptions, server: &ServerProcess, key: &str, queue: &str) -> io::Result<()> {
    let job = JOB.replace(r#""queue":"bench""#, &format!(r#""queue":"{queue}""#));
    let mut load = load(options, server.address, 64, 201, post_body("/ojs/v1/jobs", key, &job));
    load.span = Duration::from_secs(300);
    // As many from each connection.
    load.n_requests_max = options.n_whole_jobs.next_multiple_of(64);
    let before = Usage::of(server);
    let until = Until::Ended(load.n_requests_max);
    let (submitted, ended) = tokio::join!(drive(&load), exchange_off(server.address, key, queue, until));
    let submitted = submitted?;
    if submitted.n_good != load.n_requests_max {
        return Err(io::Error::other(format!("only {} jobs were submitted", submitted.n_good)));
    }
    say(&format!("whole jobs, exchanged 32 at a time by {EXCHANGERS} workers"), &ended?, before, server);
    Ok(())
}

/// Workers that report the jobs they have and take as many new ones in one request.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn exchange_off(address: SocketAddr, key: &str, queue: &str, until: Until) -> io::Result<EndedJobs> {
    let began = Instant::now();
    let (n_ended, last_us) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut workers = JoinSet::new();
    for n in 0..EXCHANGERS {
        let mut connection = WorkerConnection::open(address, key).await?;
        let wait_ms = match until {
            Until::Empty => 0,
            Until::Ended(_) => WAIT_MS,
        };
        let mut round = json!({
            "queues": [queue], "count": 32, "worker_id": format!("bench-{n}"), "wait_ms": wait_ms, "done": [],
        });
        let (n_ended, last_us) = (n_ended.clone(), last_us.clone());
        workers.spawn(async move {
            loop {
                let answer = connection.post("/ojs/v1/workers/exchange", &round).await?;
                let results = answer["results"].as_array().into_iter().flatten();
                let n_good = results.filter(|entry| entry["status"] == 200).count() as u64;
                let n_so_far = n_ended.fetch_add(n_good, Ordering::Relaxed) + n_good;
                if n_good > 0 {
                    last_us.fetch_max(began.elapsed().as_micros() as u64, Ordering::Relaxed);
                }
                let jobs = answer["jobs"].as_array().map_or(&[][..], Vec::as_slice);
                let is_enough = match until {
                    Until::Empty => jobs.is_empty(),
                    Until::Ended(n_jobs) => jobs.is_empty() && n_so_far >= n_jobs,
                };
                if is_enough {
                    return Ok::<(), io::Error>(());
                }
                let end = |job: &Value| json!({"job_id": job["id"], "lease_token": job["lease_token"]});
                round["done"] = jobs.iter().map(end).collect();
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker.map_err(io::Error::other)??;
    }
    let took = Duration::from_micros(last_us.load(Ordering::Relaxed));
    Ok(EndedJobs { n_jobs: n_ended.load(Ordering::Relaxed), took })
}

/// From the answer to a submission to the answer of a worker that waits for it.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn waits(address: SocketAddr, key: &str) -> io::Result<()> {
    let mut submitter = WorkerConnection::open(address, key).await?;
    let mut job: Value = serde_json::from_str(JOB).map_err(io::Error::other)?;
    job["options"]["queue"] = "waiting".into();
    let mut waits = Vec::with_capacity(N_WAITS);
    for _ in 0..N_WAITS {
        let mut worker = WorkerConnection::open(address, key).await?;
        let waiting = tokio::spawn(async move {
            let fetch = json!({"queues": ["waiting"], "count": 1, "worker_id": "bench", "wait_ms": 20_000});
            let fetched = worker.post("/ojs/v1/workers/fetch", &fetch).await;
            (Instant::now(), fetched)
        });
        SystemClock.sleep(Duration::from_millis(20)).await;
        submitter.post("/ojs/v1/jobs", &job).await?;
        let submitted = Instant::now();
        let (fetched_at, fetched) = waiting.await.map_err(io::Error::other)?;
        fetched?;
        waits.push(fetched_at.saturating_duration_since(submitted));
    }
    waits.sort_unstable();
    let at = |share: usize| waits[(waits.len() - 1) * share / 100].as_secs_f64() * 1e3;
    println!(
        "a waiting worker has a new job {:.2} ms (p50), {:.2} ms (p99) after its submission was answered",
        at(50),
        at(99)
    );
    Ok(())
}
