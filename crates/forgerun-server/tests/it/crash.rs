//! `kill -9` under load, again and again: every 202 is there afterwards and has ended once, with
//! one report and a legal chain of events. And two nodes on one PostgreSQL, one of them killed: the
//! work goes on.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forgerun_core::state::is_legal;
use forgerun_store::testing::{Cluster, Durability};
use forgerun_wire::words::parse_forge_state;
use serde_json::Value;

use crate::process::{Server, forgerun};

/// Rounds of load and murder.
const N_ROUNDS: usize = 10;
/// Connections that submit without a pause.
const N_CLIENTS: usize = 8;
/// Submissions that are heard of before the server is killed, in each round.
const N_HEARD: usize = 60;

/// A server whose work takes a moment, so that the killer finds some under way; leases are short,
/// so that it comes back soon.
pub(crate) fn start(database_url: &str) -> Server {
    started(forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", database_url]))
}

pub(crate) fn started(command: Command) -> Server {
    started_with_leases(command, Duration::from_secs(2))
}

/// The same, with leases of this length.
pub(crate) fn started_with_leases(mut command: Command, lease: Duration) -> Server {
    command
        .env("FORGERUN_WORKERS__LEASE_S", lease.as_secs().to_string())
        .env("FORGERUN_WORKERS__HEARTBEAT_S", "1")
        .env("FORGERUN_WORKERS__COUNT", "16")
        .env("FORGERUN_LIMITS__RATE_PER_MINUTE", "1000000")
        .env("FORGERUN_SIM__TIME_SCALE", "0.01")
        .env("FORGERUN_RETRY__MODE__V1", "auto")
        .env("FORGERUN_RETRY__BASE_MS", "10")
        .env("FORGERUN_RETRY__MAX_MS", "100")
        .env("FORGERUN_LOG__LEVEL", "error");
    Server::start(&mut command)
}

#[test]
fn every_acknowledged_job_survives_kill_9_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    kill_under_load(&url);
}

#[test]
fn every_acknowledged_job_survives_kill_9_on_postgresql() {
    let cluster = Cluster::start(Durability::Full);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    kill_under_load(&runtime.block_on(cluster.database()));
}

#[test]
fn work_goes_on_when_one_of_two_nodes_is_killed() {
    let cluster = Cluster::start(Durability::Full);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = runtime.block_on(cluster.database());
    let (first, second) = (start(&url), start(&url));
    let key = first_key(first.address);
    let mut heard: BTreeSet<String> = load(&[first.address, second.address], &key, 2 * N_HEARD);
    first.signal("KILL");
    heard.extend(load(&[second.address], &key, N_HEARD));
    let n_events = check(second.address, &key, &heard);
    println!("{} jobs of two nodes, one killed: all ended once, {n_events} events", heard.len());
}

fn kill_under_load(url: &str) {
    let mut heard = BTreeSet::new();
    let mut key = None;
    for _ in 0..N_ROUNDS {
        let server = start(url);
        let key = key.get_or_insert_with(|| first_key(server.address));
        heard.extend(load_and_kill(&server, key));
    }
    let server = start(url);
    let n_events = check(server.address, &key.unwrap(), &heard);
    assert!(heard.len() >= N_ROUNDS * N_HEARD);
    crate::cli::check::is_sound(url);
    println!("{} jobs acknowledged over {N_ROUNDS} kills: all ended once, {n_events} events", heard.len());
}

/// Submits until enough was heard of, then kills in the middle of it all.
pub(crate) fn load_and_kill(server: &Server, key: &str) -> BTreeSet<String> {
    let heard = Mutex::new(BTreeSet::new());
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..N_CLIENTS {
            scope.spawn(|| {
                // Ends with the server: a broken connection is what a client of a killed server
                // sees.
                let _ = submit_until(server.address, key, &heard, || {
                    if heard.lock().unwrap().len() >= N_HEARD && !enough.swap(true, Ordering::Relaxed) {
                        server.signal("KILL");
                    }
                    false
                });
            });
        }
    });
    assert!(enough.into_inner(), "the server was not killed");
    heard.into_inner().unwrap()
}

/// Submits over these nodes until so many jobs were heard of.
pub(crate) fn load(nodes: &[SocketAddr], key: &str, n_jobs: usize) -> BTreeSet<String> {
    let heard = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for n in 0..N_CLIENTS {
            let (address, heard) = (nodes[n % nodes.len()], &heard);
            scope.spawn(move || {
                submit_until(address, key, heard, || heard.lock().unwrap().len() >= n_jobs).unwrap();
            });
        }
    });
    heard.into_inner().unwrap()
}

