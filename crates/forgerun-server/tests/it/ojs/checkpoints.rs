//! Checkpoints: saved by one attempt, read by the next.

use std::time::Duration;

use super::*;

async fn save(world: &World, id: &str, state: Value) -> Answer {
    let body = json!({"state": state}).to_string();
    call(&world.client, "PUT", &format!("jobs/{id}/checkpoint")).body(body).send().await
}

#[tokio::test]
async fn the_next_attempt_goes_on_where_the_last_one_was() {
    let world = World::start().await;
    let id = world.push(json!({"retry": {"max_attempts": 2, "initial_interval": "PT1S"}})).await;
    world.fetch().await;
    let first = save(&world, &id, json!({"page": 1, "big": 1e300})).await.expect(200);
    assert_eq!((&first["sequence"], &first["checkpoint"]["state"]["page"]), (&json!(1), &json!(1)));
    save(&world, &id, json!({"page": 2})).await.expect(200);
    world.nack(&id, json!({"code": "handler_error", "message": "no"})).await.expect(200);
    world.fetch().await;
    let known = world.get(&format!("jobs/{id}/checkpoint")).await.expect(200);
    assert_eq!(
        (&known["job_id"], &known["state"], &known["sequence"]),
        (&json!(id), &json!({"page": 2}), &json!(2))
    );
    // As two SDKs ask for it.
    let path = format!("/ojs/v1/ojs/v1/checkpoints/{id}/resume");
    assert_eq!(world.client.get(&path).await.expect(200)["sequence"], 2);
    world.ack(&id).await.expect(200);
    assert_eq!(save(&world, &id, json!({})).await.status, 409);
    world.get(&format!("jobs/{id}/checkpoint")).await.expect(200);
}

#[tokio::test]
async fn a_checkpoint_is_deleted_once_or_twice_and_then_counts_from_one() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let path = format!("jobs/{id}/checkpoint");
    refused(&world.get(&path).await, 404, "NOT_FOUND", "not_found");
    save(&world, &id, json!([1])).await.expect(200);
    for _ in 0..2 {
        call(&world.client, "DELETE", &path).send().await.expect(200);
    }
    refused(&world.get(&path).await, 404, "NOT_FOUND", "not_found");
    assert_eq!(save(&world, &id, json!("text")).await.expect(200)["sequence"], 1);
}

#[tokio::test]
async fn checkpoints_have_owners_and_bounds() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let other = world.server.client().await;
    let theirs = call(&other, "PUT", &format!("jobs/{id}/checkpoint")).body(r#"{"state":1}"#).send().await;
    refused(&theirs, 403, "TENANT_ACCESS_DENIED", "tenant_access_denied");
    let nothing = "01965000-0000-7000-8000-000000000000";
    refused(&save(&world, nothing, json!(1)).await, 404, "NOT_FOUND", "not_found");
    let large = json!("x".repeat(257 * 1024));
    assert_eq!(save(&world, &id, large).await.status, 413);
    let empty = call(&world.client, "POST", &format!("jobs/{id}/checkpoint")).body("{}").send().await;
    assert_eq!(empty.expect(400)["details"]["field"], "state");
}

