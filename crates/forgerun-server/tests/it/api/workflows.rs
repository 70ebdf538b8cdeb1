//! `/v1/workflows` and `/admin/v1/workflows`: simulated and real steps, one failure object on every
//! road, cancel and retry.

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use crate::api::http::Call;
use crate::api::server::{Client, Server};

const TOKEN: &str = "the-token-of-the-operator";

/// A chain of simulated steps of these kinds, and what it is called.
fn chain(name: &str, kinds: &[&str]) -> Value {
    let steps: Vec<Value> = kinds
        .iter()
        .map(|kind| json!({"work_kind": kind, "options": {"retry": {"max_attempts": 1}}}))
        .collect();
    json!({"type": "chain", "name": name, "steps": steps})
}

async fn begin(client: &Client, body: &Value) -> Value {
    let begun = client.call("POST", "/v1/workflows").json(body).send().await;
    let view = begun.expect(202);
    let location = begun.header("location").unwrap();
    assert!(location.ends_with(&format!("/v1/workflows/{}", view["workflow_id"].as_str().unwrap())));
    view
}

async fn shown(client: &Client, begun: &Value) -> Value {
    let id = begun["workflow_id"].as_str().unwrap();
    client.get(&format!("/v1/workflows/{id}")).await.expect(200)
}

fn operator(server: &Server, path: &str) -> Call {
    server.call("GET", path).header("authorization", &format!("Bearer {TOKEN}"))
}

