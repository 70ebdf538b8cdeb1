//! Fetch, ack, nack, progress: the life of a job in a worker's hands.

use super::*;

#[tokio::test]
async fn a_job_is_fetched_worked_and_done() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let job = world.fetch().await;
    assert_eq!((&job["id"], &job["state"], &job["attempt"]), (&json!(id), &json!("active"), &json!(1)));
    assert!(job["lease_token"].is_string() && job["started_at"].is_string());
    assert_eq!(job["worker_id"], "w-1");
    assert!(world.job(&id).await.get("lease_token").is_none(), "told only to who fetched it");
    let body = json!({"job_id": id, "lease_token": job["lease_token"], "result": {"n": 1}});
    let done = world.post("workers/ack", body).await.expect(200);
    assert_eq!(
        (&done["acknowledged"], &done["state"], &done["id"]),
        (&json!(true), &json!("completed"), &json!(id))
    );
    assert_eq!(done["job"]["result"], json!({"n": 1}));
    let job = world.job(&id).await;
    assert_eq!((&job["state"], &job["result"]), (&json!("completed"), &json!({"n": 1})));
    assert!(job["completed_at"].is_string() && job.get("error").is_none());
}

#[tokio::test]
async fn a_short_answer_is_given_to_whoever_prefers_it() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    world.fetch().await;
    let ack = call(&world.client, "POST", &format!("jobs/{id}/ack")).header("prefer", "return=minimal");
    let done = ack.send().await.expect(200);
    assert_eq!((&done["state"], done.get("job")), (&json!("completed"), None));
}

#[tokio::test]
async fn queues_are_looked_at_from_left_to_right_and_priorities_within() {
    let world = World::start().await;
    for (queue, priority) in [("low", 0), ("high", -5), ("high", 5)] {
        world.push(json!({"queue": queue, "priority": priority})).await;
    }
    let body = json!({"queues": ["high", "low"], "count": 3});
    let fetched = world.post("workers/fetch", body).await.expect(200);
    let jobs = fetched["jobs"].as_array().unwrap();
    let order: Vec<(&str, i64)> =
        jobs.iter().map(|job| (job["queue"].as_str().unwrap(), job["priority"].as_i64().unwrap())).collect();
    assert_eq!(order, [("high", 5), ("high", -5), ("low", 0)]);
}

#[tokio::test]
async fn a_waiting_fetch_gets_the_job_that_comes() {
    let world = World::start().await;
    let (job, id) = tokio::join!(world.fetch(), world.push(json!({})));
    assert_eq!(job["id"], id.as_str());
}

#[tokio::test]
async fn an_ended_job_can_be_neither_acked_nor_nacked_nor_cancelled() {
    let world = World::start().await;
    let (done, cancelled) = (world.push(json!({})).await, world.push(json!({"queue": "other"})).await);
    world.fetch().await;
    world.ack(&done).await.expect(200);
    let cancel = call(&world.client, "DELETE", &format!("jobs/{cancelled}")).send().await.expect(200);
    assert_eq!((&cancel["state"], &cancel["previous_state"]), (&json!("cancelled"), &json!("available")));
    assert!(cancel["cancelled_at"].is_string() && cancel["job"].get("completed_at").is_none());
    for (id, code) in [(&done, "JOB_ALREADY_COMPLETED"), (&cancelled, "JOB_ALREADY_CANCELLED")] {
        refused(&world.ack(id).await, 409, code, "conflict");
        refused(&world.nack(id, json!({"code": "x", "message": "y"})).await, 409, code, "conflict");
    }
    let delete = |id: &str| call(&world.client, "DELETE", &format!("jobs/{id}"));
    let body = refused(&delete(&done).send().await, 409, "INVALID_STATE_TRANSITION", "conflict");
    assert_eq!(body["details"]["current_state"], "completed");
    refused(&delete(&cancelled).send().await, 409, "JOB_ALREADY_CANCELLED", "conflict");
    let waiting = world.push(json!({"queue": "third"})).await;
    let body = refused(&world.ack(&waiting).await, 409, "INVALID_STATE_TRANSITION", "conflict");
    assert_eq!(body["details"]["current_state"], "available");
}

#[tokio::test]
async fn whoever_lost_the_lease_is_refused() {
    let world = World::start().await;
    let id = world.push(json!({"visibility_timeout_ms": 50})).await;
    let old = world.fetch().await;
    // Held for long: on a slow machine the second lease must not be lost too.
    let again = json!({"queues": ["default"], "worker_id": "w-1", "wait_ms": 20_000, "visibility_timeout_ms": 600_000});
    let new = world.post("workers/fetch", again).await.expect(200)["jobs"][0].clone();
    assert_eq!((&old["id"], &new["id"]), (&json!(id), &json!(id)));
    let lost = |answer: &Answer| {
        let body = refused(answer, 409, "INVALID_STATE_TRANSITION", "conflict");
        assert_eq!(body["details"]["reason"], "lease_lost");
    };
    let token = &old["lease_token"];
    lost(&world.post("workers/ack", json!({"job_id": id, "lease_token": token})).await);
    let error = json!({"code": "x", "message": "y"});
    lost(&world.post("workers/nack", json!({"job_id": id, "lease_token": token, "error": error})).await);
    lost(&world.post("workers/progress", json!({"job_id": id, "lease_token": token, "percentage": 5})).await);
    lost(&world.post("workers/ack", json!({"job_id": id, "lease_token": "nonsense"})).await);
    lost(&world.post("workers/ack", json!({"job_id": id, "worker_id": "somebody-else"})).await);
    let kept = call(&world.client, "PUT", &format!("jobs/{id}/result"))
        .header("lease-token", token.as_str().unwrap())
        .body("late")
        .send()
        .await;
    lost(&kept);
    let job = world.job(&id).await;
    assert_eq!(
        (&job["errors"][0]["type"], &job["errors"][0]["canonical_code"]),
        (&json!("visibility_timeout"), &json!("HANDLER_PANIC"))
    );
}

