//! The overview, clients, webhooks and events.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::super::server::Server;
use super::{get, operator, post, server};

#[tokio::test]
async fn the_overview_shows_the_whole_server() {
    let server = server().await;
    server.app.show_up();
    let client = server.client().await;
    client.job_like(json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "retry_mode": "manual"})).await;
    server.fail(Kind::HandlerError).await;
    client.job().await;
    let nodes = async {
        loop {
            let overview = get(&server, "/admin/v1/overview").await;
            if overview["nodes"].as_array().unwrap().len() == 1 {
                return overview;
            }
            tokio::task::yield_now().await;
        }
    };
    let overview = tokio::time::timeout(Duration::from_secs(60), nodes).await.expect("the node shows up");
    assert_eq!((&overview["jobs"]["QUEUED"], &overview["jobs"]["FAILED"]), (&json!(1), &json!(1)));
    let queue = &overview["queues"][0];
    assert_eq!(
        (&queue["name"], &queue["waiting"], &queue["paused"]),
        (&json!("default"), &json!(1), &json!(false))
    );
    assert!(queue["oldest_waiting_s"].is_u64());
    for rate in ["submitted_per_s", "ended_per_s", "failed_per_s"] {
        assert!(overview["rates"][rate].as_f64().unwrap() > 0.0, "{overview}");
        assert!(overview["rates"]["last_hour"][rate].is_number());
    }
    let minutes = overview["minutes"].as_array().unwrap();
    let sum = |name: &str| minutes.iter().map(|minute| minute[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((minutes.len(), sum("submitted"), sum("failed")), (60, 2, 1));
    assert!(minutes.iter().any(|minute| minute["ran_ms"].is_u64()), "{overview}");
    assert_eq!(overview["nodes"][0]["version"], env!("CARGO_PKG_VERSION"));
    assert!(overview["workers"].is_array() && overview["sinks"].is_array());
}

#[tokio::test]
async fn clients_and_their_keys_are_shown_made_and_revoked_without_secrets() {
    let server = server().await;
    let client = server.client().await;
    server.client().await;
    let page = get(&server, "/admin/v1/clients?limit=1").await;
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = get(&server, &format!("/admin/v1/clients?limit=1&cursor={cursor}")).await;
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null));

    let path = format!("/admin/v1/clients/{}", client.id);
    let shown = get(&server, &path).await;
    assert_eq!((&shown["good_keys"], &shown["keys"][0]["key_id"]), (&json!(1), &json!(client.key_id)));
    assert!(!shown.to_string().contains(&client.key), "never a secret");
    let known = post(&server, &format!("{path}/keys"), json!({})).await.expect(200);
    assert_eq!((&known["key_id"], &known["api_key"]), (&json!(client.key_id), &Value::Null));
    let made = post(&server, &format!("{path}/keys"), json!({"rotate": true})).await.expect(201);
    assert!(made["api_key"].as_str().unwrap().starts_with("frk_"));
    client.get("/v1/jobs").await.expect(403);
    let key = format!("{path}/keys/{}", made["key_id"].as_str().unwrap());
    assert_eq!(operator(&server, "DELETE", &key).send().await.expect(200), json!({"revoked": true}));
    assert_eq!(get(&server, &path).await["good_keys"], 0);
    operator(&server, "DELETE", &format!("{path}/keys/nonsense")).send().await.expect(404);
    let unknown = "/admin/v1/clients/6f1b7b46-5d6e-4a2f-9c0b-3f1f8d1f2a10";
    operator(&server, "GET", unknown).send().await.expect(404);
}

#[tokio::test]
async fn webhooks_of_all_clients_are_listed_without_secrets() {
    let server =
        Server::with(&[("auth.admin_token", super::TOKEN), ("webhooks.private_targets", "allow")]).await;
    let client = server.client().await;
    let body = json!({"url": "http://127.0.0.1:9/hook", "events": ["*"]});
    let made = client.call("POST", "/v1/webhooks").json(body).send().await.expect(201);
    let page = get(&server, "/admin/v1/webhooks").await;
    let shown = &page["items"][0];
    assert_eq!((&shown["client"], &shown["webhook_id"]), (&json!(client.id), &made["webhook_id"]));
    assert!(shown["health"].is_object() && shown.get("secret").is_none(), "{shown}");
}
