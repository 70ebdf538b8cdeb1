//! The dashboard without a browser: sessions, forms, headers, files.

use std::sync::Arc;
use std::time::Duration;

use forgerun_engine::{Clock, SystemClock};
use forgerun_server::Bounds;
use forgerun_store::memory::Memory;
use serde_json::json;

use super::TOKEN;
use crate::api::http::{Answer, Call};
use crate::api::server::Server;

async fn server() -> Server {
    Server::with(&[("auth.admin_token", TOKEN)]).await
}

fn form(call: Call, body: &str) -> Call {
    call.header("content-type", "application/x-www-form-urlencoded").body(body)
}

async fn log_in(server: &Server, token: &str) -> Answer {
    form(server.call("POST", "/dashboard/login"), &format!("token={token}")).send().await
}

/// The cookie of a new session, as a browser sends it.
async fn session(server: &Server) -> String {
    let answer = log_in(server, TOKEN).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/dashboard")));
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/dashboard"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    cookie.split(';').next().unwrap().to_owned()
}

async fn page(server: &Server, path: &str, cookie: &str) -> String {
    let answer = server.call("GET", path).header("cookie", cookie).send().await;
    assert_eq!(answer.status, 200, "{path}");
    answer.text().to_owned()
}

/// What the forms of a page carry.
fn form_token(page: &str) -> &str {
    let (_, rest) = page.split_once("name=\"csrf\" value=\"").expect("a form");
    rest.split('"').next().unwrap()
}

#[tokio::test]
async fn a_session_opens_the_dashboard_and_nothing_else() {
    let server = server().await;
    let led = server.call("GET", "/dashboard/jobs?state=FAILED").send().await;
    let login = "/dashboard/login?next=%2Fdashboard%2Fjobs%3Fstate%3DFAILED";
    assert_eq!((led.status, led.header("location")), (303, Some(login)));
    let linked = server.call("GET", "/dashboard").header("sec-fetch-site", "cross-site").send().await;
    assert_eq!(linked.status, 200, "a link from elsewhere comes without the cookie at first");
    assert!(linked.text().contains("http-equiv=\"refresh\""), "{}", linked.text());
    let slash = server.call("GET", "/dashboard/").send().await;
    assert_eq!((slash.status, slash.header("location")), (303, Some("/dashboard")));
    let cookie = session(&server).await;
    page(&server, "/dashboard", &cookie).await;
    let api = server.call("GET", "/admin/v1/queues").header("cookie", &cookie).send().await;
    assert_eq!(api.status, 401);
    server.clock.advance(std::time::Duration::from_secs(13 * 3600));
    let late = server.call("GET", "/dashboard").header("cookie", &cookie).send().await;
    assert_eq!(late.status, 303, "a session ends after twelve hours");
}

#[tokio::test]
async fn a_form_needs_the_token_of_its_session() {
    let server = server().await;
    let client = server.client().await;
    let job = client.job().await;
    let (cookie, other) = (session(&server).await, session(&server).await);
    let path = format!("/dashboard/jobs/{job}");
    let shown = page(&server, &path, &cookie).await;
    let foreign = page(&server, &path, &other).await;
    let cancel = |token: &str| {
        let call = server.call("POST", &format!("{path}/cancel")).header("cookie", &cookie);
        form(call, &format!("csrf={token}"))
    };
    for wrong in ["", "0", form_token(&foreign)] {
        assert_eq!(cancel(wrong).send().await.status, 403);
    }
    for (name, value) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        let sent = cancel(form_token(&shown)).header(name, value).send().await;
        assert_eq!(sent.status, 403, "the right token from a page of another site: {name}");
    }
    assert_eq!(client.get(&format!("/v1/jobs/{job}")).await.expect(200)["state"], "QUEUED");
    assert_eq!(cancel(form_token(&shown)).header("sec-fetch-site", "same-origin").send().await.status, 303);
    assert_eq!(client.get(&format!("/v1/jobs/{job}")).await.expect(200)["state"], "CANCELED");
}

#[tokio::test]
async fn wrong_tokens_are_counted_with_those_of_the_api() {
    let server = server().await;
    server.clock.stop();
    for _ in 0..4 {
        assert_eq!(log_in(&server, "guess").await.status, 401);
        let call = server.call("GET", "/admin/v1/queues").header("authorization", "Bearer guess");
        assert_eq!(call.send().await.status, 401);
    }
    let timed = async || {
        let began = SystemClock.now();
        (log_in(&server, "guess").await.status, SystemClock.now().since(began) >= Duration::from_secs(1))
    };
    assert_eq!(timed().await, (401, false), "the ninth");
    assert_eq!(timed().await, (401, true), "the tenth is answered late");
    assert_eq!(log_in(&server, TOKEN).await.status, 303, "the right one never is refused");
}

