//! Who gets in: credentials, ownership, and what the unauthorised learn (nothing).

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::client::Client;
use forgerun_core::{Command, redrive};
use forgerun_engine::{Clock, SystemClock};
use forgerun_server::Bounds;
use forgerun_store::memory::Memory;
use serde_json::json;

use super::server::Server;

const OPERATOR: &str = "the-operator-and-nobody-else";
const UNKNOWN: &str = "RFA_AUTH_INVALID_CREDENTIALS";
const JOB_ROUTES: [(&str, &str); 9] = [
    ("POST", "/v1/jobs"),
    ("GET", "/v1/jobs"),
    ("GET", "/v1/jobs/{id}"),
    ("DELETE", "/v1/jobs/{id}"),
    ("POST", "/v1/jobs/{id}/cancel"),
    ("POST", "/v1/jobs/{id}/retry"),
    ("GET", "/v1/jobs/{id}/report"),
    ("GET", "/v1/jobs/{id}/result"),
    ("GET", "/v1/jobs/{id}/events"),
];

#[tokio::test]
async fn bad_credentials_are_401_on_every_route_and_show_nothing() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.job().await;
    let before = server.traces().await;
    let unknown = format!("Bearer frk_{}", "A".repeat(43));
    let basic = format!("Basic {}", client.key);
    let bare = client.key.clone();
    let cases = [
        None,
        Some(""),
        Some("Bearer"),
        Some("Bearer   "),
        Some("Bearer nonsense"),
        Some(&unknown),
        Some(&basic),
        Some(&bare),
        Some("Bearer \u{e9}"),
    ];
    for (method, path) in JOB_ROUTES {
        for credentials in cases {
            let mut call = server.call(method, &path.replace("{id}", &id)).json(json!({"type": "EXECUTE"}));
            if let Some(credentials) = credentials {
                call = call.header("authorization", credentials);
            }
            let problem = call.send().await.refused(401, UNKNOWN);
            assert_eq!(problem["type"], "/problems/unauthorized");
            for leak in ["jobId", "jobStatus", "processingStage"] {
                assert!(problem.get(leak).is_none(), "{leak} in {problem}");
            }
            assert!(!problem.to_string().contains(&id), "{problem}");
        }
    }
    assert_eq!(server.traces().await, before);
}

#[tokio::test]
async fn a_second_authorization_header_is_not_passed_over() {
    let server = Server::start().await;
    let (one, other) = (server.client().await, server.client().await);
    for second in [format!("Bearer {}", other.key), "Bearer nonsense".to_owned(), String::new()] {
        let call = server.call("GET", "/v1/jobs").header("authorization", &format!("Bearer {}", one.key));
        call.header("authorization", &second).send().await.refused(401, UNKNOWN);
    }
}

#[tokio::test]
async fn the_scheme_is_read_in_any_case() {
    let server = Server::start().await;
    let client = server.client().await;
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let call =
            server.call("GET", "/v1/jobs").header("authorization", &format!("{scheme} {}", client.key));
        call.send().await.expect(200);
    }
}

#[tokio::test]
async fn an_expired_key_is_401_and_says_so() {
    let server = Server::with(&[("auth.key_ttl_days", "1")]).await;
    let client = server.client().await;
    client.get("/v1/jobs").await.expect(200);
    server.clock.advance(Duration::from_secs(24 * 3600 - 60));
    client.get("/v1/jobs").await.expect(200);
    server.clock.advance(Duration::from_secs(120));
    let problem = client.get("/v1/jobs").await.refused(401, "RFA_AUTH_TOKEN_EXPIRED");
    assert_eq!(problem["type"], "/problems/api-key-expired");
}

