//! Pause and resume of one job or workflow.

use super::*;

async fn set(world: &World, path: &str) -> Answer {
    world.client.call("POST", path).send().await
}

#[tokio::test]
async fn a_paused_job_is_handed_out_once_it_is_resumed() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let paused = set(&world, &format!("/v1/jobs/{id}/pause")).await.expect(200);
    assert_eq!(
        (&paused["job_id"], &paused["state"], &paused["paused"]),
        (&json!(id), &json!("QUEUED"), &json!(true))
    );
    set(&world, &format!("/v1/jobs/{id}/pause")).await.expect(200);
    assert_eq!(world.client.get(&format!("/v1/jobs/{id}")).await.expect(200)["paused"], true);
    let body = json!({"queues": ["default"], "worker_id": "w-1", "count": 5});
    assert_eq!(world.post("workers/fetch", body).await.expect(200)["jobs"], json!([]));
    assert_eq!(set(&world, &format!("/v1/jobs/{id}/resume")).await.expect(200)["paused"], false);
    let job = world.fetch().await;
    assert_eq!(job["id"], *id);
    assert_eq!(world.client.get(&format!("/v1/jobs/{id}")).await.expect(200).get("paused"), None);
}

#[tokio::test]
async fn the_worker_of_a_paused_job_learns_it_with_its_heartbeat_and_in_an_exchange() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let token = world.fetch().await["lease_token"].clone();
    set(&world, &format!("/v1/jobs/{id}/pause")).await.expect(200);
    let beat = json!({"worker_id": "w-1", "active_jobs": [id], "lease_tokens": {&id: token}});
    let answer = world.post("workers/heartbeat", beat).await.expect(200);
    assert_eq!((&answer["jobs_extended"], &answer["paused_jobs"]), (&json!([id]), &json!([id])));
    let extend = json!({"worker_id": "w-1", "count": 0, "extend": [{"job_id": id, "lease_token": token}]});
    let answer = world.post("workers/exchange", extend).await.expect(200);
    assert_eq!((&answer["extended"], &answer["paused"]), (&json!([id]), &json!([id])));
    world.ack(&id).await.expect(200);
    assert_eq!(set(&world, &format!("/v1/jobs/{id}/pause")).await.status, 409);
    assert_eq!(set(&world, &format!("/v1/jobs/{id}/resume")).await.expect(200)["paused"], false);
}

#[tokio::test]
async fn foreign_and_unknown_jobs_cannot_be_paused() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let other = world.server.client().await;
    for verb in ["pause", "resume"] {
        assert_eq!(other.call("POST", &format!("/v1/jobs/{id}/{verb}")).send().await.status, 403);
        let unknown = format!("/v1/jobs/01965000-0000-7000-8000-000000000000/{verb}");
        assert_eq!(set(&world, &unknown).await.status, 404);
        assert_eq!(set(&world, &format!("/v1/workflows/{id}/{verb}")).await.status, 404);
    }
}

#[tokio::test]
async fn a_paused_workflow_starts_its_next_step_when_it_is_resumed() {
    let world = World::start().await;
    let steps = json!([
        {"id": "a", "type": "test.echo", "args": [1]},
        {"id": "b", "type": "test.echo", "args": [2], "depends_on": ["a"]},
    ]);
    let body = json!({"name": "two", "steps": steps});
    let begun = world.client.call("POST", "/v1/workflows").json(&body).send().await.expect(202);
    let id = begun["workflow_id"].as_str().unwrap().to_owned();
    let first = world.fetch().await["id"].as_str().unwrap().to_owned();
    let paused = set(&world, &format!("/v1/workflows/{id}/pause")).await.expect(200);
    assert_eq!((&paused["paused"], &paused["state"]), (&json!(true), &json!("RUNNING")));
    world.ack(&first).await.expect(200);
    let body = json!({"queues": ["default"], "worker_id": "w-1", "count": 5});
    assert_eq!(world.post("workers/fetch", body).await.expect(200)["jobs"], json!([]));
    let resumed = set(&world, &format!("/v1/workflows/{id}/resume")).await.expect(200);
    assert_eq!(resumed.get("paused"), None);
    let second = world.fetch().await["id"].as_str().unwrap().to_owned();
    world.ack(&second).await.expect(200);
    assert_eq!(world.client.get(&format!("/v1/workflows/{id}")).await.expect(200)["state"], "SUCCEEDED");
}