fn states(workflow: &Value) -> Vec<&str> {
    workflow["steps"].as_array().unwrap().iter().map(|step| step["state"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_key_of_a_workflow_is_held_to_the_rules_of_keys() {
    let server = Server::start().await;
    let client = server.client().await;
    for key in ["k".repeat(2000), "a\u{7}b".into()] {
        let mut body = chain("one", &["SUCCESS_FAST"]);
        body["idempotency_key"] = key.into();
        client
            .call("POST", "/v1/workflows")
            .json(&body)
            .send()
            .await
            .refused(400, "RFA_JOB_VALIDATION_FAILED");
    }
}

#[tokio::test]
async fn a_simulated_chain_runs_to_its_end_and_is_listed() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    let client = server.client().await;
    let begun = begin(&client, &chain("one", &["SUCCESS_FAST", "SUCCESS_FAST", "SUCCESS_FAST"])).await;
    assert_eq!(
        (&begun["state"], &begun["type"], &begun["steps_total"]),
        (&json!("RUNNING"), &json!("chain"), &json!(3))
    );
    for _ in 0..3 {
        server.succeed().await;
    }
    let done = shown(&client, &begun).await;
    assert_eq!((&done["state"], &done["progress"]), (&json!("SUCCEEDED"), &json!(100)));
    assert_eq!(states(&done), ["SUCCEEDED"; 3]);
    begin(&client, &chain("two", &["SUCCESS_FAST"])).await;
    let page = client.get("/v1/workflows?limit=1").await.expect(200);
    assert_eq!(page["workflows"][0]["name"], "two");
    let cursor = page["next_cursor"].as_str().unwrap();
    let next = client.get(&format!("/v1/workflows?state=SUCCEEDED&cursor={cursor}")).await.expect(200);
    assert_eq!(next["workflows"][0]["workflow_id"], begun["workflow_id"]);
    let other = server.client().await;
    assert_eq!(other.get("/v1/workflows").await.expect(200)["workflows"], json!([]));
    let path = format!("/v1/workflows/{}", begun["workflow_id"].as_str().unwrap());
    assert_eq!(other.get(&path).await.status, 403);
    let of_operator = operator(&server, "/admin/v1/workflows").send().await.expect(200);
    assert_eq!(of_operator["items"].as_array().unwrap().len(), 2);
    let one = operator(&server, &format!("/admin{path}")).send().await.expect(200);
    assert_eq!(one["edges"][0], json!({"from": "0", "to": "1", "when": "all_succeeded"}));
    assert_eq!(one["steps"][2]["depends_on"], json!(["1"]));
}

#[tokio::test]
async fn a_failed_workflow_has_one_failure_object_on_every_road() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    let client = server.client().await;
    let begun = begin(&client, &chain("f", &["SUCCESS_FAST", "FAIL_IMMEDIATE", "SUCCESS_FAST"])).await;
    server.succeed().await;
    server.fail(Kind::HandlerError).await;
    let failed = shown(&client, &begun).await;
    assert_eq!(
        (&failed["state"], states(&failed)),
        (&json!("FAILED"), vec!["SUCCEEDED", "FAILED", "SKIPPED"])
    );
    let id = begun["workflow_id"].as_str().unwrap();
    let problem = "application/problem+json";
    let of_job = client.call("GET", &format!("/v1/jobs/{id}")).header("accept", problem).send().await;
    let object = of_job.expect(200);
    let results = object["results"].as_array().unwrap();
    let kinds: Vec<&Value> = results.iter().map(|result| &result["itemId"]).collect();
    assert_eq!(kinds, [&json!("0"), &json!("1"), &json!("2")], "{object}");
    assert_eq!(object["jobStatus"], "COMPLETED_WITH_ERRORS");
    let of_workflow =
        client.call("GET", &format!("/v1/workflows/{id}")).header("accept", problem).send().await;
    assert_eq!(of_workflow.text(), of_job.text(), "the same bytes");
    let of_api = client.call("GET", &format!("/api/v1/jobs/{id}")).header("accept", problem).send().await;
    assert_eq!(of_api.text(), of_job.text());
    assert_eq!(failed["failure"], object);
    let stream = client
        .call("GET", &format!("/v1/workflows/{id}/events"))
        .header("accept", "text/event-stream")
        .send()
        .await;
    assert!(stream.text().contains(of_job.text()), "{}", stream.text());
    let report = client.get(&format!("/v1/jobs/{id}/report")).await.expect(200);
    assert_eq!(report["outcome"], "FAILED");
}

#[tokio::test]
async fn a_retry_tries_the_failed_part_and_a_cancel_ends_the_rest() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    let client = server.client().await;
    let step = |name: &str| json!({"type": name, "args": [], "options": {"retry": {"max_attempts": 1}}});
    let begun = begin(&client, &json!({"type": "chain", "steps": [step("a"), step("b")]})).await;
    let path = format!("/v1/workflows/{}", begun["workflow_id"].as_str().unwrap());
    let fetch = json!({"queues": ["default"], "wait_ms": 10_000}).to_string();
    let taken = client.call("POST", "/ojs/v1/workers/fetch").json(&fetch).send().await.expect(200)["jobs"][0]
        ["id"]
        .clone();
    let nack =
        json!({"job_id": taken, "error": {"code": "handler_error", "message": "no", "retryable": false}});
    client.call("POST", "/ojs/v1/workers/nack").json(&nack).send().await.expect(200);
    assert_eq!(client.get(&path).await.expect(200)["state"], "FAILED");
    let again = client.post(&format!("{path}/retry")).await.expect(200);
    assert_eq!((&again["state"], states(&again)), (&json!("RUNNING"), vec!["QUEUED", "WAITING"]));
    let cancelled = client.post(&format!("{path}/cancel")).await.expect(200);
    assert_eq!((&cancelled["state"], states(&cancelled)), (&json!("CANCELED"), vec!["CANCELED", "SKIPPED"]));
    let unchanged = client.post(&format!("{path}/cancel")).await.expect(200);
    assert_eq!(unchanged["state"], "CANCELED");
    client.post(&format!("{path}/retry")).await.refused(409, "RFA_JOB_CONFLICT");
}