#[tokio::test]
async fn an_expired_key_renews_itself_for_a_while_and_does_nothing_else() {
    let server = Server::with(&[("auth.key_ttl_days", "1"), ("auth.renew_grace_days", "2")]).await;
    let (client, late) = (server.client().await, server.client().await);
    let day = Duration::from_secs(24 * 3600);
    let keys = client.keys_path();
    server.clock.advance(day + Duration::from_secs(60));
    for (method, path) in [("GET", "/v1/jobs"), ("POST", "/v1/jobs"), ("POST", &keys)] {
        let problem = client.call(method, path).send().await.refused(401, "RFA_AUTH_TOKEN_EXPIRED");
        assert!(problem["detail"].as_str().unwrap().contains("renew itself"), "{problem}");
    }
    let foreign = format!("{}/renew", late.keys_path());
    client.post(&foreign).await.refused(403, "RFA_AUTH_FORBIDDEN");
    let renewed = client.post(&format!("{keys}/renew")).await.expect(200);
    let new = super::server::Client { key: renewed["api_key"].as_str().unwrap().into(), ..client.clone() };
    new.get("/v1/jobs").await.expect(200);
    client.post(&format!("{keys}/renew")).await.refused(403, "RFA_AUTH_API_KEY_DISABLED");

    server.clock.advance(2 * day);
    let over = late.post(&foreign).await.refused(401, "RFA_AUTH_TOKEN_EXPIRED");
    assert!(over["detail"].as_str().unwrap().contains("operator"), "{over}");
}

/// The ids of these clients are no secret.
#[tokio::test]
async fn a_first_key_of_a_client_of_the_server_is_not_for_everybody() {
    let store = Arc::new(Memory::new());
    let open = Server::on(store.clone(), &[("auth.mode", "open")], Bounds::default()).await;
    let id = open.app.default_client.unwrap();
    let server = Server::on(store, &[("auth.admin_token", OPERATOR)], Bounds::default()).await;
    let redrives = Client::new(redrive::CLIENT, server.app.clock.now());
    server.app.engine.run(Command::Register(redrives)).await.unwrap();
    for id in [id, redrive::CLIENT] {
        let path = format!("/v1/clients/{id}/keys");
        server.call("POST", &path).send().await.refused(401, UNKNOWN);
        let operator = server.call("POST", &path).header("authorization", &format!("Bearer {OPERATOR}"));
        operator.send().await.expect(201);
    }
}

#[tokio::test]
async fn a_revoked_key_is_403_at_once() {
    let server = Server::start().await;
    let client = server.client().await;
    client.get("/v1/jobs").await.expect(200);
    let body = json!({"key_id": client.key_id});
    let revoke = client.call("POST", &format!("{}/revoke", client.keys_path())).json(body);
    assert_eq!(revoke.send().await.expect(200), json!({"revoked": true}));
    let problem = client.submit(json!({"type": "EXECUTE"})).await.refused(403, "RFA_AUTH_API_KEY_DISABLED");
    assert_eq!(problem["type"], "/problems/api-key-disabled");
    assert_eq!(server.traces().await.0, 0);
}

#[tokio::test]
async fn the_job_of_another_client_is_403_on_every_route_with_the_same_words() {
    let server = Server::start().await;
    let (owner, other) = (server.client().await, server.client().await);
    let ids = [owner.job().await, owner.job().await];
    server.succeed().await;
    let before = server.traces().await;
    for (method, path) in &JOB_ROUTES[2..] {
        let mut bodies = Vec::new();
        for id in &ids {
            let answer = other.call(method, &path.replace("{id}", id)).send().await;
            let mut problem = answer.refused(403, "RFA_AUTH_FORBIDDEN");
            problem["instance"] = json!(null);
            bodies.push(problem);
        }
        assert_eq!(bodies[0], bodies[1], "one has ended, one has not");
    }
    assert_eq!(server.traces().await, before);
    assert_eq!(other.get("/v1/jobs").await.expect(200)["jobs"], json!([]));
    assert_eq!(owner.get(&format!("/v1/jobs/{}", ids[1])).await.expect(200)["state"], "QUEUED");
}

#[tokio::test]
async fn foreign_jobs_can_be_hidden() {
    let server = Server::with(&[("auth.hide_foreign", "true")]).await;
    let (owner, other) = (server.client().await, server.client().await);
    let id = owner.job().await;
    for (method, path) in &JOB_ROUTES[2..] {
        let of = async |id: &str| {
            let answer = other.call(method, &path.replace("{id}", id)).send().await;
            let mut problem = answer.refused(404, "RFA_JOB_NOT_FOUND");
            problem["instance"] = json!(null);
            problem.to_string().replace(id, "ID")
        };
        assert_eq!(of(&id).await, of("01890a5d-ac96-774b-bcce-b302099a8057").await, "{path}");
    }
    let keys = other.call("POST", &owner.keys_path()).send().await.refused(404, "RFA_JOB_NOT_FOUND");
    assert_eq!(keys["type"], "/problems/client-not-found");
}

