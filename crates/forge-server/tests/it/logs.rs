//! What the log says of requests, and what it never says.

use serde_json::{Value, json};

use crate::api::http::Call;
use crate::process::{Server, forgerun};

#[tokio::test]
async fn refused_credentials_are_logged_with_client_and_reason_and_without_the_key() {
    let server =
        Server::start(&mut forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", "memory:"]));
    let call = |method: &str, path: &str| Call::new(server.address, method, path);
    let client =
        call("POST", "/v1/clients").send().await.expect(201)["client_id"].as_str().unwrap().to_owned();
    let keys = format!("/v1/clients/{client}/keys");
    let key = call("POST", &keys).send().await.expect(201);
    let secret = key["api_key"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {secret}");
    let revoke = call("POST", &format!("{keys}/revoke")).header("authorization", &bearer);
    revoke.json(json!({"key_id": key["key_id"]})).send().await.expect(200);
    let submit = call("POST", "/v1/jobs").json(json!({"type": "EXECUTE", "payload": "top secret"}));
    let revoked = submit.clone().header("authorization", &bearer).send().await;
    revoked.refused(403, "RFA_AUTH_API_KEY_DISABLED");
    submit
        .header("authorization", "Bearer frk_made-up")
        .send()
        .await
        .refused(401, "RFA_AUTH_INVALID_CREDENTIALS");
    server.signal("TERM");
    let log = server.wait().stderr;

    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let refusals: Vec<&Value> =
        lines.iter().filter(|line| line["message"] == "request not authorised").collect();
    assert_eq!(refusals.len(), 2, "{log}");
    assert_eq!(refusals[0]["client_id"], client);
    assert_eq!(refusals[0]["error_code"], "RFA_AUTH_API_KEY_DISABLED");
    assert_eq!(refusals[0]["action"], "/v1/jobs");
    assert_eq!(refusals[0]["request_id"].as_str(), revoked.header("x-request-id"));
    assert_eq!(refusals[1]["error_message"], "The API key is not known.");
    for secret in [secret.as_str(), "made-up", "top secret"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}
