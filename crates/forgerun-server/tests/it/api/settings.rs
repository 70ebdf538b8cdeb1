//! What the operator sets about jobs is what jobs do.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::server::{Client, Server};

async fn ended(client: &Client, id: &str) -> Value {
    for _ in 0..20 {
        let call = client.call("GET", &format!("/v1/jobs/{id}")).header("prefer", "wait=10");
        let job = call.send().await.expect(200);
        if job["outcome"].is_string() {
            return job;
        }
    }
    panic!("job {id} does not end");
}

#[tokio::test]
async fn no_more_jobs_are_active_than_the_operator_allows() {
    let settings = [("limits.max_active_jobs", "2"), ("workers.count", "8"), ("sim.time_scale", "0.02")];
    let server = Server::with(&settings).await;
    let client = server.client().await;
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(client.job().await);
    }
    server.app.work();
    let mut most = 0;
    while ids.iter().any(|id| !id.is_empty()) {
        let jobs = client.get("/v1/jobs?state=ASSIGNED,RUNNING,QUEUED").await.expect(200);
        let jobs = jobs["jobs"].as_array().unwrap();
        most = most.max(jobs.iter().filter(|job| job["state"] != "QUEUED").count());
        if jobs.is_empty() {
            ids.clear();
        }
    }
    assert_eq!(most, 2);
}

#[tokio::test]
async fn an_attempt_ends_when_its_time_is_over() {
    let settings = [("exec.max_runtime_ms", "5000"), ("sim.time_scale", "0.01")];
    let server = Server::with(&settings).await;
    server.app.work();
    let client = server.client().await;
    let slow = client.job_like(json!({"type": "EXECUTE", "work_kind": "SUCCESS_NORMAL"})).await;
    let quick = client.job().await;
    let job = ended(&client, &slow).await;
    assert_eq!((&job["outcome"], &job["jobStatus"]), (&json!("FAILED"), &json!("TIMED_OUT")));
    assert_eq!(job["error"]["errorCode"], "HANDLER_TIMEOUT");
    assert_eq!(ended(&client, &quick).await["outcome"], "SUCCESS");
}

#[tokio::test]
async fn retries_end_where_the_operator_says() {
    let settings = [("retry.max", "1"), ("retry.base_ms", "0"), ("sim.time_scale", "0")];
    let server = Server::with(&settings).await;
    server.app.work();
    let client = server.client().await;
    let id = client.job_like(json!({"type": "EXECUTE", "work_kind": "RETRY_LIMIT_REACHED"})).await;
    let path = format!("/v1/jobs/{id}/retry");
    ended(&client, &id).await;
    client.post(&path).await.expect(200);
    let job = ended(&client, &id).await;
    assert_eq!(job["attempt"], 2);
    let problem = client.post(&path).await.refused(409, "RFA_JOB_CONFLICT");
    assert_eq!(problem["details"]["attempts"], 2);
}

#[tokio::test]
async fn a_retry_waits_as_long_as_the_operator_says() {
    let settings = [("retry.base_ms", "3600000"), ("retry.max_ms", "3600000"), ("retry.jitter", "none")];
    let server = Server::with(&settings).await;
    let client = server.client().await;
    let id = client.job().await;
    server.fail(forgerun_core::catalog::Kind::HandlerTransient).await;
    client.post(&format!("/v1/jobs/{id}/retry")).await.expect(200);
    let job = server.app.engine.store().job(id.parse().unwrap()).await.unwrap().unwrap();
    let wait = job.available_at.expect("it waits").since(job.updated_at);
    // An hour, give or take the moments by which the events of one transaction are told apart.
    assert!(wait.abs_diff(std::time::Duration::from_secs(3600)).as_millis() < 1, "{wait:?}");
}

#[tokio::test]
async fn workers_take_as_many_jobs_as_the_operator_says() {
    for (count, concurrency, at_once) in [("1", "1", 1), ("1", "3", 3), ("2", "2", 4)] {
        let settings = [("workers.count", count), ("workers.concurrency", concurrency)];
        let server = Server::with(&settings).await;
        let client = server.client().await;
        for _ in 0..6 {
            client.job_like(json!({"type": "EXECUTE", "work_kind": "RUNS_LONG"})).await;
        }
        server.app.work();
        let mut active = 0;
        while active < at_once {
            let jobs = client.get("/v1/jobs?state=RUNNING").await.expect(200);
            active = jobs["jobs"].as_array().unwrap().len();
        }
        assert_eq!(active, at_once, "{count} workers with {concurrency} places");
    }
}

#[tokio::test]
async fn leases_last_as_long_as_the_operator_says() {
    for (settings, seconds) in [(vec![], 30), (vec![("workers.lease_s", "77")], 77)] {
        let server = Server::with(&settings).await;
        let client = server.client().await;
        let id = client.job_like(json!({"type": "EXECUTE", "work_kind": "RUNS_LONG"})).await;
        server.app.work();
        while client.get(&format!("/v1/jobs/{id}")).await.expect(200)["state"] != "RUNNING" {}
        let job = server.app.engine.store().job(id.parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(job.lease.as_ref().unwrap().length.as_secs(), seconds);
    }
}

#[tokio::test]
async fn as_many_jobs_are_made_to_fail_as_the_operator_says() {
    for (probability, fails) in [("0", false), ("1", true)] {
        let server = Server::with(&[("catalog.failure_probability", probability)]).await;
        let client = server.client().await;
        let mut seen = BTreeSet::new();
        for _ in 0..30 {
            let id = client.job_like(json!({"type": "EXECUTE"})).await;
            let job = client.get(&format!("/v1/jobs/{id}")).await.expect(200);
            seen.insert(job["definition"]["should_fail"].as_bool().unwrap());
        }
        assert_eq!(seen, BTreeSet::from([fails]), "with probability {probability}");
    }
}