#[tokio::test]
async fn ids_of_nothing_are_404_on_every_route() {
    let server = Server::start().await;
    let client = server.client().await;
    for id in ["01890a5d-ac96-774b-bcce-b302099a8057", "7", "no-id", "%00", "..", "'%20OR%201=1"] {
        for (method, path) in &JOB_ROUTES[2..] {
            let answer = client.call(method, &path.replace("{id}", id)).send().await;
            assert_eq!(
                answer.refused(404, "RFA_JOB_NOT_FOUND")["type"],
                "/problems/job-not-found",
                "{path} {id}"
            );
        }
    }
}

#[tokio::test]
async fn in_open_mode_requests_without_credentials_belong_to_one_client() {
    let server = Server::with(&[("auth.mode", "open")]).await;
    let call = || server.call("POST", "/v1/jobs").json(json!({"type": "EXECUTE"}));
    let id = call().send().await.expect(202)["job_id"].as_str().unwrap().to_owned();
    server.call("GET", &format!("/v1/jobs/{id}")).send().await.expect(200);
    call().header("authorization", "Bearer nonsense").send().await.refused(401, UNKNOWN);
    let client = server.client().await;
    client.get(&format!("/v1/jobs/{id}")).await.refused(403, "RFA_AUTH_FORBIDDEN");
}

#[tokio::test]
async fn in_admin_mode_registering_needs_the_admin_token() {
    let settings = [("auth.registration", "admin"), ("auth.admin_token", "t0p-secret")];
    let server = Server::with(&settings).await;
    let admin = |path: &str| server.call("POST", path).header("authorization", "Bearer t0p-secret");
    server.call("POST", "/v1/clients").send().await.refused(401, UNKNOWN);
    server
        .call("POST", "/v1/clients")
        .header("authorization", "Bearer wrong")
        .send()
        .await
        .refused(401, UNKNOWN);
    let id = admin("/v1/clients").send().await.expect(201)["client_id"].as_str().unwrap().to_owned();
    let keys = format!("/v1/clients/{id}/keys");
    server.call("POST", &keys).send().await.refused(401, UNKNOWN);
    admin(&format!("{keys}/renew")).send().await.refused(409, "RFA_JOB_CONFLICT");
    let key = admin(&keys).send().await.expect(201)["api_key"].as_str().unwrap().to_owned();
    let client = |method: &str, path: &str| {
        server.call(method, path).header("authorization", &format!("Bearer {key}"))
    };
    client("GET", "/v1/jobs").send().await.expect(200);
    client("POST", "/v1/clients").send().await.refused(403, "RFA_AUTH_FORBIDDEN");
    admin("/v1/jobs").json(json!({"type": "EXECUTE"})).send().await.refused(403, "RFA_AUTH_FORBIDDEN");
}

#[tokio::test]
async fn wrong_operator_tokens_are_answered_late_and_the_right_one_never_is() {
    let token = "the-token-of-the-operator";
    let proxies = ("server.trusted_proxies", "127.0.0.1");
    let server = Server::with(&[("auth.registration", "admin"), ("auth.admin_token", token), proxies]).await;
    server.clock.stop();
    let ask = async |from: &str, token: &str| {
        let call = server.call("GET", "/admin/v1/queues").header("x-forwarded-for", from);
        let began = SystemClock.now();
        let answer = call.header("authorization", &format!("Bearer {token}")).send().await;
        (answer.status, SystemClock.now().since(began) >= Duration::from_secs(1))
    };
    for n in 0..9 {
        assert_eq!(ask("192.0.2.1", "wrong").await, (401, false), "{n}");
    }
    assert_eq!(ask("192.0.2.1", "wrong").await, (401, true), "the tenth");
    assert_eq!(ask("192.0.2.2", "wrong").await, (401, false), "another address");
    // All of these ask within the second in which the first of them wait.
    let many = futures_util::future::join_all((0..80).map(|_| ask("192.0.2.1", "wrong")));
    let right = async {
        let mut answers = Vec::new();
        for _ in 0..5 {
            answers.push(ask("192.0.2.1", token).await);
        }
        answers
    };
    let (answers, right) = tokio::join!(many, right);
    assert_eq!(right, [(200, false); 5], "the right one is never refused, nor late");
    let n_of = |status: u16| answers.iter().filter(|(answered, _)| *answered == status).count();
    assert_eq!((n_of(401), n_of(429)), (64, 16), "{answers:?}");
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(ask("192.0.2.1", "wrong").await, (401, false), "a minute later");
}

