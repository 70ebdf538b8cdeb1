//! What operators and OJS's own tools ask for: lists, bulk calls, queues, workers, tenants, numbers.

use super::*;

async fn send(world: &World, method: &str, path: &str, body: Value) -> Answer {
    call(&world.client, method, path).body(body.to_string()).send().await
}

/// Ends the next job of `default` without a retry.
async fn discard(world: &World, id: &str) {
    world.fetch().await;
    let error = json!({"code": "x", "message": "m", "retryable": false});
    world.nack(id, error).await.expect(200);
}

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn jobs_are_listed_by_state_queue_and_type() {
    let world = World::start().await;
    let waiting = world.push(json!({})).await;
    let other = world.push(json!({"queue": "other"})).await;
    let later = world.push(json!({"delay_until": "+PT1H"})).await;
    world.post("workflows", json!({"type": "chain", "steps": [{"type": "step.one", "args": []}]})).await;
    for (query, expected) in [
        ("jobs?type=test.*", vec![&later, &other, &waiting]),
        ("admin/jobs?state=scheduled", vec![&later]),
        ("jobs?queue=other&sort=created_at&unheard=of", vec![&other]),
        ("jobs?type=test.echo&state=available,scheduled&per_page=1&page=2", vec![&other]),
        ("jobs?state=completed", vec![]),
        ("jobs?until=2001-01-01T00:00:00Z", vec![]),
    ] {
        assert_eq!(ids(&world.get(query).await.expect(200)), expected, "{query}");
    }
    let page = world.get("jobs?limit=1&state=available").await.expect(200);
    assert_eq!((&page["jobs"], page["pagination"]["has_more"].as_bool()), (&page["items"], Some(true)));
    let all = world.get("jobs").await.expect(200);
    assert!(all["total"].as_u64() >= Some(4), "{all}");
    refused(&world.get("jobs?state=dancing").await, 400, "INVALID_ARGS", "invalid_request");
    refused(&world.get("jobs?since=yesterday").await, 400, "INVALID_PAYLOAD", "invalid_payload");
    let stranger = world.server.client().await;
    assert_eq!(stranger.get("/ojs/v1/jobs").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn jobs_are_changed_in_bulk_by_their_ids_or_by_a_filter() {
    let world = World::start().await;
    let (one, two) = (world.push(json!({})).await, world.push(json!({"queue": "q"})).await);
    let stranger = world.server.client().await;
    let foreign = push(&stranger, json!({})).await;
    let chosen = json!({"job_ids": [one, foreign, "nonsense"]});
    let cancelled = world.post("jobs/bulk/cancel", chosen.clone()).await.expect(200);
    assert_eq!((&cancelled["cancelled"], &cancelled["failed"]), (&json!(1), &json!(2)), "{cancelled}");
    let statuses: Vec<&Value> =
        cancelled["items"].as_array().unwrap().iter().map(|item| &item["status"]).collect();
    assert_eq!(statuses, ["cancelled", "skipped", "skipped"]);
    assert_eq!(world.job(&one).await["state"], "cancelled");
    assert_eq!(
        stranger.get(&format!("/ojs/v1/jobs/{foreign}")).await.expect(200)["job"]["state"],
        "available"
    );
    let again = world.post("jobs/bulk/cancel", chosen).await.expect(200);
    assert_eq!((&again["cancelled"], &again["skipped"]), (&json!(0), &json!(3)));
    let by_queue = json!({"filter": {"queue": "q"}, "confirm": true});
    let cancelled = world.post("admin/jobs/bulk/cancel", by_queue.clone()).await.expect(200);
    assert_eq!((&cancelled["matched"], &cancelled["cancelled"]), (&json!(1), &json!(1)));
    let deleted = world.post("admin/jobs/bulk/delete", by_queue).await.expect(200);
    assert_eq!(deleted["deleted"], 1);
    assert_eq!(world.get(&format!("jobs/{two}")).await.status, 404);
    let last = world.push(json!({})).await;
    let kept = world.post("jobs/bulk/delete", json!({"job_ids": [last]})).await.expect(200);
    assert_eq!((&kept["deleted"], &kept["failed"]), (&json!(0), &json!(1)), "it has not ended");
    discard(&world, &last).await;
    let retried = world.post("jobs/bulk/retry", json!({"job_ids": [last]})).await.expect(200);
    assert_eq!(retried["retried"], 1);
    assert_eq!(world.job(&last).await["state"], "available");
    for wrong in [
        json!({}),
        json!({"job_ids": [last], "filter": {"queue": "q"}}),
        json!({"filter": {}}),
        json!({"filter": {"state": "completed"}}),
        json!({"filter": {"older_than": "long ago"}}),
    ] {
        assert_eq!(world.post("jobs/bulk/cancel", wrong.clone()).await.status, 400, "{wrong}");
    }
    let many: Vec<String> = (0..1001).map(|n| n.to_string()).collect();
    let too_many = world.post("jobs/bulk/cancel", json!({"job_ids": many})).await;
    assert_eq!(too_many.status, 413, "{}", too_many.text());
    let unconfirmed = world.post("admin/jobs/bulk/cancel", json!({"filter": {"queue": "q"}})).await;
    assert_eq!(unconfirmed.expect(400)["details"]["field"], "confirm");
}

#[tokio::test]
async fn a_discarded_job_is_retried_by_itself_and_its_attempts_are_listed() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let retry = |id: &str| format!("admin/jobs/{id}/retry");
    refused(&world.post(&retry(&id), json!({})).await, 409, "INVALID_STATE_TRANSITION", "conflict");
    discard(&world, &id).await;
    let attempts = world.get(&format!("jobs/{id}/retries")).await.expect(200);
    assert_eq!(
        (&attempts["retries"][0]["error"], &attempts["policy"]["max_attempts"]),
        (&json!("m"), &json!(3))
    );
    let retried = world.post(&retry(&id), json!({})).await.expect(200);
    assert_eq!(
        (&retried["job"]["state"], &retried["job"]["previous_state"]),
        (&json!("available"), &json!("discarded"))
    );
    let priority = send(&world, "PATCH", &format!("jobs/{id}"), json!({"priority": 9})).await;
    refused(&priority, 422, "UNSUPPORTED_FEATURE", "unsupported");
    let cancelled = world.post(&format!("admin/jobs/{id}/cancel"), json!({})).await.expect(200);
    assert_eq!(cancelled["job"]["previous_state"], "available");
}

#[tokio::test]
async fn dead_letters_are_retried_and_deleted_together() {
    let world = World::start().await;
    let mut dead = Vec::new();
    for _ in 0..3 {
        dead.push(world.push(json!({"retry": {"on_exhaustion": "dead_letter"}})).await);
        discard(&world, dead.last().unwrap()).await;
    }
    let stats = world.get("dead-letter/stats").await.expect(200);
    assert_eq!((&stats["by_queue"], &stats["by_type"]), (&json!({"default": 3}), &json!({"test.echo": 3})));
    assert_eq!(world.get(&format!("dead-letter/{}", dead[0])).await.expect(200)["job"]["id"], dead[0]);
    assert_eq!(world.get("dead-letter?type=other.type").await.expect(200)["jobs"], json!([]));
    assert_eq!(send(&world, "DELETE", "dead-letter", json!({})).await.status, 400, "it is not confirmed");
    let old = world.post("dead-letter/purge?older_than=7d", json!({})).await.expect(200);
    assert_eq!(old["deleted"], 0, "none is so old");
    let retried = world.post("dead-letter/retry", json!({"filter": {"type": "test.echo"}})).await.expect(200);
    assert_eq!(retried["retried"], 3);
    discard(&world, &dead[0]).await;
    let gone = send(&world, "DELETE", "dead-letter", json!({"confirm": true})).await.expect(200);
    assert_eq!(gone["deleted"], 1);
    assert_eq!(world.get(&format!("dead-letter/{}", dead[0])).await.status, 404);
}

#[tokio::test]
async fn a_queue_is_set_up_shown_emptied_and_deleted() {
    let world = World::start().await;
    let made =
        world.post("queues", json!({"name": "mail", "concurrency": 2, "max_size": 9})).await.expect(201);
    assert_eq!(made["name"], "mail");
    world.post("queues", json!({"name": "mail"})).await.expect(200);
    refused(&world.post("queues", json!({"name": "No Name"})).await, 400, "INVALID_QUEUE", "invalid_request");
    let shown = world.get("admin/queues/mail").await.expect(200);
    assert_eq!((&shown["state"], &shown["counts"]["available"]), (&json!("active"), &json!(0)));
    assert_eq!(shown["configuration"]["concurrency"], 2);
    assert_eq!(shown["configuration"]["backpressure"]["threshold"], 9);
    let id = world.push(json!({"queue": "mail", "priority": 5})).await;
    let priorities = world.get("queues/mail/priority-stats").await.expect(200);
    assert_eq!(priorities["distribution"], json!([{"priority": 5, "count": 1}]));
    let open = send(&world, "DELETE", "queues/mail", json!({})).await;
    assert_eq!(refused(&open, 409, "INVALID_STATE_TRANSITION", "conflict")["details"]["open_jobs"], 1);
    send(&world, "DELETE", &format!("jobs/{id}"), json!({})).await.expect(200);
    assert_eq!(
        world.post("queues/mail/purge", json!({"states": ["completed"]})).await.expect(200)["deleted"],
        0
    );
    assert_eq!(world.post("queues/mail/purge", json!({"states": ["active"]})).await.status, 400);
    let purge = json!({"states": ["cancelled"], "confirm": true});
    assert_eq!(send(&world, "DELETE", "admin/queues/mail/jobs", purge).await.expect(200)["deleted"], 1);
    assert_eq!(send(&world, "DELETE", "queues/mail", json!({})).await.expect(200)["deleted"], true);
    let left: Value = world.get("queues").await.expect(200)["queues"].clone();
    assert!(left.as_array().unwrap().iter().all(|queue| queue["name"] != "mail"), "{left}");
}

#[tokio::test]
async fn the_queue_of_workflows_is_hidden_and_takes_no_jobs() {
    let world = World::start().await;
    world.post("workflows", json!({"type": "chain", "steps": [{"type": "a", "args": []}]})).await.expect(201);
    let queues = world.get("queues").await.expect(200);
    let names: Vec<&Value> =
        queues["queues"].as_array().unwrap().iter().map(|queue| &queue["name"]).collect();
    assert_eq!(names, ["default"]);
    let foreign = json!({"type": "a", "args": [], "options": {"queue": "forgerun.workflows"}});
    refused(&world.post("jobs", foreign).await, 400, "INVALID_QUEUE", "invalid_request");
}

#[tokio::test]
async fn workers_are_shown_directed_and_forgotten() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    for name in ["w-1", "w-2"] {
        world.post("workers/heartbeat", json!({"worker_id": name})).await.expect(200);
    }
    world.fetch().await;
    let shown = world.get("admin/workers/w-1").await.expect(200);
    assert!(shown.as_object().unwrap().values().all(|value| !value.is_null()), "{shown}");
    let busy = send(&world, "DELETE", "admin/workers/w-1", json!({})).await;
    refused(&busy, 409, "INVALID_STATE_TRANSITION", "conflict");
    world.ack(&id).await.expect(200);
    for name in ["w-1", "w-2"] {
        send(&world, "DELETE", &format!("admin/workers/{name}"), json!({})).await.expect(200);
        assert_eq!(send(&world, "DELETE", &format!("admin/workers/{name}"), json!({})).await.status, 404);
    }
    world.post("workers/heartbeat", json!({"worker_id": "w-3"})).await.expect(200);
    let told = world.post("admin/workers/directive", json!({"directive": "quiet"})).await.expect(200);
    assert_eq!((&told["directive"], &told["workers"]), (&json!("quiet"), &json!(1)));
    assert_eq!(world.get("workers/w-3").await.expect(200)["directive"], "quiet");
    world.post("admin/workers/directive", json!({"directive": "resume"})).await.expect(200);
    assert_eq!(world.get("workers/w-3").await.expect(200)["directive"], "running");
    assert_eq!(world.post("admin/workers/directive", json!({"directive": "dance"})).await.status, 400);
}

