//! The specification's own list of what "done" means (FR §19), under a mixture of everything: all
//! actions work, jobs move only as allowed, every category of failure is told, the signals are
//! there, and a restart finds it all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;

use forgerun_core::work::{Behaviour, WorkKind};
use serde_json::{Value, json};

use crate::crash::{Connection, check_chain, first_key};
use crate::process::{Server, forgerun};

/// Clients at once, each with every kind of work.
const N_CLIENTS: usize = 4;

fn start(folder: &std::path::Path) -> Server {
    let url = format!("sqlite:{}", folder.join("jobs.db").display());
    let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", &url]);
    command
        .env("FORGERUN_WORKERS__CONCURRENCY", "8")
        .env("FORGERUN_LIMITS__RATE_PER_MINUTE", "1000000")
        .env("FORGERUN_SIM__TIME_SCALE", "0.001")
        .env("FORGERUN_RETRY__BASE_MS", "0")
        .env("FORGERUN_LOG__LEVEL", "error");
    Server::start(&mut command)
}

#[test]
fn everything_the_specification_calls_done_holds_under_mixed_traffic_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let jobs = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..N_CLIENTS {
            scope.spawn(|| {
                let key = first_key(server.address);
                for (id, report) in client_story(server.address, &key) {
                    jobs.lock().unwrap().insert(id, (key.clone(), report));
                }
            });
        }
    });
    let jobs = jobs.into_inner().unwrap();
    check_signals(&server.get("/metrics"), &jobs);
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));
    let server = start(folder.path());
    for (id, (key, report)) in &jobs {
        let mut connection = Connection::open(server.address, key).unwrap();
        let (status, again) = connection.ask("GET", &format!("/v1/jobs/{id}/report"), "").unwrap();
        assert_eq!((status, &again), (200, report), "a report is the same after a restart");
    }
    println!("{} jobs of {N_CLIENTS} clients: all actions, legal moves, signals, restart", jobs.len());
}

/// Every kind of work once, two of them cancelled, failures retried once; then bad requests. Gives
/// the reports.
fn client_story(address: SocketAddr, key: &str) -> BTreeMap<String, Value> {
    let mut connection = Connection::open(address, key).unwrap();
    let mut ids = BTreeMap::new();
    for kind in WorkKind::ALL {
        let body = json!({"type": "EXECUTE", "work_kind": kind.as_str(), "idempotency_key": kind.as_str()});
        let (status, answer) = connection.ask("POST", "/v1/jobs", &body.to_string()).unwrap();
        if kind.behaviour() == Behaviour::Refused {
            assert_eq!((status, &answer["code"]), (400, &json!("RFA_JOB_VALIDATION_FAILED")), "{kind:?}");
            continue;
        }
        assert_eq!(status, 202, "{answer}");
        let (_, again) = connection.ask("POST", "/v1/jobs", &body.to_string()).unwrap();
        assert_eq!(again["job_id"], answer["job_id"], "a repetition makes no second job");
        ids.insert(answer["job_id"].as_str().unwrap().to_owned(), *kind);
    }
    let far = json!({"type": "DEFERRED", "execution_at": "2999-01-01T00:00:00Z"});
    let (_, deferred) = connection.ask("POST", "/v1/jobs", &far.to_string()).unwrap();
    let deferred = deferred["job_id"].as_str().unwrap().to_owned();
    let (status, canceled) = connection.ask("POST", &format!("/v1/jobs/{deferred}/cancel"), "").unwrap();
    assert_eq!((status, &canceled["state"]), (200, &json!("CANCELED")));
    let mut reports = BTreeMap::from([(deferred.clone(), report(&mut connection, &deferred))]);
    for (id, kind) in ids {
        let mut job = ended(&mut connection, &id);
        let expected = if kind.should_fail() { "FAILED" } else { "SUCCESS" };
        assert_eq!(job["outcome"], expected, "{kind:?}");
        if kind.should_fail() {
            let (status, answer) = connection.ask("POST", &format!("/v1/jobs/{id}/retry"), "").unwrap();
            assert_eq!(status, 200, "{answer}");
            job = ended(&mut connection, &id);
            assert_eq!(job["attempt"], 2, "{kind:?}");
            assert_eq!(job["outcome"] == "SUCCESS", kind == WorkKind::RetryOnFail, "{kind:?}");
        }
        let report = report(&mut connection, &id);
        check_chain(&id, report["events"].as_array().unwrap(), if kind.should_fail() { 2 } else { 1 });
        reports.insert(id, report);
    }
    refusals(&mut connection, address, &deferred);
    reports
}

