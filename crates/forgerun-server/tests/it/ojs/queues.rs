//! Queues: their numbers, pause and resume, bounds.

use super::*;

#[tokio::test]
async fn the_numbers_of_a_queue_are_exact_at_once() {
    let world = World::start().await;
    for n in 0..3 {
        world.push(json!({"priority": n})).await;
    }
    world.push(json!({"pending": true})).await;
    world.push(json!({"scheduled_at": "2099-01-01T00:00:00Z"})).await;
    let done = world.fetch().await["id"].as_str().unwrap().to_owned();
    world.ack(&done).await.expect(200);
    world.fetch().await;
    let stats = world.get("queues/default/stats").await.expect(200);
    let queue = &stats["queue"];
    let numbers = ["available", "active", "completed", "pending", "scheduled", "retryable", "discarded"];
    assert_eq!(numbers.map(|name| queue[name].as_u64().unwrap()), [1, 1, 1, 1, 1, 0, 0], "{stats}");
    assert_eq!((&stats["stats"]["depth"], &stats["stats"]["queue"]), (&json!(1), &json!("default")));
    assert_eq!(stats["stats"]["completed_last_hour"], 1);
    let sdk = call(&world.client, "GET", "queues/default/stats").header("ojs-version", "1.0").send().await;
    assert_eq!(sdk.expect(200)["queue"], "default", "a name for SDKs");
    let listed = world.get("queues").await.expect(200);
    assert_eq!(
        (&listed["queues"][0]["name"], &listed["pagination"]["total"]),
        (&json!("default"), &json!(1))
    );
    assert_eq!(world.get("queues/never-used/stats").await.expect(200)["queue"]["available"], 0);
}

#[tokio::test]
async fn a_paused_queue_takes_jobs_and_hands_none_out() {
    let world = World::start().await;
    let paused = world.post("queues/default/pause", json!({})).await.expect(200);
    assert_eq!((&paused["queue"]["paused"], &paused["status"]), (&json!(true), &json!("paused")));
    let id = world.push(json!({})).await;
    let other = world.server.client().await;
    push(&other, json!({})).await;
    let fetch = json!({"queues": ["default"]});
    assert_eq!(world.post("workers/fetch", fetch.clone()).await.expect(200), json!({"jobs": []}));
    let theirs = post(&other, "workers/fetch", fetch).await.expect(200);
    assert_eq!(theirs["jobs"].as_array().unwrap().len(), 1, "a pause concerns the client's own queue");
    let (job, _) = tokio::join!(world.fetch(), async {
        world.post("queues/default/resume", json!({})).await.expect(200)
    });
    assert_eq!(job["id"], id.as_str(), "a fetch that waits is woken");
}

#[tokio::test]
async fn a_pause_of_the_operator_is_lifted_by_the_operator_alone() {
    const ADMIN: &str = "the-operator-knows-this-secret-0123456789";
    let world = World::with(&[("auth.admin_token", ADMIN), ("auth.registration", "open")]).await;
    let operator = |word: &str| {
        let call = world.server.call("POST", &format!("/ojs/v1/queues/default/{word}"));
        call.header("authorization", &format!("Bearer {ADMIN}"))
    };
    operator("pause").send().await.expect(200);
    let id = world.push(json!({})).await;
    assert_eq!(world.get("queues").await.expect(200)["queues"][0]["paused"], true);
    assert_eq!(world.get("queues/default").await.expect(200)["queue"]["paused"], true);
    let still = world.post("queues/default/resume", json!({})).await.expect(200);
    assert_eq!(still["queue"]["paused"], true);
    let fetch = json!({"queues": ["default"]});
    assert_eq!(world.post("workers/fetch", fetch).await.expect(200), json!({"jobs": []}));
    operator("resume").send().await.expect(200);
    assert_eq!(world.fetch().await["id"], id.as_str());
}

#[tokio::test]
async fn a_strict_catalogue_refuses_jobs_for_a_paused_queue() {
    let world = World::with(&[("ojs.strict_catalog", "true")]).await;
    world.post("queues/default/pause", json!({})).await.expect(200);
    let answer = world.post("jobs", json!({"type": "a", "args": []})).await;
    let body = refused(&answer, 422, "QUEUE_PAUSED", "queue_paused");
    assert_eq!((&body["retryable"], &body["details"]["queue"]), (&json!(true), &json!("default")));
}

