//! A large result: how fast it comes in, how fast it is downloaded against a plain read of its file by this process, and how much
//! the memory of the server grows meanwhile. The server is a process of its own, and only downloads happen in it.

use std::fs;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use forgerun_core::Command;
use forgerun_core::command::{Claim, Content, HeldJob, LeaseProof, NewJob, Submit, Succeed, WorkerKind};
use forgerun_core::id::JobId;
use forgerun_core::job::{Head, Name};
use forgerun_core::queue::Owner;
use forgerun_core::random::SplitMix64;
use forgerun_engine::SystemClock;
use forgerun_server::app::{App, Bounds};
use forgerun_server::config::{Config, Flag, Sources};
use forgerun_store::sqlite::Sqlite;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::processes::ServerProcess;

/// What to measure.
#[derive(Clone, Debug)]
pub(crate) struct ResultOptions {
    /// The size of the result, in MiB.
    pub(crate) size_mib: u64,
    /// Downloads; the median counts.
    pub(crate) n_rounds: usize,
    /// Where the data go; an empty folder, removed by the caller.
    pub(crate) data: PathBuf,
}

const MIB: usize = 1024 * 1024;

/// Bytes read at once, by both sides.
const BUFFER_BYTES: usize = 256 * 1024;

/// Measures, and prints what was found.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) async fn run(options: &ResultOptions) -> io::Result<()> {
    let size = options.size_mib * MIB as u64;
    let began = Instant::now();
    let kept = keep(options).await?;
    report("taken in and synced to disk", size, began.elapsed());

    let data = options.data.to_string_lossy().into_owned();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", &data];
    let server = ServerProcess::start(
        &arguments,
        &[("FORGERUN_AUTH__MODE", "open"), ("FORGERUN_LOG__LEVEL", "error")],
    )?;
    let path = format!("/v1/jobs/{}/result", kept.job);
    // By then the server has begun to serve, and has sent nothing of note.
    fetch(server.address, "/health", 0, 1, |_| {}).await?;
    let before = memory(&server)?;
    // Once untimed, so that the file is in the cache for all; its memory counts.
    download(server.address, &path).await?;
    plain_read(&kept.file)?;
    let (mut reads, mut downloads) = (Vec::new(), Vec::new());
    for _ in 0..options.n_rounds.max(1) {
        reads.push(plain_read(&kept.file)?);
        downloads.push(download(server.address, &path).await?);
    }
    let (read, downloaded) = (median(reads), median(downloads));
    let after = memory(&server)?;
    report("plain read of the file, by this process", size, read);
    report("downloaded over loopback", size, downloaded);
    println!("ratio to the plain read: {:.2}", read.as_secs_f64() / downloaded.as_secs_f64());
    println!(
        "resident memory of the server: {:.1} MiB before, {:.1} MiB at its peak, {:+.1} MiB",
        mib(before.now),
        mib(after.peak),
        mib(after.peak) - mib(before.now)
    );
    resumed(&server, &path, &kept, size).await
}

struct StoredFile {
    job: JobId,
    file: PathBuf,
    digest: [u8; 32],
}

/// Makes a job with a result of the wanted size, in a store of its own, and closes it again.
async fn keep(options: &ResultOptions) -> io::Result<StoredFile> {
    let other = |error: forgerun_engine::Error| io::Error::other(error);
    let flag = |key, value: &str| Flag { key, name: "bench", value: value.to_owned() };
    let flags = vec![flag("auth.mode", "open"), flag("limits.max_result_bytes", &(1_u64 << 40).to_string())];
    let config = Config::load(&Sources { flags, ..Sources::default() }).map_err(io::Error::other)?;
    let store = Arc::new(Sqlite::open(&options.data.join("forgerun.db")).map_err(io::Error::other)?);
    let app = App::start(config, store, Arc::new(SystemClock), Bounds::default()).await.map_err(other)?;
    let client = app.default_client.ok_or_else(|| io::Error::other("open mode has a client"))?;
    let queue = Name::new("bench").expect("a short name");
    let head = Arc::new(Head::new(client, queue.clone(), app.engine.now()));
    let new = NewJob { id: app.engine.job_id(), id_given: false, head, input: Arc::default() };
    let job = new.id;
    app.engine
        .submit(Submit { jobs: vec![new], idempotency: None, queue_max: None, refuse_paused: false })
        .await
        .map_err(other)?;
    let claim = Claim {
        worker: queue.clone(),
        worker_kind: WorkerKind::External(Owner::client(client)),
        queues: vec![queue],
        limit: 1,
        lease: Some(Duration::from_secs(3600)),
        lease_default: Duration::from_secs(3600),
        start: true,
        active_max: None,
    };
    let claimed = app.engine.claim(claim, Duration::from_secs(10)).await.map_err(other)?;
    let claimed = claimed.first().ok_or_else(|| io::Error::other("there is no job"))?;
    let mut intake = app.engine.begin_result("application/octet-stream", Some("bench.bin".into()));
    for n in 0..options.size_mib {
        intake.write(block(n)).await.map_err(io::Error::other)?;
    }
    let output = intake.finish().await.map_err(io::Error::other)?;
    let Content::Stored(blob) = output.content else {
        return Err(io::Error::other("the result is too small"));
    };
    let held = HeldJob { job, proof: LeaseProof::Token(claimed.fence), client: None };
    let succeed = Succeed { held, output: Some(Arc::new(output)) };
    app.engine.act(Command::Succeed(succeed)).await.map_err(other)?;
    app.engine.stop().await;
    let folder = options.data.join("results").join(format!("{:02x}", blob.id.as_u128() & 0xff));
    Ok(StoredFile { job, file: folder.join(blob.id.to_string()), digest: blob.digest })
}

