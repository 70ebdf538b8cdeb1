//! Submissions, status reads and whole jobs over HTTP, held against a bare axum handler in a process of its own.
//!
//! Server and bare handler are children, each in its own process; the load generator is this one.
//! Rounds alternate between the two, so that a noisy machine disturbs both alike; the median of the rounds counts.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forgerun_engine::{Clock, SystemClock};
use serde_json::Value;

use crate::load::{LoadPlan, LoadResult, Request, ask, drive};
use crate::processes::ServerProcess;
use crate::scratch::ScratchDatabase;

/// What to measure, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct HttpOptions {
    /// How long one round takes.
    pub(crate) span: Duration,
    /// How many rounds there are of each kind.
    pub(crate) n_rounds: usize,
    /// Where the data go; an empty folder, removed by the caller.
    pub(crate) data: PathBuf,
    /// A database on the PostgreSQL server to measure instead of SQLite in that folder. Each part gets a database of its own beside it.
    pub(crate) database_url: Option<String>,
    /// How many whole jobs to run.
    pub(crate) n_whole_jobs: u64,
}

pub(crate) const BODY: &str = r#"{"type":"EXECUTE","work_kind":"PAYLOAD_SMALL","correlation_id":"bench-0123456789","payload":{"report":"monthly","format":"pdf","recipients":["a@example.com","b@example.com"],"options":{"locale":"en","pages":12,"colour":true,"notes":"a body of about three hundred bytes, as a submission has in real life"}}}"#;

/// Measures, and prints a table.
pub(crate) async fn run(options: &HttpOptions) -> io::Result<()> {
    let Some(url) = options.database_url.clone() else {
        return measure(options, [None, None, None]).await;
    };
    let mut databases = Vec::new();
    for part in ["bare", "submit", "whole"] {
        let name = format!("forgerun_bench_{part}");
        databases.push(ScratchDatabase::create(&url, &name).await?);
    }
    let urls = [0, 1, 2].map(|n: usize| Some(databases[n].url.clone()));
    let measured = measure(options, urls).await;
    for database in databases {
        database.remove().await?;
    }
    measured
}

/// The three parts, each with a store of its own: what is compared with, submissions and reads, whole jobs.
async fn measure(
    options: &HttpOptions,
    [bare_url, submit_url, whole_url]: [Option<String>; 3],
) -> io::Result<()> {
    let bare = ServerProcess::start_bare(&options.data.join("bare"), bare_url.as_deref())?;
    println!("| what | connections | bare /s | ForgeRun /s | ratio | p50 | p99 |");
    println!("|---|---|---|---|---|---|---|");
    let part = HttpOptions { database_url: submit_url, ..options.clone() };
    submissions_and_reads(&part, &bare).await?;
    let data = options.data.join("whole");
    let part = HttpOptions { data, database_url: whole_url, ..options.clone() };
    results_and_whole_jobs(&part, &bare).await
}

/// What a read is held against: of a server that keeps jobs in this process a handler that looks nothing up, of a database one select.
async fn bare_get(options: &HttpOptions, bare: &ServerProcess) -> io::Result<LoadPlan> {
    let id = one_job(bare.address, "/durable", "").await?;
    let path = if options.database_url.is_some() { "durable" } else { "bare" };
    Ok(load(options, bare.address, 64, 200, get(&format!("/{path}/{id}"), "")))
}

async fn submissions_and_reads(options: &HttpOptions, bare: &ServerProcess) -> io::Result<()> {
    let server = start_server(options, "0")?;
    let key = first_key(server.address).await?;
    for n_connections in [64, 256] {
        let one = |address, request| load(options, address, n_connections, 202, request);
        let bare_post = one(bare.address, post("/bare", ""));
        let floor = one(bare.address, post("/durable", ""));
        let real = one(server.address, post("/v1/jobs", &key));
        let [bare, floor, real] = alternate(options, [&bare_post, &floor, &real]).await?;
        row("submit", n_connections, &bare, &real);
        row("submit, of the least that is durable", n_connections, &floor, &real);
    }
    let id = one_job(server.address, "/v1/jobs", &key).await?;
    let bare_get = bare_get(options, bare).await?;
    let read = load(options, server.address, 64, 200, get(&format!("/v1/jobs/{id}"), &key));
    let [bare_round, round] = alternate(options, [&bare_get, &read]).await?;
    row("read a job", 64, &bare_round, &round);
    // The same on /api/v1. The job that is polled stands behind all that were submitted, so its place is counted to the bound.
    let bare_post = load(options, bare.address, 64, 202, post("/bare", ""));
    let begin = load(options, server.address, 64, 202, begin(&key));
    let [bare_round, round] = alternate(options, [&bare_post, &begin]).await?;
    row("begin (/api/v1)", 64, &bare_round, &round);
    let id = one_job(server.address, "/v1/jobs", &key).await?;
    let poll = load(options, server.address, 64, 202, get(&format!("/api/v1/jobs/{id}"), &key));
    let [bare_round, round] = alternate(options, [&bare_get, &poll]).await?;
    row("poll (/api/v1)", 64, &bare_round, &round);
    Ok(())
}