fn submit_until(
    address: SocketAddr,
    key: &str,
    heard: &Mutex<BTreeSet<String>>,
    enough: impl Fn() -> bool,
) -> io::Result<()> {
    let mut connection = Connection::open(address, key)?;
    let kinds =
        ["SUCCESS_FAST", "FAIL_IMMEDIATE", "RETRY_ON_FAIL", "FAIL_AFTER_RETRYABLE", "MANY_SMALL_OUTPUTS"];
    for kind in kinds.into_iter().cycle() {
        let body = format!("{{\"type\":\"EXECUTE\",\"work_kind\":\"{kind}\"}}");
        let (status, answer) = connection.ask("POST", "/v1/jobs", &body)?;
        assert_eq!(status, 202, "{answer}");
        heard.lock().unwrap().insert(answer["job_id"].as_str().unwrap().into());
        if enough() {
            break;
        }
    }
    Ok(())
}

/// Waits for the end of every job, then checks report, events and outcome. Gives the number of
/// events.
pub(crate) fn check(address: SocketAddr, key: &str, heard: &BTreeSet<String>) -> usize {
    let mut connection = Connection::open(address, key).unwrap();
    let mut n_events = 0;
    for id in heard {
        let job = wait_for_end(&mut connection, id);
        let (status, report) = connection.ask("GET", &format!("/v1/jobs/{id}/report"), "").unwrap();
        assert_eq!(status, 200, "job {id} has no report: {report}");
        assert_eq!(report["outcome"], job["outcome"], "{report}");
        let events = report["events"].as_array().unwrap();
        check_chain(id, events, 1);
        assert_eq!(events.last().unwrap()["next_state"], job["state"], "{report}");
        n_events += events.len();
    }
    n_events
}

pub(crate) fn wait_for_end(connection: &mut Connection, id: &str) -> Value {
    for _ in 0..30 {
        let (status, job) = connection.ask("GET", &format!("/v1/jobs/{id}"), "").unwrap();
        assert_eq!(status, 200, "acknowledged job {id} is lost: {job}");
        if !job["outcome"].is_null() {
            return job;
        }
    }
    panic!("job {id} never ended");
}

/// A legal chain of events in which the job comes to an end so many times; more than once only if
/// it was retried.
pub(crate) fn check_chain(id: &str, events: &[Value], n_expected: usize) {
    let mut before = None;
    let (mut times, mut n_ends) = (BTreeSet::new(), 0);
    for event in events {
        let state = |name: &str| event[name].as_str().map(|word| parse_forge_state(word).unwrap());
        let next = state("next_state").unwrap();
        assert_eq!(state("prev_state"), before, "job {id}: {event} does not follow");
        assert!(is_legal(before, next), "job {id}: {event} is not a legal move");
        assert!(times.insert(event["timestamp"].as_str().unwrap()), "job {id}: two events at one moment");
        let goes_on = event["will_retry"] == true;
        n_ends += usize::from(next.is_final() && !goes_on);
        before = Some(next);
    }
    assert_eq!(n_ends, n_expected, "job {id} must end {n_expected} times: {events:?}");
}

pub(crate) fn first_key(address: SocketAddr) -> String {
    let mut connection = Connection::open(address, "").unwrap();
    let (_, client) = connection.ask("POST", "/v1/clients", "").unwrap();
    let path = format!("/v1/clients/{}/keys", client["client_id"].as_str().unwrap());
    let (status, key) = connection.ask("POST", &path, "").unwrap();
    assert_eq!(status, 201, "{key}");
    key["api_key"].as_str().unwrap().into()
}

/// A connection that is kept open, one request at a time. Each status request asks to wait for the
/// end of the job, so nothing here polls in a hurry.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    key: String,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr, key: &str) -> io::Result<Connection> {
        Connection::open_patiently(address, key, Duration::from_secs(60))
    }

    /// The same, and an answer that takes longer than this is an error.
    pub(crate) fn open_patiently(
        address: SocketAddr,
        key: &str,
        patience: Duration,
    ) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::new(stream), key: key.into() })
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<(u16, Value)> {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
        if !self.key.is_empty() {
            request += &format!("Authorization: Bearer {}\r\n", self.key);
        }
        if !body.is_empty() {
            request += "Content-Type: application/json\r\n";
        }
        if method == "GET" {
            request += "Prefer: wait=10\r\n";
        }
        self.stream.get_mut().write_all(format!("{request}\r\n{body}").as_bytes())?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("the connection ended"))?;
        let mut n_bytes = 0;
        while !matches!(line.as_str(), "\r\n" | "") {
            line.clear();
            self.stream.read_line(&mut line)?;
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                n_bytes = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        let mut body = vec![0; n_bytes];
        self.stream.read_exact(&mut body)?;
        Ok((status, serde_json::from_slice(&body).map_err(io::Error::other)?))
    }
}
