//! Scopes of keys: what a key without one cannot do, by any road.

use std::time::Duration;

use serde_json::{Value, json};

use super::http::Answer;
use super::server::{Client, Server};

const ALL: [&str; 5] = ["submit", "read", "work", "manage", "keys"];

/// The scopes but this one.
fn without(scope: &str) -> Vec<&'static str> {
    ALL.into_iter().filter(|other| *other != scope).collect()
}

/// Whether an answer refuses because this scope is missing, in the words of its dialect.
#[track_caller]
fn assert_missing(answer: &Answer, scope: &str, what: &str) {
    assert_eq!(answer.status, 403, "{what}: {}", answer.text());
    let body = answer.json();
    let is_ojs = !body["error"].is_null();
    let details = if is_ojs { &body["error"]["details"] } else { &body["details"] };
    let details = if details.is_null() { &body } else { details };
    assert_eq!(details["reason"], "scope_missing", "{what}: {body}");
    let named: Vec<&str> = details["scope"].as_str().unwrap().split(", ").collect();
    assert!(named.contains(&scope), "{what}: {body}");
    if is_ojs {
        assert_eq!(body["error"]["canonical_code"], "PERMISSION_DENIED", "{what}: {body}");
    }
}

/// The routes of the document with the scopes that a key needs there.
async fn routes(server: &Server) -> Vec<(String, String, Vec<String>)> {
    let document = server.call("GET", "/openapi.json").send().await.expect(200);
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let security = operation["security"].as_array().into_iter().flatten();
            let scopes = security.filter_map(|way| way["apiKey"].as_array()).flatten();
            let scopes: Vec<String> = scopes.map(|scope| scope.as_str().unwrap().to_owned()).collect();
            if !scopes.is_empty() {
                routes.push((method.to_uppercase(), path.clone(), scopes));
            }
        }
    }
    routes
}

#[tokio::test]
async fn every_route_of_the_document_refuses_a_key_without_its_scope() {
    let server = Server::with(&[("limits.rate_per_minute", "100000")]).await;
    let client = server.client().await;
    let mut by_scope: Vec<(&str, Client)> = Vec::new();
    for scope in ALL {
        by_scope.push((scope, client.scoped(scope, &without(scope)).await));
    }
    let routes = routes(&server).await;
    assert!(routes.len() > 100, "{}", routes.len());
    for (method, path, scopes) in routes {
        let path = path.replace("{client_id}", &client.id).replace(['{', '}'], "");
        for scope in scopes {
            let (_, key) = by_scope.iter().find(|(missing, _)| *missing == scope).unwrap();
            let call = key.call(&method, &path);
            let call = if method == "GET" { call } else { call.json("{}") };
            assert_missing(&call.send().await, &scope, &format!("{method} {path}"));
        }
    }
}

