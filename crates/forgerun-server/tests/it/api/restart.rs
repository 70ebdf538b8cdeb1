//! What outlives the server: everything that was answered for.

use std::sync::Arc;

use forgerun_server::Bounds;
use forgerun_store::sqlite::Sqlite;
use serde_json::json;

use super::server::{Client, Server};

#[tokio::test]
async fn clients_keys_jobs_reports_and_results_outlive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let start = async || Server::on(Arc::new(Sqlite::open(&path).unwrap()), &[], Bounds::default()).await;
    let server = start().await;
    let client = server.client().await;
    let submitted = json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "idempotency_key": "once"});
    let id = client.job_like(submitted.clone()).await;
    server.succeed().await;
    let waiting = client.job().await;
    let paths = ["", "/report", "/result", "/events"].map(|tail| format!("/v1/jobs/{id}{tail}"));
    let mut before = Vec::new();
    for path in &paths {
        let answer = client.get(path).await;
        answer.expect(200);
        before.push(answer.body);
    }
    server.app.engine.stop().await;
    drop(server);

    let server = start().await;
    let client = Client { address: server.address, ..client };
    for (path, before) in paths.iter().zip(before) {
        assert_eq!(client.get(path).await.body, before, "{path}");
    }
    assert_eq!(client.job_like(submitted).await, id);
    assert_eq!(server.succeed().await.id.to_string(), waiting);
    assert_eq!(client.get(&format!("/v1/jobs/{waiting}")).await.expect(200)["state"], "SUCCEEDED");
}
