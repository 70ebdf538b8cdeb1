//! Operators with an identity provider that is not ours: its tokens, and people in a real browser.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use forgerun_server::audit::record_wrong_keys;
use forgerun_server::dialects::routes_of_operators;
use serde_json::{Value, json};

use crate::api::http::{Answer, Call};
use crate::api::server::Server;

const TOKEN: &str = "the-operator-and-nobody-else";

fn tools() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools").join("node_modules")
}

fn script(name: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/operators");
    let mut command = Command::new("node");
    command.arg(folder.join(name)).env("TOOLS", tools());
    command
}

/// `oidc-provider` in a process of its own; it ends with this one.
struct IdentityProvider {
    process: Child,
    address: SocketAddr,
}

impl IdentityProvider {
    fn start() -> IdentityProvider {
        let mut command = script("provider.mjs");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.spawn().expect("node, which make tools installs");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port: u16 = line.trim().parse().expect("the port of the provider; make tools installs it");
        IdentityProvider { process, address: ([127, 0, 0, 1], port).into() }
    }

    fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    async fn ask(&self, path: &str, body: Value) -> Value {
        let call = Call::new(self.address, "POST", path).header("host", &self.address.to_string());
        call.json(body).send().await.expect(200)
    }

    /// A token with these claims beside the usual ones; its person is a viewer unless they say so.
    async fn token(&self, claims: Value) -> String {
        self.signed(json!({"claims": claims})).await
    }

    async fn signed(&self, request: Value) -> String {
        self.ask("/test/token", request).await["token"].as_str().unwrap().to_owned()
    }

    async fn server(&self) -> Server {
        let issuer = self.issuer();
        let settings = [
            ("auth.admin_token", TOKEN),
            ("auth.oidc.issuer", &issuer),
            ("auth.oidc.client_id", "forgerun"),
            ("auth.oidc.client_secret", "not:so secret+"),
            ("auth.oidc.roles", "staff=viewer,ops=operator,root=admin"),
        ];
        let server = Server::with(&settings).await;
        let uri = format!("http://localhost:{}/dashboard/login/callback", server.address.port());
        self.ask("/test/redirect", json!({"uri": uri})).await;
        server
    }
}

impl Drop for IdentityProvider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn call(server: &Server, method: &str, path: &str, token: &str) -> Call {
    server.call(method, path).header("authorization", &format!("Bearer {token}"))
}

async fn get(server: &Server, path: &str, token: &str) -> Answer {
    call(server, "GET", path, token).send().await
}

/// The page of the audit trail that the query selects.
async fn entries(server: &Server, query: &str) -> Vec<Value> {
    let page = get(server, &format!("/admin/v1/audit?limit=200&{query}"), TOKEN).await.expect(200);
    page["items"].as_array().unwrap().clone()
}

const QUEUES: &str = "/admin/v1/queues";
const UNKNOWN: &str = "RFA_AUTH_INVALID_CREDENTIALS";

#[tokio::test]
async fn tokens_of_the_provider_open_the_operators_api_by_their_role() {
    let provider = IdentityProvider::start();
    let server = provider.server().await;
    let operator = provider.token(json!({"roles": ["staff", "ops"], "sub": "otto"})).await;
    get(&server, QUEUES, &operator).await.expect(200);
    let issued = Call::new(provider.address, "POST", "/token")
        .header("content-type", "application/x-www-form-urlencoded")
        .header("host", &provider.address.to_string())
        .header("authorization", "Basic Zm9yZ2VydW46bm90JTNBc28rc2VjcmV0JTJC")
        .body("grant_type=client_credentials&resource=urn:forgerun");
    let issued = issued.send().await.expect(200)["access_token"].as_str().unwrap().to_owned();
    get(&server, QUEUES, &issued).await.expect(200);
    call(&server, "POST", "/admin/v1/queues/default/pause", &operator).send().await.expect(200);
    assert_eq!(entries(&server, "actor=otto&action=pause_queue").await.len(), 1);
    for (method, path) in [("GET", "/v1/jobs"), ("POST", "/ojs/v1/queues/default/resume")] {
        call(&server, method, path, &operator).send().await.expect(401);
    }
    let key = call(&server, "POST", "/v1/clients", &operator).send().await;
    assert_eq!(key.status, 201, "registration is open here, whatever the credentials");
    let nobody = provider.token(json!({"roles": ["guests"]})).await;
    let refused = get(&server, QUEUES, &nobody).await.refused(403, "RFA_AUTH_FORBIDDEN");
    assert!(refused["detail"].as_str().unwrap().contains("has no role"), "{refused}");
    wrong_tokens(&provider, &server).await;
    rotation(&provider, &server, &operator).await;
    provider_down(provider, &server, &operator).await;
}