async fn results_and_whole_jobs(options: &HttpOptions, bare: &ServerProcess) -> io::Result<()> {
    let server = start_server(options, "4")?;
    let key = first_key(server.address).await?;
    // The work takes no time, so the result is there before anybody can ask for it twice.
    let id = one_job(server.address, "/v1/jobs", &key).await?;
    while metric(server.address, "jobs_succeeded_total").await? == 0 {
        SystemClock.sleep(Duration::from_millis(10)).await;
    }
    let bare_get = bare_get(options, bare).await?;
    let fetch = load(options, server.address, 64, 200, get(&format!("/v1/jobs/{id}/result"), &key));
    let [bare_round, round] = alternate(options, [&bare_get, &fetch]).await?;
    row("fetch a result of 1 KiB", 64, &bare_round, &round);
    let least = whole_jobs(options, bare.address, "/whole", "").await?;
    let real = whole_jobs(options, server.address, "/v1/jobs", &key).await?;
    println!(
        "\n{} whole jobs (submit, claim, run for no time, succeed): {:.0}/s; submitted in {:.2} s, all ended after {:.2} s",
        real.n,
        real.per_second(),
        real.submitted.as_secs_f64(),
        real.took.as_secs_f64(),
    );
    println!(
        "The least that is durable does {:.0}/s, so this is {:.2} of it.",
        least.per_second(),
        real.per_second() / least.per_second(),
    );
    Ok(())
}

/// Rounds of all, in turn; the median of each.
pub(crate) async fn alternate<const N: usize>(
    options: &HttpOptions,
    loads: [&LoadPlan; N],
) -> io::Result<[LoadResult; N]> {
    let mut rounds = [const { Vec::new() }; N];
    for _ in 0..options.n_rounds {
        for (rounds, load) in rounds.iter_mut().zip(loads) {
            rounds.push(drive(load).await?);
        }
    }
    Ok(rounds.map(median))
}

pub(crate) fn median(mut rounds: Vec<LoadResult>) -> LoadResult {
    rounds.sort_by(|a, b| a.per_second().total_cmp(&b.per_second()));
    rounds.swap_remove(rounds.len() / 2)
}

pub(crate) fn row(what: &str, n_connections: usize, bare: &LoadResult, real: &LoadResult) {
    println!(
        "| {what} | {n_connections} | {:.0} | {:.0} | {:.2} | {:.2} ms | {:.2} ms |{}",
        bare.per_second(),
        real.per_second(),
        real.per_second() / bare.per_second(),
        real.quantile(0.5).as_secs_f64() * 1e3,
        real.quantile(0.99).as_secs_f64() * 1e3,
        refusals(real),
    );
}

pub(crate) fn refusals(round: &LoadResult) -> String {
    match (round.n_bad, round.bad_status) {
        (0, _) => String::new(),
        (n, Some(status)) => format!(" {n} refused, the first with {status}!"),
        (n, None) => format!(" {n} refused!"),
    }
}

/// How a run of whole jobs went.
struct WholeJobs {
    n: u64,
    submitted: Duration,
    took: Duration,
}

impl WholeJobs {
    fn per_second(&self) -> f64 {
        self.n as f64 / self.took.as_secs_f64()
    }
}