#[tokio::test]
async fn a_description_that_is_none_is_refused_with_the_place() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    let client = server.client().await;
    for (body, pointer) in [
        (json!({"type": "chain"}), "#/steps"),
        (json!({"type": "chain", "steps": [{"work_kind": "NAP"}]}), "#/steps/0/work_kind"),
        (json!({"steps": [{"type": "a", "args": [], "depends_on": ["x"]}]}), "#/steps/0/depends_on"),
    ] {
        let refused = client.call("POST", "/v1/workflows").json(&body).send().await.expect(400);
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    client
        .call("POST", "/v1/workflows")
        .json(r#"{"type":"chain","steps":[],"nmae":"x"}"#)
        .send()
        .await
        .expect(400);
    assert_eq!(client.get("/v1/workflows").await.expect(200)["workflows"], json!([]));
    let id = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
    client.get(&format!("/v1/workflows/{id}")).await.expect(404);
    operator(&server, &format!("/admin/v1/workflows/{id}")).send().await.expect(404);
}

/// A step for workers outside that is tried once, with a job that undoes it.
fn undoable(id: &str, after: &[&str]) -> Value {
    let options = || json!({"retry": {"max_attempts": 1}});
    let undo = json!({"type": format!("undo.{id}"), "args": [id], "options": options()});
    json!({"id": id, "type": id, "args": [], "depends_on": after, "options": options(), "compensate": undo})
}

/// Takes the only job there is, which must be of this type, and ends it.
async fn work(client: &Client, job_type: &str, well: bool) -> Value {
    let fetch = json!({"queues": ["default"], "count": 10, "wait_ms": 10_000}).to_string();
    let fetched = client.call("POST", "/ojs/v1/workers/fetch").json(&fetch).send().await.expect(200);
    let jobs = fetched["jobs"].as_array().unwrap();
    assert_eq!((jobs.len(), &jobs[0]["type"]), (1, &json!(job_type)), "{fetched}");
    let id = &jobs[0]["id"];
    let error = json!({"code": "handler_error", "message": "no", "retryable": false});
    let (path, body) = match well {
        true => ("ack", json!({"job_id": id, "result": {"made_by": job_type}})),
        false => ("nack", json!({"job_id": id, "error": error})),
    };
    client.call("POST", &format!("/ojs/v1/workers/{path}")).json(&body).send().await.expect(200);
    jobs[0].clone()
}

fn undone(workflow: &Value) -> Vec<&str> {
    let steps = workflow["steps"].as_array().unwrap().iter();
    steps.map(|step| step["compensation"]["state"].as_str().unwrap_or("none")).collect()
}

#[tokio::test]
async fn a_failed_workflow_is_undone_in_reverse_and_a_retry_begins_anew() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut last = undoable("c", &["b"]);
    last.as_object_mut().unwrap().remove("compensate");
    let steps = json!([undoable("a", &[]), undoable("b", &["a"]), last]);
    let begun = begin(&client, &json!({"steps": steps, "failure_policy": "compensate"})).await;
    work(&client, "a", true).await;
    work(&client, "b", true).await;
    assert_eq!(undone(&shown(&client, &begun).await), ["NOT_RUN", "NOT_RUN", "none"]);
    work(&client, "c", false).await;
    let half = shown(&client, &begun).await;
    assert_eq!((&half["state"], &half["failure_policy"]), (&json!("RUNNING"), &json!("compensate")));
    assert_eq!(undone(&half), ["WAITING", "QUEUED", "none"]);
    assert!(half["progress"].as_u64().unwrap() < 100, "{half}");
    let first = work(&client, "undo.b", true).await;
    assert_eq!(first["parent_steps"], json!(["b"]));
    assert_eq!(first.get("args_wrapped"), None, "a step is given arguments, and no payload");
    assert_eq!(first["parent_results"], json!([{"made_by": "b"}]));
    assert_eq!(first["workflow_id"], begun["workflow_id"]);
    work(&client, "undo.a", false).await;
    let failed = shown(&client, &begun).await;
    assert_eq!((&failed["state"], undone(&failed)), (&json!("FAILED"), vec!["FAILED", "SUCCEEDED", "none"]));
    assert_eq!(failed["steps"][1]["compensation"]["job_id"], first["id"]);
    assert_eq!(failed["steps"][0]["compensation"]["error"], "no");
    let message = failed["failure"]["message"].as_str().unwrap();
    assert!(message.ends_with("Compensation failed for: a."), "{message}");
    assert_eq!(failed["failure"]["results"].as_array().unwrap().len(), 3, "{failed}");

    let path = format!("/v1/workflows/{}/retry", begun["workflow_id"].as_str().unwrap());
    let again = client.post(&path).await.expect(200);
    assert_eq!(states(&again), ["QUEUED", "WAITING", "WAITING"]);
    assert_eq!(undone(&again), ["NOT_RUN", "NOT_RUN", "none"]);
    for step in ["a", "b", "c"] {
        work(&client, step, true).await;
    }
    assert_eq!(shown(&client, &begun).await["state"], "SUCCEEDED");
}