#[tokio::test]
async fn wrong_keys_never_keep_the_operator_out() {
    let server = Server::with(&[("auth.admin_token", OPERATOR)]).await;
    server.clock.stop();
    let ask = async |path: &str, token: &str| {
        server.call("GET", path).header("authorization", &format!("Bearer {token}")).send().await.status
    };
    for _ in 0..120 {
        assert_eq!(ask("/v1/jobs", "frk_wrong").await, 401);
    }
    let began = SystemClock.now();
    assert_eq!(ask("/v1/jobs", "frk_wrong").await, 401);
    assert!(SystemClock.now().since(began) >= Duration::from_secs(1), "then they are late, too");
    assert_eq!(ask("/admin/v1/queues", OPERATOR).await, 200);
}

#[tokio::test]
async fn with_foreign_things_hidden_they_are_like_unknown_ones_on_every_route() {
    let server = Server::with(&[("auth.hide_foreign", "true")]).await;
    let (owner, other) = (server.client().await, server.client().await);
    let job = owner.job().await;
    let webhook = json!({"url": "http://127.0.0.1:9/", "events": ["job_failed"]});
    let webhook = owner.call("POST", "/v1/webhooks").json(webhook).send().await.expect(201);
    let webhook = webhook["webhook_id"].as_str().unwrap();
    let test = owner.post(&format!("/v1/webhooks/{webhook}/test")).await.expect(202);
    let delivery = test["delivery_id"].as_str().unwrap();
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057";
    let routes = [
        ("GET", "/v1/webhooks/{webhook}"),
        ("PATCH", "/v1/webhooks/{webhook}"),
        ("DELETE", "/v1/webhooks/{webhook}"),
        ("POST", "/v1/webhooks/{webhook}/rotate-secret"),
        ("POST", "/v1/webhooks/{webhook}/test"),
        ("GET", "/v1/webhooks/{webhook}/deliveries"),
        ("GET", "/v1/webhooks/{webhook}/deliveries/{delivery}"),
        ("POST", "/v1/webhooks/{webhook}/deliveries/{delivery}/redeliver"),
        ("GET", "/v1/jobs/{job}/deliveries"),
        ("GET", "/v1/jobs/{job}/deliveries/{delivery}"),
        ("GET", "/v1/jobs/{job}/items"),
        ("GET", "/v1/workflows/{job}"),
        ("POST", "/v1/workflows/{job}/cancel"),
        ("POST", "/v1/workflows/{job}/retry"),
        ("GET", "/v1/workflows/{job}/events"),
        ("GET", "/api/v1/jobs/{job}"),
        ("POST", "/api/v1/jobs/{job}/cancel"),
        ("GET", "/api/v1/jobs/{job}/result"),
        ("GET", "/api/v1/jobs/{job}/events"),
        ("POST", "/v1/clients/{client}/keys"),
        ("POST", "/v1/clients/{client}/keys/renew"),
        ("POST", "/v1/clients/{client}/keys/revoke"),
    ];
    for (method, path) in routes {
        let of = async |job: &str, webhook: &str, delivery: &str, client: &str| {
            let ids =
                [("{job}", job), ("{webhook}", webhook), ("{delivery}", delivery), ("{client}", client)];
            let path = ids.iter().fold(path.to_owned(), |path, (name, id)| path.replace(name, id));
            let body = json!({"key_id": unknown});
            let call = other.call(method, &path);
            let answer = if path.ends_with("revoke") { call.json(body) } else { call }.send().await;
            let mut problem = answer.json();
            // What names the request and not its subject.
            for own in ["instance", "traceId", "traceparent", "timestamp"] {
                problem.as_object_mut().unwrap().remove(own);
            }
            let text = ids.iter().fold(problem.to_string(), |text, (name, id)| text.replace(id, name));
            (answer.status, text.replace("{webhook}", "{job}").replace("{client}", "{job}"))
        };
        let foreign = of(&job, webhook, delivery, &owner.id).await;
        let none = of(unknown, unknown, unknown, unknown).await;
        assert_eq!(foreign.0, 404, "{method} {path}: {}", foreign.1);
        assert_eq!(foreign, none, "{method} {path}");
    }
}
