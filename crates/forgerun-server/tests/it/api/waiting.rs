//! `Prefer: wait`: answers that are held until the job has ended.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_server::Bounds;
use forgerun_store::memory::Memory;
use serde_json::json;

use super::server::Server;

#[tokio::test]
async fn a_get_that_waits_is_answered_when_the_job_ends() {
    let server = Server::start().await;
    let client = server.client().await;
    for end in ["SUCCEEDED", "FAILED", "CANCELED"] {
        let path = format!("/v1/jobs/{}", client.job().await);
        let call = client.call("GET", &path).header("prefer", "wait=20");
        let waiting = tokio::spawn(async move { call.send().await });
        match end {
            "SUCCEEDED" => drop(server.succeed().await),
            "FAILED" => drop(server.fail(Kind::HandlerError).await),
            _ => drop(client.post(&format!("{path}/cancel")).await.expect(200)),
        }
        let answer = waiting.await.unwrap();
        assert_eq!(answer.expect(200)["state"], end);
        assert_eq!(answer.header("preference-applied"), Some("wait=20"));
    }
}

#[tokio::test]
async fn many_wait_and_each_hears_of_its_own_job() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut waiting = tokio::task::JoinSet::new();
    let mut canceled = Vec::new();
    for n in 0..20 {
        let path = format!("/v1/jobs/{}", client.job().await);
        for _ in 0..2 {
            let call = client.call("GET", &path).header("prefer", "wait=20");
            waiting.spawn(async move { call.send().await.expect(200)["state"].clone() });
        }
        if n % 2 == 0 {
            canceled.push(path);
        }
    }
    for path in canceled {
        client.post(&format!("{path}/cancel")).await.expect(200);
    }
    for _ in 0..10 {
        server.succeed().await;
    }
    let states = waiting.join_all().await;
    assert_eq!(states.iter().filter(|state| **state == "CANCELED").count(), 20);
    assert_eq!(states.iter().filter(|state| **state == "SUCCEEDED").count(), 20);
}

#[tokio::test]
async fn a_submission_can_wait_for_its_end() {
    let server = Server::start().await;
    let client = server.client().await;
    let call = client.call("POST", "/v1/jobs").json(json!({"type": "EXECUTE"})).header("prefer", "wait=20");
    let waiting = tokio::spawn(async move { call.send().await });
    server.succeed().await;
    let answer = waiting.await.unwrap();
    assert_eq!(answer.expect(202)["state"], "SUCCEEDED");
    assert_eq!(answer.header("preference-applied"), Some("wait=20"));
}

#[tokio::test]
async fn a_wait_ends_with_the_state_as_it_is() {
    let bounds = Bounds { wait_max: Duration::from_millis(1100), ..Bounds::default() };
    let server = Server::on(std::sync::Arc::new(Memory::new()), &[], bounds).await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    let answer = client.call("GET", &path).header("prefer", "wait=600").send().await;
    assert_eq!(answer.expect(200)["state"], "QUEUED");
    assert_eq!(answer.header("preference-applied"), Some("wait=1"), "what was given, not what was asked");
}

#[tokio::test]
async fn a_server_that_stops_lets_waiting_requests_go() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    let call = client.call("GET", &path).header("prefer", "wait=30");
    let waiting = tokio::spawn(async move { call.send().await });
    // A second one behind it: when that is answered, the first is in hand.
    client.get(&path).await.expect(200);
    server.app.begin_stop();
    assert_eq!(waiting.await.unwrap().expect(200)["state"], "QUEUED");
}

#[tokio::test]
async fn respond_async_is_what_happens_anyway() {
    let server = Server::start().await;
    let client = server.client().await;
    let call =
        client.call("POST", "/v1/jobs").json(json!({"type": "EXECUTE"})).header("prefer", "respond-async");
    let answer = call.send().await;
    answer.expect(202);
    assert_eq!(answer.header("preference-applied"), Some("respond-async"));
}

#[tokio::test]
async fn waiting_for_work_that_nobody_does_is_503() {
    let server = Server::with(&[("workers.count", "0")]).await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    let answer = client.call("GET", &path).header("prefer", "wait=30").send().await;
    answer.refused(503, "RFA_EXEC_WORKER_UNAVAILABLE");
    client.get(&path).await.expect(200);
}
