//! Workers outside over Open Job Spec: submissions against those of `/api/v1`, jobs exchanged, jobs fetched and acknowledged, and how soon a
//! waiting worker has a new job.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forgerun_engine::{Clock, SystemClock};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::http::{HttpOptions, alternate, begin, first_key, load, row, start_server};
use super::load::{LoadConnection, Request};

/// Jobs of one submission while a round is prepared.
const BATCH: u64 = 500;

/// How often the latency of a waiting worker is measured.
const N_WAITS: usize = 200;

pub(super) const JOB: &str = r#"{"type":"bench.job","args":[{"report":"monthly","format":"pdf","recipients":["a@example.com","b@example.com"],"options":{"locale":"en","pages":12,"colour":true,"notes":"a body of about three hundred bytes, as a submission has in real life"}}],"options":{"queue":"bench"}}"#;

/// Measures, and prints a table.
pub(super) async fn run(options: &HttpOptions) -> io::Result<()> {
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
        fill(server.address, &key, &queue, options.n_whole_jobs).await?;
        exchange_off(server.address, &key, &queue, 32, 8).await?;
    }
    for (count, n_workers) in [(32, 64), (1, 64)] {
        let queue = format!("fetch-{count}");
        fill(server.address, &key, &queue, options.n_whole_jobs).await?;
        work_off(server.address, &key, &queue, count, n_workers).await?;
    }
    waits(server.address, &key).await
}

pub(super) fn enqueue(key: &str) -> Request {
    let request = request("/ojs/v1/jobs", key, JOB);
    Arc::new(move |_, _| request.clone())
}

pub(super) fn request(path: &str, key: &str, body: &str) -> Vec<u8> {
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

pub(super) async fn fill(address: SocketAddr, key: &str, queue: &str, n_jobs: u64) -> io::Result<()> {
    let mut connection = WorkerConnection::open(address, key).await?;
    let mut job: Value = serde_json::from_str(JOB).map_err(io::Error::other)?;
    job["options"]["queue"] = queue.into();
    for begin in (0..n_jobs).step_by(BATCH as usize) {
        let n = BATCH.min(n_jobs - begin) as usize;
        connection.post("/ojs/v1/jobs/batch", &json!({"jobs": vec![&job; n]})).await?;
    }
    Ok(())
}

/// Workers that fetch up to `count` jobs and acknowledge each by itself, until there are none: jobs per second.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(super) async fn work_off(
    address: SocketAddr,
    key: &str,
    queue: &str,
    count: u64,
    n_workers: usize,
) -> io::Result<f64> {
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
    let mut n_done = 0;
    while let Some(worker) = workers.join_next().await {
        n_done += worker.map_err(io::Error::other)??;
    }
    let per_second = n_done as f64 / began.elapsed().as_secs_f64();
    println!(
        "{n_done} jobs, fetched {count} at a time and acknowledged one by one by {n_workers} workers: {per_second:.0}/s"
    );
    Ok(per_second)
}

/// Workers that report the jobs they have and take as many new ones in one request, until there are none: jobs per second.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn exchange_off(
    address: SocketAddr,
    key: &str,
    queue: &str,
    count: u64,
    n_workers: usize,
) -> io::Result<f64> {
    let began = Instant::now();
    let mut workers = JoinSet::new();
    for n in 0..n_workers {
        let mut connection = WorkerConnection::open(address, key).await?;
        let mut round =
            json!({"queues": [queue], "count": count, "worker_id": format!("bench-{n}"), "done": []});
        workers.spawn(async move {
            let mut n_done = 0;
            loop {
                let answer = connection.post("/ojs/v1/workers/exchange", &round).await?;
                let results = answer["results"].as_array().into_iter().flatten();
                n_done += results.filter(|entry| entry["status"] == 200).count() as u64;
                let jobs = answer["jobs"].as_array().map_or(&[][..], Vec::as_slice);
                if jobs.is_empty() {
                    return Ok::<u64, io::Error>(n_done);
                }
                let end = |job: &Value| json!({"job_id": job["id"], "lease_token": job["lease_token"]});
                round["done"] = jobs.iter().map(end).collect();
            }
        });
    }
    let mut n_done = 0;
    while let Some(worker) = workers.join_next().await {
        n_done += worker.map_err(io::Error::other)??;
    }
    let per_second = n_done as f64 / began.elapsed().as_secs_f64();
    println!("{n_done} jobs, exchanged {count} at a time by {n_workers} workers: {per_second:.0}/s");
    Ok(per_second)
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
