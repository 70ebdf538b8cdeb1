//! A load generator: so many connections, one request under way on each, for so long. Loopback only.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memchr::memmem;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// What came of a round.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadResult {
    /// Answers with the status that was expected.
    pub(crate) n_good: u64,
    /// All other answers.
    pub(crate) n_bad: u64,
    /// The status of the first of these.
    pub(crate) bad_status: Option<u16>,
    /// How long the round took.
    pub(crate) took: Duration,
    /// How long each good answer took, sorted.
    latencies: Vec<Duration>,
}

impl LoadResult {
    pub(crate) fn per_second(&self) -> f64 {
        self.n_good as f64 / self.took.as_secs_f64().max(f64::EPSILON)
    }

    /// Counts a good answer.
    pub(crate) fn good(&mut self, latency: Duration) {
        self.n_good += 1;
        self.latencies.push(latency);
    }

    /// Counts any other answer.
    pub(crate) fn bad(&mut self, status: u16) {
        self.n_bad += 1;
        self.bad_status.get_or_insert(status);
    }

    /// Adds what came of another connection; [`LoadResult::finish`] comes after the last.
    pub(crate) fn merge(&mut self, other: LoadResult) {
        self.n_good += other.n_good;
        self.n_bad += other.n_bad;
        self.bad_status = self.bad_status.or(other.bad_status);
        self.latencies.extend(other.latencies);
    }

    /// The round is over.
    pub(crate) fn finish(&mut self, took: Duration) {
        self.took = took;
        self.latencies.sort_unstable();
    }

    /// The latency below which this share of the answers lies.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let at = ((self.latencies.len() as f64 * share) as usize).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(at).copied().unwrap_or_default()
    }
}

/// What a head ends with.
const END: &[u8] = b"\r\n\r\n";

/// How the servers that are measured spell it.
const LENGTH: &[u8] = b"\r\ncontent-length: ";

/// A request, made anew for each call: the number of the connection and of the request on it go in.
pub(crate) type Request = Arc<dyn Fn(usize, u64) -> Vec<u8> + Send + Sync>;

/// What to do in a round.
#[derive(Clone)]
pub(crate) struct LoadPlan {
    pub(crate) address: SocketAddr,
    pub(crate) n_connections: usize,
    pub(crate) span: Duration,
    /// At most so many requests in all, over the connections.
    pub(crate) n_requests_max: u64,
    pub(crate) status: u16,
    pub(crate) request: Request,
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) async fn drive(load: &LoadPlan) -> io::Result<LoadResult> {
    assert!(load.address.ip().is_loopback(), "load goes to this machine only");
    let began = Instant::now();
    let deadline = began + load.span;
    let mut connections = JoinSet::new();
    for number in 0..load.n_connections {
        let load = load.clone();
        connections.spawn(async move { connection(&load, number, deadline).await });
    }
    gathered(connections, began).await
}

/// What came of all connections of a round.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) async fn gathered(
    mut connections: JoinSet<io::Result<LoadResult>>,
    began: Instant,
) -> io::Result<LoadResult> {
    let mut round = LoadResult::default();
    while let Some(ended) = connections.join_next().await {
        round.merge(ended.map_err(io::Error::other)??);
    }
    round.finish(began.elapsed());
    Ok(round)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn connection(load: &LoadPlan, number: usize, deadline: Instant) -> io::Result<LoadResult> {
    let mut connection = LoadConnection::open(load.address).await?;
    let mut round = LoadResult::default();
    let most = load.n_requests_max / load.n_connections.max(1) as u64;
    for n in 0..most {
        let sent = Instant::now();
        if sent >= deadline {
            break;
        }
        let status = connection.exchange(&(load.request)(number, n)).await?;
        if status == load.status {
            round.good(sent.elapsed());
        } else {
            round.bad(status);
        }
    }
    Ok(round)
}

/// A connection with one request under way at a time.
pub(crate) struct LoadConnection {
    stream: BufReader<TcpStream>,
    /// The body of the last answer.
    pub(crate) body: Vec<u8>,
}

impl LoadConnection {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<LoadConnection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(LoadConnection { stream: BufReader::new(stream), body: Vec::new() })
    }

    /// Sends a request and reads its answer; the status.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> io::Result<u16> {
        self.stream.write_all(request).await?;
        answer(&mut self.stream, &mut self.body).await
    }
}

/// Reads one answer and its body, and gives its status. Header fields that say nothing about the length are passed over as fast as can be:
/// the one who measures should not make an answer that says more look slower than it is.
async fn answer(stream: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> io::Result<u16> {
    let mut head = Vec::new();
    loop {
        let arrived = stream.fill_buf().await?;
        if arrived.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection ended within an answer",
            ));
        }
        // The end may lie across two arrivals.
        let overlap = head.len().min(END.len() - 1);
        let n_before = head.len();
        head.extend_from_slice(arrived);
        if let Some(at) = memmem::find(&head[n_before - overlap..], END) {
            let n_head = n_before - overlap + at + END.len();
            head.truncate(n_head);
            stream.consume(n_head - n_before);
            break;
        }
        let n_arrived = arrived.len();
        stream.consume(n_arrived);
    }
    let status = head.get(9..12).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("no status line"))?;
    let length = memmem::find(&head, LENGTH).map_or(Some(0), |at| {
        let digits = head[at + LENGTH.len()..].split(|byte| *byte == b'\r').next()?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    });
    let mut n_left: usize = length.ok_or_else(|| io::Error::other("a length that is no number"))?;
    body.clear();
    while n_left > 0 {
        let arrived = stream.fill_buf().await?;
        let n = arrived.len().min(n_left);
        body.extend_from_slice(&arrived[..n]);
        if n == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended within a body"));
        }
        stream.consume(n);
        n_left -= n;
    }
    Ok(status)
}

/// One request and the body of its answer, for setting a round up.
pub(crate) async fn ask(address: SocketAddr, request: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Ok((status, answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.into())))
}
