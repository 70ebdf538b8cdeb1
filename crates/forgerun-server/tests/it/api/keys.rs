//! Clients and their keys.

use std::time::Duration;

use forgerun_store::Sweep;
use serde_json::json;

use super::http::shape;
use super::server::Server;

const TOKEN: &str = "the-operator-and-nobody-else";
const SECOND: Duration = Duration::from_secs(1);
const UNKNOWN: &str = "RFA_AUTH_INVALID_CREDENTIALS";

#[tokio::test]
async fn a_client_and_its_first_key_need_no_credentials_on_ones_own_machine() {
    let server = Server::start().await;
    let client = server.call("POST", "/v1/clients").header("idempotency-key", "a").send().await.expect(201);
    assert_eq!(shape(client.clone()), json!({"client_id": "<id>"}));
    let id = client["client_id"].as_str().unwrap();
    assert_eq!(&id[14..15], "4");
    let path = format!("/v1/clients/{id}/keys");
    let answer = server.call("POST", &path).header("idempotency-key", "b").json("{}").send().await;
    let key = answer.expect(201);
    let secret = key["api_key"].as_str().unwrap();
    assert!(secret.starts_with("frk_") && secret.len() == 47, "{secret}");
    assert_eq!(key["key_prefix"], secret[..12]);
    assert_eq!(answer.header("idempotent-replayed"), None);
    let mut shaped = shape(key.clone());
    shaped["api_key"] = json!("<secret>");
    shaped["key_prefix"] = json!("<prefix>");
    assert_eq!(
        shaped,
        json!({"api_key": "<secret>", "key_id": "<id>", "key_prefix": "<prefix>", "created_at": "<ms>",
               "expires_at": "<ms>"})
    );
    let digest = forgerun_problem::Digest::of(secret.as_bytes()).0;
    let stored = server.app.engine.store().api_key(digest).await.unwrap().unwrap();
    assert!(!format!("{stored:?}").contains(secret), "only the digest is kept");
}

#[tokio::test]
async fn a_client_is_named_by_itself_and_by_the_operator() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    let made = server.call("POST", "/v1/clients").json(json!({"name": " Billing "})).send().await.expect(201);
    assert_eq!(shape(made.clone()), json!({"client_id": "<id>", "name": "Billing"}));
    let client = server.client().await;
    let path = format!("/v1/clients/{}", client.id);
    let own = client.call("PATCH", &path).json(json!({"name": "Büro 3"})).send().await.expect(200);
    assert_eq!(own, json!({"client_id": client.id, "name": "Büro 3"}));
    client.call("POST", "/v1/jobs").json(json!({"type": "EXECUTE"})).send().await.expect(202);
    let operator = |method: &str, path: &str| {
        server.call(method, path).header("authorization", &format!("Bearer {TOKEN}"))
    };
    let all = operator("GET", "/admin/v1/clients").send().await.expect(200);
    let names: Vec<_> = all["items"].as_array().unwrap().iter().map(|client| &client["name"]).collect();
    assert!(names.contains(&&json!("Büro 3")) && names.contains(&&json!("Billing")), "{all}");
    let jobs = operator("GET", "/admin/v1/jobs").send().await.expect(200);
    assert_eq!(jobs["items"][0]["client_name"], "Büro 3");
    let named = operator("PATCH", &path).json(json!({"name": "Shipping"})).send().await.expect(200);
    assert_eq!(named["name"], "Shipping");
    let shown = operator("GET", &format!("/admin/v1/clients/{}", client.id)).send().await.expect(200);
    assert_eq!(shown["name"], "Shipping");
    for bad in [
        json!({}),
        json!({"name": ""}),
        json!({"name": "a\nb"}),
        json!({"name": "x".repeat(101)}),
        json!({"name": 7}),
    ] {
        let refused = client.call("PATCH", &path).json(bad.clone()).send().await.expect(400);
        assert_eq!(refused["details"]["field"], "name", "{bad}: {refused}");
    }
    server.client().await.call("PATCH", &path).json(json!({"name": "Mine"})).send().await.expect(403);
    server.call("PATCH", &path).json(json!({"name": "Mine"})).send().await.expect(401);
    let unnamed = client.call("PATCH", &path).json(json!({"name": null})).send().await.expect(200);
    assert_eq!(unnamed, json!({"client_id": client.id}));
    let jobs = operator("GET", "/admin/v1/jobs").send().await.expect(200);
    assert_eq!(jobs["items"][0]["client_name"], json!(null));
}

#[tokio::test]
async fn after_the_first_key_nobody_makes_keys_without_one() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = client.keys_path();
    for (path, body) in [
        (path.clone(), json!({"rotate": true})),
        (format!("{path}/renew"), json!({})),
        (format!("{path}/revoke"), json!({"key_id": client.key_id})),
    ] {
        let call = server.call("POST", &path).json(body);
        call.send().await.refused(401, UNKNOWN);
    }
    client.get("/v1/jobs").await.expect(200);
}