/// Tokens that are not for this server, or not of this provider.
async fn wrong_tokens(provider: &IdentityProvider, server: &Server) {
    let now = server.app.clock.now().unix_ms() / 1000;
    for (n, (request, why)) in [
        (json!({"claims": {"aud": "other"}}), "audience"),
        (json!({"claims": {"iss": "https://evil.example"}}), "issuer"),
        (json!({"claims": {"exp": now - 61}}), "expired"),
        (json!({"claims": {"nbf": now + 600}}), "not valid yet"),
        (json!({"by": "another"}), "signature is wrong"),
        (json!({"header": {"alg": "none"}, "by": "nobody"}), "kind that is not allowed"),
        (json!({"header": {"alg": "HS256"}}), "kind that is not allowed"),
    ]
    .into_iter()
    .enumerate()
    {
        if n % 5 == 0 {
            // Further wrong ones of a minute are answered late.
            server.clock.advance(Duration::from_secs(60));
        }
        let token = provider.signed(request).await;
        let refused = get(server, QUEUES, &token).await.refused(401, UNKNOWN);
        assert!(refused["detail"].as_str().unwrap().contains(why), "{why}: {refused}");
    }
    // The server's clock is two minutes ahead by now.
    let recent = provider.token(json!({"exp": server.app.clock.now().unix_ms() / 1000 - 30})).await;
    get(server, QUEUES, &recent).await.expect(200);
    record_wrong_keys(&server.app, true).await;
    let counted: u64 =
        entries(server, "action=wrong_key").await.iter().map(|entry| entry["count"].as_u64().unwrap()).sum();
    assert!(counted >= 7, "{counted}");
}

/// Keys of the provider change, and unknown ones do not make the server ask all the time.
async fn rotation(provider: &IdentityProvider, server: &Server, old: &str) {
    provider.ask("/test/rotate", json!({})).await;
    let new = provider.token(json!({})).await;
    server.clock.advance(Duration::from_secs(60));
    get(server, QUEUES, &new).await.expect(200);
    let before = provider.ask("/test/fetches", json!({})).await["fetches"].as_u64().unwrap();
    for n in 0..4 {
        let unknown = provider.signed(json!({"header": {"kid": format!("none-{n}")}})).await;
        get(server, QUEUES, &unknown).await.refused(401, UNKNOWN);
    }
    let after = provider.ask("/test/fetches", json!({})).await["fetches"].as_u64().unwrap();
    assert_eq!(after, before, "it was asked a moment ago");
    get(server, QUEUES, old).await.refused(401, UNKNOWN);
}

/// A provider that is down costs its log-ins and unknown keys, and nothing else.
async fn provider_down(mut provider: IdentityProvider, server: &Server, old: &str) {
    let new = provider.token(json!({})).await;
    provider.process.kill().unwrap();
    provider.process.wait().unwrap();
    server.clock.advance(Duration::from_secs(11 * 60));
    get(server, QUEUES, &new).await.expect(200);
    get(server, QUEUES, TOKEN).await.expect(200);
    get(server, QUEUES, old).await.refused(401, UNKNOWN);
    let client = server.client().await;
    client.get("/v1/jobs").await.expect(200);
    let fresh = Server::with(&[
        ("auth.oidc.issuer", &provider.issuer()),
        ("auth.oidc.client_id", "forgerun"),
        ("auth.oidc.client_secret", "s"),
        ("auth.oidc.roles", "staff=viewer"),
    ])
    .await;
    let start = fresh.call("GET", "/dashboard/login/sso").send().await;
    assert_eq!(start.status, 504, "{}", start.text());
    assert!(start.text().contains("identity provider"), "{}", start.text());
    get(&fresh, QUEUES, &new).await.expect(504);
}

/// A job with a payload, a workflow that waits for a signal, and a failed job's group.
async fn something_of_everything(server: &Server) -> (String, String) {
    let client = server.client().await;
    let envelope = json!({"type": "mail.send", "args": ["secret-of-the-payload"]});
    let job = client.call("POST", "/ojs/v1/jobs").json(envelope).send().await.expect(201);
    let wait = json!({"id": "approval", "wait": {"signal": "approved", "timeout": "1h"}});
    let flow = json!({"name": "orders", "steps": [wait]});
    let flow = client.call("POST", "/v1/workflows").json(flow).send().await.expect(202);
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    (id(&job["job"]["id"]), id(&flow["workflow_id"]))
}

