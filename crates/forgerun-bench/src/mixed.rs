//! A mixed load: submissions, polls, workers outside, streams of events and webhooks, all at once.
//!
//! First as fast as the connections can, each with one request under way: the maximal rate. Then at half of that rate by a fixed
//! schedule: a request is due at its moment whether or not those before it were answered, and its latency counts from that
//! moment. So whoever waits behind a slow answer is counted with all of its wait. The timer rounds moments up to a millisecond,
//! which counts too.
//!
//! Half of the requests are submissions. Most of their jobs are done by the built-in worker, in no time; three of eight by workers
//! outside, which are the same connections. One of eight has a callback. Every client has a stream open. Server and load generator share the machine.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memchr::memmem;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::http::{BODY, HttpOptions, first_key, get, metric, post_body, refusals, start_server};
use crate::load::{LoadConnection, LoadResult};
use crate::ojs::{JOB, request};
use crate::processes::ServerProcess;
use crate::scratch::ScratchDatabase;
use crate::sse::{StreamDelays, open};
use crate::webhooks::receive;

/// Clients, each with a stream that hears of all its jobs.
const CLIENTS: usize = 32;

/// Connections that send requests, spread over the clients.
const CONNECTIONS: usize = 128;

/// Requests of a round, at most.
const REQUESTS_MAX: u64 = 5_000_000;

/// How long a round may take beyond its span, and how long the work that is left may take after one.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is asked of a submission at half the maximal rate.
const GOAL: Duration = Duration::from_millis(10);

/// The kinds of requests, as they are counted.
const KINDS: [&str; 4] = ["submissions", "polls", "fetches of up to 3 jobs", "acks"];

#[derive(Clone, Copy)]
enum Step {
    /// For the built-in worker.
    Submit,
    /// The same with a callback.
    SubmitTold,
    /// For a worker outside.
    Enqueue,
    /// Of the job that was submitted last.
    Poll,
    Fetch,
    /// A poll if nothing was fetched.
    Ack,
}

/// What a connection does, again and again.
const MIX: [Step; 16] = {
    use Step::{Ack, Enqueue, Fetch, Poll, Submit, SubmitTold};
    [
        Submit, Poll, Enqueue, Ack, SubmitTold, Poll, Submit, Fetch, //
        Enqueue, Ack, Submit, Poll, Submit, Ack, Enqueue, Poll,
    ]
};

/// Latencies by kind.
type Round = [LoadResult; KINDS.len()];

/// Measures, and prints a table.
pub(crate) async fn run(options: &HttpOptions) -> io::Result<()> {
    let Some(url) = &options.database_url else {
        return measure(options).await;
    };
    let database = ScratchDatabase::create(url, "forgerun_bench_mixed").await?;
    let part = HttpOptions { database_url: Some(database.url.clone()), ..options.clone() };
    let measured = measure(&part).await;
    database.remove().await?;
    measured
}

