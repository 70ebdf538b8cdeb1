//! Workflows within workflows, steps with a job per element, steps added by a running step, and lists by name; through `/v1` with
//! a worker of `/ojs/v1`.

use serde_json::{Value, json};

use crate::api::server::{Client, Server};

/// Begins a workflow and returns its id.
async fn begin(client: &Client, body: &Value) -> String {
    let view = client.call("POST", "/v1/workflows").json(body).send().await.expect(202);
    view["workflow_id"].as_str().unwrap().to_owned()
}

async fn shown(client: &Client, id: &str) -> Value {
    client.get(&format!("/v1/workflows/{id}")).await.expect(200)
}

/// Fetches up to `n` jobs, waiting for the first.
async fn fetch(client: &Client, n: usize) -> Vec<Value> {
    let body = json!({"queues": ["default"], "worker_id": "w", "count": n, "wait_ms": 10_000});
    let jobs = client.call("POST", "/ojs/v1/workers/fetch").json(&body).send().await.expect(200);
    jobs["jobs"].as_array().unwrap().clone()
}

async fn ack(client: &Client, job: &Value, result: Value) {
    let body = json!({"job_id": job["id"], "lease_token": job["lease_token"], "result": result});
    client.call("POST", "/ojs/v1/workers/ack").json(&body).send().await.expect(200);
}

async fn nack(client: &Client, job: &Value) {
    let error = json!({"code": "broken", "message": "it broke", "retryable": false});
    let body = json!({"job_id": job["id"], "lease_token": job["lease_token"], "error": error});
    client.call("POST", "/ojs/v1/workers/nack").json(&body).send().await.expect(200);
}

fn states(view: &Value) -> Vec<&str> {
    view["steps"].as_array().unwrap().iter().map(|step| step["state"].as_str().unwrap()).collect()
}

fn for_each() -> Value {
    json!({"name": "album", "steps": [
        {"id": "list", "type": "images.list", "args": []},
        {"id": "resize", "type": "image.resize", "args": [{"image": "$item", "n": "$index"}, 800], "parallel": 2,
         "for_each": {"step": "list", "pointer": "/images"}},
        {"id": "report", "type": "album.report", "args": [], "depends_on": ["resize"]},
    ]})
}

#[tokio::test]
async fn each_element_of_a_list_is_a_job_and_the_next_step_gets_the_list_of_results() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = begin(&client, &for_each()).await;
    let list = fetch(&client, 1).await;
    ack(&client, &list[0], json!({"images": ["a.png", {"k": 1.50}, "c.png"]})).await;
    let mut jobs = fetch(&client, 10).await;
    if jobs.len() < 2 {
        jobs.extend(fetch(&client, 1).await);
    }
    assert_eq!(jobs.len(), 2, "two at once");
    assert_eq!(jobs[0]["args"], json!([{"image": "a.png", "n": 0}, 800]));
    assert_eq!(jobs[1]["args"], json!([{"image": {"k": 1.50}, "n": 1}, 800]));
    assert_eq!(jobs[0]["parent_steps"], json!([]), "an element has its element instead of the list");
    let running = shown(&client, &id).await;
    assert_eq!(running["steps"][1]["kind"], "for_each");
    let counts = json!({"total": 3, "waiting": 1, "active": 2, "succeeded": 0, "failed": 0});
    assert_eq!(running["steps"][1]["elements"], counts);
    ack(&client, &jobs[1], json!("b")).await;
    ack(&client, &jobs[0], json!("a")).await;
    let third = fetch(&client, 1).await;
    ack(&client, &third[0], json!({"c": 3})).await;
    let report = fetch(&client, 1).await;
    assert_eq!(report[0]["type"], "album.report");
    assert_eq!(report[0]["parent_results"], json!([["a", "b", {"c": 3}]]));
    ack(&client, &report[0], Value::Null).await;
    assert_eq!(shown(&client, &id).await["state"], "SUCCEEDED");
    let own = running["steps"][1]["job_id"].as_str().unwrap();
    let elements = shown(&client, own).await;
    assert_eq!((&elements["type"], &elements["steps_total"]), (&json!("for_each"), &json!(3)));
    assert_eq!(elements["parent_workflow_id"], id);
    let page = client.get(&format!("/v1/workflows/{own}/results?limit=2")).await.expect(200);
    assert_eq!((&page["results"][1]["result"], &page["next_cursor"]), (&json!("b"), &json!("2")));
    let rest = client.get(&format!("/v1/workflows/{own}/results?cursor=2")).await.expect(200);
    assert_eq!((&rest["results"][0]["result"], &rest["next_cursor"]), (&json!({"c": 3}), &Value::Null));
}