#[tokio::test]
async fn a_job_that_is_handed_back_did_not_count() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    world.fetch().await;
    let body = json!({"job_id": id, "requeue": true});
    let back = world.post("workers/nack", body).await.expect(200);
    assert_eq!((&back["state"], &back["attempt"]), (&json!("available"), &json!(0)));
    let job = world.fetch().await;
    assert_eq!((&job["attempt"], job.get("errors")), (&json!(1), None));
}

#[tokio::test]
async fn progress_is_told_in_both_shapes_and_never_goes_back() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    world.fetch().await;
    let path = format!("jobs/{id}/progress");
    let half = call(&world.client, "PUT", &path).body(r#"{"progress":0.5,"message":"half"}"#).send().await;
    assert_eq!(half.expect(200)["progress"], 0.5);
    let body = json!({"job_id": id, "percentage": 75});
    assert_eq!(world.post("workers/progress", body).await.expect(200)["percentage"], 75);
    let read = world.get(&path).await.expect(200);
    assert_eq!((&read["progress"], &read["message"]), (&json!(0.75), &json!("half")));
}

#[tokio::test]
async fn a_job_with_several_limits_waits_until_all_have_room() {
    let world = World::start().await;
    let limits = |keys: &[&str]| {
        let of = |key: &&str| json!({"key": key, "concurrency": 1, "rate": 100, "period": "minute"});
        json!({"limits": keys.iter().map(of).collect::<Vec<_>>()})
    };
    let first = world.push(limits(&["a"])).await;
    let both = world.push(limits(&["a", "b"])).await;
    let other = world.push(limits(&["b"])).await;
    let fetch = || world.post("workers/fetch", json!({"queues": ["default"], "count": 3}));
    let fetched = fetch().await.expect(200);
    let ids: Vec<&str> =
        fetched["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [&first, &other]);
    assert_eq!(world.get("rate-limits/b").await.expect(200)["active"], 1);
    world.ack(&first).await.expect(200);
    world.ack(&other).await.expect(200);
    let job = world.fetch().await;
    assert_eq!((&job["id"], job["limits"].as_array().unwrap().len()), (&json!(both), 2));
}

#[tokio::test]
async fn limits_that_contradict_each_other_are_refused_on_every_road() {
    let world = World::start().await;
    let post = |path: &str, body: &Value| world.client.call("POST", path).json(body.clone());
    let limit = |key: &str| json!({"key": key, "concurrency": 1});
    let five: Vec<Value> = ["a", "b", "c", "d", "e"].map(limit).into();
    for limits in [
        json!(five),
        json!([limit("a"), limit("a")]),
        json!([{"concurrency": 1}]),
        json!({}),
        json!([{"key": "a"}]),
    ] {
        for (path, body) in [
            ("/v1/jobs", json!({"job_type": "a.b", "limits": limits})),
            ("/api/v1/jobs", json!({"type": "a.b", "limits": limits})),
            ("/ojs/v1/jobs", json!({"type": "a.b", "args": [], "options": {"limits": limits}})),
        ] {
            let refused = post(path, &body).send().await.expect(400);
            assert!(refused.to_string().contains("limits"), "{refused}");
        }
    }
    let both = json!({"limits": [limit("a")], "rate_limit": limit("b")});
    let body = json!({"type": "a.b", "args": [], "options": both});
    post("/ojs/v1/jobs", &body).send().await.expect(400);
}

#[tokio::test]
async fn a_named_limit_holds_jobs_back_without_hiding_them() {
    let world = World::start().await;
    let limit = json!({"rate_limit": {"key": "k", "concurrency": 1}});
    let (first, second) = (world.push(limit.clone()).await, world.push(limit).await);
    let fetched = world.post("workers/fetch", json!({"queues": ["default"], "count": 2})).await.expect(200);
    assert_eq!(fetched["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(world.job(&second).await["state"], "available", "it is passed over, not delayed");
    let shown = world.get("rate-limits/k").await.expect(200);
    assert_eq!((&shown["key"], &shown["active"]), (&json!("k"), &json!(1)));
    world.ack(&first).await.expect(200);
    assert_eq!(world.fetch().await["id"], second.as_str());
}