#[tokio::test]
async fn logging_out_ends_a_session() {
    let server = server().await;
    let cookie = session(&server).await;
    let shown = page(&server, "/dashboard", &cookie).await;
    let out = server.call("POST", "/dashboard/logout").header("cookie", &cookie);
    assert_eq!(form(out, &format!("csrf={}", form_token(&shown))).send().await.status, 303);
    let after = server.call("GET", "/dashboard").header("cookie", &cookie).send().await;
    assert_eq!(after.status, 303);
}

#[tokio::test]
async fn logging_out_ends_a_session_at_every_node_and_for_good() {
    let store = Arc::new(Memory::new());
    let node = async || Server::on(store.clone(), &[("auth.admin_token", TOKEN)], Bounds::default()).await;
    let (here, there) = (node().await, node().await);
    let cookie = session(&here).await;
    page(&there, "/dashboard", &cookie).await;
    let shown = page(&here, "/dashboard", &cookie).await;
    let out = here.call("POST", "/dashboard/logout").header("cookie", &cookie);
    assert_eq!(form(out, &format!("csrf={}", form_token(&shown))).send().await.status, 303);
    for server in [&there, &node().await] {
        let after = server.call("GET", "/dashboard").header("cookie", &cookie).send().await;
        assert_eq!(
            (after.status, after.header("location")),
            (303, Some("/dashboard/login?next=%2Fdashboard"))
        );
        let login = server.call("GET", "/dashboard/login").header("cookie", &cookie).send().await;
        assert_eq!(login.status, 200, "the form is shown, not the way back");
    }
}

#[tokio::test]
async fn an_open_server_asks_nobody_on_its_own_machine() {
    let server = Server::with(&[("auth.mode", "open")]).await;
    let answer = server.call("GET", "/dashboard").send().await;
    assert_eq!(answer.status, 200);
    let forwarded = server.call("GET", "/dashboard").header("x-forwarded-for", "203.0.113.9");
    assert_eq!(forwarded.send().await.status, 303);
    let cancel = form(server.call("POST", "/dashboard/jobs/bulk"), "act=cancel");
    assert_eq!(cancel.send().await.status, 403, "a form of another page is refused here too");
    let first = server.call("GET", "/").header("accept", "application/json").send().await.expect(200);
    assert_eq!(first["links"]["dashboard"], json!("/dashboard"));
}

#[tokio::test]
async fn pages_allow_nothing_from_elsewhere_and_files_are_kept() {
    let server = server().await;
    let login = server.call("GET", "/dashboard/login").send().await;
    assert_eq!(login.status, 200);
    let other = server.call("GET", "/dashboard/login").send().await;
    assert_ne!(
        form_token(login.text()),
        form_token(other.text()),
        "what is made from the token could be tried against"
    );
    let policy = login.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(!login.text().contains("<style") && !login.text().contains("style="));
    for (path, media_type) in [
        ("/dashboard/dashboard.css", "text/css; charset=utf-8"),
        ("/dashboard/dashboard.js", "text/javascript; charset=utf-8"),
        ("/dashboard/icon.svg", "image/svg+xml"),
    ] {
        let file = server.call("GET", path).send().await;
        assert_eq!((file.status, file.header("content-type")), (200, Some(media_type)), "{path}");
        let tag = file.header("etag").unwrap();
        let again = server.call("GET", path).header("if-none-match", tag).send().await;
        assert_eq!(again.status, 304, "{path}");
    }
}

#[tokio::test]
async fn what_is_refused_is_told_on_a_page() {
    let server = server().await;
    let cookie = session(&server).await;
    for (path, status) in [
        ("/dashboard/nothing", 404),
        ("/dashboard/jobs/01890a5d-ac96-774b-bcce-b302099a8057", 404),
        ("/dashboard/jobs?state=ODD", 400),
        ("/dashboard/jobs?colour=red", 400),
    ] {
        let answer = server.call("GET", path).header("cookie", &cookie).send().await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (status, Some("text/html; charset=utf-8"))
        );
        assert!(answer.text().contains("role=\"alert\""), "{path}");
    }
}

