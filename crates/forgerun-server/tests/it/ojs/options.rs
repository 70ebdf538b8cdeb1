//! Options that submissions of every dialect take: deadlines and tags.

use forgerun_engine::Clock;

use super::own_work::ended;
use super::*;

const TOKEN: &str = "a-token-of-an-operator";

/// A real job without retries on the dialect of `path`, with one option.
fn job_on(path: &str, option: &str, value: Value) -> Value {
    match path {
        "/v1/jobs" => json!({"type": "EXECUTE", "job_type": "a", "max_retries": 3, option: value}),
        "/api/v1/jobs" => json!({"type": "a", option: value}),
        _ => json!({"type": "a", "args": [], "options": {option: value}}),
    }
}

const ROADS: [&str; 3] = ["/v1/jobs", "/api/v1/jobs", "/ojs/v1/jobs"];

/// The answer to a submission, and the id of the job.
async fn submit(world: &World, path: &str, body: Value) -> (Answer, String) {
    let answer = world.client.call("POST", path).json(body).send().await;
    let view: Value = serde_json::from_slice(&answer.body).unwrap();
    let id = [&view["job_id"], &view["jobId"], &view["job"]["id"]].into_iter().find_map(Value::as_str);
    (answer, id.unwrap_or_default().to_owned())
}