#[tokio::test]
async fn a_bound_on_waiting_jobs_is_429_with_the_depth() {
    let world = World::start().await;
    let config = call(&world.client, "PUT", "admin/queues/default/config");
    config.body(r#"{"backpressure":{"max_depth":1,"strategy":"reject"}}"#).send().await.expect(200);
    world.push(json!({})).await;
    let answer = world.post("jobs", json!({"type": "a", "args": []})).await;
    let body = refused(&answer, 429, "QUEUE_FULL", "QUEUE_FULL");
    assert_eq!((&body["details"]["depth"], &body["details"]["bound"]), (&json!(1), &json!(1)));
    assert_eq!(
        (answer.header("x-ojs-queue-depth"), answer.header("x-ojs-queue-bound")),
        (Some("1"), Some("1"))
    );
    assert_eq!(world.get("queues/default/stats").await.header("x-ojs-queue-pressure"), Some("critical"));
    let config = call(&world.client, "PUT", "admin/queues/default/config");
    for bad in
        [r#"{}"#, r#"{"backpressure":7}"#, r#"{"backpressure":{"max_depth":0}}"#, r#"{"max_active":"x"}"#]
    {
        refused(&config.clone().body(bad).send().await, 400, "INVALID_PAYLOAD", "invalid_request");
    }
    let block = config.body(r#"{"backpressure":{"max_depth":5,"strategy":"block"}}"#).send().await;
    refused(&block, 422, "UNSUPPORTED_FEATURE", "unsupported");
}

#[tokio::test]
async fn a_queue_that_is_no_name_is_refused() {
    let world = World::start().await;
    refused(&world.get("queues/Bad%20Queue/stats").await, 400, "INVALID_QUEUE", "invalid_request");
    let long = "q".repeat(256);
    refused(&world.get(&format!("queues/{long}")).await, 400, "QUEUE_NAME_TOO_LONG", "invalid_request");
}

#[tokio::test]
async fn every_list_turns_its_pages_in_both_ways() {
    let world = World::start().await;
    for n in 0..5 {
        world.push(json!({"queue": format!("q{n}")})).await;
        let cron = json!({"name": format!("c{n}"), "cron": "@daily", "type": "a.b"});
        world.post("cron", cron).await.expect(201);
        let beat = json!({"worker_id": format!("w{n}"), "active_jobs": []});
        world.post("workers/heartbeat", beat).await.expect(200);
        let step = json!({"type": "chain", "steps": [{"type": "a.b", "args": []}]});
        world.post("workflows", step).await.expect(201);
    }
    for list in ["queues", "cron", "workers", "workflows"] {
        let member = if list == "cron" { "crons" } else { list };
        let all = world.get(list).await.expect(200);
        let all = all[member].as_array().unwrap().clone();
        let n = all.len();
        assert!(n >= 5, "{list}");
        for (query, offset) in [
            ("limit=2", 0),
            ("per_page=2", 0),
            ("page=1&per_page=2", 0),
            ("page=2&per_page=2", 2),
            ("limit=2&offset=2", 2),
            ("page=3&per_page=2", 4),
        ] {
            let answer = world.get(&format!("{list}?{query}")).await.expect(200);
            let shown: Vec<Value> = all.iter().skip(offset).take(2).cloned().collect();
            assert_eq!(names(&answer[member]), names(&json!(shown)), "{list}?{query}");
            let page = &answer["pagination"];
            assert_eq!((&page["per_page"], &page["page"]), (&json!(2), &json!(offset / 2 + 1)), "{page}");
            assert_eq!(
                (&page["offset"], &page["has_more"]),
                (&json!(offset), &json!(offset + 2 < n)),
                "{page}"
            );
            let total = page["total"].as_u64().unwrap() as usize;
            match page["total_is_minimum"].as_bool() {
                None => assert_eq!(total, n, "{list}?{query}: {page}"),
                Some(_) => assert!(total > offset + 2 && total <= n, "{list}?{query}: {page}"),
            }
        }
        assert_eq!(
            world.get(&format!("{list}?per_page=0")).await.expect(400)["details"]["field"],
            "per_page"
        );
    }
}

/// What the entries of a list are known by.
fn names(list: &Value) -> Vec<Value> {
    let name = |entry: &Value| entry.get("name").filter(|name| *name != "").unwrap_or(&entry["id"]).clone();
    list.as_array().unwrap().iter().map(name).collect()
}