#[tokio::test]
async fn what_could_not_be_read_back_is_refused() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    world.fetch().await;
    for body in [r#"{"state": {"n": 1e400}}"#, r#"{"state": 1, "metadata": {"n": -1e999}}"#] {
        let saved = call(&world.client, "PUT", &format!("jobs/{id}/checkpoint")).body(body.to_owned());
        refused(&saved.send().await, 400, "INVALID_PAYLOAD", "invalid_request");
    }
    assert_eq!(world.get(&format!("jobs/{id}/checkpoint")).await.status, 404, "nothing was saved");
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_cannot_write_over_what_the_next_one_saved() {
    let world = World::start().await;
    let id = world.push(json!({"visibility_timeout_ms": 60_000})).await;
    let old = world.fetch().await["lease_token"].clone();
    world.server.clock.advance(Duration::from_secs(61));
    let new = world.fetch().await["lease_token"].clone();
    assert_ne!(old, new);
    let path = format!("jobs/{id}/checkpoint");
    let with = |method: &str, token: &Value, body: &str| {
        let request = call(&world.client, method, &path);
        request.header("lease-token", token.as_str().unwrap()).body(body.to_owned())
    };
    with("PUT", &new, r#"{"state": "new"}"#).send().await.expect(200);
    for zombie in [
        with("PUT", &old, r#"{"state": "old"}"#).send().await,
        with("DELETE", &old, "").send().await,
        with("PUT", &json!("nonsense"), r#"{"state": "old"}"#).send().await,
        world.post(&path, json!({"state": "old", "lease_token": old})).await,
        world.post(&format!("checkpoints/{id}"), json!({"state": "old", "lease_token": old})).await,
    ] {
        let refusal = zombie.expect(409);
        assert_eq!(refusal["details"]["reason"], "lease_lost", "{refusal}");
    }
    assert_eq!(world.get(&path).await.expect(200)["state"], "new");
    world.post(&path, json!({"state": "newer", "lease_token": new})).await.expect(200);
    assert_eq!(save(&world, &id, json!("as OJS has it")).await.expect(200)["sequence"], 3);
    let bad = world.post(&path, json!({"state": 1, "lease_token": 7})).await;
    assert_eq!(bad.expect(400)["details"]["field"], "lease_token");
}

async fn record(world: &World, id: &str, step: &str, result: &str, token: &str) -> Answer {
    let body = format!(r#"{{"result":{result},"lease_token":"{token}"}}"#);
    call(&world.client, "PUT", &format!("jobs/{id}/checkpoint/{step}")).body(body).send().await
}

#[tokio::test]
async fn the_first_result_of_a_step_is_recorded_and_listed() {
    let world = World::start().await;
    let id = world.push(json!({"retry": {"max_attempts": 2, "initial_interval": "PT1S"}})).await;
    let token = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
    let first = record(&world, &id, "charge%2Fcard", r#"{"n": 1.0}"#, &token).await.expect(201);
    assert_eq!(
        (&first["step"], &first["attempt"], &first["created"]),
        (&json!("charge/card"), &json!(1), &json!(true))
    );
    assert_eq!(
        record(&world, &id, "charge%2Fcard", r#"{"n": 1.0}"#, &token).await.expect(200)["created"],
        false
    );
    let other = record(&world, &id, "charge%2Fcard", r#"{"n": 2}"#, &token).await;
    assert_eq!(other.expect(409)["details"]["reason"], "step_recorded");
    record(&world, &id, "mail", "null", &token).await.expect(201);
    world.nack(&id, json!({"code": "handler_error", "message": "no"})).await.expect(200);
    let second = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
    let late = record(&world, &id, "late", "1", &token).await;
    assert_eq!(late.expect(409)["details"]["reason"], "lease_lost");

    let steps = json!({"charge/card": {"n": 1.0}, "mail": null});
    for path in [format!("jobs/{id}/checkpoint"), format!("checkpoints/{id}/resume")] {
        let saved = world.get(&path).await.expect(200);
        assert_eq!(
            (&saved["steps"], &saved["state"], &saved["sequence"]),
            (&steps, &steps, &json!(2)),
            "{path}"
        );
    }
    save(&world, &id, json!({"page": 1})).await.expect(200);
    let both = world.get(&format!("jobs/{id}/checkpoint")).await.expect(200);
    assert_eq!((&both["steps"], &both["state"]), (&steps, &json!({"page": 1})));
    record(&world, &id, "third", "3", &second).await.expect(201);
    call(&world.client, "DELETE", &format!("jobs/{id}/checkpoint")).send().await.expect(200);
    refused(&world.get(&format!("jobs/{id}/checkpoint")).await, 404, "NOT_FOUND", "not_found");
}

#[tokio::test]
async fn a_step_needs_the_lease_token_a_result_and_a_name() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let token = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
    let path = format!("jobs/{id}/checkpoint/a");
    let put = |body: &str| call(&world.client, "PUT", &path).body(body.to_owned());
    assert_eq!(put(r#"{"result":1}"#).send().await.status, 400);
    assert_eq!(put("{}").header("lease-token", &token).send().await.status, 400);
    assert_eq!(put(r#"{"result":1}"#).header("lease-token", &token).send().await.status, 201);
    assert_eq!(record(&world, &id, "%0A", "1", &token).await.status, 400);
    assert_eq!(record(&world, &id, &"x".repeat(256), "1", &token).await.status, 400);
    let large = format!("\"{}\"", "x".repeat(257 * 1024));
    assert_eq!(record(&world, &id, "large", &large, &token).await.status, 413);
    let other = world.server.client().await;
    let theirs = call(&other, "PUT", &path).body(r#"{"result":1,"lease_token":"x"}"#).send().await;
    refused(&theirs, 403, "TENANT_ACCESS_DENIED", "tenant_access_denied");
    world.ack(&id).await.expect(200);
    assert_eq!(record(&world, &id, "late", "1", &token).await.status, 409);
}
