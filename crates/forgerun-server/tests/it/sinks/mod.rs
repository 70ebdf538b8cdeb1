//! Sinks, with real brokers and the real binary: what arrives, read back by clients that are not
//! ours; and what becomes of it when a password is wrong, a message is too large, or somebody is
//! killed.
//!
//! The same scenarios run for every broker. `FORGERUN_TEST_SERVER_KILLS` and
//! `FORGERUN_TEST_BROKER_KILLS` raise the number of kills.

#[cfg(feature = "amqp")]
mod amqp;
mod broker_process;
mod guide;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
pub(crate) mod nats;
#[cfg(feature = "nats")]
mod nats_login;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::crash::{Connection, load, load_and_kill, wait_for_end};
use crate::process::{Server, forgerun};
use crate::rabbitmq;

/// How long a condition may take to come true: brokers are large programs, and the machine may be
/// busy.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);

/// A message as somebody else's client read it.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    key: String,
    /// The subject, routing key or topic.
    address: String,
    headers: BTreeMap<String, String>,
    value: Vec<u8>,
}

impl Message {
    fn all(read: &Value) -> Vec<Message> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let message = |found: &Value| Message {
            key: text(&found["key"]),
            address: text(&found["address"]),
            headers: found["headers"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(k, v)| (k.clone(), text(v)))
                .collect(),
            value: STANDARD.decode(found["value"].as_str().unwrap()).unwrap(),
        };
        read.as_array().unwrap().iter().map(message).collect()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.value).unwrap()
    }

    /// The job that it is about: in the value, or in the data of a structured CloudEvent.
    fn job(&self) -> String {
        let value = self.json();
        let object = if value["specversion"].is_string() { &value["data"] } else { &value };
        object["job_id"].as_str().unwrap_or_else(|| panic!("no job in {value}")).to_owned()
    }
}

/// A broker, as a scenario sees it.
struct BrokerSetup<'a> {
    /// What makes a server send there.
    environment: Vec<(&'static str, String)>,
    /// The section of the configuration.
    section: &'static str,
    /// What attributes of CloudEvents begin with in headers.
    prefix: &'static str,
    /// Reads everything that is there.
    read: &'a dyn Fn() -> Vec<Message>,
}

/// A server that sends to a broker, with its own store, which outlives it.
struct World {
    folder: tempfile::TempDir,
    environment: Vec<(String, String)>,
}

impl World {
    fn new(setup: &BrokerSetup<'_>, more: &[(&str, &str)]) -> World {
        let given = setup.environment.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        World { folder: tempfile::tempdir().unwrap(), environment: given.chain(more).collect() }
    }

    fn start(&self) -> Server {
        let url = format!("sqlite:{}", self.folder.path().join("jobs.db").display());
        let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", &url]);
        command
            .env("FORGERUN_AUTH__MODE", "open")
            .env("FORGERUN_WORKERS__LEASE_S", "2")
            .env("FORGERUN_WORKERS__HEARTBEAT_S", "1")
            .env("FORGERUN_WORKERS__COUNT", "16")
            .env("FORGERUN_LIMITS__RATE_PER_MINUTE", "0")
            .env("FORGERUN_SIM__TIME_SCALE", "0.01")
            .env("FORGERUN_RETRY__MODE__V1", "auto")
            .env("FORGERUN_RETRY__BASE_MS", "10")
            .env("FORGERUN_RETRY__MAX_MS", "100")
            .env("FORGERUN_LOG__LEVEL", "error");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Server::start(&mut command)
    }
}

/// What an operator sees of the one sink.
fn sink(server: &Server) -> Value {
    let mut connection = Connection::open(server.address, "").unwrap();
    let (status, sinks) = connection.ask("GET", "/admin/v1/sinks", "").unwrap();
    assert_eq!(status, 200, "{sinks}");
    // It is there a moment after the start.
    if let Some(sink) = sinks["items"].get(0) {
        let (_, overview) = connection.ask("GET", "/admin/v1/overview", "").unwrap();
        assert_eq!(overview["sinks"][0]["name"], sink["name"], "the overview has it too");
    }
    sinks["items"][0].clone()
}

