//! Waiting steps over HTTP: timers, signals by key and by token, the page for people, deadlines.

use std::time::Duration;

use forgerun_core::Command;
use serde_json::{Value, json};

use crate::api::http::{Answer, Call};
use crate::api::server::{Client, Server};

const TOKEN: &str = "the-token-of-the-operator";
const HOUR: Duration = Duration::from_secs(3600);

/// A step that waits for `approved`, and simulated work behind it.
fn approval(schema: Value) -> Value {
    let mut wait = json!({"signal": "approved", "timeout": "2h"});
    if !schema.is_null() {
        wait["schema"] = schema;
    }
    json!({"name": "order-1", "steps": [
        {"id": "ask", "wait": wait},
        {"id": "ship", "work_kind": "SUCCESS_FAST", "depends_on": ["ask"]},
        {"id": "drop", "work_kind": "SUCCESS_FAST", "depends_on": ["ask"], "when": "any_failed"},
    ]})
}

async fn begin(client: &Client, body: &Value) -> String {
    let begun = client.call("POST", "/v1/workflows").json(body).send().await.expect(202);
    begun["workflow_id"].as_str().unwrap().to_owned()
}

async fn shown(client: &Client, id: &str) -> Value {
    client.get(&format!("/v1/workflows/{id}")).await.expect(200)
}

fn states(workflow: &Value) -> Vec<&str> {
    workflow["steps"].as_array().unwrap().iter().map(|step| step["state"].as_str().unwrap()).collect()
}

async fn signal(client: &Client, id: &str, name: &str, body: &str) -> Answer {
    client.call("POST", &format!("/v1/workflows/{id}/signals/{name}")).json(body).send().await
}

/// The path of the signal's token.
async fn token_path(client: &Client, id: &str) -> String {
    let view = shown(client, id).await;
    let wait = &view["steps"][0]["wait"];
    let path = format!("/v1/signals/{}", wait["token"].as_str().unwrap());
    assert!(wait["url"].as_str().unwrap().ends_with(&path), "{wait}");
    path
}

/// Moves the clock, and does what is due then.
async fn pass(server: &Server, span: Duration) {
    server.clock.advance(span);
    server.app.engine.run(Command::Due(10)).await.unwrap();
}