#[tokio::test]
async fn a_client_whose_keys_are_long_gone_makes_no_first_key_again() {
    let server = Server::with(&[("auth.admin_token", "t0p-secret")]).await;
    let client = server.client().await;
    let body = json!({"key_id": client.key_id});
    client.call("POST", &format!("{}/revoke", client.keys_path())).json(body).send().await.expect(200);
    let renew = server.call("POST", &format!("{}/renew", client.keys_path()));
    renew.header("authorization", "Bearer t0p-secret").send().await.refused(409, "RFA_JOB_CONFLICT");
    let sweep = Sweep { revoked_keys_before: server.app.clock.now() + SECOND, ..Sweep::nothing(9) };
    assert_eq!(server.app.engine.store().sweep(sweep).await.unwrap().revoked_keys, 1);
    server.call("POST", &client.keys_path()).send().await.refused(401, UNKNOWN);
    let admin = server.call("POST", &client.keys_path()).header("authorization", "Bearer t0p-secret");
    assert!(admin.send().await.expect(201)["api_key"].is_string(), "the way back is the operator's");
}

#[tokio::test]
async fn repeating_the_creation_gives_metadata_and_rotating_gives_a_new_key() {
    let server = Server::start().await;
    let client = server.client().await;
    let again = client.post(&client.keys_path()).await;
    let metadata = again.expect(201);
    assert_eq!((&metadata["key_id"], &metadata["api_key"]), (&json!(client.key_id), &json!(null)));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let rotate = client.call("POST", &client.keys_path()).json(json!({"rotate": true})).send().await;
    let rotated = rotate.expect(201);
    assert_ne!(rotated["key_id"], json!(client.key_id));
    client.get("/v1/jobs").await.refused(403, "RFA_AUTH_API_KEY_DISABLED");
    let new = super::server::Client { key: rotated["api_key"].as_str().unwrap().into(), ..client };
    new.get("/v1/jobs").await.expect(200);
}

#[tokio::test]
async fn renewing_replaces_the_key() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = format!("{}/renew", client.keys_path());
    let renewed = client.call("POST", &path).json("{}").send().await.expect(200);
    assert_ne!(renewed["key_id"], json!(client.key_id));
    for member in ["api_key", "key_id", "created_at", "expires_at"] {
        assert!(renewed[member].is_string(), "{renewed}");
    }
    client.get("/v1/jobs").await.refused(403, "RFA_AUTH_API_KEY_DISABLED");
    let new = super::server::Client { key: renewed["api_key"].as_str().unwrap().into(), ..client };
    new.get("/v1/jobs").await.expect(200);
}

#[tokio::test]
async fn the_keys_of_others_are_403_and_those_of_nobody_404() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    for (tail, body) in [("", json!({})), ("/renew", json!({})), ("/revoke", json!({"key_id": other.key_id}))]
    {
        let of = |id: &str| {
            let path = format!("/v1/clients/{id}/keys{tail}");
            client.call("POST", &path).json(body.clone())
        };
        of(&other.id).send().await.refused(403, "RFA_AUTH_FORBIDDEN");
        for id in ["2e5c2f9a-6a3e-4f57-9d0a-3f0e7a0c1b2d", "no-id"] {
            let problem = of(id).send().await.refused(404, "RFA_JOB_NOT_FOUND");
            assert_eq!(problem["type"], "/problems/client-not-found");
        }
    }
    let unknown = server.call("POST", "/v1/clients/2e5c2f9a-6a3e-4f57-9d0a-3f0e7a0c1b2d/keys").send().await;
    assert_eq!(unknown.refused(404, "RFA_JOB_NOT_FOUND")["type"], "/problems/client-not-found");
    other.get("/v1/jobs").await.expect(200);
}

#[tokio::test]
async fn bad_bodies_about_keys_are_400() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = client.keys_path();
    let revoke = format!("{path}/revoke");
    for (path, body) in [
        (&path, "{"),
        (&path, "[true]"),
        (&path, r#"{"rotate":"yes"}"#),
        (&revoke, "{}"),
        (&revoke, ""),
        (&revoke, r#"{"key_id":7}"#),
    ] {
        client.call("POST", path).json(body).send().await.refused(400, "RFA_REQUEST_MALFORMED");
    }
    for key_id in ["no-id", "01890a5d-ac96-774b-bcce-b302099a8057"] {
        let call = client.call("POST", &revoke).json(json!({"key_id": key_id}));
        assert_eq!(call.send().await.refused(404, "RFA_JOB_NOT_FOUND")["type"], "/problems/key-not-found");
    }
}

#[tokio::test]
async fn the_last_use_of_a_key_is_written_down_once_a_minute() {
    let server = Server::start().await;
    let client = server.client().await;
    let digest = forgerun_problem::Digest::of(client.key.as_bytes()).0;
    let used = async || {
        // A command of ours comes after the note in the same queue, so the note is written when it
        // returns.
        client.job().await;
        server.app.engine.store().api_key(digest).await.unwrap().unwrap().last_used_at
    };
    let first = used().await.expect("it was used");
    assert_eq!(used().await, Some(first));
    server.clock.advance(std::time::Duration::from_secs(61));
    assert!(used().await.unwrap() > first);
}
