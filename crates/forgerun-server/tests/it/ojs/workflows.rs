//! `/ojs/v1/workflows`: every form, what steps hand on, cancel, retry, events.

use super::*;

fn job(name: &str) -> Value {
    json!({"type": name, "args": [name], "options": {"retry": {"max_attempts": 1}}})
}

impl World {
    async fn begin(&self, body: Value) -> Value {
        let begun = self.post("workflows", body).await;
        assert!(begun.header("location").unwrap().contains("/ojs/v1/workflows/"));
        begun.expect(201)
    }

    async fn workflow(&self, id: &Value) -> Value {
        self.get(&format!("workflows/{}", id.as_str().unwrap())).await.expect(200)
    }

    /// Takes the next job, which must be of this type, and ends it well with this result.
    async fn done(&self, name: &str, result: Value) -> Value {
        let job = self.fetch().await;
        assert_eq!(job["type"], name, "{job}");
        self.post("workers/ack", json!({"job_id": job["id"], "result": result})).await.expect(200);
        job
    }

    async fn failed(&self, name: &str) -> Value {
        let job = self.fetch().await;
        assert_eq!(job["type"], name, "{job}");
        let error = json!({"code": "handler_error", "message": "it broke", "retryable": false});
        self.nack(job["id"].as_str().unwrap(), error).await.expect(200);
        job
    }

    async fn nothing_to_do(&self) {
        let fetched = self.post("workers/fetch", json!({"queues": ["default"]})).await.expect(200);
        assert_eq!(fetched["jobs"], json!([]));
    }
}