/// One failure of each category that a client can cause.
fn refusals(connection: &mut Connection, address: SocketAddr, ended: &str) {
    for (method, path, body, status, code) in [
        ("POST", "/v1/jobs", "{", 400, "RFA_REQUEST_MALFORMED"),
        ("POST", "/v1/jobs", "{\"type\":\"NONE\"}", 400, "RFA_JOB_VALIDATION_FAILED"),
        ("GET", "/v1/jobs/none", "", 404, "RFA_JOB_NOT_FOUND"),
        ("POST", &format!("/v1/jobs/{ended}/retry"), "", 409, "RFA_JOB_CONFLICT"),
        ("POST", &format!("/v1/jobs/{ended}"), "", 405, "RFA_REQUEST_METHOD_NOT_ALLOWED"),
    ] {
        let (answered, problem) = connection.ask(method, path, body).unwrap();
        assert_eq!((answered, &problem["code"]), (status, &json!(code)), "{method} {path}");
    }
    let mut stranger = Connection::open(address, "frk_nobody").unwrap();
    let (status, problem) = stranger.ask("GET", &format!("/v1/jobs/{ended}"), "").unwrap();
    assert_eq!((status, &problem["code"]), (401, &json!("RFA_AUTH_INVALID_CREDENTIALS")));
    let mut other = Connection::open(address, &first_key(address)).unwrap();
    let (status, problem) = other.ask("GET", &format!("/v1/jobs/{ended}"), "").unwrap();
    assert_eq!((status, &problem["code"]), (403, &json!("RFA_AUTH_FORBIDDEN")));
}

fn ended(connection: &mut Connection, id: &str) -> Value {
    for _ in 0..30 {
        let (_, job) = connection.ask("GET", &format!("/v1/jobs/{id}"), "").unwrap();
        if !job["outcome"].is_null() {
            return job;
        }
    }
    panic!("job {id} never ended");
}

fn report(connection: &mut Connection, id: &str) -> Value {
    let (status, report) = connection.ask("GET", &format!("/v1/jobs/{id}/report"), "").unwrap();
    assert_eq!(status, 200, "{report}");
    report
}

/// The counters fit what happened.
fn check_signals(metrics: &str, jobs: &BTreeMap<String, (String, Value)>) {
    let sum = |name: &str| -> f64 {
        let of_name = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
        };
        metrics
            .lines()
            .filter(of_name)
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    };
    let reports = || jobs.values().map(|(_, report)| report);
    let events = |name: &str| {
        let all = reports().flat_map(|report| report["events"].as_array().unwrap());
        all.filter(|event| event["event_name"] == name).count() as f64
    };
    assert_eq!(sum("jobs_submitted_total"), jobs.len() as f64);
    assert_eq!(sum("jobs_succeeded_total"), events("job_succeeded"));
    assert_eq!(sum("jobs_canceled_total"), events("job_canceled"));
    assert_eq!(sum("jobs_failed_total"), events("job_failed") + events("job_timed_out"));
    assert_eq!(sum("jobs_timed_out_total"), events("job_timed_out"));
    assert_eq!(sum("idempotency_hits_total"), (jobs.len() - N_CLIENTS) as f64);
    let retried: BTreeSet<_> =
        reports().filter(|report| report["attempts"] == 2).map(Value::to_string).collect();
    assert_eq!(sum("jobs_retried_ended_total"), retried.len() as f64);
}
