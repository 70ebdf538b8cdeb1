//! Workers as such: heartbeats, the list, what they are told.

use super::*;

#[tokio::test]
async fn a_heartbeat_extends_what_is_held_and_nothing_else() {
    let world = World::start().await;
    let id = world.push(json!({"visibility_timeout_ms": 60_000})).await;
    let job = world.fetch().await;
    let nobody = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
    let tokens = json!({id.clone(): job["lease_token"]});
    let body = json!({"worker_id": "w-1", "active_jobs": [id, nobody, "junk"], "lease_tokens": tokens,
        "visibility_timeout_ms": 3_600_000});
    let beaten = world.post("workers/heartbeat", body).await.expect(200);
    assert_eq!((&beaten["acknowledged"], &beaten["state"]), (&json!(true), &json!("running")));
    assert_eq!(beaten["jobs_extended"], json!([id]));
    let after = world.job(&id).await;
    assert!(after["lease_expires_at"].as_str() > job["lease_expires_at"].as_str());
    let beat = json!({"worker_id": "w-1", "active_jobs": 1, "active_job_ids": [id]});
    let other = world.post("workers/beat", beat).await.expect(200);
    assert_eq!(other["jobs_extended"], json!([id]), "the other dialect");
    call(&world.client, "DELETE", &format!("jobs/{id}")).send().await.expect(200);
    let told =
        world.post("workers/heartbeat", json!({"worker_id": "w-1", "active_jobs": [id]})).await.expect(200);
    assert_eq!((&told["cancelled_jobs"], &told["jobs_extended"]), (&json!([id]), &json!([])));
}

#[tokio::test]
async fn a_worker_that_is_told_to_be_quiet_gets_no_more_jobs() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    world.push(json!({})).await;
    let beat =
        json!({"worker_id": "w-1", "hostname": "h", "pid": 7, "queues": ["default"], "concurrency": 4});
    world.post("workers/heartbeat", beat.clone()).await.expect(200);
    let told = world.post("workers/w-1/quiet", json!({})).await.expect(200);
    assert_eq!(told["directive"], "quiet");
    let fetch = json!({"queues": ["default"], "worker_id": "w-1"});
    assert_eq!(world.post("workers/fetch", fetch).await.expect(200), json!({"jobs": []}));
    let other = json!({"queues": ["default"], "worker_id": "w-2"});
    let fetched = world.post("workers/fetch", other).await.expect(200);
    assert_eq!(fetched["jobs"][0]["id"], id.as_str(), "it is there for others");
    assert_eq!(world.post("workers/heartbeat", beat.clone()).await.expect(200)["state"], "quiet");
    world.post("workers/w-1/terminate", json!({})).await.expect(200);
    assert_eq!(world.post("workers/heartbeat", beat).await.expect(200)["state"], "terminate");
    let listed = world.get("workers").await.expect(200);
    let worker = listed["workers"].as_array().unwrap().iter().find(|worker| worker["id"] == "w-1").unwrap();
    assert_eq!(
        (&worker["id"], &worker["hostname"], &worker["concurrency"]),
        (&json!("w-1"), &json!("h"), &json!(4))
    );
    world.post("workers/w-1/resume", json!({})).await.expect(200);
    world.fetch().await;
    let other = world.server.client().await;
    assert_eq!(other.get("/ojs/v1/workers").await.expect(200)["workers"], json!([]));
    refused(&post(&other, "workers/w-1/quiet", json!({})).await, 404, "NOT_FOUND", "not_found");
}

#[tokio::test]
async fn a_worker_that_drains_says_so_and_is_shown_so() {
    let world = World::start().await;
    world.push(json!({})).await;
    world
        .post("workers/beat", json!({"worker_id": "w-9", "state": "drain", "active_jobs": 2}))
        .await
        .expect(200);
    let fetch = json!({"queues": ["default"], "worker_id": "w-9"});
    assert_eq!(world.post("workers/fetch", fetch).await.expect(200), json!({"jobs": []}));
    assert_eq!(world.get("workers/w-9/health").await.expect(200)["state"], "draining");
    let body = refused(&world.get("workers/nobody/health").await, 404, "NOT_FOUND", "not_found");
    assert_eq!(body["details"]["resource_type"], "worker");
}

#[tokio::test]
async fn calls_of_workers_have_a_limit_of_their_own() {
    let world =
        World::with(&[("limits.rate_per_minute", "20"), ("limits.worker_rate_per_minute", "5")]).await;
    let fetch = json!({"queues": ["default"]});
    for _ in 0..5 {
        world.post("workers/fetch", fetch.clone()).await.expect(200);
    }
    let answer = world.post("workers/fetch", fetch).await;
    let body = refused(&answer, 429, "RATE_LIMITED", "rate_limited");
    assert_eq!((&body["details"]["limit"], &body["details"]["window"]), (&json!(5), &json!("60s")));
    assert!(body["details"]["retry_after_seconds"].as_u64().unwrap() >= 1);
    assert_eq!(answer.header("x-ratelimit-limit"), Some("5"));
    assert!(answer.header("x-ratelimit-remaining").is_some() && answer.header("x-ratelimit-reset").is_some());
    world.push(json!({})).await;
    let free = World::start().await;
    for _ in 0..700 {
        free.post("workers/heartbeat", json!({"worker_id": "w"})).await.expect(200);
    }
}

#[tokio::test]
async fn a_worker_that_is_not_there_has_a_problem_of_its_own() {
    let world = World::start().await;
    for (method, path) in [("GET", "workers/nobody"), ("POST", "workers/nobody/quiet")] {
        let body = refused(&call(&world.client, method, path).send().await, 404, "NOT_FOUND", "not_found");
        assert_eq!(
            (&body["details"]["resource_type"], &body["details"]["resource_id"]),
            (&json!("worker"), &json!("nobody"))
        );
        let problem =
            call(&world.client, method, path).header("accept", "application/problem+json").send().await;
        assert_eq!(problem.expect(404)["type"], "/problems/worker-not-found", "{method}");
    }
    let page = world
        .server
        .call("GET", "/problems/worker-not-found")
        .header("accept", "application/json")
        .send()
        .await;
    assert_eq!(page.expect(200)["title"], "Worker not found");
}