/// Waits until something is there; a test that waits for ever says for what.
#[expect(clippy::disallowed_methods, reason = "waits for other processes, which give no other sign")]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut waited = Duration::ZERO;
    while waited < PATIENCE {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(PAUSE);
        waited += PAUSE;
    }
    panic!("waited in vain for {what}");
}

/// Waits until everything has been sent.
fn drained(server: &Server) {
    wait_for("the sink to send everything", || {
        let sink = sink(server);
        (sink["state"] == "ok" && sink["lag_events"] == 0).then_some(())
    });
}

fn submit(server: &Server, kind: &str) -> String {
    submit_job(server, json!({"type": "EXECUTE", "work_kind": kind}))
}

/// Submits a job, and waits until it has ended.
fn submit_job(server: &Server, job: Value) -> String {
    let mut connection = Connection::open(server.address, "").unwrap();
    let (status, answer) = connection.ask("POST", "/v1/jobs", &job.to_string()).unwrap();
    assert_eq!(status, 202, "{answer}");
    let id = answer["job_id"].as_str().unwrap().to_owned();
    wait_for_end(&mut connection, &id);
    id
}

/// The stored failure object, as HTTP gives it.
fn failure(server: &Server, id: &str) -> Vec<u8> {
    let mut connection = server.connect();
    let accept = "accept: application/problem+json";
    write!(
        connection,
        "GET /v1/jobs/{id} HTTP/1.1\r\nhost: localhost\r\n{accept}\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    let at = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    answer.split_off(at + 4)
}

/// Runs a program in Python with these arguments; what it prints is JSON.
fn python(program: &str, arguments: &[&str]) -> Value {
    let mut command = Command::new(rabbitmq::python());
    command.args(["-c", program]).args(arguments).stdin(Stdio::null());
    let output = command.output().expect("cannot start python");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}", told.lines().last().unwrap_or_default());
    serde_json::from_slice(&output.stdout).expect("the program prints JSON")
}