#[tokio::test]
async fn tenants_limits_and_runs_of_a_schedule_are_listed() {
    let world = World::start().await;
    let body = json!({"type": "a", "args": [], "options": {"rate_limit": {"key": "k", "concurrency": 1}}});
    call(&world.client, "POST", "jobs")
        .header("x-ojs-tenant", "acme")
        .body(body.to_string())
        .send()
        .await
        .expect(201);
    world.post("jobs", body).await.expect(201);
    let tenants = world.get("admin/tenants").await.expect(200);
    assert_eq!((&tenants["items"][0]["id"], &tenants["pagination"]["total"]), (&json!("acme"), &json!(1)));
    assert_eq!(world.get("admin/tenants/acme/jobs").await.expect(200)["items"].as_array().unwrap().len(), 1);
    assert_eq!(world.get("rate-limits").await.expect(200)["rate_limits"], json!([]), "none is in use");
    world.fetch().await;
    let limits = world.get("rate-limits").await.expect(200);
    assert_eq!((&limits["items"][0]["key"], &limits["items"][0]["active"]), (&json!("k"), &json!(1)));
    let override_of = json!({"concurrency": 4});
    refused(
        &send(&world, "PUT", "rate-limits/k", override_of).await,
        422,
        "UNSUPPORTED_FEATURE",
        "unsupported",
    );
    world.post("cron", json!({"name": "c", "cron": "@daily", "type": "a.b"})).await.expect(201);
    let made = world.post("cron/c/trigger", json!({})).await.expect(201);
    let runs = world.get("cron/c/history").await.expect(200);
    assert_eq!(runs["executions"][0]["job_id"], made["job"]["id"]);
    assert_eq!(world.get("crons").await.expect(200)["items"][0]["id"], "c");
    let unique = json!({"unique": {"keys": ["type"]}});
    let holder = world.push(unique).await;
    assert_eq!(world.get("unique-jobs").await.expect(200)["items"][0]["job_id"], holder.as_str());
}

