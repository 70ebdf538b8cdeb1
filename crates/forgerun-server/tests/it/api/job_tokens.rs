//! Tokens that read one job, and pages of other origins (CORS).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::http::{Answer, Call};
use super::server::{Client, Server};

async fn token(client: &Client, job: &str, body: Value) -> Answer {
    client.call("POST", &format!("/v1/jobs/{job}/token")).json(body).send().await
}

fn with(call: Call, token: &str) -> Call {
    call.header("authorization", &format!("Bearer {token}"))
}

#[tokio::test]
async fn a_job_token_reads_its_job_and_nothing_else() {
    let server = Server::start().await;
    let client = server.client().await;
    let job = client.job().await;
    server.succeed().await;
    let other = client.job().await;
    let made = token(&client, &job, json!({"expires_in_s": 60})).await.expect(201);
    let token = made["token"].as_str().unwrap();
    assert!(token.starts_with("frj_") && made["expires_at"].is_string(), "{made}");
    for path in ["", "/events", "/result", "/report"] {
        for base in ["/v1/jobs", "/api/v1/jobs", "/ojs/v1/jobs"] {
            if path == "/report" && base != "/v1/jobs" {
                continue;
            }
            let path = format!("{base}/{job}{path}");
            let as_header = with(server.call("GET", &path), token).send().await;
            assert_eq!(as_header.status, 200, "{path}: {}", as_header.text());
            let as_parameter = server.call("GET", &format!("{path}?token={token}")).send().await;
            assert_eq!(as_parameter.status, 200, "{path}: {}", as_parameter.text());
            let foreign = path.replace(&job, &other);
            for call in [
                with(server.call("GET", &foreign), token),
                server.call("GET", &format!("{foreign}?token={token}")),
            ] {
                let refused = call.send().await;
                assert_eq!(refused.status, 403, "{foreign}: {}", refused.text());
                assert!(refused.text().contains("job_token"), "{}", refused.text());
            }
        }
    }
    let streamed = server.call("GET", &format!("/v1/jobs/{job}/events?token={token}"));
    let streamed = streamed.header("accept", "text/event-stream").send().await;
    assert!(streamed.text().contains("event: job-completed"), "{}", streamed.text());
    for (method, path) in [
        ("GET", "/v1/jobs".to_owned()),
        ("GET", "/v1/events".to_owned()),
        ("GET", "/v1/webhooks".to_owned()),
        ("GET", format!("/v1/jobs/{job}/deliveries")),
        ("GET", client.keys_path()),
        ("GET", format!("/ojs/v1/jobs/{job}/checkpoint")),
        ("GET", "/admin/v1/jobs".to_owned()),
        ("GET", format!("/admin/v1/jobs/{job}")),
        ("DELETE", format!("/v1/jobs/{job}")),
        ("POST", format!("/v1/jobs/{job}/token")),
        ("POST", format!("/v1/jobs/{job}/cancel")),
        ("POST", format!("/v1/jobs/{job}/retry")),
        ("POST", client.keys_path()),
        ("POST", format!("{}/renew", client.keys_path())),
        ("POST", "/v1/jobs".to_owned()),
        ("POST", "/ojs/v1/workers/fetch".to_owned()),
    ] {
        let call = with(server.call(method, &path), token);
        let call = if method == "POST" { call.json("{}") } else { call };
        let answer = call.send().await;
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
        if method == "GET" {
            let as_parameter = server.call("GET", &format!("{path}?token={token}")).send().await;
            assert_eq!(as_parameter.status, 401, "{path}: {}", as_parameter.text());
        }
    }
}

#[tokio::test]
async fn a_job_token_ends_with_its_time_and_with_its_job() {
    let server = Server::start().await;
    let client = server.client().await;
    let job = client.job().await;
    server.succeed().await;
    let short = token(&client, &job, json!({"expires_in_s": 60})).await.expect(201);
    let long = token(&client, &job, json!({})).await.expect(201);
    let path = format!("/v1/jobs/{job}");
    let get = |made: &Value| with(server.call("GET", &path), made["token"].as_str().unwrap());
    server.clock.advance(Duration::from_secs(59));
    get(&short).send().await.expect(200);
    server.clock.advance(Duration::from_secs(1));
    let over = get(&short).send().await.expect(401);
    assert!(over["detail"].as_str().unwrap().contains("expired"), "{over}");
    get(&long).send().await.expect(200);
    client.call("DELETE", &path).send().await;
    assert_eq!(get(&long).send().await.status, client.get(&path).await.status, "a deleted job");
}

