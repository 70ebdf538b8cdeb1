//! Redrives by the real binary, and the lines that the operator leaves in its log.

use std::collections::BTreeSet;
use std::time::Duration;

use forgerun_engine::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::api::http::{Answer, Call};
use crate::process::{Server, forgerun};

const TOKEN: &str = "the-operator-and-nobody-else";

/// A server that knows its operator and keeps what it has in this file.
fn serve(database_url: &str, level: &str) -> Server {
    let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", database_url]);
    command
        .env("FORGERUN_AUTH__ADMIN_TOKEN", TOKEN)
        .env("FORGERUN_AUTH__REGISTRATION", "open")
        .env("FORGERUN_LIMITS__RATE_PER_MINUTE", "1000000")
        .env("FORGERUN_SIM__TIME_SCALE", "0")
        .env("FORGERUN_LOG__FORMAT", "json")
        .env("FORGERUN_LOG__LEVEL", level);
    Server::start(&mut command)
}

fn call(server: &Server, method: &str, path: &str) -> Call {
    Call::new(server.address, method, path)
}

fn operator(server: &Server, method: &str, path: &str) -> Call {
    call(server, method, path).header("authorization", &format!("Bearer {TOKEN}"))
}

async fn get(server: &Server, path: &str) -> Value {
    operator(server, "GET", path).send().await.expect(200)
}

async fn post(server: &Server, path: &str, body: Value) -> Answer {
    operator(server, "POST", path).json(body).send().await
}

/// A client and its key.
async fn client(server: &Server) -> (String, String) {
    let client = call(server, "POST", "/v1/clients").send().await.expect(201);
    let id = client["client_id"].as_str().unwrap().to_owned();
    let key = call(server, "POST", &format!("/v1/clients/{id}/keys")).send().await.expect(201);
    (id, format!("Bearer {}", key["api_key"].as_str().unwrap()))
}

/// Submits a job that fails at once, and waits until it has.
async fn failed(server: &Server, key: &str) -> String {
    let body = json!({"type": "EXECUTE", "work_kind": "FAIL_IMMEDIATE", "retry_mode": "manual"});
    let submit = call(server, "POST", "/v1/jobs").header("authorization", key).header("prefer", "wait=20");
    let job = submit.json(body).send().await.json();
    job["job_id"].as_str().unwrap_or_else(|| panic!("{job}")).to_owned()
}

/// The path of the only group of failures, once all of them are counted in it.
async fn group(server: &Server, n: usize) -> String {
    loop {
        let groups = get(server, "/admin/v1/failures").await;
        if groups["items"][0]["count"] == n {
            return format!("/admin/v1/failures/{}", groups["items"][0]["group"].as_str().unwrap());
        }
        tokio::task::yield_now().await;
    }
}

async fn executions(server: &Server, job: &str) -> usize {
    get(server, &format!("/admin/v1/jobs/{job}")).await["executions"].as_array().unwrap().len()
}

/// The server is killed while a redrive is under way. The next one goes on with it when its lease
/// is over, and no execution is redriven twice.
#[tokio::test]
async fn each_execution_is_redriven_once_though_the_server_is_killed_meanwhile() {
    const N_JOBS: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let server = serve(&url, "error");
    let (_, key) = client(&server).await;
    let mut ids = BTreeSet::new();
    for _ in 0..N_JOBS {
        ids.insert(failed(&server, &key).await);
    }
    let group = group(&server, N_JOBS).await;
    let terms = json!({"rate_per_s": 10, "max_failures": null});
    let begun = post(&server, &format!("{group}/redrive"), terms).await.expect(202);
    assert_eq!(begun["matched"], N_JOBS);
    let first = ids.first().unwrap();
    while executions(&server, first).await < 2 {
        tokio::task::yield_now().await;
    }
    server.signal("KILL");
    drop(server);

    let server = serve(&url, "error");
    let last = ids.last().unwrap();
    assert_eq!(executions(&server, last).await, 1, "it was killed before the end");
    let own = format!("/admin/v1/jobs/{}", begun["job_id"].as_str().unwrap());
    let ended = loop {
        let own = get(&server, &own).await;
        if !own["finished_at"].is_null() {
            break own;
        }
        SystemClock.sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(ended["state"], "SUCCEEDED", "{ended}");
    for id in &ids {
        assert_eq!(executions(&server, id).await, 2, "{id}");
    }
}

/// One line for each thing that the operator did, with action, subject, address and request; none
/// for looking, and none for what was refused.
#[tokio::test]
async fn the_operator_leaves_a_line_in_the_log_for_each_thing_done() {
    let server = serve("memory:", "info");
    let (id, key) = client(&server).await;
    let job = failed(&server, &key).await;
    let group = group(&server, 1).await;
    get(&server, "/admin/v1/overview").await;
    post(&server, "/admin/v1/jobs/01890a5d-ac96-774b-bcce-b302099a8057/cancel", json!({})).await.expect(404);

    let mut done: Vec<(&str, String, Answer)> = Vec::new();
    let path = format!("/admin/v1/queues/{}", "mail");
    let bound = operator(&server, "PUT", &path).json(json!({"max_waiting": 5})).send().await;
    done.push(("bound", "mail".into(), bound));
    done.push(("pause", "mail".into(), post(&server, &format!("{path}/pause"), json!({})).await));
    done.push(("resume", "mail".into(), post(&server, &format!("{path}/resume"), json!({})).await));
    let retried = post(&server, &format!("/admin/v1/jobs/{job}/retry"), json!({})).await;
    done.push(("retry", job.clone(), retried));
    let keys = format!("/admin/v1/clients/{id}/keys");
    let made = post(&server, &keys, json!({"rotate": true})).await;
    let key_id = made.json()["key_id"].as_str().unwrap().to_owned();
    done.push(("create_key", format!("{key_id} of client {id}"), made));
    let revoked = operator(&server, "DELETE", &format!("{keys}/{key_id}")).send().await;
    done.push(("revoke_key", format!("{key_id} of client {id}"), revoked));
    while get(&server, &format!("/admin/v1/jobs/{job}")).await["state"] != "FAILED" {
        tokio::task::yield_now().await;
    }
    let redriven = post(&server, &format!("{group}/redrive"), json!({})).await;
    let own = redriven.json()["job_id"].as_str().unwrap_or_default().to_owned();
    done.push(("redrive", format!("{} as job {own}", group.rsplit('/').next().unwrap()), redriven));
    server.signal("TERM");
    let log = server.wait().stderr;

    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let told: Vec<&Value> = lines.iter().filter(|line| line["message"] == "operator action").collect();
    assert_eq!(told.len(), done.len(), "{log}");
    for (line, (action, subject, answer)) in told.iter().zip(&done) {
        assert!(answer.status < 300, "{answer:?}");
        assert_eq!((&line["action"], &line["subject"]), (&json!(action), &json!(subject)));
        assert_eq!(line["request_id"].as_str(), answer.header("x-request-id"));
        assert_eq!(line["address"], "127.0.0.1");
    }
    assert!(!log.contains(TOKEN), "a token is never logged");
}
