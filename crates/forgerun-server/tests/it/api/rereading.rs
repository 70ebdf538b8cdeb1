//! What is read again comes from memory, and is never older than the last answer to anybody.

use std::sync::Arc;

use forgerun_server::Bounds;
use forgerun_store::sqlite::Sqlite;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::{Client, Server};

async fn started() -> (TempDir, Server, Client) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(&folder.path().join("jobs.db")).unwrap());
    let server = Server::on(store, &[], Bounds::default()).await;
    let client = server.client().await;
    (folder, server, client)
}

/// The same bytes twice.
async fn read(client: &Client, path: &str) -> Value {
    let (first, second) = (client.get(path).await, client.get(path).await);
    assert_eq!(first.text(), second.text());
    assert_eq!(first.header("content-type"), second.header("content-type"));
    assert_eq!(first.status, second.status);
    first.json()
}

#[tokio::test]
async fn every_change_of_a_job_shows_at_once_on_both_dialects() {
    let (_folder, server, client) = started().await;
    let id = client.job().await;
    let (own, pattern) = (format!("/v1/jobs/{id}"), format!("/api/v1/jobs/{id}"));
    let seen = async || {
        (read(&client, &own).await["state"].clone(), read(&client, &pattern).await["status"].clone())
    };
    assert_eq!(seen().await, (json!("QUEUED"), json!("Queued")));
    let job = server.claim(false).await;
    assert_eq!(seen().await.0, "ASSIGNED");
    server.app.engine.act(forgerun_core::Command::Start(super::server::held(&job))).await.unwrap();
    assert_eq!(seen().await, (json!("RUNNING"), json!("Running")));
    server.succeed_held(&job).await;
    assert_eq!(seen().await, (json!("SUCCEEDED"), json!("Completed")));
}

#[tokio::test]
async fn a_place_in_the_queue_moves_with_those_before_it() {
    let (_folder, server, client) = started().await;
    let (first, second) = (client.job().await, client.job().await);
    let path = format!("/api/v1/jobs/{second}");
    assert_eq!(read(&client, &path).await["queuePosition"], 2);
    client.post(&format!("/v1/jobs/{first}/cancel")).await.expect(200);
    assert_eq!(read(&client, &path).await["queuePosition"], 1, "the job itself has not changed");
    server.claim(true).await;
    assert_eq!(read(&client, &path).await["queuePosition"], Value::Null);
}

#[tokio::test]
async fn a_job_kept_in_memory_is_still_only_for_its_owner() {
    let (_folder, server, client) = started().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    read(&client, &path).await;
    server.client().await.get(&path).await.refused(403, "RFA_AUTH_FORBIDDEN");
}