#[tokio::test]
async fn a_forged_job_token_is_no_token() {
    let server = Server::start().await;
    let client = server.client().await;
    let (job, other) = (client.job().await, client.job().await);
    let made = token(&client, &job, json!({})).await.expect(201);
    let own = made["token"].as_str().unwrap();
    let bytes = URL_SAFE_NO_PAD.decode(&own[4..]).unwrap();
    let id = |job: &str| job.replace('-', "").parse::<String>().unwrap();
    let raw: Vec<u8> =
        (0..16).map(|n| u8::from_str_radix(&id(&other)[2 * n..2 * n + 2], 16).unwrap()).collect();
    let forged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        format!("frj_{}", URL_SAFE_NO_PAD.encode(bytes))
    };
    for (token, path) in [
        (forged(&|bytes| bytes[..16].copy_from_slice(&raw)), &other),
        (forged(&|bytes| bytes[33] = 0x7f), &job),
        (forged(&|bytes| bytes.truncate(40)), &job),
        (forged(&|bytes| bytes[40..].fill(0)), &job),
        (forged(&|bytes| *bytes.last_mut().unwrap() ^= 1), &job),
        ("frj_".to_owned(), &job),
        ("frj_eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.".to_owned(), &job),
        (format!("{own}="), &job),
        (own.replace("frj_", "frk_"), &job),
    ] {
        let path = format!("/v1/jobs/{path}");
        assert_eq!(with(server.call("GET", &path), &token).send().await.status, 401, "{token}");
        let as_parameter = server.call("GET", &format!("{path}?token={token}")).send().await;
        assert_eq!(as_parameter.status, 401, "{token}");
    }
    let elsewhere = Server::start().await;
    assert_eq!(with(elsewhere.call("GET", &format!("/v1/jobs/{job}")), own).send().await.status, 401);
}

#[tokio::test]
async fn a_job_token_is_made_by_the_owner_with_read_within_a_day() {
    let server = Server::start().await;
    let client = server.client().await;
    let job = client.job().await;
    for bad in [json!(0), json!(86_401), json!(-1), json!("60"), json!(1.5)] {
        let refused = token(&client, &job, json!({"expires_in_s": bad})).await.expect(400);
        assert_eq!(refused["details"]["field"], "expires_in_s", "{refused}");
    }
    token(&client, &job, json!({"expires_in_s": 86_400})).await.expect(201);
    token(&client.scoped("reader", &["read"]).await, &job, json!({})).await.expect(201);
    token(&client.scoped("writer", &["submit", "work", "manage", "keys"]).await, &job, json!({}))
        .await
        .expect(403);
    token(&server.client().await, &job, json!({})).await.expect(403);
    token(&client, "019a0000-0000-7000-8000-000000000000", json!({})).await.expect(404);
    server.call("POST", &format!("/v1/jobs/{job}/token")).json("{}").send().await.expect(401);
}

#[tokio::test]
async fn a_job_token_of_one_node_is_good_at_the_others() {
    let store: std::sync::Arc<dyn forgerun_store::Store> =
        std::sync::Arc::new(forgerun_store::memory::Memory::new());
    let one = Server::on(store.clone(), &[], forgerun_server::Bounds::default()).await;
    let two = Server::on(store, &[], forgerun_server::Bounds::default()).await;
    let client = one.client().await;
    let job = client.job().await;
    let made = token(&client, &job, json!({})).await.expect(201);
    let path = format!("/v1/jobs/{job}");
    with(two.call("GET", &path), made["token"].as_str().unwrap()).send().await.expect(200);
}

#[tokio::test]
async fn pages_of_listed_origins_may_call_and_no_others() {
    const PAGE: &str = "https://app.example.org";
    let server = Server::with(&[("server.cors_origins", PAGE)]).await;
    let client = server.client().await;
    let ask = |method: &str, path: &str, origin: &str| client.call(method, path).header("origin", origin);
    let answer = ask("GET", "/v1/jobs", PAGE).send().await;
    answer.expect(200);
    assert_eq!(answer.header("access-control-allow-origin"), Some(PAGE));
    assert!(answer.header("access-control-expose-headers").unwrap().contains("Location"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
    assert!(answer.header("vary").unwrap().contains("Origin"));
    let refusal = server.call("GET", "/v1/jobs").header("origin", PAGE).send().await;
    assert_eq!((refusal.status, refusal.header("access-control-allow-origin")), (401, Some(PAGE)));
    let preflight = |path: &str, origin: &str| {
        let call = server.call("OPTIONS", path).header("origin", origin);
        call.header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,content-type")
    };
    let allowed = preflight("/v1/jobs", PAGE).send().await;
    assert_eq!(allowed.status, 204);
    assert_eq!(allowed.header("access-control-allow-origin"), Some(PAGE));
    assert!(allowed.header("access-control-allow-methods").unwrap().contains("POST"));
    assert!(allowed.header("access-control-allow-headers").unwrap().contains("Authorization"));
    for origin in
        ["https://evil.example.org", "https://app.example.org.evil", "http://app.example.org", "null"]
    {
        let answer = preflight("/v1/jobs", origin).send().await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (405, None), "{origin}");
        let answer = ask("GET", "/v1/jobs", origin).send().await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None), "{origin}");
        assert!(answer.header("vary").unwrap().contains("Origin"), "caches must not mix origins");
    }
    for path in ["/admin/v1/jobs", "/dashboard/login"] {
        assert_eq!(preflight(path, PAGE).send().await.header("access-control-allow-origin"), None, "{path}");
    }
    let open = Server::with(&[("server.cors_origins", "*")]).await;
    let answer = open.client().await.call("GET", "/v1/jobs").header("origin", PAGE).send().await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    let closed = Server::start().await;
    let answer = closed.client().await.call("GET", "/v1/jobs").header("origin", PAGE).send().await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
}