#[tokio::test]
async fn what_is_no_list_fails_the_step_with_the_reason() {
    let server = Server::start().await;
    let client = server.client().await;
    for (result, reason) in [
        (json!({"images": 3}), "The result has no list at `/images`."),
        (Value::Null, "The step that the list comes from left no result."),
        (
            json!({"images": vec![0; 10_001]}),
            "The list at `/images` has 10001 elements; at most 10000 are accepted.",
        ),
    ] {
        let id = begin(&client, &for_each()).await;
        let list = fetch(&client, 1).await;
        ack(&client, &list[0], result).await;
        let failed = client
            .call("GET", &format!("/v1/jobs/{id}"))
            .header("prefer", "wait=10")
            .header("accept", "application/json")
            .send()
            .await;
        assert_eq!(failed.status, 200);
        let view = shown(&client, &id).await;
        assert_eq!((&view["state"], &view["steps"][1]["error"]), (&json!("FAILED"), &json!(reason)));
    }
}

#[tokio::test]
async fn a_workflow_is_a_step_and_its_results_are_an_object() {
    let server = Server::start().await;
    let client = server.client().await;
    let within = json!({"type": "chain", "name": "within", "steps": [
        {"id": "x", "type": "t.x", "args": []}, {"id": "y", "type": "t.y", "args": []}]});
    let body = json!({"steps": [
        {"id": "a", "type": "t.a", "args": []},
        {"id": "n", "workflow": within, "depends_on": ["a"]},
        {"id": "b", "type": "t.b", "args": [], "depends_on": ["n"]},
    ]});
    let id = begin(&client, &body).await;
    let a = fetch(&client, 1).await;
    ack(&client, &a[0], json!("of a")).await;
    let x = fetch(&client, 1).await;
    assert_eq!((&x[0]["type"], &x[0]["parent_steps"]), (&json!("t.x"), &json!(["a"])));
    assert_eq!(x[0]["parent_results"], json!(["of a"]), "the first steps get what is before their workflow");
    let view = shown(&client, &id).await;
    let own = view["steps"][1]["job_id"].as_str().unwrap().to_owned();
    assert_eq!(
        (&view["steps"][1]["kind"], states(&view)),
        (&json!("workflow"), vec!["SUCCEEDED", "RUNNING", "WAITING"])
    );
    let inner = shown(&client, &own).await;
    assert_eq!((&inner["name"], &inner["parent_workflow_id"]), (&json!("within"), &json!(id)));
    let listed = client.get("/v1/workflows").await.expect(200);
    assert_eq!(listed["workflows"].as_array().unwrap().len(), 1, "a step is not listed");
    ack(&client, &x[0], json!(1)).await;
    let y = fetch(&client, 1).await;
    ack(&client, &y[0], json!([2])).await;
    let b = fetch(&client, 1).await;
    assert_eq!(b[0]["parent_results"], json!([{"x": 1, "y": [2]}]));
    nack(&client, &b[0]).await;
    assert_eq!(states(&shown(&client, &id).await), ["SUCCEEDED", "SUCCEEDED", "FAILED"]);
    let retried = client.call("POST", &format!("/v1/workflows/{id}/retry")).json(json!({})).send().await;
    assert_eq!(states(&retried.expect(200)), ["SUCCEEDED", "SUCCEEDED", "QUEUED"]);
    let other = server.client().await;
    assert_eq!(other.get(&format!("/v1/workflows/{own}")).await.status, 403);
    assert_eq!(other.get(&format!("/v1/workflows/{own}/results")).await.status, 403);
}

#[tokio::test]
async fn what_succeeded_within_a_workflow_is_undone_with_the_one_around_it() {
    let server = Server::start().await;
    let client = server.client().await;
    let within = json!({"type": "chain", "steps": [
        {"id": "x", "type": "t.x", "args": [], "compensate": {"type": "t.undo", "args": ["x"]}},
        {"id": "y", "type": "t.y", "args": [], "compensate": {"type": "t.undo", "args": ["y"]}}]});
    let body = json!({"type": "chain", "failure_policy": "compensate", "steps": [
        {"id": "n", "workflow": within}, {"id": "b", "type": "t.b", "args": []}]});
    let id = begin(&client, &body).await;
    for _ in 0..2 {
        let job = fetch(&client, 1).await;
        ack(&client, &job[0], Value::Null).await;
    }
    nack(&client, &fetch(&client, 1).await[0]).await;
    for of in ["y", "x"] {
        let undo = fetch(&client, 1).await;
        assert_eq!((&undo[0]["type"], &undo[0]["args"]), (&json!("t.undo"), &json!([of])));
        ack(&client, &undo[0], Value::Null).await;
    }
    let view = shown(&client, &id).await;
    assert_eq!(view["state"], "FAILED");
    assert_eq!(view["steps"][0]["compensation"]["state"], "SUCCEEDED");
}