async fn view(world: &World, path: &str, id: &str) -> Value {
    let call = world.client.call("GET", &format!("{path}/{id}")).header("accept", "application/json");
    let answer = call.send().await;
    assert!(answer.status < 300, "{}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

#[tokio::test]
async fn a_deadline_fails_a_running_attempt_for_good_on_every_dialect() {
    let world = World::start().await;
    for path in ROADS {
        let (_, id) = submit(&world, path, job_on(path, "deadline", json!("400ms"))).await;
        assert!(view(&world, path, &id).await["deadline"].is_string(), "{path}");
        assert!(world.fetch().await["deadline"].is_string(), "{path}: the worker learns of it");
        let job = ended(&world, &id).await;
        assert_eq!((&job["outcome"], &job["jobStatus"]), (&json!("FAILED"), &json!("TIMED_OUT")), "{job}");
        let message = "stopped by the job's `deadline`, 400ms after its submission";
        assert!(job["error"].to_string().contains(message), "{path}: {job}");
        assert_eq!((&job["attempt"], &job["state"]), (&json!(1), &json!("FAILED")), "no further retry");
        world.client.call("POST", &format!("/v1/jobs/{id}/retry")).send().await.expect(200);
        let job = view(&world, "/v1/jobs", &id).await;
        assert_eq!(job.get("deadline"), None, "a retry asked for later has all the time: {job}");
        world.client.call("POST", &format!("/v1/jobs/{id}/cancel")).send().await.expect(200);
    }
}

#[tokio::test]
async fn a_deadline_cancels_a_waiting_job_on_every_dialect() {
    let world = World::start().await;
    for path in ROADS {
        let (_, id) = submit(&world, path, job_on(path, "deadline", json!("200ms"))).await;
        let job = ended(&world, &id).await;
        assert_eq!((&job["outcome"], &job["state"]), (&json!("CANCELED"), &json!("CANCELED")), "{job}");
        assert!(job["error"].to_string().contains("not ended before its deadline"), "{path}: {job}");
        let status = view(&world, "/api/v1/jobs", &id).await;
        assert_eq!((&status["cancelledBy"], &status["reason"]), (&json!("system"), &json!("deadline")));
        let shown = world.job(&id).await;
        assert_eq!((&shown["state"], &shown["cancel_reason"]), (&json!("cancelled"), &json!("deadline")));
        assert!(
            world.post("workers/fetch", json!({"queues": ["default"]})).await.expect(200)["jobs"]
                == json!([])
        );
    }
}

#[tokio::test]
async fn a_deadline_is_a_duration_or_a_time_and_must_lie_ahead() {
    let world = World::start().await;
    for path in ROADS {
        for good in ["2099-12-31T23:59:59Z", "1h30m", "1500ms"] {
            submit(&world, path, job_on(path, "deadline", json!(good))).await.0.expect(if path == ROADS[2] {
                201
            } else {
                202
            });
        }
        for (bad, word) in
            [("soon", "duration"), ("0s", "above zero"), ("1999-01-01T00:00:00Z", "in the past")]
        {
            let (refused, _) = submit(&world, path, job_on(path, "deadline", json!(bad))).await;
            let said = refused.expect(400).to_string();
            assert!(said.contains("deadline") && said.contains(word), "{path} {bad}: {said}");
        }
    }
    let iso = submit(&world, ROADS[2], job_on(ROADS[2], "deadline", json!("PT2H"))).await.1;
    let job = world.job(&iso).await;
    assert!(job["deadline"].as_str() > job["created_at"].as_str(), "{job}");
    assert!(submit(&world, ROADS[0], job_on(ROADS[0], "deadline", json!("PT2H"))).await.0.status == 400);
    let late = json!({"type": "DEFERRED", "execution_at": "2099-01-02T00:00:00Z", "deadline": "2099-01-01T00:00:00Z"});
    let said = world.client.submit(late).await.expect(400).to_string();
    assert!(said.contains("#/deadline") && said.contains("before the moment"), "{said}");
    let late = json!({"scheduled_at": "+PT2H", "deadline": "PT1H"});
    let said =
        world.post("jobs", json!({"type": "a", "args": [], "options": late})).await.expect(400).to_string();
    assert!(said.contains("options/deadline") || said.contains("options.deadline"), "{said}");
    let workflow = json!({"steps": [{"id": "a", "type": "t", "args": [], "options": {"deadline": "1999-01-01T00:00:00Z"}}]});
    let said = world.client.call("POST", "/v1/workflows").json(workflow).send().await.expect(400).to_string();
    assert!(said.contains("deadline"), "{said}");
}

#[tokio::test]
async fn a_repetition_of_a_request_whose_deadline_has_passed_meets_its_job() {
    let world = World::start().await;
    let at = world.server.clock.now() + std::time::Duration::from_secs(5);
    let mut body = job_on(ROADS[0], "deadline", json!(forgerun_wire::time::millis(at)));
    body["idempotency_key"] = json!("k");
    let (_, id) = submit(&world, ROADS[0], body.clone()).await;
    world.server.clock.advance(std::time::Duration::from_secs(6));
    let (again, met) = submit(&world, ROADS[0], body.clone()).await;
    again.expect(202);
    assert_eq!(met, id);
    body["idempotency_key"] = json!("other");
    submit(&world, ROADS[0], body).await.0.expect(400);
}

#[tokio::test]
async fn jobs_of_a_schedule_count_their_deadline_from_their_run() {
    let world = World::start().await;
    let schedule = async |deadline: &str| {
        let job = json!({"type": "EXECUTE", "job_type": "a", "deadline": deadline, "tags": ["nightly"]});
        let body = json!({"name": "n", "cron": "@yearly", "job": job});
        world.client.call("POST", "/v1/schedules").json(body).send().await
    };
    let said = schedule("2099-12-31T23:59:59Z").await.expect(400).to_string();
    assert!(said.contains("#/job/deadline") && said.contains("counted from each run"), "{said}");
    let cron =
        json!({"name": "n", "cron": "@yearly", "type": "a", "options": {"deadline": "2099-12-31T23:59:59Z"}});
    let said = world.post("cron", cron).await.expect(400).to_string();
    assert!(said.contains("counted from each run"), "{said}");
    schedule("1h").await.expect(201);
    world.server.clock.advance(std::time::Duration::from_secs(3 * 3600));
    world.client.call("POST", "/v1/schedules/n/trigger").send().await.expect(202);
    let job = &world.client.get("/v1/jobs?tag=nightly").await.expect(200)["jobs"][0];
    let at = |name: &str| forgerun_wire::time::parse(job[name].as_str().unwrap()).unwrap();
    assert_eq!(at("deadline").since(at("created_at")).as_secs(), 3600, "{job}");
}

#[tokio::test]
async fn tags_are_taken_shown_and_found_on_v1_and_api_v1() {
    let world = World::with(&[("auth.admin_token", TOKEN)]).await;
    for path in &ROADS[..2] {
        let tags = json!(["eu", &path[1..3], "order:7"]);
        let (_, id) = submit(&world, path, job_on(path, "tags", tags.clone())).await;
        for road in ROADS {
            assert_eq!(view(&world, road, &id).await["tags"], tags, "{road}");
        }
        let own = format!("/v1/jobs?tag={}&tag=eu", &path[1..3]);
        let found = world.client.get(&own).await.expect(200);
        assert_eq!((found["jobs"].as_array().unwrap().len(), &found["jobs"][0]["job_id"]), (1, &json!(id)));
        let operator = format!("Bearer {TOKEN}");
        let detail = world.server.call("GET", &format!("/admin/v1/jobs/{id}"));
        let detail = detail.header("authorization", &operator).send().await.expect(200);
        assert_eq!((&detail["tags"], &detail["deadline"]), (&tags, &Value::Null));
        let many: Vec<String> = (0..17).map(|n| format!("t{n}")).collect();
        for (bad, place) in [
            (json!(many), "#/tags"),
            (json!("eu"), "#/tags"),
            (json!(["a", "B"]), "#/tags/1"),
            (json!([""]), "#/tags/0"),
            (json!(["a".repeat(65)]), "#/tags/0"),
            (json!(["a", "a"]), "#/tags/1"),
        ] {
            let (refused, _) = submit(&world, path, job_on(path, "tags", bad)).await;
            let said = refused.expect(400).to_string();
            assert!(said.contains(&format!("\"{place}\"")), "{path} {place}: {said}");
        }
        submit(&world, path, job_on(path, "tags", json!(many[..16]))).await.0.expect(202);
    }
}