/// A mebibyte that no other resembles.
fn block(n: u64) -> Bytes {
    let mut numbers = SplitMix64::new(n);
    let mut bytes = Vec::with_capacity(MIB);
    while bytes.len() < MIB {
        bytes.extend_from_slice(&numbers.draw().to_le_bytes());
    }
    bytes.into()
}

/// Reads half, hangs up, goes on with the rest, and checks the whole.
async fn resumed(server: &ServerProcess, path: &str, kept: &StoredFile, size: u64) -> io::Result<()> {
    let mut digest = Sha256::new();
    let first = fetch(server.address, path, 0, size / 2, |bytes| digest.update(bytes)).await?;
    let rest = fetch(server.address, path, first.n_bytes, u64::MAX, |bytes| digest.update(bytes)).await?;
    let whole = <[u8; 32]>::from(digest.finalize()) == kept.digest;
    let fits = first.n_bytes + rest.n_bytes == size && rest.status == 206;
    println!(
        "resumed after {:.0} MiB: {}",
        mib(first.n_bytes),
        if whole && fits { "the digest is that of the whole" } else { "NOT the same bytes" }
    );
    if whole && fits { Ok(()) } else { Err(io::Error::other("a resumed download differs from its result")) }
}

struct Fetched {
    status: u16,
    n_bytes: u64,
    took: Duration,
}

async fn download(address: SocketAddr, path: &str) -> io::Result<Duration> {
    let fetched = fetch(address, path, 0, u64::MAX, |_| {}).await?;
    if fetched.status == 200 {
        Ok(fetched.took)
    } else {
        Err(io::Error::other(format!("status {}", fetched.status)))
    }
}

/// Downloads from a place on, and hangs up after at least `limit` bytes.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn fetch(
    address: SocketAddr,
    path: &str,
    from: u64,
    limit: u64,
    mut take: impl FnMut(&[u8]),
) -> io::Result<Fetched> {
    let began = Instant::now();
    let range = if from > 0 { format!("Range: bytes={from}-\r\n") } else { String::new() };
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{range}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut stream = BufReader::with_capacity(BUFFER_BYTES, stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    while line != "\r\n" && !line.is_empty() {
        line.clear();
        stream.read_line(&mut line).await?;
    }
    let mut n_bytes = 0;
    while n_bytes < limit {
        let received = stream.fill_buf().await?;
        if received.is_empty() {
            break;
        }
        take(received);
        let n = received.len();
        n_bytes += n as u64;
        stream.consume(n);
    }
    Ok(Fetched { status, n_bytes, took: began.elapsed() })
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn plain_read(file: &Path) -> io::Result<Duration> {
    let began = Instant::now();
    let mut file = fs::File::open(file)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    while file.read(&mut buffer)? > 0 {}
    Ok(began.elapsed())
}

/// Resident memory of a process, in bytes.
struct ProcessMemory {
    now: u64,
    peak: u64,
}

/// What the kernel says of the server. The peak counts from the last time this was asked.
fn memory(server: &ServerProcess) -> io::Result<ProcessMemory> {
    let folder = PathBuf::from(format!("/proc/{}", server.child.id()));
    let status = fs::read_to_string(folder.join("status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other(format!("no {name} in /proc")))
    };
    // 5 resets the peak (proc(5)).
    fs::write(folder.join("clear_refs"), "5")?;
    Ok(ProcessMemory { now: field("VmRSS:")?, peak: field("VmHWM:")? })
}

fn median(mut spans: Vec<Duration>) -> Duration {
    spans.sort_unstable();
    spans[spans.len() / 2]
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}

fn report(what: &str, size: u64, took: Duration) {
    println!(
        "{what}: {:.0} MiB in {:.2} s, {:.0} MiB/s",
        mib(size),
        took.as_secs_f64(),
        mib(size) / took.as_secs_f64()
    );
}