#[tokio::test]
async fn a_running_step_adds_steps_with_its_lease_and_no_other() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = begin(&client, &json!({"steps": [{"id": "plan", "type": "t.plan", "args": []}]})).await;
    let plan = fetch(&client, 1).await;
    let add = async |token: &Value, steps: Value| {
        client
            .call("POST", &format!("/v1/workflows/{id}/steps"))
            .json(json!({"lease_token": token, "steps": steps}))
            .send()
            .await
    };
    let job = |id: &str, after: &[&str]| json!({"id": id, "type": "t.more", "args": [], "depends_on": after});
    let token = &plan[0]["lease_token"];
    add(&json!("0000000000000000.1"), json!([job("m", &[])])).await.refused(409, "RFA_JOB_CONFLICT");
    add(token, json!([job("plan", &[])])).await.refused(409, "RFA_JOB_CONFLICT");
    add(token, json!([job("m", &["nothing"])])).await.refused(400, "RFA_REQUEST_MALFORMED");
    add(token, json!([{"type": "t.more", "args": []}])).await.refused(400, "RFA_REQUEST_MALFORMED");
    add(token, json!([])).await.refused(400, "RFA_REQUEST_MALFORMED");
    let view = add(token, json!([job("one", &["plan"]), job("two", &["one"])])).await.expect(200);
    assert_eq!((&view["steps_total"], states(&view)), (&json!(3), vec!["RUNNING", "WAITING", "WAITING"]));
    ack(&client, &plan[0], json!(7)).await;
    let one = fetch(&client, 1).await;
    assert_eq!((&one[0]["parent_steps"], &one[0]["parent_results"]), (&json!(["plan"]), &json!([7])));
    add(token, json!([job("late", &[])])).await.refused(409, "RFA_JOB_CONFLICT");
    ack(&client, &one[0], Value::Null).await;
    ack(&client, &fetch(&client, 1).await[0], Value::Null).await;
    let done = shown(&client, &id).await;
    assert_eq!((&done["state"], &done["steps_succeeded"]), (&json!("SUCCEEDED"), &json!(3)));
    let listed = client.get("/v1/workflows").await.expect(200);
    assert_eq!(listed["workflows"][0]["steps_total"], 3);
}

#[tokio::test]
async fn steps_that_are_no_workflow_and_no_list_are_refused_with_the_place() {
    let server = Server::start().await;
    let client = server.client().await;
    let job = json!({"id": "a", "type": "t", "args": []});
    let each = |for_each: Value, more: Value| {
        let mut step = json!({"id": "e", "type": "t", "for_each": for_each});
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"steps": [job, step]})
    };
    let deep =
        (0..9).fold(json!({"steps": [job]}), |within, _| json!({"steps": [{"id": "n", "workflow": within}]}));
    for (body, place) in [
        (each(json!({"step": "b"}), json!({})), "steps/1/for_each/step"),
        (each(json!({}), json!({})), "steps/1/for_each/step"),
        (each(json!({"step": "a", "pointer": "x"}), json!({})), "steps/1/for_each/pointer"),
        (each(json!({"step": "a", "path": "x"}), json!({})), "steps/1/for_each/path"),
        (each(json!({"step": "a"}), json!({"parallel": 0})), "steps/1/parallel"),
        (each(json!({"step": "e"}), json!({})), "steps"),
        (json!({"steps": [{"id": "n", "workflow": {"steps": []}}]}), "steps/0/workflow/steps"),
        (json!({"steps": [{"id": "n", "type": "t", "workflow": {"steps": [job]}}]}), "steps/0/type"),
        (
            json!({"steps": [{"id": "n", "workflow": {"steps": [job], "failure_policy": "x"}}]}),
            "steps/0/workflow/failure_policy",
        ),
        (json!({"steps": [{"id": "n", "type": "t", "args": [], "parallel": 3}]}), "steps/0/parallel"),
        (deep, "workflow"),
    ] {
        let refused = client.call("POST", "/v1/workflows").json(&body).send().await;
        let text = refused.text().to_owned();
        refused.refused(400, "RFA_REQUEST_MALFORMED");
        assert!(text.contains(place), "{place}: {text}");
    }
}

#[tokio::test]
async fn workflows_are_listed_by_name_and_state() {
    let server = Server::start().await;
    let client = server.client().await;
    for name in ["one", "two", "one"] {
        begin(&client, &json!({"name": name, "steps": [{"id": "a", "type": "t.a", "args": []}]})).await;
    }
    ack(&client, &fetch(&client, 1).await[0], Value::Null).await;
    let n = async |query: &str| {
        let page = client.get(&format!("/v1/workflows{query}")).await.expect(200);
        page["workflows"].as_array().unwrap().len()
    };
    assert_eq!(n("?name=one").await, 2);
    assert_eq!(n("?name=one&state=SUCCEEDED").await, 1);
    assert_eq!(n("?name=on").await, 0);
    assert_eq!(n("?state=RUNNING").await, 2);
}

#[tokio::test]
async fn a_large_result_is_handed_on_as_an_address() {
    let server = Server::start().await;
    let client = server.client().await;
    begin(
        &client,
        &json!({"type": "chain", "steps": [
        {"id": "a", "type": "t.a", "args": []}, {"id": "b", "type": "t.b", "args": []}]}),
    )
    .await;
    let large = "x".repeat(200 * 1024);
    ack(&client, &fetch(&client, 1).await[0], json!([large])).await;
    let b = fetch(&client, 1).await;
    let url = b[0]["parent_results"][0]["$ref"].as_str().unwrap_or_else(|| panic!("{b:?}"));
    let path = &url[url.find("/ojs/").unwrap()..];
    assert_eq!(client.get(path).await.expect(200), json!([large]));
}
