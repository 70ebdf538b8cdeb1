//! Whose jobs a worker gets: its own client's, and nobody else's (C-97).

use super::*;

#[tokio::test]
async fn a_worker_gets_jobs_of_its_own_client_only() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let other = world.server.client().await;
    let nothing = post(&other, "workers/fetch", json!({"queues": ["default"]})).await.expect(200);
    assert_eq!(nothing, json!({"jobs": []}));
    assert_eq!(world.fetch().await["id"], id.as_str());
}

#[tokio::test]
async fn nobody_can_do_anything_to_a_job_of_others() {
    for (settings, status, code, word) in [
        (&[][..], 403, "TENANT_ACCESS_DENIED", "tenant_access_denied"),
        (&[("auth.hide_foreign", "true")][..], 404, "NOT_FOUND", "not_found"),
    ] {
        let world = World::with(settings).await;
        let id = world.push(json!({})).await;
        let job = world.fetch().await;
        let other = world.server.client().await;
        let token = job["lease_token"].as_str().unwrap();
        let error = json!({"code": "x", "message": "y"});
        for (path, body) in [
            ("workers/ack", json!({"job_id": id, "lease_token": token})),
            ("workers/nack", json!({"job_id": id, "error": error})),
            ("workers/progress", json!({"job_id": id, "percentage": 5})),
            (&format!("jobs/{id}/cancel"), json!({})),
            (&format!("jobs/{id}/activate"), json!({})),
            (&format!("dead-letter/{id}/retry"), json!({})),
        ] {
            refused(&post(&other, path, body).await, status, code, word);
        }
        let upload = call(&other, "PUT", &format!("jobs/{id}/result")).header("lease-token", token).body("x");
        refused(&upload.send().await, status, code, word);
        for path in [format!("jobs/{id}"), format!("jobs/{id}/progress"), format!("jobs/{id}/events")] {
            refused(&other.get(&format!("/ojs/v1/{path}")).await, status, code, word);
        }
        let beat = json!({"worker_id": "w-1", "active_jobs": [id]});
        let beaten = post(&other, "workers/heartbeat", beat).await.expect(200);
        assert_eq!(
            beaten["jobs_extended"],
            json!([]),
            "a heartbeat for what is not held is answered without it"
        );
        assert_eq!(world.job(&id).await["state"], "active");
    }
}

#[tokio::test]
async fn without_a_key_nobody_gets_anything() {
    let world = World::start().await;
    let fetch = world.server.call("POST", "/ojs/v1/workers/fetch").header("content-type", OJS);
    let answer = fetch.clone().body(r#"{"queues":["default"]}"#).send().await;
    refused(&answer, 401, "UNAUTHENTICATED", "unauthenticated");
    let wrong = fetch.header("authorization", "Bearer wrong").body(r#"{"queues":["default"]}"#).send().await;
    refused(&wrong, 401, "UNAUTHENTICATED", "unauthenticated");
    world.server.call("GET", "/ojs/v1/health").send().await.expect(200);
    world.server.call("GET", "/ojs/manifest").send().await.expect(200);
}

#[tokio::test]
async fn the_operators_worker_serves_all_clients_or_the_one_it_names() {
    const ADMIN: &str = "the-operator-knows-this-secret-0123456789";
    let world = World::with(&[("auth.admin_token", ADMIN), ("auth.registration", "open")]).await;
    let other = world.server.client().await;
    let (mine, theirs) = (world.push(json!({})).await, push(&other, json!({})).await);
    let operator = |body: Value| {
        let call = world.server.call("POST", "/ojs/v1/workers/fetch").header("content-type", OJS);
        let call = call.header("authorization", &format!("Bearer {ADMIN}")).body(body.to_string());
        async move { call.send().await.expect(200)["jobs"].clone() }
    };
    let named = operator(json!({"queues": ["default"], "client_id": other.id})).await;
    assert_eq!((&named[0]["id"], named.as_array().unwrap().len()), (&json!(theirs), 1));
    let rest = operator(json!({"queues": ["default"], "count": 5})).await;
    assert_eq!((&rest[0]["id"], rest.as_array().unwrap().len()), (&json!(mine), 1));
    let ack = world.server.call("POST", "/ojs/v1/workers/ack").header("content-type", OJS);
    let ack =
        ack.header("authorization", &format!("Bearer {ADMIN}")).body(json!({"job_id": mine}).to_string());
    assert_eq!(ack.send().await.expect(200)["state"], "completed");
    let answer = world.post("workers/fetch", json!({"queues": ["default"], "client_id": other.id})).await;
    refused(&answer, 403, "PERMISSION_DENIED", "permission_denied");
}