#[tokio::test]
async fn a_viewer_changes_nothing_by_any_road_and_sees_no_contents() {
    let provider = IdentityProvider::start();
    let server = provider.server().await;
    let (job, workflow) = something_of_everything(&server).await;
    let viewer = provider.token(json!({"sub": "vera"})).await;
    let operator = provider.token(json!({"roles": "ops"})).await;
    let before = entries(&server, "").await.len();
    let (mut n_read, mut n_refused) = (0, 0);
    // A stream never ends.
    for (method, path) in routes_of_operators().filter(|(_, path)| *path != "/dashboard/events") {
        let concrete = path.replace("{job_id}", &job).replace("{workflow_id}", &workflow);
        let concrete = concrete.replace("{queue}", "default").replace(['{', '}'], "");
        let all = ["GET", "POST", "PUT", "PATCH", "DELETE"];
        for sent in all.into_iter().filter(|sent| *sent == method || method == "GET" && *sent != "GET") {
            let request = call(&server, sent, &concrete, &viewer);
            let answer = if sent == "GET" { request.send().await } else { request.json("{}").send().await };
            let has_contents = path.ends_with("/logs") || path.ends_with("/result");
            match sent {
                "GET" if has_contents => assert_eq!(answer.status, 403, "GET {path}"),
                "GET" => assert!(!matches!(answer.status, 401 | 403), "GET {path}: {}", answer.status),
                // Its own session is all that a viewer ends, by a form.
                _ if path == "/dashboard/logout" => assert_eq!(answer.status, 415, "no form"),
                _ => assert!(matches!(answer.status, 403 | 405), "{sent} {path}: {}", answer.status),
            }
            assert!(!answer.text().contains("secret-of-the-payload"), "{sent} {path}");
            if sent == "GET" {
                n_read += 1
            } else {
                n_refused += 1
            }
            // Refusals of an address are limited by the minute.
            server.clock.advance(Duration::from_secs(2));
        }
    }
    assert!(n_read > 30 && n_refused > 30, "{n_read} {n_refused}");
    assert_eq!(entries(&server, "").await.len(), before, "nothing was changed");
    let path = format!("/admin/v1/jobs/{job}/cancel");
    let refused = call(&server, "POST", &path, &viewer).json("{}").send().await;
    let refused = refused.refused(403, "RFA_AUTH_FORBIDDEN");
    assert_eq!(
        (&refused["details"]["reason"], &refused["details"]["role"]),
        (&json!("role_missing"), &json!("operator"))
    );

    let flow = format!("/admin/v1/workflows/{workflow}");
    let url = |view: &Value| view["steps"][0]["wait"]["url"].clone();
    assert_eq!(
        url(&get(&server, &flow, &viewer).await.expect(200)),
        Value::Null,
        "a token could send the signal"
    );
    assert!(url(&get(&server, &flow, &operator).await.expect(200)).is_string());
    let shown = get(&server, &format!("/admin/v1/jobs/{job}"), &operator).await.expect(200);
    assert!(shown["input"].to_string().contains("secret-of-the-payload"), "{shown}");
    get(&server, &format!("/admin/v1/jobs/{job}/logs"), &operator).await.expect(200);
    let client = get(&server, "/admin/v1/clients", &operator).await.expect(200);
    let keys = format!("/admin/v1/clients/{}/keys", client["items"][0]["client_id"].as_str().unwrap());
    call(&server, "POST", &keys, &operator).json("{}").send().await.refused(403, "RFA_AUTH_FORBIDDEN");
    let admin = provider.token(json!({"roles": ["root"]})).await;
    call(&server, "POST", &keys, &admin).json(json!({"name": "further"})).send().await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_log_in_with_the_provider_in_a_browser() {
    let provider = IdentityProvider::start();
    let server = provider.server().await;
    let (job, _) = something_of_everything(&server).await;
    let routes: Vec<_> = routes_of_operators().collect();
    let mut browser = script("browser.mjs");
    browser.env("SERVER", format!("http://localhost:{}", server.address.port()));
    browser.env("JOB", job).env("ROUTES", json!(routes).to_string());
    let output = tokio::task::spawn_blocking(move || browser.output().unwrap()).await.unwrap();
    let (said, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{log}");
    assert!(!said.lines().any(|line| line.starts_with("FAILED")), "{said}\n{log}");
    assert_eq!(said.lines().filter(|line| line.starts_with("ok")).count(), 9, "{said}");

    let cookie = said.lines().find_map(|line| line.strip_prefix("COOKIE ")).unwrap();
    let cookie = format!("forgerun_session={cookie}");
    let shown = async || server.call("GET", "/dashboard").header("cookie", &cookie).send().await.status;
    assert_eq!(shown().await, 200);
    server.clock.advance(Duration::from_secs(12 * 3600));
    assert_eq!(shown().await, 303, "the session has expired");
    assert_eq!(entries(&server, "action=login&actor=vera").await.len(), 2);
    record_wrong_keys(&server.app, true).await;
    let wrong = entries(&server, "action=wrong_login").await;
    assert!(wrong.iter().map(|entry| entry["count"].as_u64().unwrap()).sum::<u64>() >= 6, "{wrong:?}");
}
