//! More than the store takes, than the rate allows, than the broker holds.

use std::time::Duration;

use serde_json::{Value, json};

use super::{PUBLISH, World, id, messages, plain};

#[tokio::test]
async fn what_the_store_has_no_room_for_waits_on_the_broker() {
    let mut world = World::with(&[("limits.queue_size", "2")]).await;
    let all: Vec<Value> = (1..=6).map(plain).collect();
    world.publish(json!(all)).await;
    world.wait_for_metric("amqp_bridge_queues_held", 1).await;
    assert_eq!((world.n_jobs().await, world.metric(&messages("taken")).await), (2, 2));
    // Room for two more.
    for job in world.fetch_all(2).await {
        world.ack(&job).await;
    }
    world.wait_for_metric(&messages("taken"), 4).await;
    world.stop_bridge().await;
    assert_eq!((world.n_jobs().await, world.depth("ojs.queue.emails").await), (4, 2));
    assert_eq!(world.depth("ojs.queue.dlx.emails").await, 0);
}

#[tokio::test]
async fn a_queue_without_room_holds_up_no_other() {
    let world = World::with(&[("limits.queue_size", "1"), ("amqp.queues", "emails, letters")]).await;
    world.publish(json!([plain(1), plain(2)])).await;
    world.wait_for_metric("amqp_bridge_queues_held", 1).await;
    world.pika(PUBLISH, json!({"queue": "letters", "messages": [plain(3)]})).await;
    let fetch = json!({"queues": ["letters"], "worker_id": "w-1", "wait_ms": 30_000});
    let fetched = world.post("workers/fetch", fetch).await.expect(200);
    assert_eq!(fetched["jobs"][0]["id"], id(3), "{fetched}");
    assert_eq!(world.n_jobs().await, 2);
}

#[tokio::test]
async fn messages_that_come_too_fast_are_put_off_with_their_reason() {
    let mut world = World::with(&[("amqp.rate_per_minute", "-1"), ("limits.rate_per_minute", "3")]).await;
    world.server.clock.stop();
    let all: Vec<Value> = (1..=5).map(plain).collect();
    world.publish(json!(all)).await;
    // A third of a minute until the next may come: more than 16 s, less than 32 s.
    let message = world.take("ojs.queue.retry.emails.32000", 1).await.remove(0);
    let body: Value = serde_json::from_str(message["body"].as_str().unwrap()).unwrap();
    assert_eq!((&message["message_id"], &body), (&json!(id(4)), &plain(4)["body"]));
    assert_eq!(message["headers"]["x-ojs-error-code"], "RATE_LIMITED", "{message}");
    let expiration_ms: u64 = message["expiration"].as_str().unwrap().parse().unwrap();
    assert!((16_000..=20_000).contains(&expiration_ms), "{expiration_ms}");
    world.stop_bridge().await;
    assert!(world.metric(&messages("delayed")).await >= 1);
    // The one that was taken away here did not become a job.
    assert!(world.server.app.engine.store().job(id(4).parse().unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_message_that_was_put_off_becomes_a_job_later() {
    let world = World::with(&[("amqp.rate_per_minute", "60")]).await;
    world.server.clock.stop();
    let all: Vec<Value> = (1..=62).map(plain).collect();
    world.publish(json!(all)).await;
    world.wait_for_metric(&messages("delayed"), 1).await;
    world.server.clock.advance(Duration::from_secs(60));
    world.wait_for_metric(&messages("taken"), 62).await;
    assert_eq!(world.n_jobs().await, 62);
}

#[tokio::test]
async fn messages_that_come_too_fast_for_a_bounded_queue_wait_in_hand() {
    let world = World::with(&[("amqp.rate_per_minute", "60"), ("amqp.queue_length_max", "100")]).await;
    let all: Vec<Value> = (1..=62).map(plain).collect();
    world.publish(json!(all)).await;
    world.wait_for_metric(&messages("taken"), 62).await;
    assert_eq!((world.metric(&messages("delayed")).await, world.n_jobs().await), (0, 62));
}

/// Publishes until the broker does not take any more, and for a queue that is not there.
const OVERFLOW: &str = r#"
channel.confirm_delivery()
said = []
for key in ['emails', 'emails', 'emails', 'nowhere']:
    try:
        channel.basic_publish('ojs.exchange.direct', key, '{}', mandatory=True)
        said.append('taken')
    except pika.exceptions.NackError:
        said.append('full')
    except pika.exceptions.UnroutableError:
        said.append('returned')
print(json.dumps(said))
"#;

#[tokio::test]
async fn a_producer_hears_that_a_queue_is_full_or_not_there() {
    let mut world = World::with(&[("amqp.queue_length_max", "2")]).await;
    world.publish(json!([])).await;
    world.stop_bridge().await;
    let said = world.pika(OVERFLOW, Value::Null).await;
    assert_eq!(said, json!(["taken", "taken", "full", "returned"]));
}
