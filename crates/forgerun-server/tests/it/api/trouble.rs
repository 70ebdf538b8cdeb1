//! When something breaks: the store, a handler, the patience. And when the server stops.

use std::sync::Arc;
use std::time::Duration;

use forgerun_server::Bounds;
use forgerun_store::Fault;
use serde_json::json;

use super::faulty::{Faulty, Mood};
use super::server::{Client, Server};

async fn faulty() -> (Arc<Faulty>, Server, Client) {
    let store = Faulty::new();
    let bounds = Bounds { request_timeout: Duration::from_secs(3), ..Bounds::default() };
    let server = Server::on(store.clone(), &[], bounds).await;
    let client = server.client().await;
    client.get("/v1/jobs").await.expect(200);
    (store, server, client)
}

#[tokio::test]
async fn a_broken_store_is_503_with_the_code_for_it_and_no_job() {
    let (store, server, client) = faulty().await;
    let id = client.job().await;
    let before = server.traces().await;
    for (fault, code, slug) in [
        (Fault::Unavailable, "RFA_STORAGE_UNAVAILABLE", "storage-unavailable"),
        (Fault::TooNew, "RFA_STORAGE_UNAVAILABLE", "storage-unavailable"),
        (Fault::Timeout, "RFA_STORAGE_DB_ERROR", "storage-timeout"),
        (Fault::Busy, "RFA_STORAGE_DB_ERROR", "storage-timeout"),
        (Fault::Full, "RFA_STORAGE_UNAVAILABLE", "storage-unavailable"),
        (Fault::Corrupt, "RFA_STORAGE_DB_ERROR", "storage-error"),
        (Fault::Rejected, "RFA_STORAGE_DB_ERROR", "storage-error"),
        (Fault::Unknown, "RFA_STORAGE_DB_ERROR", "storage-error"),
    ] {
        store.set(Mood::Broken(fault));
        for answer in [
            client.submit(json!({"type": "EXECUTE"})).await,
            client.get(&format!("/v1/jobs/{id}")).await,
            client.get("/v1/jobs").await,
            client.post(&format!("/v1/jobs/{id}/cancel")).await,
            client.post(&client.keys_path()).await,
        ] {
            let problem = answer.refused(503, code);
            assert_eq!(problem["type"], format!("/problems/{slug}"), "{fault:?}");
            assert!(!answer.text().contains("secret"), "what went wrong inside is for the log: {problem}");
            assert!(problem.get("job_id").is_none() && problem.get("jobId").is_none(), "{problem}");
        }
        store.set(Mood::Fine);
    }
    assert_eq!(server.traces().await, before);
}

#[tokio::test]
async fn a_store_that_hangs_is_504() {
    let (store, _server, client) = faulty().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    store.set(Mood::Hanging);
    let answer = client.get(&path).await;
    answer.refused(504, "RFA_DEPENDENCY_TIMEOUT");
    store.set(Mood::HangingWrites);
    let answer = client.submit(json!({"type": "EXECUTE"})).await;
    answer.refused(504, "RFA_EXEC_TIMEOUT");
    store.set(Mood::Fine);
    client.get(&path).await.expect(200);
}

#[tokio::test]
async fn a_job_whose_events_are_lost_is_still_a_job() {
    let (store, server, client) = faulty().await;
    let id = client.job().await;
    server.succeed().await;
    store.set(Mood::Forgetful);
    let everything = forgerun_store::Sweep {
        journal_before: forgerun_core::time::Time::MAX,
        ..forgerun_store::Sweep::nothing(1000)
    };
    assert!(server.app.engine.store().sweep(everything).await.unwrap().total() > 0);
    let job = client.get(&format!("/v1/jobs/{id}")).await.expect(200);
    assert_eq!(job["state"], "SUCCEEDED");
    assert_eq!(client.get(&format!("/v1/jobs/{id}/events")).await.expect(200)["events"], json!([]));
    let report = client.get(&format!("/v1/jobs/{id}/report")).await.expect(200);
    assert_eq!((&report["outcome"], &report["events"]), (&json!("SUCCESS"), &json!([])));
    client.get(&format!("/v1/jobs/{id}/result")).await.expect(200);
    assert_eq!(client.get("/v1/jobs").await.expect(200)["jobs"][0]["job_id"], id);
}

