//! The control queue: cancelling jobs by message.

use serde_json::{Value, json};

use super::{World, id, messages, plain};

fn cancel(job: &str) -> Value {
    json!({"exchange": "", "key": "ojs.queue.control.emails", "type": "ojs.control.cancel", "body": {"job_id": job}})
}

#[tokio::test]
async fn a_control_message_cancels_a_job() {
    let mut world = World::start().await;
    world.publish(json!([plain(1)])).await;
    world.wait_for_metric(&messages("taken"), 1).await;
    world.publish(json!([cancel(&id(1)), cancel(&id(1))])).await;
    // The second finds nothing to do.
    world.wait_for_metric(&messages("obeyed"), 2).await;
    assert_eq!(world.job(&id(1)).await["state"], "cancelled");
    world.stop_bridge().await;
    assert_eq!(
        (world.depth("ojs.queue.control.emails").await, world.depth("ojs.queue.dlx.emails").await),
        (0, 0)
    );
}

#[tokio::test]
async fn a_cancel_that_overtakes_its_job_waits_for_it() {
    let world = World::start().await;
    world.publish(json!([cancel(&id(1)), plain(1)])).await;
    world.wait_for_metric(&messages("obeyed"), 1).await;
    assert_eq!(world.job(&id(1)).await["state"], "cancelled");
}

#[tokio::test]
async fn a_command_without_effect_is_a_dead_letter() {
    let world = World::start().await;
    let other = world.server.client().await;
    let foreign = json!({"id": id(2), "type": "email.send", "args": []});
    other.call("POST", "/ojs/v1/jobs").json(foreign).send().await.expect(201);
    let unknown_type = json!({"exchange": "", "key": "ojs.queue.control.emails", "type": "ojs.control.heartbeat", "body": {"job_id": id(1)}});
    let no_id =
        json!({"exchange": "", "key": "ojs.queue.control.emails", "type": "ojs.control.cancel", "body": {}});
    world.publish(json!([unknown_type, no_id, cancel(&id(2)), cancel(&id(1))])).await;
    let dead = world.take("ojs.queue.dlx.emails", 4).await;
    let mut codes: Vec<&str> =
        dead.iter().map(|dead| dead["headers"]["x-ojs-error-code"].as_str().unwrap()).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["INVALID_PAYLOAD", "NOT_FOUND", "TENANT_ACCESS_DENIED", "UNSUPPORTED_FEATURE"]);
    assert_eq!(
        world.server.app.engine.store().job(id(2).parse().unwrap()).await.unwrap().unwrap().state,
        forgerun_core::state::State::Queued
    );
}
