//! Work of the client's own beside simulated work: which is which, who runs it, and for how long.

use super::*;

const TOKEN: &str = "a-token-of-an-operator";

async fn v1(world: &World, body: Value) -> Value {
    world.client.submit(body).await.expect(202)
}

pub(super) async fn ended(world: &World, id: &str) -> Value {
    for _ in 0..20 {
        let call = world.client.call("GET", &format!("/v1/jobs/{id}")).header("prefer", "wait=10");
        let job = call.send().await.expect(200);
        if job["outcome"].is_string() {
            return job;
        }
    }
    panic!("job {id} does not end");
}

#[tokio::test]
async fn a_job_type_makes_a_job_of_v1_work_of_a_worker_outside() {
    let world = World::start().await;
    world.server.app.work();
    let body = json!({"type": "EXECUTE", "job_type": "Mail/Send", "payload": {"to": "ada"}, "priority": 3});
    let submitted = v1(&world, body).await;
    assert_eq!(submitted["simulated"], false, "{submitted}");
    let taken = world.fetch().await;
    assert_eq!((&taken["type"], &taken["args"]), (&json!("Mail/Send"), &json!([{"to": "ada"}])));
    assert_eq!((&taken["simulated"], &taken["args_wrapped"]), (&json!(false), &json!(true)));
    assert_eq!(taken.get("timeout_ms"), None, "{taken}");
    let id = submitted["job_id"].as_str().unwrap();
    world.post("workers/ack", json!({"job_id": id, "result": {"sent": 1}})).await.expect(200);
    let job = ended(&world, id).await;
    assert_eq!((&job["outcome"], &job["job_type"]), (&json!("SUCCESS"), &json!("Mail/Send")), "{job}");
    assert_eq!((&job["simulated"], &job["definition"]), (&json!(false), &Value::Null), "{job}");
    let list = v1(&world, json!({"type": "EXECUTE", "job_type": "a", "payload": [1, 2]})).await;
    let taken = world.fetch().await;
    assert_eq!((&taken["id"], &taken["args"]), (&list["job_id"], &json!([1, 2])), "a list is the list");
    assert_eq!(taken["args_wrapped"], false, "a list of one is told from a payload with a list around it");
    v1(&world, json!({"type": "EXECUTE", "job_type": "a"})).await;
    let taken = world.fetch().await;
    assert_eq!((&taken["args"], taken.get("args_wrapped")), (&json!([]), None), "nothing was given");
}

#[tokio::test]
async fn a_type_given_on_api_v1_reaches_the_worker_as_it_was_written() {
    let world = World::start().await;
    let body = json!({"type": "Quarterly Report", "parameters": {"year": 2025}});
    world.client.call("POST", "/api/v1/jobs").json(body).send().await.expect(202);
    let taken = world.fetch().await;
    assert_eq!(
        (&taken["type"], &taken["args"]),
        (&json!("Quarterly Report"), &json!([{"year": 2025}])),
        "{taken}"
    );
    assert_eq!(taken.get("timeout_ms"), None, "{taken}");
}

#[tokio::test]
async fn every_view_of_a_job_says_whether_it_is_simulated() {
    let world = World::with(&[("auth.admin_token", TOKEN)]).await;
    let simulated = v1(&world, json!({"type": "EXECUTE"})).await["job_id"].clone();
    let real = v1(&world, json!({"type": "EXECUTE", "job_type": "a"})).await["job_id"].clone();
    for (id, expected) in [(simulated, true), (real, false)] {
        let id = id.as_str().unwrap();
        let operator = format!("Bearer {TOKEN}");
        for path in ["/v1/jobs/", "/api/v1/jobs/", "/ojs/v1/jobs/"] {
            let view = world.client.get(&format!("{path}{id}")).await;
            let view: Value = serde_json::from_slice(&view.body).unwrap();
            assert_eq!(view["simulated"], expected, "{path} {view}");
        }
        let detail = world.server.call("GET", &format!("/admin/v1/jobs/{id}"));
        let detail = detail.header("authorization", &operator).send().await.expect(200);
        assert!(detail.to_string().contains(&format!("\"simulated\":{expected}")), "{detail}");
    }
    let listed = world.client.get("/v1/jobs").await.expect(200);
    let said: Vec<&Value> = listed["jobs"].as_array().unwrap().iter().map(|job| &job["simulated"]).collect();
    assert_eq!(said, [&json!(false), &json!(true)]);
}