#[tokio::test]
async fn a_schedule_is_changed_in_part() {
    let world = World::start().await;
    let body = json!({"name": "c", "cron": "0 3 * * *", "timezone": "Europe/Berlin", "type": "a.b",
        "args": [1], "meta": {"by": "me"}, "options": {"queue": "old", "priority": 4}});
    world.post("cron", body).await.expect(201);
    send(&world, "PATCH", "cron/c", json!({"enabled": false})).await.expect(200);
    let change = json!({"expression": "0 4 * * *", "job_template": {"options": {"queue": "new"}}});
    send(&world, "PATCH", "cron/c", change).await.expect(200);
    let cron = world.get("cron/c").await.expect(200)["cron"].clone();
    assert_eq!((&cron["cron"], &cron["timezone"]), (&json!("0 4 * * *"), &json!("Europe/Berlin")));
    assert_eq!(
        (&cron["type"], &cron["args"], &cron["meta"]),
        (&json!("a.b"), &json!([1]), &json!({"by": "me"}))
    );
    assert_eq!(cron["options"], json!({"queue": "new", "priority": 4}));
    assert_eq!(cron["enabled"], false, "it stays paused");
    let wrong = send(&world, "PATCH", "cron/c", json!({"expression": "never"})).await;
    refused(&wrong, 400, "INVALID_CRON_EXPRESSION", "invalid_request");
    assert_eq!(send(&world, "PATCH", "cron/none", json!({"expression": "@daily"})).await.status, 404);
}

