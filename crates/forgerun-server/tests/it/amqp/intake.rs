//! Messages become jobs: once, whoever comes twice, and nobody is stopped by garbage.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{World, id, messages, pika, plain, shared_vhost};
use crate::api::server::Server;
use forgerun_server::bridge::Bridge;

#[tokio::test]
async fn a_published_job_is_worked_on_and_its_message_is_gone() {
    let mut world = World::start().await;
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let full = json!({
        "body": {"id": id(1), "type": "email.send", "args": [{"to": "a@example.com"}], "meta": {"k": 1},
            "options": {"queue": "elsewhere", "tags": ["x"]}, "own": true},
        "message_id": id(1), "type": "email.send", "headers": {"x-ojs-trace-id": traceparent},
    });
    world.publish(json!([full, plain(2), plain(3)])).await;
    let jobs = world.fetch_all(3).await;
    let first = jobs.iter().find(|job| job["id"] == id(1)).unwrap();
    assert_eq!((&first["args"], &first["meta"]), (&json!([{"to": "a@example.com"}]), &json!({"k": 1})));
    assert_eq!(
        (&first["queue"], &first["tags"], &first["own"]),
        (&json!("emails"), &json!(["x"]), &json!(true))
    );
    assert_eq!(first["traceparent"], traceparent);
    for job in &jobs {
        world.ack(job).await;
        assert_eq!(world.job(job["id"].as_str().unwrap()).await["state"], "completed");
    }
    world.wait_for_metric(&messages("taken"), 3).await;
    world.stop_bridge().await;
    assert_eq!((world.depth("ojs.queue.emails").await, world.depth("ojs.queue.dlx.emails").await), (0, 0));
}

#[tokio::test]
async fn a_message_that_comes_twice_is_one_job() {
    let world = World::start().await;
    let by_body = plain(1);
    let by_property = json!({"body": {"type": "email.send", "args": [2]}, "message_id": id(2)});
    let by_header = json!({"body": {"type": "email.send", "args": [3]}, "headers": {"x-ojs-job-id": id(3)}});
    let by_own_name = json!({"body": {"type": "email.send", "args": [4]}, "message_id": "order-4"});
    let by_key =
        json!({"body": {"type": "email.send", "args": [5]}, "headers": {"x-ojs-idempotency-key": "k-5"}});
    let once = [by_body, by_property, by_header, by_own_name, by_key];
    let twice: Vec<&Value> = once.iter().chain(&once).collect();
    world.publish(json!(twice)).await;
    world.wait_for_metric(&messages("taken"), 5).await;
    world.wait_for_metric(&messages("joined"), 5).await;
    let jobs = world.fetch_all(5).await;
    let args: BTreeSet<u64> = jobs.iter().map(|job| job["args"][0].as_u64().unwrap()).collect();
    assert_eq!((world.n_jobs().await, args), (5, (1..=5).collect()));
    for n in 1..=3 {
        assert!(jobs.iter().any(|job| job["id"] == id(n) && job["args"] == json!([n])), "{n}");
    }
}

#[tokio::test]
async fn garbage_is_a_dead_letter_with_its_reason_and_stops_nobody() {
    let mut world = World::start().await;
    let garbage = json!([
        {"body": "not JSON", "message_id": "m-1", "headers": {"x-own": "kept"}, "user_id": "guest"},
        {"body": {"args": []}},
        {"body": {"type": "Not A Type", "args": []}},
        {"body": {"type": "email.send", "args": "x"}},
        {"body": {"type": "email.send", "args": [], "options": {"retry": {"max_attempts": -1}}}},
        {"body": {"id": "not an id", "type": "email.send", "args": []}},
        {"body": format!("{{\"type\": \"email.send\", \"args\": [\"{}\"]}}", "x".repeat(1024 * 1024))},
        plain(1),
    ]);
    world.publish(garbage).await;
    assert_eq!(world.fetch_all(1).await[0]["id"], id(1));
    let dead = world.take("ojs.queue.dlx.emails", 7).await;
    let codes: Vec<&str> =
        dead.iter().map(|dead| dead["headers"]["x-ojs-error-code"].as_str().unwrap()).collect();
    let expected = [
        "INVALID_PAYLOAD",
        "INVALID_PAYLOAD",
        "INVALID_JOB_TYPE",
        "INVALID_ARGS",
        "INVALID_RETRY_POLICY",
        "INVALID_PAYLOAD",
        "PAYLOAD_TOO_LARGE",
    ];
    assert_eq!(codes, expected, "{dead:?}");
    let first = &dead[0];
    assert_eq!((&first["body"], &first["message_id"]), (&json!("not JSON"), &json!("m-1")));
    assert_eq!(
        (&first["headers"]["x-own"], &first["headers"]["x-ojs-queue"]),
        (&json!("kept"), &json!("emails"))
    );
    assert_eq!(first["delivery_mode"], 2);
    let details: Value =
        serde_json::from_str(first["headers"]["x-ojs-error-details"].as_str().unwrap()).unwrap();
    assert!(details["occurred_at"].is_string(), "{details}");
    assert!(first["headers"]["x-ojs-error-message"].as_str().is_some_and(|message| !message.is_empty()));
    world.stop_bridge().await;
    assert_eq!((world.depth("ojs.queue.emails").await, world.n_jobs().await), (0, 1));
}

#[tokio::test]
async fn a_queue_that_is_there_with_other_settings_is_used_as_it_is() {
    const DECLARE: &str = "channel.queue_declare('ojs.queue.emails', durable=True, arguments={'x-max-priority': 10, \
        'x-dead-letter-exchange': 'ojs.exchange.dlx', 'x-dead-letter-routing-key': 'emails'})\nprint('null')\n";
    let url = shared_vhost().await;
    pika(url.clone(), DECLARE, Value::Null).await;
    let mut world = World::at(url, &[]).await;
    world.publish(json!([plain(1), {"body": "garbage"}])).await;
    assert_eq!(world.fetch_all(1).await[0]["id"], id(1));
    world.take("ojs.queue.dlx.emails", 1).await;
    world.stop_bridge().await;
    // The broker has not put a copy there by itself.
    assert_eq!((world.depth("ojs.queue.dlx.emails").await, world.depth("ojs.queue.emails").await), (0, 0));
}

#[tokio::test]
async fn the_jobs_belong_to_a_client_that_the_operator_can_give_a_key() {
    let url = shared_vhost().await;
    let settings = [("amqp.url", url.as_str()), ("amqp.queues", "emails"), ("auth.admin_token", "hunter2")];
    let server = Server::with(&settings).await;
    let bridge = Bridge::start(&server.app);
    pika(url.clone(), super::PUBLISH, json!({"queue": "emails", "messages": [plain(1)]})).await;
    let client = loop {
        let job = server.app.engine.store().job(id(1).parse().unwrap()).await.unwrap();
        match job {
            Some(job) => break job.head.client,
            None => super::pause().await,
        }
    };
    let issue =
        server.call("POST", &format!("/v1/clients/{client}/keys")).header("authorization", "Bearer hunter2");
    let key = issue.send().await.expect(201)["api_key"].as_str().unwrap().to_owned();
    let fetch =
        server.call("POST", "/ojs/v1/workers/fetch").header("authorization", &format!("Bearer {key}"));
    let fetched = fetch.json(json!({"queues": ["emails"], "worker_id": "w-1"})).send().await.expect(200);
    assert_eq!(fetched["jobs"][0]["id"], id(1));
    drop(bridge);
}