/// Single submissions at 64 connections, worked off by the server itself at the same time; from the first submission to the end of the last job.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn whole_jobs(
    options: &HttpOptions,
    address: SocketAddr,
    path: &str,
    key: &str,
) -> io::Result<WholeJobs> {
    let before = metric(address, "jobs_succeeded_total").await?;
    let began = Instant::now();
    let mut load = load(options, address, 64, 202, post(path, key));
    load.span = Duration::from_secs(300);
    load.n_requests_max = options.n_whole_jobs;
    let round = drive(&load).await?;
    let submitted = began.elapsed();
    loop {
        let ended = metric(address, "jobs_succeeded_total").await?;
        if ended >= before + round.n_good || began.elapsed() > load.span {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(WholeJobs { n: round.n_good, submitted, took: began.elapsed() })
}

pub(crate) fn start_server(options: &HttpOptions, workers: &str) -> io::Result<ServerProcess> {
    start_server_with(options, workers, &[])
}

/// The same with more settings.
pub(crate) fn start_server_with(
    options: &HttpOptions,
    workers: &str,
    more: &[(&str, &str)],
) -> io::Result<ServerProcess> {
    let data = options.data.to_string_lossy().into_owned();
    let mut arguments = vec!["serve", "--listen", "127.0.0.1:0", "--data", &data];
    if let Some(url) = &options.database_url {
        arguments.extend(["--database-url", url]);
    }
    let environment = [
        ("FORGERUN_LIMITS__RATE_PER_MINUTE", "1000000000"),
        ("FORGERUN_LIMITS__QUEUE_SIZE", "1000000000"),
        ("FORGERUN_LIMITS__MAX_ACTIVE_JOBS", "1000000"),
        ("FORGERUN_WORKERS__COUNT", workers),
        ("FORGERUN_WORKERS__CONCURRENCY", "64"),
        ("FORGERUN_SIM__TIME_SCALE", "0"),
        ("FORGERUN_LOG__LEVEL", "error"),
    ];
    ServerProcess::start(&arguments, &[&environment, more].concat())
}

pub(crate) async fn first_key(address: SocketAddr) -> io::Result<String> {
    let (_, client) = ask(address, &plain("POST", "/v1/clients", "")).await?;
    let client = member(&client, "client_id")?;
    let (_, key) = ask(address, &plain("POST", &format!("/v1/clients/{client}/keys"), "")).await?;
    member(&key, "api_key")
}

async fn one_job(address: SocketAddr, path: &str, key: &str) -> io::Result<String> {
    let request = String::from_utf8(post(path, key)(0, 0)).map_err(io::Error::other)?;
    let (_, job) = ask(address, &request.replacen("\r\n", "\r\nConnection: close\r\n", 1)).await?;
    member(&job, "job_id")
}

pub(crate) async fn metric(address: SocketAddr, name: &str) -> io::Result<u64> {
    let (_, text) = ask(address, &plain("GET", "/metrics", "")).await?;
    let lines = text.lines().filter(|line| line.starts_with(name));
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}

pub(crate) fn member(body: &str, name: &str) -> io::Result<String> {
    let value: Value = serde_json::from_str(body).map_err(io::Error::other)?;
    value[name].as_str().map(Into::into).ok_or_else(|| io::Error::other(format!("no {name} in {body}")))
}

pub(crate) fn plain(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// The same content, as `/api/v1` takes it.
pub(crate) fn begin(key: &str) -> Request {
    let body = BODY
        .replace(
            r#""type":"EXECUTE","work_kind":"PAYLOAD_SMALL","correlation_id":"bench-0123456789""#,
            r#""type":"bench.report""#,
        )
        .replace("payload", "parameters");
    post_body("/api/v1/jobs", key, &body)
}

pub(crate) fn post(path: &str, key: &str) -> Request {
    post_body(path, key, BODY)
}

pub(crate) fn post_body(path: &str, key: &str, body: &str) -> Request {
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Accept: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Arc::new(move |_, _| request.clone().into_bytes())
}

pub(crate) fn get(path: &str, key: &str) -> Request {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nAccept: application/json\r\n\r\n"
    );
    Arc::new(move |_, _| request.clone().into_bytes())
}

pub(crate) fn load(
    options: &HttpOptions,
    address: SocketAddr,
    n_connections: usize,
    status: u16,
    request: Request,
) -> LoadPlan {
    LoadPlan { address, n_connections, span: options.span, n_requests_max: 50_000_000, status, request }
}