async fn measure(options: &HttpOptions) -> io::Result<()> {
    let server = start_server(options, "4")?;
    let mut keys = Vec::new();
    for _ in 0..CLIENTS {
        keys.push(first_key(server.address).await?);
    }
    let n_delivered = Arc::new(AtomicU64::new(0));
    let receiver = receive(n_delivered.clone()).await?;
    let heard = Arc::new(StreamDelays::default());
    let mut streams = JoinSet::new();
    open(server.address, &keys, CLIENTS, &heard, &mut streams).await?;
    let mut users = Vec::new();
    for number in 0..CONNECTIONS {
        users.push(User::new(server.address, &keys[number % CLIENTS], receiver).await?);
    }
    println!("| round | what | number | per second | p50 | p99 | p99.9 | goal of p99 |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut rate_max = 0.0;
    for round in 0..=options.n_rounds {
        let rate = (round > 0).then_some(rate_max / 2.0);
        let before = Work::now(&server, &n_delivered).await?;
        heard.delays().clear();
        let (kinds, back) = play(users, options.span, rate).await?;
        users = back;
        if rate.is_none() {
            rate_max = kinds.iter().map(LoadResult::per_second).sum();
        }
        let name = rate.map_or("as fast as can be".into(), |rate| format!("{round}, at {rate:.0}/s"));
        for (what, kind) in KINDS.iter().zip(&kinds) {
            row(&name, what, kind, rate.is_some() && *what == KINDS[0]);
        }
        let took = kinds[0].took;
        row(&name, "events told to streams", &heard.told(took), false);
        let after = Work::now(&server, &n_delivered).await?;
        println!("| {name} | {} |", after.since(&before, took));
        settle(&server, &n_delivered).await?;
    }
    // A stream that did not drain was ended by the server.
    while streams.try_join_next().is_some() {}
    println!("\n{} of {CLIENTS} streams are open at the end", streams.len());
    Ok(())
}

fn row(name: &str, what: &str, kind: &LoadResult, has_goal: bool) {
    let goal = match (has_goal, kind.quantile(0.99) <= GOAL) {
        (false, _) => "",
        (true, true) => "10 ms: met",
        (true, false) => "10 ms: missed",
    };
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| kind.quantile(share).as_secs_f64() * 1e3);
    println!(
        "| {name} | {what} | {} | {:.0} | {p50:.2} ms | {p99:.2} ms | {p999:.2} ms | {goal} |{}",
        kind.n_good,
        kind.per_second(),
        refusals(kind)
    );
}

/// What the server has done by itself so far.
#[derive(PartialEq)]
struct Work {
    n_succeeded: u64,
    n_delivered: u64,
}

impl Work {
    async fn now(server: &ServerProcess, n_delivered: &AtomicU64) -> io::Result<Work> {
        let n_succeeded = metric(server.address, "jobs_succeeded_total").await?;
        Ok(Work { n_succeeded, n_delivered: n_delivered.load(Ordering::Relaxed) })
    }

    /// Cells of the table.
    fn since(&self, before: &Work, took: Duration) -> String {
        let (n_jobs, n_deliveries) =
            (self.n_succeeded - before.n_succeeded, self.n_delivered - before.n_delivered);
        let per_second = |n: u64| n as f64 / took.as_secs_f64();
        format!(
            "jobs that ended · deliveries | {n_jobs} · {n_deliveries} | {:.0} · {:.0} | | | |",
            per_second(n_jobs),
            per_second(n_deliveries)
        )
    }
}

/// Waits until nothing moves any more, so that a round does not pay for the one before.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn settle(server: &ServerProcess, n_delivered: &AtomicU64) -> io::Result<()> {
    let began = Instant::now();
    let mut before = Work::now(server, n_delivered).await?;
    while began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let work = Work::now(server, n_delivered).await?;
        if work == before {
            break;
        }
        before = work;
    }
    Ok(())
}

/// Lets all users work for so long: so many requests per second together, or as many as they can.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn play(users: Vec<User>, span: Duration, rate: Option<f64>) -> io::Result<(Round, Vec<User>)> {
    let began = Instant::now();
    let mut playing = JoinSet::new();
    for (number, mut user) in users.into_iter().enumerate() {
        playing.spawn(async move {
            let played = user.play(number, began, span, rate).await;
            played.map(|round| (round, user))
        });
    }
    let (mut round, mut users) = (Round::default(), Vec::new());
    let gather = async {
        while let Some(ended) = playing.join_next().await {
            let (kinds, user) = ended.map_err(io::Error::other)??;
            users.push(user);
            round.iter_mut().zip(kinds).for_each(|(kind, other)| kind.merge(other));
        }
        io::Result::Ok(())
    };
    tokio::time::timeout(span + PATIENCE, gather).await.map_err(io::Error::other)??;
    round.iter_mut().for_each(|kind| kind.finish(began.elapsed()));
    Ok((round, users))
}