#[tokio::test]
async fn a_key_without_submit_gets_no_work_submitted_by_any_road() {
    let server = Server::with(&[("limits.rate_per_minute", "100000")]).await;
    let client = server.client().await;
    let job = client.job().await;
    server.fail(forgerun_core::catalog::Kind::HandlerError).await;
    let schedule = json!({"name": "s", "cron": "* * * * *", "job": {"type": "EXECUTE"}});
    client.call("POST", "/v1/schedules").json(&schedule).send().await;
    let without = client.scoped("no-submit", &without("submit")).await;
    let step = json!({"steps": [{"id": "a", "type": "EXECUTE"}]});
    let ojs = json!({"type": "t", "args": []});
    let cron = json!({"name": "c", "cron": "* * * * *", "type": "t", "args": []});
    let roads: Vec<(&str, String, Value)> = vec![
        ("POST", "/v1/jobs".into(), json!({"type": "EXECUTE"})),
        ("POST", "/v1/jobs/batch".into(), json!({"items": [{"type": "EXECUTE"}]})),
        ("POST", "/v1/workflows".into(), step),
        ("POST", "/v1/schedules".into(), schedule.clone()),
        ("PUT", "/v1/schedules/s".into(), schedule),
        ("POST", "/v1/schedules/s/trigger".into(), json!({})),
        ("POST", "/v1/schedules/s/resume".into(), json!({})),
        ("POST", format!("/v1/jobs/{job}/retry"), json!({})),
        ("POST", "/api/v1/jobs".into(), json!({"type": "t", "parameters": {}})),
        ("POST", "/api/v1/jobs/batch".into(), json!({"jobs": []})),
        ("POST", "/api/v1/reports/generate".into(), json!({})),
        ("POST", "/ojs/v1/jobs".into(), ojs.clone()),
        ("POST", "/ojs/v1/jobs/batch".into(), json!({"jobs": [ojs]})),
        ("POST", "/ojs/v1/workflows".into(), json!({"type": "chain", "steps": []})),
        ("POST", "/ojs/v1/cron".into(), cron),
        ("POST", "/ojs/v1/cron/s/trigger".into(), json!({})),
        ("POST", format!("/ojs/v1/dead-letter/{job}/retry"), json!({})),
        ("POST", "/ojs/v1/admin/jobs/bulk/retry".into(), json!({"ids": [job]})),
    ];
    for (method, path, body) in roads {
        let answer = without.call(method, &path).json(body).send().await;
        assert_missing(&answer, "submit", &format!("{method} {path}"));
    }
    let jobs = without.get("/v1/jobs").await.expect(200);
    assert_eq!(jobs["jobs"].as_array().or(jobs["items"].as_array()).map(Vec::len), Some(1), "{jobs}");
    without.call("POST", "/v1/schedules/s/pause").send().await;
    client.scoped("no-manage", &self::without("manage")).await.job().await;
}

#[tokio::test]
async fn a_key_gives_only_scopes_that_it_has_and_replaces_only_keys_that_have_no_more() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = client.keys_path();
    let deputy = client.scoped("deputy", &["read", "keys"]).await;
    let post = |path: String, body: Value| deputy.call("POST", &path).json(body);
    let made = post(path.clone(), json!({"name": "reader", "scopes": ["read"]})).send().await.expect(201);
    assert_eq!((&made["name"], &made["scopes"]), (&json!("reader"), &json!(["read"])));
    for (path, body) in [
        (path.clone(), json!({"name": "more", "scopes": ["read", "submit"]})),
        (path.clone(), json!({"name": "all"})),
        (path.clone(), json!({"rotate": true})),
        (format!("{path}/renew"), json!({})),
        (format!("{path}/renew"), json!({"overlap_s": 60})),
        (format!("{path}/revoke"), json!({"key_id": client.key_id})),
    ] {
        assert_missing(&post(path, body.clone()).send().await, "submit", &body.to_string());
    }
    client.get("/v1/jobs").await.expect(200);
    post(format!("{path}/revoke"), json!({"key_id": made["key_id"]})).send().await.expect(200);
    let listed = deputy.get(&path).await.expect(200);
    let keys: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|key| (&key["name"], &key["good"])).collect();
    assert_eq!(
        keys,
        [(&json!(null), &json!(true)), (&json!("deputy"), &json!(true)), (&json!("reader"), &json!(false))]
    );
    assert!(!listed.to_string().contains("api_key"), "{listed}");
    let stranger = server.client().await;
    stranger.get(&path).await.expect(403);
    stranger.call("POST", &path).json(json!({"name": "x"})).send().await.expect(403);
    server.call("POST", &path).json(json!({"name": "x"})).send().await.expect(401);
}

