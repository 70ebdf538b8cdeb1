//! Loopback is no proof of a private server (C-115): what is relaxed there is for requests from
//! this machine, not for those that a proxy or a page in a browser brings.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::http::{Answer, Call};
use super::server::Server;

const MALFORMED: &str = "RFA_REQUEST_MALFORMED";
const FORBIDDEN: &str = "RFA_AUTH_FORBIDDEN";
const UNKNOWN: &str = "RFA_AUTH_INVALID_CREDENTIALS";
const INVALID: &str = "RFA_JOB_VALIDATION_FAILED";

/// Headers of requests that come from 127.0.0.1 and not from this machine's user.
const STRANGERS: [(&str, &str); 9] = [
    ("host", "jobs.example.org"),
    ("host", "rebound.example:8080"),
    ("host", "127.0.0.1.nip.io"),
    ("origin", "https://example.org"),
    ("origin", "null"),
    ("forwarded", "for=192.0.2.1"),
    ("x-forwarded-for", "127.0.0.1"),
    ("x-real-ip", "192.0.2.1"),
    ("via", "1.1 proxy"),
];

/// Sends a head as it stands.
async fn raw(server: &Server, head: &str) -> Answer {
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).await.unwrap();
    Answer::parse(&bytes)
}

#[tokio::test]
async fn a_request_without_one_readable_host_is_400_everywhere() {
    let server = Server::start().await;
    for path in ["/health", "/openapi.json", "/v1/jobs", "/api/v1/jobs", "/nothing"] {
        for hosts in ["", "host: localhost\r\nhost: localhost\r\n", "host: a b\r\n", "host: u@localhost\r\n"]
        {
            let head = format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{hosts}\r\n");
            let answer = raw(&server, &head).await;
            assert_eq!(answer.status, 400, "{path} {hosts:?}");
            assert_eq!(answer.json()["rfa_code"], MALFORMED, "{path} {hosts:?}");
        }
    }
    assert_eq!(raw(&server, "GET /health HTTP/1.0\r\n\r\n").await.status, 200);
}

#[tokio::test]
async fn a_stranger_behind_a_proxy_or_in_a_page_gets_no_client_and_no_key() {
    let server = Server::start().await;
    let known = server.call("POST", "/v1/clients").send().await.expect(201);
    let keys = format!("/v1/clients/{}/keys", known["client_id"].as_str().unwrap());
    for (name, value) in STRANGERS {
        let problem = server.call("POST", "/v1/clients").header(name, value).send().await;
        let problem = problem.refused(403, FORBIDDEN);
        assert!(problem["detail"].as_str().unwrap().contains("because"), "{problem}");
        server.call("POST", &keys).header(name, value).send().await.refused(401, UNKNOWN);
    }
    let old = raw(&server, "POST /v1/clients HTTP/1.0\r\nhost: localhost\r\n\r\n").await;
    old.refused(403, FORBIDDEN);
    server.call("POST", &keys).send().await.expect(201);
}

#[tokio::test]
async fn a_stranger_is_nobody_in_open_mode_and_somebody_with_a_key() {
    let server = Server::with(&[("auth.mode", "open")]).await;
    let client = server.client().await;
    let submit = |call: Call| call.json(json!({"type": "EXECUTE"}));
    for (name, value) in STRANGERS {
        let call = || submit(server.call("POST", "/v1/jobs")).header(name, value);
        call().send().await.refused(401, UNKNOWN);
        let read = server.call("GET", "/v1/jobs").header(name, value);
        read.send().await.refused(401, UNKNOWN);
        submit(client.call("POST", "/v1/jobs")).header(name, value).send().await.expect(202);
    }
    for host in ["localhost:8080", "127.0.0.1", "[::1]:8080"] {
        let call = submit(server.call("POST", "/v1/jobs")).header("host", host);
        call.header("origin", "http://localhost:3000").send().await.expect(202);
    }
}

#[tokio::test]
async fn a_stranger_has_no_private_address_called() {
    let server = Server::start().await;
    let client = server.client().await;
    for url in ["http://127.0.0.1:9/", "http://localhost:9/", "http://10.0.0.1/", "http://[::1]:9/"] {
        let webhook =
            || client.call("POST", "/v1/webhooks").json(json!({"url": url, "events": ["job_failed"]}));
        let job = |path: &str, body: &serde_json::Value| client.call("POST", path).json(body);
        let (v1, api) =
            (json!({"type": "EXECUTE", "callback": url}), json!({"type": "report", "callback": url}));
        for (name, value) in STRANGERS {
            webhook().header(name, value).send().await.refused(400, INVALID);
            let refused = job("/v1/jobs", &v1).header(name, value).send().await;
            refused.refused(400, INVALID);
            assert_eq!(job("/api/v1/jobs", &api).header(name, value).send().await.status, 400, "{url}");
        }
        let made = webhook().send().await.expect(201);
        let path = format!("/v1/webhooks/{}", made["webhook_id"].as_str().unwrap());
        let change = client.call("PATCH", &path).json(json!({"url": url})).header("via", "1.1 proxy");
        change.send().await.refused(400, INVALID);
        job("/v1/jobs", &v1).send().await.expect(202);
    }
}

#[tokio::test]
async fn a_server_with_a_public_address_registers_only_for_the_operator() {
    let settings = [("server.public_base_url", "https://jobs.example.org"), ("auth.registration", "auto")];
    let closed = Server::with(&settings).await;
    closed.call("POST", "/v1/clients").send().await.refused(403, FORBIDDEN);
    assert!(closed.app.config.registers_nobody());
    let with_token = [settings[0], settings[1], ("auth.admin_token", "a-token-of-the-operator")];
    let server = Server::with(&with_token).await;
    server.call("POST", "/v1/clients").send().await.refused(401, UNKNOWN);
    let operator = server.call("POST", "/v1/clients");
    operator.header("authorization", "Bearer a-token-of-the-operator").send().await.expect(201);
}

#[tokio::test]
async fn said_outright_registration_is_open_to_strangers_too() {
    let server = Server::with(&[("auth.registration", "open")]).await;
    for (name, value) in STRANGERS {
        server.call("POST", "/v1/clients").header(name, value).send().await.expect(201);
    }
}

/// Guesses as often as one may within a minute, and once more; the status of the last.
async fn guess_too_often(server: &Server, guess: impl AsyncFn(u32) -> u16) -> u16 {
    server.clock.stop();
    for n in 0..forgerun_server::limits::MISSES_PER_MINUTE {
        assert_eq!(guess(n % 250).await, 404, "guess {n}");
    }
    guess(0).await
}

#[tokio::test]
async fn callers_behind_a_trusted_proxy_are_counted_one_by_one() {
    let misses = async |server: &Server, caller: &str| {
        let path = "/v1/clients/01890a5d-ac96-474b-bcce-b302099a8057/keys";
        let call = server.call("POST", path).header("x-forwarded-for", caller);
        call.send().await.status
    };
    let open = ("auth.registration", "open");
    let trusting = Server::with(&[open, ("server.trusted_proxies", "127.0.0.0/8")]).await;
    // Whatever a caller makes up stands before the address that the proxy appends.
    let made_up = async |n| misses(&trusting, &format!("198.51.100.{n}, 192.0.2.1")).await;
    assert_eq!(guess_too_often(&trusting, made_up).await, 429);
    assert_eq!(misses(&trusting, "192.0.2.2").await, 404);
    // Without trust all of them are the proxy.
    let wary = Server::with(&[open]).await;
    assert_eq!(guess_too_often(&wary, async |n| misses(&wary, &format!("192.0.2.{n}")).await).await, 429);
}