#[tokio::test]
async fn a_signal_by_key_ends_the_wait_with_its_body_as_result() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = begin(&client, &approval(Value::Null)).await;
    let view = shown(&client, &id).await;
    let ask = &view["steps"][0];
    assert_eq!(ask["state"], "WAITING");
    assert_eq!((&ask["wait"]["signal"], &ask["wait"]["timeout"]), (&json!("approved"), &json!("2h")));
    assert!(ask["wait"]["due_at"].is_string());
    let after = signal(&client, &id, "approved", r#"{"by": "kim"}"#).await.expect(200);
    assert_eq!(states(&after), ["SUCCEEDED", "QUEUED", "SKIPPED"]);
    assert_eq!(after["steps"][0]["wait"]["token"], Value::Null, "it expires with the wait");
    let job = after["steps"][0]["job_id"].as_str().unwrap();
    let result = client.get(&format!("/v1/jobs/{job}/result")).await;
    assert_eq!(result.text(), r#"{"by": "kim"}"#);
    signal(&client, &id, "approved", r#"{"by": "kim"}"#).await.expect(200);
    signal(&client, &id, "approved", r#"{"by":"kim"}"#).await.refused(409, "RFA_JOB_CONFLICT");
}

#[tokio::test]
async fn a_signal_is_refused_for_a_wrong_name_client_or_body() {
    let server = Server::start().await;
    let client = server.client().await;
    let schema = json!({"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}});
    let id = begin(&client, &approval(schema)).await;
    signal(&client, &id, "denied", "true").await.refused(404, "RFA_JOB_NOT_FOUND");
    let other = server.client().await;
    assert_eq!(signal(&other, &id, "approved", r#"{"ok":true}"#).await.status, 403);
    for body in ["{", "", "nope"] {
        signal(&client, &id, "approved", body).await.refused(400, "RFA_REQUEST_MALFORMED");
    }
    for body in ["true", "{}", r#"{"ok":1}"#] {
        signal(&client, &id, "approved", body).await.refused(400, "RFA_JOB_VALIDATION_FAILED");
    }
    let large = format!("\"{}\"", "x".repeat(64 * 1024));
    assert_eq!(signal(&client, &id, "approved", &large).await.status, 413);
    assert_eq!(states(&shown(&client, &id).await)[0], "WAITING");
    signal(&client, &id, "approved", r#"{"ok":true}"#).await.expect(200);
}

#[tokio::test]
async fn a_bad_wait_is_refused_at_submission() {
    let server = Server::start().await;
    let client = server.client().await;
    for (body, pointer) in [
        (approval(json!({"type": "nothing"})), "#/steps/0/wait/schema"),
        (json!({"steps": [{"id": "a", "wait": {"for": "0s"}}]}), "#/steps/0/wait/for"),
        (
            json!({"steps": [{"id": "a", "wait": {"for": "1s"}}], "deadline": "2020-01-01T00:00:00Z"}),
            "#/deadline",
        ),
    ] {
        let answer = client.call("POST", "/v1/workflows").json(&body).send().await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains(pointer), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_token_needs_no_key_and_expires_with_its_wait() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = begin(&client, &approval(Value::Null)).await;
    let path = token_path(&client, &id).await;
    let asked = server.call("GET", &path).send().await.expect(200);
    assert_eq!((&asked["signal"], &asked["state"]), (&json!("approved"), &json!("WAITING")));
    let sent = server.call("POST", &path).json("true").send().await;
    assert_eq!(sent.header("cache-control"), Some("no-store"));
    assert_eq!(sent.expect(200)["state"], "SUCCEEDED");
    server.call("POST", &path).json("true").send().await.expect(200);
    server.call("POST", &path).json("false").send().await.refused(409, "RFA_JOB_CONFLICT");
    assert_eq!(states(&shown(&client, &id).await)[0], "SUCCEEDED");
    for wrong in ["x", &"0".repeat(64)] {
        let path = format!("/v1/signals/{wrong}");
        server.call("POST", &path).json("true").send().await.refused(404, "RFA_JOB_NOT_FOUND");
        server.call("GET", &path).send().await.refused(404, "RFA_JOB_NOT_FOUND");
    }
}

#[tokio::test]
async fn a_caller_without_a_key_may_send_as_much_as_one_with_it() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = begin(&client, &approval(Value::Null)).await;
    let path = token_path(&client, &id).await;
    let body = |n: usize| format!("\"{}\"", "x".repeat(n));
    assert_eq!(server.call("POST", &path).json(body(64 * 1024)).send().await.status, 413);
    server.call("POST", &path).json(body(60 * 1024)).send().await.expect(200);
}

#[tokio::test]
async fn tokens_cannot_be_guessed_for_long() {
    let server = Server::start().await;
    let mut refused = 0;
    for n in 0..200 {
        let answer = server.call("POST", &format!("/v1/signals/{n:064x}")).json("true").send().await;
        assert!([404, 429].contains(&answer.status), "{}", answer.text());
        refused += u32::from(answer.status == 429);
    }
    assert!(refused > 50, "{refused} of 200");
}

#[tokio::test]
async fn operators_see_the_token_and_other_clients_see_nothing() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    let client = server.client().await;
    let id = begin(&client, &approval(Value::Null)).await;
    let operator = server.call("GET", &format!("/admin/v1/workflows/{id}"));
    let view = operator.header("authorization", &format!("Bearer {TOKEN}")).send().await.expect(200);
    assert!(view["steps"][0]["wait"]["token"].is_string(), "{view}");
    let other = server.client().await;
    assert_eq!(other.get(&format!("/v1/workflows/{id}")).await.status, 403);
}

#[tokio::test]
async fn a_timeout_fails_the_step_and_a_deadline_the_workflow() {
    let server = Server::start().await;
    let client = server.client().await;
    let late = begin(&client, &approval(Value::Null)).await;
    let path = token_path(&client, &late).await;
    let mut bounded = approval(Value::Null);
    bounded["deadline"] = "1h".into();
    let bounded = begin(&client, &bounded).await;
    assert!(shown(&client, &bounded).await["deadline"].is_string());
    pass(&server, HOUR + Duration::from_secs(1)).await;
    let stopped = shown(&client, &bounded).await;
    assert_eq!(states(&stopped), ["CANCELED", "SKIPPED", "SKIPPED"]);
    assert_eq!(stopped["state"], "FAILED");
    assert!(stopped["failure"].to_string().contains("deadline"), "{stopped}");
    pass(&server, HOUR).await;
    let view = shown(&client, &late).await;
    assert_eq!(states(&view), ["FAILED", "SKIPPED", "QUEUED"]);
    assert!(view["steps"][0]["error"].as_str().unwrap().contains("no signal `approved` came"));
    signal(&client, &late, "approved", "true").await.refused(409, "RFA_JOB_CONFLICT");
    server.call("POST", &path).json("true").send().await.refused(409, "RFA_JOB_CONFLICT");
}

#[tokio::test]
async fn a_timer_ends_by_itself() {
    let server = Server::start().await;
    let client = server.client().await;
    let body = json!({"type": "chain", "steps": [
        {"id": "nap", "wait": {"for": "1h"}},
        {"id": "b", "work_kind": "SUCCESS_FAST"},
        {"id": "c", "work_kind": "SUCCESS_FAST"},
    ]});
    let id = begin(&client, &body).await;
    assert_eq!(shown(&client, &id).await["steps"][0]["wait"]["for"], "1h");
    pass(&server, HOUR + Duration::from_secs(1)).await;
    assert_eq!(states(&shown(&client, &id).await), ["SUCCEEDED", "QUEUED", "WAITING"]);
}

/// A browser asks for the page, or sends its form.
fn browser(server: &Server, method: &str, path: &str) -> Call {
    server.call(method, path).header("accept", "text/html,application/xhtml+xml")
}

fn form(server: &Server, path: &str, body: &str) -> Call {
    browser(server, "POST", path).header("content-type", "application/x-www-form-urlencoded").body(body)
}

#[tokio::test]
async fn a_person_answers_on_a_page_without_scripts() {
    let server = Server::start().await;
    let client = server.client().await;
    let schema = json!({"title": "Ship <it>?", "description": "Over 1000 EUR.", "type": "object",
    "required": ["by"], "properties": {
        "approved": {"type": "boolean"}, "by": {"type": "string", "title": "Your name", "minLength": 2},
        "speed": {"enum": ["slow", "fast"]}, "limit": {"type": "number"},
    }});
    let id = begin(&client, &approval(schema)).await;
    let path = token_path(&client, &id).await;
    let page = browser(&server, "GET", &path).send().await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    for part in [
        "Ship &lt;it&gt;?",
        "Over 1000 EUR.",
        "Your name",
        "order-1",
        "type=\"checkbox\"",
        "<select",
        "type=\"number\"",
        "method=\"post\"",
    ] {
        assert!(page.text().contains(part), "{part} in {}", page.text());
    }
    let wrong = form(&server, &path, "approved=true&by=k&speed=&limit=").send().await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("by: "), "{}", wrong.text());
    let sent = form(&server, &path, "approved=true&by=kim&speed=fast&limit=").send().await;
    assert_eq!((sent.status, sent.header("location")), (303, Some(&*path)), "{}", sent.text());
    let page = browser(&server, "GET", &path).send().await;
    assert!(page.text().contains("This was answered."), "{}", page.text());
    assert!(!page.text().contains("<form"), "{}", page.text());
    let view = shown(&client, &id).await;
    let job = view["steps"][0]["job_id"].as_str().unwrap();
    let result = client.get(&format!("/v1/jobs/{job}/result")).await.json();
    assert_eq!(result, json!({"approved": true, "by": "kim", "speed": "fast"}));
    let late = form(&server, &path, "approved=&by=lee&speed=&limit=").send().await;
    assert_eq!((late.status, late.header("content-type")), (409, Some("text/html; charset=utf-8")));
    let unknown = browser(&server, "GET", "/v1/signals/x").send().await;
    assert_eq!((unknown.status, unknown.header("content-type")), (404, Some("text/html; charset=utf-8")));
}

#[tokio::test]
async fn a_signal_without_a_schema_is_a_button() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = begin(&client, &approval(Value::Null)).await;
    let path = token_path(&client, &id).await;
    assert!(browser(&server, "GET", &path).send().await.text().contains("Confirm"));
    assert_eq!(form(&server, &path, "").send().await.status, 303);
    assert_eq!(states(&shown(&client, &id).await)[0], "SUCCEEDED");
}

#[tokio::test]
async fn a_wait_goes_through_the_routes_of_open_job_spec_too() {
    let server = Server::start().await;
    let client = server.client().await;
    let body = json!({"type": "chain", "name": "c", "steps": [
        {"id": "ask", "wait": {"signal": "approved", "timeout": "PT1H"}},
        {"type": "ship", "args": []},
    ]});
    let begun = client.call("POST", "/ojs/v1/workflows").json(&body).send().await;
    let begun = begun.expect(201);
    let id = begun["workflow"]["id"].as_str().unwrap();
    assert_eq!(begun["workflow"]["steps"][0]["state"], "waiting", "{begun}");
    signal(&client, id, "approved", "7").await.expect(200);
    let view = client.get(&format!("/ojs/v1/workflows/{id}")).await.expect(200);
    assert_eq!(view["workflow"]["steps"][0]["state"], "completed", "{view}");
}