#[tokio::test]
async fn without_simulation_nothing_is_simulated_and_the_refusal_names_both_ways() {
    let world = World::with(&[("sim.enabled", "false")]).await;
    let batch = json!({"items": [{}, {}]});
    let schedule = json!({"name": "a", "cron": "@daily", "job": {"type": "EXECUTE"}});
    let workflow = json!({"type": "group", "jobs": [{"work_kind": "SUCCESS_FAST"}]});
    for (path, body) in [
        ("/v1/jobs", json!({"type": "EXECUTE", "payload": {"a": 1}})),
        ("/v1/jobs", json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST"})),
        ("/v1/jobs/batch", batch),
        ("/v1/schedules", schedule),
        ("/v1/workflows", workflow),
        ("/api/v1/jobs", json!({"type": "a", "work_kind": "SUCCESS_FAST"})),
        ("/ojs/v1/jobs", json!({"type": "a", "args": [], "options": {"work_kind": "SUCCESS_FAST"}})),
    ] {
        let refused = world.client.call("POST", path).json(body).send().await;
        let said = refused.expect(400).to_string();
        assert!(said.contains("your workers do") && said.contains("sim.enabled = true"), "{path}: {said}");
    }
    let report = world.client.call("POST", "/api/v1/reports/generate").json(json!({})).send().await;
    assert_eq!(report.status, 405, "only reports are read there: {}", report.text());
    v1(&world, json!({"type": "EXECUTE", "job_type": "a"})).await;
    world.push(json!({})).await;
}

#[tokio::test]
async fn a_real_attempt_lives_as_long_as_its_lease_is_extended() {
    let world = World::start().await;
    let id = v1(&world, json!({"type": "EXECUTE", "job_type": "a"})).await["job_id"].clone();
    world.fetch().await;
    for _ in 0..15 {
        world.server.clock.advance(std::time::Duration::from_secs(10));
        let beat = json!({"worker_id": "w-1", "active_jobs": [id]});
        let beat = world.post("workers/heartbeat", beat).await.expect(200);
        assert_eq!(beat["jobs_extended"], json!([id]), "{beat}");
    }
    world.ack(id.as_str().unwrap()).await.expect(200);
    assert_eq!(ended(&world, id.as_str().unwrap()).await["outcome"], "SUCCESS");
}

#[tokio::test]
async fn a_timeout_is_told_with_its_value_and_where_it_was_set() {
    let world = World::with(&[("exec.real_max_runtime_ms", "400")]).await;
    let own = json!({"type": "EXECUTE", "job_type": "a", "timeout": "200ms"});
    for (body, message) in [
        (own, "longer than 200ms, which is the job's own `timeout`"),
        (
            json!({"type": "EXECUTE", "job_type": "a", "timeout": "1h"}),
            "longer than 400ms, which is `exec.real_max_runtime_ms` of the server",
        ),
    ] {
        let id = v1(&world, body).await["job_id"].as_str().unwrap().to_owned();
        world.fetch().await;
        let job = ended(&world, &id).await;
        assert_eq!((&job["outcome"], &job["jobStatus"]), (&json!("FAILED"), &json!("TIMED_OUT")), "{job}");
        assert!(job["error"].to_string().contains(message), "{message}: {job}");
    }
    let body = json!({"type": "a", "timeout": "90s"});
    world.client.call("POST", "/api/v1/jobs").json(body).send().await.expect(202);
    assert_eq!(world.fetch().await["timeout_ms"], 400, "the server's limit is shorter");
}

#[tokio::test]
async fn real_work_of_v1_is_retried_as_often_as_it_says_and_not_by_default() {
    let world = World::with(&[("retry.base_ms", "0")]).await;
    for (retries, states) in [(None, ["FAILED"].as_slice()), (Some(1), &["QUEUED", "FAILED"])] {
        let mut body = json!({"type": "EXECUTE", "job_type": "a"});
        if let Some(retries) = retries {
            body["max_retries"] = json!(retries);
        }
        let id = v1(&world, body).await["job_id"].as_str().unwrap().to_owned();
        for state in states {
            world.fetch().await;
            world.nack(&id, json!({"code": "X", "message": "no", "retryable": true})).await.expect(200);
            let job = world.client.get(&format!("/v1/jobs/{id}")).await.expect(200);
            assert_eq!(job["state"], *state, "{retries:?}: {job}");
        }
    }
}

#[tokio::test]
async fn a_nack_with_a_delay_is_retried_after_it() {
    let world = World::with(&[("retry.base_ms", "0")]).await;
    let body = json!({"type": "EXECUTE", "job_type": "a", "max_retries": 1});
    let id = v1(&world, body).await["job_id"].as_str().unwrap().to_owned();
    world.fetch().await;
    let nack = json!({"job_id": id, "delay_ms": 3_600_000, "error": {"message": "no", "retryable": true}});
    world.post("workers/nack", nack).await.expect(200);
    let job = world.job(&id).await;
    assert_eq!(job["state"], "retryable", "{job}");
    assert_eq!(job["attempt"], 1, "the failed attempt counts: {job}");
}

#[tokio::test]
async fn a_unique_key_is_taken_until_its_job_has_ended() {
    let world = World::start().await;
    let body = || json!({"type": "EXECUTE", "job_type": "a", "unique_key": "order-7"});
    let first = v1(&world, body()).await["job_id"].clone();
    let problem = world.client.submit(body()).await.refused(409, "RFA_JOB_CONFLICT");
    assert!(problem["details"].to_string().contains(first.as_str().unwrap()), "{problem}");
    let other = world.server.client().await;
    other.submit(body()).await.expect(202);
    world.fetch().await;
    world.ack(first.as_str().unwrap()).await.expect(200);
    assert_ne!(v1(&world, body()).await["job_id"], first);
}

#[tokio::test]
async fn a_work_kind_on_ojs_is_run_by_the_built_in_worker_and_prefer_wait_is_honoured() {
    let world = World::with(&[("sim.time_scale", "0.001")]).await;
    world.server.app.work();
    for body in [
        json!({"type": "a", "args": [], "options": {"work_kind": "SUCCESS_FAST"}}),
        json!({"type": "a", "args": [], "work_kind": "success_fast"}),
    ] {
        let submit = call(&world.client, "POST", "jobs").header("prefer", "wait=20").body(body.to_string());
        let answer = submit.send().await;
        assert_eq!(answer.header("preference-applied"), Some("wait=20"));
        let job = answer.expect(201)["job"].clone();
        assert_eq!((&job["state"], &job["simulated"]), (&json!("completed"), &json!(true)), "{job}");
        assert_eq!(job["work_kind"], "SUCCESS_FAST");
    }
    let slow = world.push(json!({"work_kind": "SUCCESS_NORMAL"})).await;
    let read = call(&world.client, "GET", &format!("jobs/{slow}")).header("prefer", "wait=20").send().await;
    assert_eq!(read.header("preference-applied"), Some("wait=20"));
    assert_eq!(read.expect(200)["state"], "completed");
    let typo = json!({"type": "a", "args": [], "work_kind": "SUCCES_FAST"});
    let refused = world.post("jobs", typo).await.expect(400).to_string();
    assert!(refused.contains("did you mean `SUCCESS_FAST`?"), "{refused}");
}

#[tokio::test]
async fn a_mixed_batch_is_completed_on_ojs() {
    let world = World::with(&[("sim.time_scale", "0.001")]).await;
    world.server.app.work();
    let items = json!([{"type": "EXECUTE", "work_kind": "SUCCESS_FAST"}, {"work_kind": "FAIL_IMMEDIATE"}]);
    let batch = world.client.call("POST", "/v1/jobs/batch").json(json!({"items": items})).send().await;
    let id = batch.expect(202)["job_id"].as_str().unwrap().to_owned();
    assert_eq!(ended(&world, &id).await["jobStatus"], "COMPLETED_WITH_ERRORS");
    assert_eq!(world.job(&id).await["state"], "completed");
}

#[tokio::test]
async fn near_misses_in_options_are_refused_and_strangers_are_kept() {
    let world = World::start().await;
    for (body, place, meant) in [
        (json!({"options": {"prioritty": 1}}), "options.prioritty", "priority"),
        (json!({"options": {"retry": {"max_atempts": 1}}}), "options.retry.max_atempts", "max_attempts"),
        (
            json!({"options": {"unique": {"keys": ["type"], "on_conflct": "ignore"}}}),
            "options.unique.on_conflct",
            "on_conflict",
        ),
        (json!({"options": {"unique": {"keys": ["order_idd"]}}}), "options.unique.keys", "order_id"),
    ] {
        let mut envelope = json!({"type": "a", "args": [{"order_id": 7}]});
        envelope.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let refused = world.post("jobs", envelope).await.expect(400).to_string();
        assert!(
            refused.contains(place) && refused.contains(&format!("did you mean `{meant}`?")),
            "{refused}"
        );
    }
    let nowhere = json!({"type": "a", "args": [1], "options": {"unique": {"keys": ["colour"]}}});
    let refused = world.post("jobs", nowhere).await.expect(400).to_string();
    assert!(refused.contains("names `colour`, which is nowhere in the envelope"), "{refused}");
    let kept = json!({"type": "a", "args": [], "x_own": 1, "options": {"shade": 1, "retry": {"x": 1}}});
    world.post("jobs", kept).await.expect(201);
}

#[tokio::test]
async fn a_batch_of_own_work_reaches_a_worker_with_its_items_and_ends_as_they_did() {
    let world = World::start().await;
    let items = json!([
        {"itemId": "a", "type": "EXECUTE", "job_type": "mail.send", "payload": {"to": "ada"}},
        {"itemId": "b", "job_type": "sms.send"},
    ]);
    for (result, status) in [
        (Value::Null, "COMPLETED"),
        (
            json!({"items": [{"itemId": "b", "error": {"message": "no such number"}}]}),
            "COMPLETED_WITH_ERRORS",
        ),
    ] {
        let batch = json!({"items": items});
        let batch = world.client.call("POST", "/v1/jobs/batch").json(batch).send().await.expect(202);
        assert_eq!(batch["simulated"], false, "{batch}");
        let taken = world.fetch().await;
        assert_eq!(
            taken["args"],
            json!([
                {"itemId": "a", "type": "mail.send", "payload": {"to": "ada"}},
                {"itemId": "b", "type": "sms.send", "payload": null},
            ])
        );
        let id = batch["job_id"].as_str().unwrap();
        world.post("workers/ack", json!({"job_id": id, "result": result})).await.expect(200);
        assert_eq!(ended(&world, id).await["jobStatus"], status);
    }
}
