//! What follows a failure: the policy, the handler's word, and dead letters.

use std::time::Duration;

use super::*;

fn policy(attempts: u32) -> Value {
    json!({"max_attempts": attempts, "initial_interval": "PT0.05S", "jitter": false, "on_exhaustion": "dead_letter"})
}

#[tokio::test]
async fn a_failed_attempt_is_tried_again_after_its_wait_until_the_budget_is_spent() {
    let world = World::start().await;
    let id = world.push(json!({"retry": policy(2)})).await;
    world.fetch().await;
    let error = json!({"code": "handler_error", "message": "boom", "details": {"error_class": "Net.Reset"}});
    let failed = world.nack(&id, error.clone()).await.expect(200);
    assert_eq!(
        (&failed["state"], &failed["attempt"], &failed["retry_delay_ms"]),
        (&json!("retryable"), &json!(1), &json!(50))
    );
    assert!(failed["next_attempt_at"].is_string());
    let job = world.fetch().await;
    assert_eq!((&job["attempt"], &job["retry_delay_ms"]), (&json!(2), &json!(50)));
    let last = world.nack(&id, error).await.expect(200);
    assert_eq!(
        (&last["state"], &last["attempt"], &last["max_attempts"]),
        (&json!("discarded"), &json!(2), &json!(2))
    );
    assert!(last["completed_at"].is_string() && last["discarded_at"].is_string());
    let job = world.job(&id).await;
    assert!(job["dead_lettered_at"].is_string());
    let errors = job["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 2);
    for (n, error) in errors.iter().enumerate() {
        assert_eq!((&error["attempt"], &error["code"]), (&json!(n + 1), &json!("handler_error")));
        assert_eq!((&error["type"], &error["message"]), (&json!("Net.Reset"), &json!("boom")));
        assert!(error["occurred_at"].is_string() && error["details"].is_object());
    }
}

/// The word, whether the job ends, whether it is a dead letter.
#[tokio::test]
async fn the_handlers_word_goes_before_the_policy() {
    let world = World::start().await;
    for (error, state, dead) in [
        (json!({"code": "RETRY", "message": "m", "retryable": false}), "retryable", false),
        (json!({"code": "DISCARD", "message": "m"}), "discarded", false),
        (json!({"code": "FAIL", "message": "m"}), "discarded", false),
        (json!({"code": "DEAD_LETTER", "message": "m"}), "discarded", true),
        (json!({"code": "ACK"}), "completed", false),
        (json!({"code": "x", "message": "m", "retryable": false}), "discarded", true),
        (json!({"code": "x", "message": "m", "type": "Auth.Expired"}), "discarded", true),
        (json!({"code": "x", "message": "m", "type": "Author"}), "retryable", false),
        (json!({"code": "x"}), "retryable", false),
    ] {
        let mut retry = policy(5);
        retry["initial_interval"] = json!("PT1H");
        retry["non_retryable_errors"] = json!(["Auth.*"]);
        let id = world.push(json!({"retry": retry})).await;
        world.fetch().await;
        let answered = world.nack(&id, error.clone()).await.expect(200);
        assert_eq!(answered["state"], state, "{error}");
        assert_eq!(world.job(&id).await.get("dead_lettered_at").is_some(), dead, "{error}");
    }
}

#[tokio::test]
async fn a_listed_error_is_final_under_its_canonical_code() {
    let world = World::start().await;
    let id = world.push(json!({"retry": {"non_retryable_errors": ["Fatal"]}})).await;
    world.fetch().await;
    world.nack(&id, json!({"code": "handler_error", "type": "Fatal", "message": "no"})).await.expect(200);
    let job = world.job(&id).await;
    assert_eq!(
        (&job["error"]["canonical_code"], &job["error"]["retryable"]),
        (&json!("NON_RETRYABLE_ERROR"), &json!(false))
    );
}

#[tokio::test]
async fn a_policy_is_shown_in_full_with_ojs_defaults() {
    let world = World::start().await;
    let id = world.push(json!({"retry": {"max_attempts": 7, "multiplier": 3}})).await;
    let retry = world.job(&id).await["retry"].clone();
    assert_eq!((&retry["max_attempts"], &retry["multiplier"]), (&json!(7), &json!(3)));
    assert_eq!((&retry["initial_interval"], &retry["max_interval"]), (&json!("PT1S"), &json!("PT5M")));
    assert_eq!((&retry["backoff_coefficient"], &retry["jitter"]), (&json!(3.0), &json!(true)));
    assert_eq!(world.job(&world.push(json!({})).await).await["max_attempts"], 3);
}

#[tokio::test]
async fn the_stored_failure_is_the_same_on_every_road() {
    let world = World::start().await;
    let id = world.push(json!({"retry": {"max_attempts": 1}})).await;
    world.fetch().await;
    world.nack(&id, json!({"code": "handler_error", "message": "the disk is full"})).await.expect(200);
    let problem = |path: String| {
        let call = world.client.call("GET", &path).header("accept", "application/problem+json");
        async move { call.send().await.body }
    };
    let one = problem(format!("/v1/jobs/{id}")).await;
    assert_eq!(one, problem(format!("/api/v1/jobs/{id}")).await);
    let object: Value = serde_json::from_slice(&one).unwrap();
    assert_eq!((&object["code"], &object["message"]), (&json!("HANDLER_ERROR"), &json!("the disk is full")));
}

#[tokio::test]
async fn a_dead_letter_that_is_retried_after_it_expired_waits_for_a_worker() {
    let world = World::start().await;
    let options = json!({"expires_at": "+PT5S", "retry": policy(1)});
    for (road, body) in [
        ("dead-letter/{id}/retry", json!({})),
        ("admin/jobs/bulk/retry", json!({"filter": {"state": "discarded"}, "confirm": true})),
    ] {
        let id = world.push(options.clone()).await;
        assert!(world.fetch().await["expires_at"].is_string());
        world.nack(&id, json!({"code": "x", "message": "m"})).await.expect(200);
        world.server.clock.advance(Duration::from_secs(6));
        world.post(&road.replace("{id}", &id), body).await.expect(200);
        world.server.clock.advance(Duration::from_secs(6));
        let job = world.fetch().await;
        assert_eq!((job["id"].as_str(), job.get("expires_at")), (Some(id.as_str()), None), "{road}");
        world.ack(&id).await.expect(200);
    }
}

#[tokio::test]
async fn a_dead_letter_is_listed_retried_and_deleted() {
    let world = World::start().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(world.push(json!({"retry": policy(1)})).await);
        world.fetch().await;
        world.nack(ids.last().unwrap(), json!({"code": "x", "message": "m"})).await.expect(200);
    }
    let listed = world.get("dead-letter?limit=2").await.expect(200);
    assert_eq!(
        (listed["jobs"].as_array().unwrap().len(), &listed["pagination"]["has_more"]),
        (2, &json!(true))
    );
    assert!(listed["jobs"][0]["errors"].is_array());
    assert_eq!(listed["pagination"]["total"], 3);
    assert!(listed["pagination"].get("total_is_minimum").is_none(), "{listed}");
    let cursor = listed["pagination"]["next_cursor"].as_str().unwrap();
    let rest = world.get(&format!("dead-letter?limit=2&cursor={cursor}")).await.expect(200);
    assert_eq!((rest["jobs"].as_array().unwrap().len(), &rest["pagination"]["total"]), (1, &json!(3)));
    let second = world.get("dead-letter?page=2&per_page=2").await.expect(200);
    assert_eq!(second["jobs"], rest["jobs"]);
    let retried = world.post(&format!("dead-letter/{}/retry", ids[0]), json!({})).await.expect(200);
    assert_eq!((&retried["job"]["state"], &retried["job"]["attempt"]), (&json!("available"), &json!(0)));
    assert!(
        retried["job"].get("error").is_none() && retried["job"].get("completed_at").is_none(),
        "{retried}"
    );
    let delete = |id: &str| call(&world.client, "DELETE", &format!("dead-letter/{id}"));
    assert_eq!(delete(&ids[1]).send().await.expect(200), json!({"deleted": true, "job_id": ids[1]}));
    refused(&delete(&ids[1]).send().await, 404, "NOT_FOUND", "not_found");
    refused(&delete(&ids[0]).send().await, 404, "NOT_FOUND", "not_found");
    let left = world.get("dead-letter").await.expect(200);
    assert_eq!(left["jobs"][0]["id"], ids[2].as_str());
    let other = world.server.client().await;
    assert_eq!(other.get("/ojs/v1/dead-letter").await.expect(200)["jobs"], json!([]));
}

