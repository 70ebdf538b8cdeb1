//! Limits that the operator sets for a client.

use std::time::Duration;

use serde_json::{Value, json};

use super::http::{Answer, Call};
use super::server::Server;

const TOKEN: &str = "the-operator-and-nobody-else";

fn operator(server: &Server, method: &str, path: &str) -> Call {
    server.call(method, path).header("authorization", &format!("Bearer {TOKEN}"))
}

async fn limit(server: &Server, client: &str, limits: Value) -> Answer {
    operator(server, "PATCH", &format!("/admin/v1/clients/{client}")).json(limits).send().await
}

#[tokio::test]
async fn limits_are_set_shown_and_lifted() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    let client = server.client().await;
    let none = json!({"rate_per_minute": null, "max_waiting": null, "max_active": null, "max_webhooks": null,
                      "max_schedules": null, "storage_bytes": null});
    let path = format!("/v1/clients/{}", client.id);
    assert_eq!(client.get(&path).await.expect(200)["limits"], none);
    let set = limit(&server, &client.id, json!({"max_waiting": 5, "storage_bytes": 0})).await.expect(200);
    assert_eq!((&set["limits"]["max_waiting"], &set["limits"]["storage_bytes"]), (&json!(5), &json!(0)));
    let set = limit(&server, &client.id, json!({"storage_bytes": null})).await.expect(200);
    assert_eq!((&set["limits"]["max_waiting"], &set["limits"]["storage_bytes"]), (&json!(5), &json!(null)));
    client.submit(json!({"job_type": "t", "payload": "x".repeat(100)})).await.expect(202);
    let shown = client.get(&path).await.expect(200);
    assert_eq!(shown["usage"]["waiting"], 1, "{shown}");
    assert!(shown["usage"]["storage_bytes"].as_i64().unwrap() >= 100, "{shown}");
    let detail =
        operator(&server, "GET", &format!("/admin/v1/clients/{}", client.id)).send().await.expect(200);
    assert_eq!((&detail["usage"], &detail["limits"]), (&shown["usage"], &shown["limits"]));
    for (bad, field) in [
        (json!({"max_waiting": -1}), "max_waiting"),
        (json!({"max_active": "5"}), "max_active"),
        (json!({"rate_per_minute": 0}), "rate_per_minute"),
        (json!({"storage_bytes": 1.5}), "storage_bytes"),
    ] {
        let refused = limit(&server, &client.id, bad).await.expect(400);
        assert_eq!(refused["details"]["field"], field, "{refused}");
    }
    limit(&server, "019a0000-0000-7000-8000-000000000000", json!({"max_waiting": 1})).await.expect(404);
    let own =
        client.call("PATCH", &format!("/admin/v1/clients/{}", client.id)).json(json!({"max_waiting": 9}));
    own.send().await.expect(403);
    server.client().await.get(&path).await.expect(403);
}

#[tokio::test]
async fn a_request_over_a_limit_names_it() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    let client = server.client().await;
    let zero = json!({"max_waiting": 0, "max_webhooks": 0, "max_schedules": 0});
    limit(&server, &client.id, zero).await.expect(200);
    let hook = json!({"url": "http://127.0.0.1:1/hook", "events": ["job_failed"]});
    let cron = json!({"name": "c", "cron": "0 0 1 1 *", "type": "t", "args": []});
    for (path, body, name) in [
        ("/v1/jobs", json!({"job_type": "t"}), "max_waiting"),
        ("/v1/jobs", json!({"type": "EXECUTE"}), "max_waiting"),
        ("/v1/webhooks", hook.clone(), "max_webhooks"),
        ("/ojs/v1/cron", cron, "max_schedules"),
    ] {
        let refused = client.call("POST", path).json(&body).send().await;
        let problem = refused.expect(429);
        assert_eq!(problem["details"]["limit"], name, "{path}: {problem}");
    }
    limit(&server, &client.id, json!({"max_waiting": null, "storage_bytes": 50})).await.expect(200);
    let full = client.submit(json!({"job_type": "t", "payload": "x".repeat(100)})).await.expect(507);
    assert_eq!((&full["details"]["limit"], &full["details"]["max"]), (&json!("storage_bytes"), &json!(50)));
    client.submit(json!({"job_type": "t"})).await.expect(202);
    limit(&server, &client.id, json!({"max_webhooks": null})).await.expect(200);
    client.call("POST", "/v1/webhooks").json(hook).send().await.expect(201);
}

#[tokio::test]
async fn a_client_has_its_own_rate() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    server.clock.stop();
    let (client, other) = (server.client().await, server.client().await);
    limit(&server, &client.id, json!({"rate_per_minute": 2})).await.expect(200);
    for _ in 0..2 {
        let answer = client.get("/v1/jobs").await;
        answer.expect(200);
        assert_eq!(answer.header("x-ratelimit-limit"), Some("2"));
    }
    let refused = client.get("/v1/jobs").await.expect(429);
    assert_eq!(
        (&refused["details"]["limit"], &refused["details"]["max"]),
        (&json!("rate_per_minute"), &json!(2))
    );
    other.get("/v1/jobs").await.expect(200);
    limit(&server, &client.id, json!({"rate_per_minute": null})).await.expect(200);
    // What it spent is paid back at the new rate.
    server.clock.advance(Duration::from_secs(1));
    client.get("/v1/jobs").await.expect(200);
}