#[tokio::test]
async fn a_server_that_wants_a_token_it_does_not_have_says_so() {
    let server = Server::with(&[("auth.registration", "admin")]).await;
    let answer = server.call("POST", "/v1/clients").send().await;
    let problem = answer.refused(503, "RFA_CONFIG_INVALID");
    assert!(problem["detail"].as_str().unwrap().contains("auth.admin_token"), "{problem}");
    assert!(answer.header("retry-after").is_some());
}

#[tokio::test]
async fn a_panic_is_500_and_the_server_lives() {
    let (store, _server, client) = faulty().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    store.set(Mood::Panicking);
    let answer = client.get(&path).await;
    let problem = answer.refused(500, "RFA_INTERNAL");
    assert!(!problem.to_string().contains("a bug"), "{problem}");
    store.set(Mood::Fine);
    client.get(&path).await.expect(200);
}

#[tokio::test]
async fn ready_tells_whether_the_store_answers_and_the_server_stays() {
    let (store, server, _) = faulty().await;
    let ready = async || server.call("GET", "/ready").send().await;
    assert_eq!(ready().await.expect(200)["status"], "ready");
    store.set(Mood::Broken(Fault::Unavailable));
    let answer = ready().await;
    assert_eq!(answer.expect(503)["code"], "RFA_STORAGE_UNAVAILABLE");
    assert!(answer.header("retry-after").is_some());
    store.set(Mood::Fine);
    ready().await.expect(200);
    server.app.begin_stop();
    assert_eq!(ready().await.expect(503)["reason"], "stopping");
    server.call("GET", "/health").send().await.expect(200);
}

#[tokio::test]
async fn a_server_is_ready_without_workers_of_its_own_but_not_with_workers_that_are_gone() {
    for (count, ready) in [("0", true), ("2", false)] {
        let server = Server::with(&[("workers.count", count)]).await;
        server.app.work();
        server.call("GET", "/ready").send().await.expect(200);
        server.app.stop_work().await;
        let answer = server.call("GET", "/ready").send().await;
        match ready {
            true => assert_eq!(answer.expect(200)["status"], "ready"),
            false => assert_eq!(answer.expect(503)["code"], "RFA_EXEC_WORKER_UNAVAILABLE"),
        }
    }
}

#[tokio::test]
async fn a_stopped_engine_is_503() {
    let server = Server::start().await;
    let client = server.client().await;
    server.app.engine.stop().await;
    client.submit(json!({"type": "EXECUTE"})).await.refused(503, "RFA_STORAGE_UNAVAILABLE");
}

#[tokio::test]
async fn a_store_that_hangs_while_signing_keys_are_looked_at_again_keeps_one_webhook_waiting_and_not_all() {
    let store = Faulty::new();
    let server = Server::on(store.clone(), &[], Bounds::default()).await;
    let keys = server.app.webhook_keys.clone().unwrap();
    let first = keys.current().await.unwrap();
    store.set(Mood::HangingKeys);
    server.clock.advance(Duration::from_secs(120));
    let looking = tokio::spawn({
        let keys = keys.clone();
        async move { keys.current().await.map(drop) }
    });
    // It looks, and waits for the store.
    tokio::task::yield_now().await;
    let current = tokio::time::timeout(Duration::from_secs(20), keys.current()).await;
    assert!(Arc::ptr_eq(&current.expect("the others go on").unwrap(), &first), "with those from before");
    assert!(!looking.is_finished());
    looking.abort();
}