#[tokio::test]
async fn numbers_of_the_caller_are_told_over_time_and_as_metrics() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    world.fetch().await;
    world.ack(&id).await.expect(200);
    let history = world.get("admin/stats/history?period=1m&since=1h").await.expect(200);
    let total = |name: &str| -> u64 {
        history["data"].as_array().unwrap().iter().map(|period| period[name].as_u64().unwrap()).sum()
    };
    assert_eq!((total("enqueued"), total("processed"), total("failed")), (1, 1, 0), "{history}");
    assert_eq!(world.get("admin/stats/history?period=2m").await.status, 400);
    assert_eq!(world.get("metrics").await.expect(200)["jobs_completed_total"], 1);
    let text = world.get("metrics?format=prometheus").await;
    assert!(text.text().contains("ojs_jobs_completed_total 1"), "{}", text.text());
    let dispatched = world.get("admin/scheduling/stats").await.expect(200);
    assert_eq!(dispatched["stats"]["queues"][0]["dispatched"], 1);
    assert_eq!(world.get("admin/system/maintenance").await.expect(200)["enabled"], false);
    world.post("admin/maintenance", json!({"enabled": false})).await.expect(200);
    let begun = world.post("admin/system/maintenance", json!({"enabled": true})).await;
    refused(&begun, 422, "UNSUPPORTED_FEATURE", "unsupported");
    assert!(world.get("admin/config").await.expect(200)["payload_limits"].is_object());
    assert_eq!(world.get("middleware").await.expect(200), json!({"enqueue": [], "execution": []}));
    assert_eq!(world.get("admin/pools").await.expect(200)["pools"], json!([]));
}

#[tokio::test]
async fn progress_is_clamped_complete_at_the_end_and_ignored_afterwards() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let path = format!("jobs/{id}/progress");
    assert_eq!(world.get(&path).await.expect(200)["progress"], json!(null));
    let early = send(&world, "PUT", &path, json!({"progress": 0.5})).await.expect(200);
    assert_eq!((&early["acknowledged"], &early["progress"]), (&json!(false), &json!(null)));
    world.fetch().await;
    send(&world, "PUT", &path, json!({"progress": 0.4})).await.expect(200);
    let agent =
        world.post(&format!("agents/{id}/pause"), json!({"reason": "a person looks"})).await.expect(200);
    assert_eq!(agent["state"], "paused");
    let agent = world.post(&format!("agents/{id}/resume"), json!({"approved": true})).await.expect(200);
    assert_eq!(agent["state"], "running");
    world.ack(&id).await.expect(200);
    assert_eq!(world.get(&path).await.expect(200)["progress"], 1.0);
    let late = send(&world, "PUT", &path, json!({"progress": 0.7})).await.expect(200);
    assert_eq!((&late["acknowledged"], &late["progress"]), (&json!(false), &json!(1.0)));
}

#[tokio::test]
async fn a_submitted_job_is_shown_within_and_at_the_top() {
    let world = World::start().await;
    let answer = world.post("jobs", json!({"type": "a", "args": [1]})).await.expect(201);
    for name in ["id", "type", "state", "args"] {
        assert_eq!(answer[name], answer["job"][name], "{name}");
    }
}