fn states(workflow: &Value) -> Vec<&str> {
    workflow["steps"].as_array().unwrap().iter().map(|step| step["state"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn options_of_a_workflow_are_those_of_its_steps() {
    let world = World::start().await;
    let bare = |name: &str| json!({"type": name, "args": []});
    let options = json!({"queue": "email", "retry": {"max_attempts": 7}, "tags": ["onboarding"]});
    for body in [
        json!({"type": "chain", "steps": [bare("a")], "options": options}),
        json!({"type": "group", "jobs": [bare("a")], "options": options}),
        json!({"type": "batch", "jobs": [bare("a")], "options": options}),
        json!({"name": "n", "steps": [{"id": "a", "type": "a", "args": [], "depends_on": []}], "options": options}),
    ] {
        world.begin(body.clone()).await;
        let fetched = world.post("workers/fetch", json!({"queues": ["email"]})).await.expect(200);
        let job = &fetched["jobs"][0];
        assert_eq!((&job["type"], &job["max_attempts"]), (&json!("a"), &json!(7)), "{body}");
        assert_eq!(job["tags"], json!(["onboarding"]), "{body}");
    }
    let mut wrong = json!({"type": "chain", "steps": [bare("a")]});
    wrong["options"] = json!({"queue": "No Queue"});
    assert_eq!(world.post("workflows", wrong).await.expect(400)["details"]["field"], "options.queue");
}

#[tokio::test]
async fn a_chain_hands_results_on_and_is_shown_within_and_at_the_top() {
    let world = World::start().await;
    let begun =
        world.begin(json!({"type": "chain", "name": "c", "steps": [job("a"), job("b"), job("c")]})).await;
    let id = &begun["workflow"]["id"];
    assert_eq!((&begun["id"], &begun["state"], &begun["type"]), (id, &json!("running"), &json!("chain")));
    assert_eq!(states(&begun), ["pending", "waiting", "waiting"]);
    let first = world.done("a", json!({"n": 1})).await;
    assert_eq!(first["workflow_id"], *id);
    assert_eq!(first["parent_results"], json!([]));
    let second = world.done("b", json!([2])).await;
    assert_eq!(second["parent_results"], json!([{"n": 1}]));
    assert_eq!(second["parent_jobs"], json!([first["id"]]));
    let half = world.workflow(id).await;
    assert_eq!((&half["steps_completed"], &half["steps_total"]), (&json!(2), &json!(3)));
    assert_eq!(world.done("c", json!(3)).await["parent_results"], json!([[2]]));
    let done = world.workflow(id).await;
    assert_eq!((&done["state"], &done["workflow"]["steps_completed"]), (&json!("completed"), &json!(3)));
    assert_eq!(done["metadata"]["completed_count"], 3);
    assert!(done["completed_at"].is_string());
}

#[tokio::test]
async fn a_batch_is_followed_by_what_fits_its_end_with_all_results() {
    for failing in [false, true] {
        let world = World::start().await;
        let body = json!({"type": "batch", "jobs": [job("a"), job("b")], "callbacks": {
            "on_complete": job("complete"), "on_success": job("success"), "on_failure": job("failure")}});
        let begun = world.begin(body).await;
        assert_eq!((&begun["jobs_total"], &begun["steps_total"]), (&json!(2), &json!(5)));
        world.done("a", json!({"a": 1})).await;
        match failing {
            true => drop(world.failed("b").await),
            false => drop(world.done("b", json!({"b": 2})).await),
        }
        let complete = world.done("complete", json!(null)).await;
        let results = if failing { json!([{"a": 1}, null]) } else { json!([{"a": 1}, {"b": 2}]) };
        assert_eq!(complete["parent_results"], results);
        world.done(if failing { "failure" } else { "success" }, json!(null)).await;
        world.nothing_to_do().await;
        let ended = world.workflow(&begun["id"]).await;
        assert_eq!(ended["state"], if failing { "failed" } else { "completed" });
        assert_eq!(ended["jobs_failed"], u64::from(failing));
    }
}

#[tokio::test]
async fn a_graph_of_the_sdks_runs_each_step_once_those_before_it_are_done() {
    let world = World::start().await;
    let step = |id: &str, after: &[&str]| json!({"id": id, "type": id, "args": [], "depends_on": after});
    let begun = world
        .begin(json!({"name": "diamond", "steps": [
        step("a", &[]), step("b", &["a"]), step("c", &["a"]), step("d", &["c", "b"])]}))
        .await;
    assert_eq!((&begun["name"], &begun["steps"][3]["depends_on"]), (&json!("diamond"), &json!(["c", "b"])));
    world.done("a", json!("a")).await;
    world.done("b", json!("b")).await;
    world.nothing_to_do_but("c").await;
    let last = world.done("d", json!("d")).await;
    assert_eq!(last["parent_results"], json!(["c", "b"]), "in the order in which they are named");
    assert_eq!(last["parent_steps"], json!(["c", "b"]));
    assert_eq!(world.workflow(&begun["id"]).await["state"], "completed");
}

impl World {
    /// The only job that can be fetched is of this type; ends it well.
    async fn nothing_to_do_but(&self, name: &str) {
        let fetched =
            self.post("workers/fetch", json!({"queues": ["default"], "count": 10})).await.expect(200);
        let jobs = fetched["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), 1, "{fetched}");
        assert_eq!(jobs[0]["type"], name);
        self.post("workers/ack", json!({"job_id": jobs[0]["id"], "result": name})).await.expect(200);
    }
}

#[tokio::test]
async fn a_cancel_leaves_nothing_and_is_refused_the_second_time() {
    let world = World::start().await;
    let begun = world.begin(json!({"type": "chain", "steps": [job("a"), job("b")]})).await;
    let path = format!("workflows/{}", begun["id"].as_str().unwrap());
    world.done("a", json!(1)).await;
    let cancelled = call(&world.client, "DELETE", &path).send().await.expect(200);
    assert_eq!(
        (&cancelled["workflow"]["state"], &cancelled["steps_cancelled"]),
        (&json!("cancelled"), &json!(1))
    );
    assert_eq!(cancelled["steps_already_completed"], 1);
    world.nothing_to_do().await;
    let again = call(&world.client, "DELETE", &path).send().await;
    refused(&again, 409, "JOB_ALREADY_CANCELLED", "conflict");
    let other = world.server.client().await;
    assert_eq!(other.get(&format!("/ojs/v1/{path}")).await.status, 403);
}

#[tokio::test]
async fn a_retry_runs_the_failed_part_again() {
    let world = World::start().await;
    let begun = world.begin(json!({"type": "chain", "steps": [job("a"), job("b"), job("c")]})).await;
    world.done("a", json!(1)).await;
    let failed = world.failed("b").await;
    let stopped = world.workflow(&begun["id"]).await;
    assert_eq!(
        (&stopped["state"], states(&stopped)),
        (&json!("failed"), vec!["completed", "failed", "cancelled"])
    );
    let path = format!("workflows/{}/retry", begun["id"].as_str().unwrap());
    assert_eq!(world.post(&path, json!({})).await.expect(200)["state"], "running");
    assert_eq!(world.done("b", json!(2)).await["id"], failed["id"]);
    world.done("c", json!(3)).await;
    assert_eq!(world.workflow(&begun["id"]).await["state"], "completed");
}

#[tokio::test]
async fn what_happens_to_a_workflow_has_its_own_names() {
    let world = World::start().await;
    let begun = world.begin(json!({"type": "chain", "name": "n", "steps": [job("a"), job("b")]})).await;
    world.done("a", json!(1)).await;
    world.failed("b").await;
    let types = "workflow.started,workflow.step_completed,workflow.completed,workflow.failed";
    let page = world.get(&format!("events?types={types}")).await.expect(200);
    let events = page["events"].as_array().unwrap();
    let names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(names, ["workflow.started", "workflow.step_completed", "workflow.failed"]);
    let data = &events[2]["data"];
    assert_eq!((&data["workflow_id"], &data["state"]), (&begun["id"], &json!("failed")));
    let of_steps = world.get("events?types=job.completed").await.expect(200);
    assert_eq!(of_steps["events"][0]["data"]["workflow_id"], begun["id"]);
}

#[tokio::test]
async fn a_repeated_request_meets_the_workflow_it_made() {
    let world = World::start().await;
    let body = json!({"type": "group", "jobs": [job("a"), job("b")]});
    let send = || call(&world.client, "POST", "workflows").header("idempotency-key", "k-1").json(&body);
    let first = send().send().await.expect(201);
    let second = send().send().await.expect(200);
    assert_eq!(first["id"], second["id"]);
    let other = json!({"type": "group", "jobs": [job("a")]});
    let other =
        call(&world.client, "POST", "workflows").header("idempotency-key", "k-1").json(&other).send().await;
    assert_eq!(other.status, 409, "{}", other.text());
}

#[tokio::test]
async fn what_is_no_workflow_is_refused_with_the_place_and_makes_nothing() {
    let world = World::start().await;
    let steps = json!([{"id": "a", "type": "a", "args": [], "depends_on": ["b"]}]);
    let body = refused(
        &world.post("workflows", json!({"steps": steps})).await,
        400,
        "INVALID_PAYLOAD",
        "invalid_request",
    );
    assert_eq!(body["details"]["field"], "steps.0.depends_on");
    world.nothing_to_do().await;
    let missing = world.get("workflows/019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f").await;
    let body = refused(&missing, 404, "NOT_FOUND", "not_found");
    assert_eq!(body["details"]["resource_type"], "workflow");
    let id = world.push(json!({})).await;
    assert_eq!(world.get(&format!("workflows/{id}")).await.status, 404, "a job is no workflow");
}

#[tokio::test]
async fn arguments_are_shown_as_they_were_sent_and_left_out_of_lists() {
    let world = World::start().await;
    let steps = json!([{"id": "a", "type": "a", "args": [{"big": 9_007_199_254_740_993_i64}]}]);
    let made = world.post("workflows", json!({"steps": steps})).await.expect(201);
    let id = made["workflow"]["id"].as_str().unwrap();
    let shown = world.get(&format!("workflows/{id}")).await.expect(200);
    for view in [&made["workflow"], &made, &shown["workflow"], &shown] {
        assert_eq!(view["steps"][0]["args"], steps[0]["args"], "{view}");
    }
    let listed = world.get("workflows").await.expect(200);
    let step = &listed["workflows"][0]["steps"][0];
    assert_eq!((&step["id"], step.get("args")), (&json!("a"), None), "{listed}");
}

#[tokio::test]
async fn a_cancel_undoes_what_succeeded_and_a_second_one_may_stop_that() {
    let world = World::start().await;
    let mut first = job("a");
    first["compensate"] = job("undo");
    let begun = world.begin(json!({"type": "chain", "steps": [first, job("b")]})).await;
    assert_eq!(begun["steps"][0]["compensation"], json!({"type": "undo", "state": "not_run"}));
    world.done("a", json!({"n": 1})).await;
    let path = format!("workflows/{}", begun["id"].as_str().unwrap());
    let cancelled = call(&world.client, "DELETE", &path).send().await.expect(200);
    assert_eq!((&cancelled["state"], &cancelled["canceling"]), (&json!("running"), &json!(true)));
    assert_eq!(cancelled["steps"][0]["compensation"]["state"], "pending");
    let again = call(&world.client, "DELETE", &path).send().await;
    refused(&again, 409, "JOB_ALREADY_CANCELLED", "conflict");
    let undoing = world.fetch().await;
    assert_eq!((&undoing["type"], &undoing["parent_results"]), (&json!("undo"), &json!([{"n": 1}])));
    let wrong = call(&world.client, "DELETE", &format!("{path}?compensate=maybe")).send().await;
    assert_eq!(wrong.status, 400);
    let stopped = call(&world.client, "DELETE", &format!("{path}?compensate=false")).send().await.expect(200);
    assert_eq!(
        (&stopped["state"], &stopped["steps"][0]["compensation"]["state"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    world.nothing_to_do().await;
}