/// One connection: submits, polls, and works.
struct User {
    connection: LoadConnection,
    key: String,
    submit: Vec<u8>,
    submit_told: Vec<u8>,
    enqueue: Vec<u8>,
    fetch: Vec<u8>,
    /// The job that it submitted last.
    newest: Option<String>,
    /// Acks of the jobs that it holds.
    acks: Vec<Vec<u8>>,
}

impl User {
    async fn new(server: SocketAddr, key: &str, receiver: SocketAddr) -> io::Result<User> {
        let told = BODY.replacen('{', &format!("{{\"callback\":\"http://{receiver}/hook\","), 1);
        let fetch = json!({"queues": ["bench"], "count": 3, "worker_id": "bench"}).to_string();
        Ok(User {
            connection: LoadConnection::open(server).await?,
            key: key.to_owned(),
            submit: post_body("/v1/jobs", key, BODY)(0, 0),
            submit_told: post_body("/v1/jobs", key, &told)(0, 0),
            enqueue: request("/ojs/v1/jobs", key, JOB),
            fetch: request("/ojs/v1/workers/fetch", key, &fetch),
            newest: None,
            acks: Vec::new(),
        })
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    async fn play(
        &mut self,
        number: usize,
        began: Instant,
        span: Duration,
        rate: Option<f64>,
    ) -> io::Result<Round> {
        let mut round = Round::default();
        for n in 0..REQUESTS_MAX as usize / CONNECTIONS {
            let due = rate.map_or_else(Instant::now, |rate| {
                began + Duration::from_secs_f64((n * CONNECTIONS + number) as f64 / rate)
            });
            if due >= began + span {
                break;
            }
            tokio::time::sleep_until(due.into()).await;
            let (kind, status) = self.step(MIX[(number + n) % MIX.len()]).await?;
            match status {
                200..=299 => round[kind].good(due.elapsed()),
                _ => round[kind].bad(status),
            }
        }
        Ok(round)
    }

    /// Sends one request. Its kind, and the status of the answer.
    async fn step(&mut self, step: Step) -> io::Result<(usize, u16)> {
        let ack = if let Step::Ack = step { self.acks.pop() } else { None };
        let poll = self.newest.as_ref().map(|id| get(&format!("/v1/jobs/{id}"), &self.key)(0, 0));
        let (kind, request) = match (step, &ack, &poll) {
            (Step::Fetch, ..) => (2, &self.fetch),
            (_, Some(ack), _) => (3, ack),
            (Step::Poll | Step::Ack, _, Some(poll)) => (1, poll),
            (Step::SubmitTold, ..) => (0, &self.submit_told),
            (Step::Enqueue, ..) => (0, &self.enqueue),
            (Step::Submit | Step::Poll | Step::Ack, ..) => (0, &self.submit),
        };
        let status = self.connection.exchange(request).await?;
        match kind {
            0 => self.newest = job_id(&self.connection.body),
            2 => self.hold()?,
            _ => {}
        }
        Ok((kind, status))
    }

    /// Takes what was fetched.
    fn hold(&mut self) -> io::Result<()> {
        let fetched: Value = serde_json::from_slice(&self.connection.body).map_err(io::Error::other)?;
        for job in fetched["jobs"].as_array().into_iter().flatten() {
            let ack = json!({"job_id": job["id"], "lease_token": job["lease_token"]}).to_string();
            self.acks.push(request("/ojs/v1/workers/ack", &self.key, &ack));
        }
        Ok(())
    }
}

/// The id in the answer to a submission, in either dialect.
fn job_id(answer: &[u8]) -> Option<String> {
    let name = [&b"\"job_id\":\""[..], b"\"id\":\""].into_iter();
    let begin = name.filter_map(|name| Some(memmem::find(answer, name)? + name.len())).next()?;
    let id = answer[begin..].split(|byte| *byte == b'"').next()?;
    Some(String::from_utf8_lossy(id).into_owned())
}