#[tokio::test]
async fn a_cancelled_workflow_is_undone_first_unless_the_request_says_no() {
    let server = Server::start().await;
    let client = server.client().await;
    let steps = json!([undoable("a", &[]), undoable("b", &["a"])]);
    for compensate in [None, Some(false)] {
        let begun = begin(&client, &json!({"steps": steps})).await;
        work(&client, "a", true).await;
        let path = format!("/v1/workflows/{}/cancel", begun["workflow_id"].as_str().unwrap());
        let wrong = client.call("POST", &path).json(json!({"compensate": "no"})).send().await.expect(400);
        assert_eq!(wrong["errors"][0]["pointer"], "#/compensate");
        let body = json!({"compensate": compensate});
        let cancelled = client.call("POST", &path).json(&body).send().await.expect(200);
        assert_eq!(states(&cancelled), ["SUCCEEDED", "CANCELED"]);
        if compensate.is_none() {
            assert_eq!((&cancelled["state"], &cancelled["canceling"]), (&json!("RUNNING"), &json!(true)));
            work(&client, "undo.a", true).await;
        }
        let ended = shown(&client, &begun).await;
        let expected = if compensate.is_none() { "SUCCEEDED" } else { "NOT_RUN" };
        assert_eq!((&ended["state"], undone(&ended)), (&json!("CANCELED"), vec![expected, "NOT_RUN"]));
        assert_eq!(ended["canceling"], false);
    }
}

#[tokio::test]
async fn an_operator_can_stop_what_is_being_undone() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    let client = server.client().await;
    let begun = begin(&client, &json!({"steps": [undoable("a", &[]), undoable("b", &["a"])]})).await;
    work(&client, "a", true).await;
    let path = format!("/admin/v1/jobs/{}/cancel", begun["workflow_id"].as_str().unwrap());
    for (body, state) in [(json!({}), "RUNNING"), (json!({"compensate": false}), "CANCELED")] {
        let call = server.call("POST", &path).header("authorization", &format!("Bearer {TOKEN}"));
        call.json(&body).send().await.expect(200);
        assert_eq!(shown(&client, &begun).await["state"], state);
    }
    assert_eq!(undone(&shown(&client, &begun).await), ["CANCELED", "NOT_RUN"]);
}

#[tokio::test]
async fn a_retry_goes_on_from_the_step_that_is_named() {
    let server = Server::start().await;
    let client = server.client().await;
    let steps = json!([undoable("a", &[]), undoable("b", &["a"]), undoable("c", &["b"])]);
    let begun = begin(&client, &json!({"steps": steps})).await;
    work(&client, "a", true).await;
    work(&client, "b", false).await;
    let path = format!("/v1/workflows/{}/retry", begun["workflow_id"].as_str().unwrap());
    let retry = |from: &str| client.call("POST", &path).json(json!({"from": from}));
    let unknown = retry("x").send().await.expect(400);
    assert_eq!(unknown["errors"][0]["pointer"], "#/from", "{unknown}");
    retry("c").send().await.refused(409, "RFA_JOB_CONFLICT");
    assert_eq!(shown(&client, &begun).await["state"], "FAILED");
    let again = retry("a").send().await.expect(200);
    assert_eq!(states(&again), ["QUEUED", "WAITING", "WAITING"]);
    work(&client, "a", true).await;
    work(&client, "b", false).await;
    let again = retry("b").send().await.expect(200);
    assert_eq!(states(&again), ["SUCCEEDED", "QUEUED", "WAITING"]);
}