#[tokio::test]
async fn dead_letters_are_tried_again_together_by_whoever_owns_them_and_means_it() {
    let world = World::start().await;
    for queue in ["default", "default", "other"] {
        let id = world.push(json!({"retry": policy(1), "queue": queue})).await;
        world.post("workers/fetch", json!({"queues": [queue], "worker_id": "w"})).await.expect(200);
        world.nack(&id, json!({"code": "x", "message": "m"})).await.expect(200);
    }
    let stats = world.get("admin/stats").await.expect(200);
    assert_eq!((&stats["jobs"]["discarded"], &stats["jobs"]["available"]), (&json!(3), &json!(0)));
    assert_eq!(stats["queues"], 2);
    let bulk = "admin/jobs/bulk/retry";
    for wrong in [
        json!({"filter": {"state": "discarded"}}),
        json!({"filter": {"state": "discarded"}, "confirm": false}),
        json!({"filter": {"state": "active"}, "confirm": true}),
        json!({"filter": {"queue": "Not A Name"}, "confirm": true}),
        json!({"filter": {}, "confirm": true}),
        json!({"filter": null, "confirm": true}),
        json!({"confirm": true}),
    ] {
        assert_eq!(world.post(bulk, wrong.clone()).await.status, 400, "{wrong}");
    }
    // A filter that is passed over would choose all.
    for name in ["job_type", "error_code", "ids", "queues"] {
        let within = json!({"filter": {"state": "discarded", name: "x"}, "confirm": true});
        let body = world.post(bulk, within).await.expect(400);
        assert_eq!(body["details"]["field"], format!("filter.{name}"), "{body}");
        assert!(body["message"].as_str().unwrap().contains("state, queue, type"), "{body}");
        let beside = json!({"filter": {"state": "discarded"}, name: "x", "confirm": true});
        assert_eq!(world.post(bulk, beside).await.expect(400)["details"]["field"], name);
    }
    assert_eq!(world.get("admin/stats").await.expect(200)["jobs"]["available"], 0, "none was tried again");
    let stranger = world.server.client().await;
    let confirmed = json!({"filter": {"state": "discarded", "queue": "default"}, "confirm": true});
    let of_stranger = call(&stranger, "POST", bulk).json(confirmed.clone()).send().await.expect(200);
    assert_eq!(of_stranger["matched"], 0);
    let retried = world.post(bulk, confirmed).await.expect(200);
    for (name, value) in [("matched", 2), ("retried", 2), ("succeeded", 2), ("failed", 0)] {
        assert_eq!(retried[name], value, "{retried}");
    }
    assert_eq!(retried["has_more"], false);
    let stats = world.get("admin/stats").await.expect(200);
    assert_eq!((&stats["jobs"]["discarded"], &stats["jobs"]["available"]), (&json!(1), &json!(2)));
}