/// How often somebody is killed.
fn n_kills(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Events of a job come in order, as far as they come for the first time.
fn check_order(messages: &[Message]) {
    let mut seen: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for message in messages {
        let value = message.json();
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        let (event, at) = (text("event_id"), text("timestamp"));
        let events = seen.entry(text("job_id")).or_default();
        if !events.iter().any(|(known, _)| *known == event) {
            events.push((event, at));
        }
    }
    for (job, events) in seen {
        assert!(events.is_sorted_by_key(|(_, at)| at), "job {job}: {events:?}");
    }
}

/// Failures arrive byte for byte as over HTTP, with everything beside them, in each mode of
/// CloudEvents.
fn events_arrive_as_over_http(setup: &BrokerSetup<'_>, check: impl Fn(&Message, &str)) {
    for mode in ["off", "binary", "structured"] {
        let events = format!("FORGERUN_{}__EVENTS", setup.section);
        // Leases that no stall outlasts: a job that is taken for lost has more events.
        let more =
            [(&*events, "all"), ("FORGERUN_CLOUDEVENTS__MODE", mode), ("FORGERUN_WORKERS__LEASE_S", "60")];
        let world = World::new(setup, &more);
        let server = world.start();
        let (failed, succeeded) = (submit(&server, "FAIL_IMMEDIATE"), submit(&server, "SUCCESS_FAST"));
        drained(&server);
        let messages = (setup.read)();
        let of = |id: &str| messages.iter().filter(|message| message.job() == id).collect::<Vec<_>>();
        let told = *of(&failed).last().expect("the failure was sent");
        let stored = failure(&server, &failed);
        let header = |name: &str| told.headers.get(name).map(String::as_str);
        let attribute = |name: &str| header(&format!("{}{name}", setup.prefix));
        match mode {
            "structured" => {
                let envelope = told.json();
                assert_eq!(header("content-type"), Some("application/cloudevents+json"));
                assert_eq!(envelope["datacontenttype"], "application/problem+json");
                assert_eq!(
                    (&envelope["type"], &envelope["subject"]),
                    (&json!("dev.forgerun.job.failed"), &json!(failed))
                );
                let stored = String::from_utf8(stored).unwrap();
                assert!(
                    String::from_utf8_lossy(&told.value).contains(&stored),
                    "the data are the stored bytes"
                );
            }
            _ => {
                assert_eq!(String::from_utf8_lossy(&told.value), String::from_utf8_lossy(&stored));
                assert_eq!(header("content-type"), Some("application/problem+json"));
                assert_eq!(header("content-language"), Some("en"));
                assert_eq!(attribute("type"), (mode == "binary").then_some("dev.forgerun.job.failed"));
                assert_eq!(attribute("subject"), (mode == "binary").then_some(failed.as_str()));
                assert_eq!(attribute("specversion"), (mode == "binary").then_some("1.0"));
                check_order(
                    &messages
                        .iter()
                        .filter(|message| !message.json()["specversion"].is_string())
                        .cloned()
                        .collect::<Vec<_>>(),
                );
            }
        }
        check(told, &failed);
        // Created, queued, assigned, started, ended; the failure is tried again by policy, so it
        // has more.
        assert_eq!(of(&succeeded).len(), 5, "{:?}", of(&succeeded));
        assert!(of(&failed).len() >= 5);
        let sink = sink(&server);
        assert_eq!((&sink["state"], &sink["last_error"]), (&json!("ok"), &Value::Null));
        assert!(sink["last_sent_at"].is_string() && sink["node"].is_string(), "{sink}");
        let metrics = server.get("/metrics");
        let name = sink["name"].as_str().unwrap();
        for line in [
            format!("sink_sent_total{{sink=\"{name}\"}} {}", sink["sent"]),
            format!("sink_errors_total{{sink=\"{name}\"}} 0"),
            format!("sink_lag_events{{sink=\"{name}\"}}"),
            format!("sink_lag_seconds{{sink=\"{name}\"}}"),
        ] {
            assert!(metrics.contains(&line), "wanted {line} in:\n{metrics}");
        }
    }
}

/// The server is killed under load, again and again: the result of every job that was acknowledged
/// arrives.
fn nothing_is_lost_when_the_server_is_killed(setup: &BrokerSetup<'_>) {
    let events = format!("FORGERUN_{}__EVENTS", setup.section);
    let world = World::new(setup, &[(&events, "all")]);
    // The sink must have been used before the first event that it shall not miss.
    drained(&world.start());
    let mut heard = BTreeSet::new();
    let n_kills = n_kills("FORGERUN_TEST_SERVER_KILLS", 5);
    for _ in 0..n_kills {
        heard.extend(load_and_kill(&world.start(), ""));
    }
    check_all(setup, &world.start(), &heard);
    println!("{} jobs over {n_kills} kills of the server: all results arrived", heard.len());
}

/// The broker is killed under load and comes back.
fn nothing_is_lost_when_the_broker_is_killed(setup: &BrokerSetup<'_>, kill_and_restart: &dyn Fn()) {
    let events = format!("FORGERUN_{}__EVENTS", setup.section);
    let world = World::new(setup, &[(&events, "all")]);
    let server = world.start();
    drained(&server);
    let mut heard = load(&[server.address], "", 50);
    let n_kills = n_kills("FORGERUN_TEST_BROKER_KILLS", 2);
    for _ in 0..n_kills {
        std::thread::scope(|scope| {
            let loading = scope.spawn(|| load(&[server.address], "", 200));
            kill_and_restart();
            heard.extend(loading.join().unwrap());
        });
    }
    check_all(setup, &server, &heard);
    println!("{} jobs over {n_kills} kills of the broker: all results arrived", heard.len());
}

/// Every job has ended, and its end has arrived with the bytes that HTTP gives, its events in
/// order.
fn check_all(setup: &BrokerSetup<'_>, server: &Server, heard: &BTreeSet<String>) {
    let mut connection = Connection::open(server.address, "").unwrap();
    for id in heard {
        wait_for_end(&mut connection, id);
    }
    drained(server);
    let messages = (setup.read)();
    check_order(&messages);
    let mut ends: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for message in &messages {
        let value = message.json();
        if value["completedAt"].is_string() {
            ends.insert(message.job(), message.value.clone());
        }
    }
    for id in heard {
        let Some(end) = ends.get(id) else { panic!("the end of job {id} did not arrive") };
        if serde_json::from_slice::<Value>(end).unwrap()["jobStatus"] == "FAILED" {
            assert_eq!(
                String::from_utf8_lossy(end),
                String::from_utf8_lossy(&failure(server, id)),
                "job {id}"
            );
        }
    }
}

/// The broker cannot be used: a clear line, a metric, and everything else goes on.
fn trouble_is_told_and_the_rest_goes_on(setup: &BrokerSetup<'_>, expected: &str) {
    let world = World::new(setup, &[("FORGERUN_LOG__LEVEL", "warn")]);
    let mut server = world.start();
    submit(&server, "SUCCESS_FAST");
    // A slow broker may first be late with its answer, which is another error.
    let sink = wait_for("the sink to be down for this reason", || {
        let sink = sink(&server);
        let is_expected = sink["last_error"].as_str().is_some_and(|error| error.contains(expected));
        (sink["state"] == "down" && is_expected).then_some(sink)
    });
    wait_for("the sender to be among the nodes", || {
        let mut connection = Connection::open(server.address, "").unwrap();
        let (_, overview) = connection.ask("GET", "/admin/v1/overview", "").unwrap();
        overview["nodes"].as_array()?.iter().any(|node| node["id"] == sink["node"]).then_some(())
    });
    assert!(!sink.to_string().contains("hunter2"), "{sink}");
    wait_for("the lag to show", || {
        let metrics = server.get("/metrics");
        let is_shown = |line: &&str| line.starts_with("sink_lag_events{") && line.ends_with(" 1");
        metrics.lines().any(|line| is_shown(&line)).then_some(())
    });
    let mut lines = std::iter::repeat_with(|| server.wait_for_log("could not send; trying again"));
    let line = lines.find(|line| line.contains(expected)).unwrap();
    assert!(!line.contains("hunter2"), "{line}");
    assert!(server.get("/ready").starts_with("HTTP/1.1 200"), "brokers are no reason not to be ready");
    submit(&server, "FAIL_IMMEDIATE");
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0), "it stops although the broker is away");
}

/// A message that the broker never takes is left out and counted; what follows goes out.
fn a_message_that_is_too_large_is_left_out(setup: &BrokerSetup<'_>) {
    let world = World::new(setup, &[]);
    let server = world.start();
    drained(&server);
    let mut connection = Connection::open(server.address, "").unwrap();
    let items: Vec<Value> = (0..200).map(|_| json!({"work_kind": "FAIL_IMMEDIATE"})).collect();
    let (status, answer) =
        connection.ask("POST", "/v1/jobs/batch", &json!({"items": items}).to_string()).unwrap();
    assert_eq!(status, 202, "{answer}");
    let large = answer["job_id"].as_str().unwrap().to_owned();
    wait_for_end(&mut connection, &large);
    let small = submit(&server, "SUCCESS_FAST");
    drained(&server);
    let jobs: Vec<String> = (setup.read)().iter().map(Message::job).collect();
    assert!(jobs.contains(&small) && !jobs.contains(&large), "{jobs:?}");
    assert_eq!(sink(&server)["refused"], 1);
}

/// The folder that `make tools` fills.
fn tools() -> &'static Path {
    Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/.."))
}