#[tokio::test]
async fn events_end_with_the_session() {
    let bounds = Bounds { stream_heartbeat: Duration::from_millis(50), ..Bounds::default() };
    let server = Server::on(Arc::new(Memory::new()), &[("auth.admin_token", TOKEN)], bounds).await;
    let cookie = session(&server).await;
    let shown = page(&server, "/dashboard", &cookie).await;
    let events = server.call("GET", "/dashboard/events").header("accept", "text/event-stream");
    let events = events.header("cookie", &cookie);
    let out = server.call("POST", "/dashboard/logout").header("cookie", &cookie);
    let out = form(out, &format!("csrf={}", form_token(&shown)));
    let (events, out) = tokio::join!(events.send(), out.send());
    assert_eq!((events.status, out.status), (200, 303), "all of the stream was read, so it has ended");
}

#[tokio::test]
async fn what_a_client_wrote_does_not_turn_the_direction_of_a_page() {
    let server = server().await;
    let client = server.client().await;
    let body = json!({"type": "invoice\u{202e}fdp.exe", "queue": "q"});
    client.call("POST", "/api/v1/jobs").json(body).send().await.expect(202);
    let cookie = session(&server).await;
    let shown = page(&server, "/dashboard/jobs", &cookie).await;
    assert!(shown.contains("invoice[U+202E]fdp.exe"), "{shown}");
}

#[tokio::test]
async fn what_is_wrong_names_queues_without_workers() {
    let server = server().await;
    let (client, cookie) = (server.client().await, session(&server).await);
    let real = json!({"type": "mail.send", "args": [], "options": {"queue": "mail"}});
    client.call("POST", "/ojs/v1/jobs").json(real).send().await.expect(201);
    assert!(!page(&server, "/dashboard", &cookie).await.contains("queue_unattended"), "not yet");
    server.clock.advance(Duration::from_secs(61));
    let overview = page(&server, "/dashboard", &cookie).await;
    assert!(overview.contains("data-problem=\"queue_unattended\""), "{overview}");
    assert!(overview.contains("1 job waits in queue mail, and no worker asks for it"), "{overview}");
    assert!(page(&server, "/dashboard/queues", &cookie).await.contains("unattended"));
}

#[tokio::test]
async fn a_failed_workflow_has_words_and_a_bar_of_its_own() {
    let server = server().await;
    let (client, cookie) = (server.client().await, session(&server).await);
    let step = |id: &str| json!({"id": id, "type": "mail.send", "args": [], "options": {"retry": {"max_attempts": 1}}});
    let flow = json!({"name": "nightly", "steps": [step("one"), step("two")]});
    let begun = client.call("POST", "/v1/workflows").json(flow).send().await.expect(202);
    let fetch = json!({"queues": ["default"], "count": 2, "worker_id": "w"});
    let taken = client.call("POST", "/ojs/v1/workers/fetch").json(fetch).send().await.expect(200);
    let id = |n: usize| taken["jobs"][n]["id"].clone();
    client.call("POST", "/ojs/v1/workers/ack").json(json!({"job_id": id(0)})).send().await.expect(200);
    let error = json!({"code": "handler_error", "message": "no", "retryable": false});
    let nack = json!({"job_id": id(1), "error": error});
    client.call("POST", "/ojs/v1/workers/nack").json(nack).send().await.expect(200);
    let path = format!("/dashboard/workflows/{}", begun["workflow_id"].as_str().unwrap());
    let shown = page(&server, &path, &cookie).await;
    assert!(shown.contains("FAILED") && shown.contains("Retry workflow"), "{shown}");
    assert!(shown.contains("<progress class=\"is-failed\" max=\"100\" value=\"50\""), "{shown}");

    let groups = server.call("GET", "/admin/v1/failures").header("authorization", &format!("Bearer {TOKEN}"));
    let groups = groups.send().await.expect(200);
    let of_step = groups["items"].as_array().unwrap().iter().find(|group| group["operation"] == "mail.send");
    let group = of_step.unwrap_or(&groups["items"][0])["group"].as_str().unwrap().to_owned();
    let about = page(&server, &format!("/dashboard/failures/{group}"), &cookie).await;
    assert!(about.contains(&format!("/dashboard/jobs?group={group}")), "{about}");
    let listed = page(&server, &format!("/dashboard/jobs?group={group}"), &cookie).await;
    assert_eq!(listed.matches("data-job-id=").count(), 1, "the group's jobs alone: {listed}");
}