#[tokio::test]
async fn a_named_key_is_made_once_shown_once_and_expires() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = client.keys_path();
    let in_an_hour = server.app.clock.now() + Duration::from_secs(3600);
    let expires_at = forgerun_wire::time::millis(in_an_hour);
    let request = json!({"name": "ci", "expires_at": expires_at});
    let make = || client.call("POST", &path).json(&request);
    let made = make().send().await;
    let key = made.expect(201);
    assert_eq!(key["expires_at"], expires_at);
    assert_eq!(key["scopes"], json!(ALL));
    let again = make().send().await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!((&again.expect(201)["key_id"], &again.json()["api_key"]), (&key["key_id"], &json!(null)));
    let ci = Client {
        address: client.address,
        id: client.id.clone(),
        key: key["api_key"].as_str().unwrap().into(),
        key_id: String::new(),
    };
    ci.get("/v1/jobs").await.expect(200);
    server.clock.advance(Duration::from_secs(3601));
    assert_eq!(ci.get("/v1/jobs").await.status, 401);
    assert_eq!(
        ci.call("POST", &format!("{path}/renew")).send().await.status,
        401,
        "renewal is for the primary key"
    );
    client.get("/v1/jobs").await.expect(200);
    for (bad, field) in [
        (json!({"name": ""}), "name"),
        (json!({"name": 7}), "name"),
        (json!({"scopes": ["read"]}), "scopes"),
        (json!({"name": "x", "scopes": []}), "scopes"),
        (json!({"name": "x", "scopes": ["root"]}), "scopes"),
        (json!({"name": "x", "scopes": "read"}), "scopes"),
        (json!({"expires_at": expires_at}), "expires_at"),
        (json!({"name": "x", "expires_at": expires_at}), "expires_at"),
        (json!({"name": "x", "expires_at": "9999-01-01T00:00:00Z"}), "expires_at"),
        (json!({"rotate": true, "overlap_s": 604_801}), "overlap_s"),
        (json!({"rotate": true, "overlap_s": -1}), "overlap_s"),
    ] {
        let refused = client.call("POST", &path).json(&bad).send().await.expect(400);
        assert_eq!(refused["details"]["field"], field, "{bad}: {refused}");
    }
    for number in 0..19 {
        client.scoped(&format!("key {number}"), &["read"]).await;
    }
    let refused = client.call("POST", &path).json(json!({"name": "one more"})).send().await.expect(409);
    assert_eq!(refused["details"]["max"], 20, "{refused}");
}

#[tokio::test]
async fn a_replaced_key_works_during_the_overlap_changes_no_keys_and_can_be_revoked() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = client.keys_path();
    let renew = client.call("POST", &format!("{path}/renew")).json(json!({"overlap_s": 60}));
    let key = renew.send().await.expect(200);
    let new = Client {
        address: client.address,
        id: client.id.clone(),
        key: key["api_key"].as_str().unwrap().into(),
        key_id: String::new(),
    };
    for caller in [&client, &new] {
        caller.get("/v1/jobs").await.expect(200);
        caller.job().await;
    }
    for call in [renew, client.call("POST", &path).json(json!({"name": "x"})), client.call("POST", &path)] {
        let refused = call.send().await.expect(403);
        assert_eq!(refused["details"]["reason"], "key_replaced", "{refused}");
    }
    let shown = new.get(&path).await.expect(200);
    assert_eq!(
        (&shown["items"][0]["good"], shown["items"][0]["revoked_at"].is_string()),
        (&json!(true), true)
    );
    server.clock.advance(Duration::from_secs(30));
    client.get("/v1/jobs").await.expect(200);
    let revoke = new.call("POST", &format!("{path}/revoke")).json(json!({"key_id": client.key_id}));
    revoke.send().await.expect(200);
    client.get("/v1/jobs").await.expect(403);
    let rotated =
        new.call("POST", &path).json(json!({"rotate": true, "overlap_s": 60})).send().await.expect(201);
    assert!(rotated["api_key"].is_string());
    new.get("/v1/jobs").await.expect(200);
    server.clock.advance(Duration::from_secs(61));
    new.get("/v1/jobs").await.expect(403);
}
