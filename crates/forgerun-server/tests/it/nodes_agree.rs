//! Two nodes on one PostgreSQL, asked in turn: a pause, a cancel, a bound and the operator's
//! figures are those of both. Requests and keys are in `api::nodes`, streams in `api::sse::nodes`,
//! ticks in `schedules`.

use std::time::Duration;

use forgerun_engine::{Clock, SystemClock};
use forgerun_store::testing::Cluster;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::api::http::{Answer, Call};
use crate::crash::first_key;
use crate::process::{Server, forgerun};

const TOKEN: &str = "the-operator-and-nobody-else";

/// Two nodes with these variables.
async fn two_nodes(settings: &[(&str, &str)]) -> [Server; 2] {
    let url = Cluster::shared().database().await;
    [(); 2].map(|()| {
        let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", &url]);
        command
            .env("FORGERUN_AUTH__ADMIN_TOKEN", TOKEN)
            .env("FORGERUN_AUTH__REGISTRATION", "open")
            .env("FORGERUN_LIMITS__RATE_PER_MINUTE", "0")
            .env("FORGERUN_SIM__TIME_SCALE", "0.02")
            .env("FORGERUN_LOG__LEVEL", "error")
            .envs(settings.iter().copied());
        Server::start(&mut command)
    })
}

fn call(node: &Server, key: &str, method: &str, path: &str) -> Call {
    Call::new(node.address, method, path).header("authorization", &format!("Bearer {key}"))
}

async fn post(node: &Server, key: &str, path: &str, body: Value) -> Answer {
    call(node, key, "POST", path).json(body).send().await
}

async fn overview(node: &Server) -> Value {
    call(node, TOKEN, "GET", "/admin/v1/overview").send().await.expect(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_and_a_cancel_reach_a_worker_that_talks_to_the_other_node() {
    let [here, there] = two_nodes(&[]).await;
    let key = first_key(here.address);
    let job = json!({"type": "test.echo", "args": [1], "options": {"queue": "mail"}});
    let pushed = post(&here, &key, "/ojs/v1/jobs", job).await.expect(201);
    let id = pushed["job"]["id"].as_str().unwrap();
    post(&here, &key, "/ojs/v1/queues/mail/pause", json!({})).await.expect(200);
    let fetch = json!({"queues": ["mail"], "worker_id": "w-1", "visibility_timeout_ms": 600_000});
    let fetched = post(&there, &key, "/ojs/v1/workers/fetch", fetch.clone()).await.expect(200);
    assert_eq!(fetched, json!({"jobs": []}), "paused at the other node");
    post(&there, &key, "/ojs/v1/queues/mail/resume", json!({})).await.expect(200);
    let fetched = post(&there, &key, "/ojs/v1/workers/fetch", fetch).await.expect(200);
    assert_eq!(fetched["jobs"][0]["id"], id, "{fetched}");
    call(&here, &key, "DELETE", &format!("/ojs/v1/jobs/{id}")).send().await.expect(200);
    let beat = json!({"worker_id": "w-1", "active_jobs": [id]});
    let told = post(&there, &key, "/ojs/v1/workers/heartbeat", beat).await.expect(200);
    assert_eq!(told["cancelled_jobs"], json!([id]), "{told}");
    let seen = overview(&here).await;
    assert_eq!(seen["jobs"]["CANCELED"], 1, "{seen}");
    assert_eq!(seen["workers"][0]["id"], "w-1", "it has talked to the other node only: {seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_sees_all_nodes_from_each() {
    let nodes = two_nodes(&[]).await;
    for node in &nodes {
        // A node says that it is there as soon as it runs, but nobody waits for that.
        let mut seen = overview(node).await;
        while seen["nodes"].as_array().unwrap().len() < 2 {
            SystemClock.sleep(Duration::from_millis(20)).await;
            seen = overview(node).await;
        }
        assert_eq!(seen["nodes"].as_array().unwrap().len(), 2, "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_takes_exactly_what_it_may_however_many_nodes_are_asked_at_once() {
    let settings = [("FORGERUN_LIMITS__QUEUE_SIZE", "25"), ("FORGERUN_WORKERS__COUNT", "0")];
    let nodes = two_nodes(&settings).await;
    let key = first_key(nodes[0].address);
    let mut submitting = JoinSet::new();
    for n in 0..80 {
        let call = call(&nodes[n % 2], &key, "POST", "/v1/jobs");
        let call = call.json(json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST"}));
        submitting.spawn(async move { call.send().await });
    }
    let answers = submitting.join_all().await;
    let n_with = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((n_with(202), n_with(503)), (25, 55), "{:?}", answers[0]);
    assert_eq!(overview(&nodes[1]).await["jobs"]["QUEUED"], 25);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_jobs_are_active_than_may_be_at_all_nodes_together() {
    const N_JOBS: u64 = 60;
    let nodes = two_nodes(&[("FORGERUN_LIMITS__MAX_ACTIVE_JOBS", "3")]).await;
    let key = first_key(nodes[0].address);
    for n in 0..N_JOBS {
        let body = json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST"});
        post(&nodes[n as usize % 2], &key, "/v1/jobs", body).await.expect(202);
    }
    let mut most = 0;
    for n in 0.. {
        let jobs = overview(&nodes[n % 2]).await["jobs"].clone();
        let of = |state: &str| jobs[state].as_u64().unwrap();
        let active = of("ASSIGNED") + of("RUNNING");
        assert!(active <= 3, "{jobs}");
        most = most.max(active);
        if of("SUCCEEDED") == N_JOBS {
            break;
        }
    }
    println!("{most} jobs were seen active at once");
}
