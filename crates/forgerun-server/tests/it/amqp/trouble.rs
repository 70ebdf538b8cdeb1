//! What the operator got wrong, and what somebody broke on the broker: a clear line, a metric, and
//! the rest goes on.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use forgerun_server::Bounds;
use forgerun_server::bridge::Bridge;
use forgerun_store::memory::Memory;
use serde_json::{Value, json};

use super::{PUBLISH, TAKE, World, messages, plain, shared_vhost};
use crate::api::faulty::{Faulty, Mood};
use crate::api::server::Server;
use crate::process::{Server as Process, forgerun};
use crate::rabbitmq::{Broker, pause, pika};

fn process(url: &str) -> Process {
    Process::start(&mut command(url))
}

fn command(url: &str) -> Command {
    let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", "memory:"]);
    command
        .env("FORGERUN_AMQP__URL", url)
        .env("FORGERUN_AMQP__QUEUES", "emails")
        .env("FORGERUN_AUTH__MODE", "open")
        .env("FORGERUN_LOG__LEVEL", "debug");
    command
}

/// Waits until the bridge has counted an error; it goes on trying, so there may be more.
fn wait_for_first_error(server: &Process) {
    while server.get("/metrics").contains("\namqp_bridge_errors_total 0\n") {
        pause(Duration::from_millis(20));
    }
}

fn wait_for_metrics(server: &Process, line: &str) {
    while !server.get("/metrics").contains(line) {
        pause(Duration::from_millis(20));
    }
}

#[test]
fn a_broker_with_a_certificate_that_is_trusted_is_used_and_no_other() {
    let broker = Broker::shared();
    let plain = broker.vhost();
    let url = broker.encrypted(&plain);
    let server = process(&url);
    wait_for_first_error(&server);
    server.signal("TERM");
    let log = server.wait().stderr;
    assert!(log.contains("AMQP bridge down") && log.contains("UnknownIssuer"), "{log}");
    let server = Process::start(command(&url).env("SSL_CERT_FILE", broker.certificate()));
    pika(&plain, PUBLISH, &json!({"queue": "emails", "messages": [super::plain(1)]}));
    wait_for_metrics(&server, "\namqp_bridge_messages_total{fate=\"taken\"} 1\n");
}

#[test]
fn a_wrong_password_is_a_line_of_the_log_and_a_metric_and_is_not_shown() {
    let url = Broker::shared().vhost().replace("guest:guest", "guest:hunter2");
    let server = process(&url);
    wait_for_first_error(&server);
    assert!(server.get("/ready").starts_with("HTTP/1.1 200"));
    assert!(server.get("/metrics").contains("\namqp_bridge_connected 0\n"));
    server.signal("TERM");
    let log = server.wait().stderr;
    let line = log.lines().find(|line| line.contains("AMQP bridge down")).expect(&log);
    assert!(line.contains("ACCESS_REFUSED") && line.contains("retry_in_ms"), "{line}");
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn a_queue_that_somebody_deleted_is_made_again_and_its_message_is_not_lost() {
    let url = Broker::shared().vhost();
    let server = process(&url);
    let publish = |messages: Value| pika(&url, PUBLISH, &json!({"queue": "emails", "messages": messages}));
    publish(json!([]));
    pika(&url, "channel.queue_delete('ojs.queue.dlx.emails')\nprint('null')\n", &Value::Null);
    publish(json!([{"body": "hunter2"}]));
    let dead = pika(&url, TAKE_WHEN_THERE, &json!({"queue": "ojs.queue.dlx.emails"}));
    assert_eq!(dead, "hunter2");
    server.signal("TERM");
    let log = server.wait().stderr;
    assert!(log.contains("QUEUE_FULL") && log.contains("returned, NO_ROUTE"), "{log}");
    // Neither as text nor as the list of bytes that a library would print.
    assert!(!log.contains("hunter2") && !log.contains("[104, 117, 110"), "{log}");
}

/// Takes a message from a queue that is perhaps not there yet.
const TAKE_WHEN_THERE: &str = r#"
for _ in range(1200):
    try:
        taken = connection.channel().basic_get(data['queue'], auto_ack=True)
        if taken[0]:
            print(json.dumps(taken[2].decode()))
            break
    except pika.exceptions.ChannelClosedByBroker:
        pass
    time.sleep(0.1)
"#;

#[tokio::test]
async fn a_client_that_is_not_there_gets_no_jobs() {
    let nobody = "b7e7a4d2-6a3c-4b1f-9a57-0f1d1a2b3c4d";
    let world = World::with(&[("amqp.client_id", nobody)]).await;
    world.wait_for_metric("amqp_bridge_errors_total", 1).await;
    assert_eq!((world.metric("amqp_bridge_connected").await, world.n_jobs().await), (0, 0));
}

#[tokio::test]
async fn two_nodes_share_the_messages_and_one_of_them_publishes_failures() {
    let (url, store) = (shared_vhost().await, Arc::new(Memory::new()));
    let settings = [
        ("amqp.url", url.as_str()),
        ("amqp.queues", "emails"),
        ("auth.mode", "open"),
        ("amqp.rate_per_minute", "0"),
    ];
    let mut worlds = Vec::new();
    for _ in 0..2 {
        let server = Server::on(store.clone(), &settings, Bounds::default()).await;
        let bridge = Bridge::start(&server.app);
        worlds.push(World { server, bridge, url: url.clone() });
    }
    for world in &worlds {
        world.wait_for_metric("amqp_bridge_connected", 1).await;
    }
    let all: Vec<Value> = (1..=50).map(plain).chain((1..=50).map(plain)).collect();
    worlds[0].publish(json!(all)).await;
    let sum =
        async |fate: &str| worlds[0].metric(&messages(fate)).await + worlds[1].metric(&messages(fate)).await;
    while sum("taken").await + sum("joined").await < 100 {
        super::pause().await;
    }
    assert_eq!((sum("taken").await, worlds[0].n_jobs().await), (50, 50));
    let job = worlds[0].fetch_all(1).await.remove(0);
    worlds[0].nack(&job, json!({"code": "NON_RETRYABLE_ERROR", "message": "no", "retryable": false})).await;
    assert_eq!(
        worlds[1].pika(TAKE, json!({"queue": "ojs.queue.dlx.emails", "n": 1})).await[0]["message_id"],
        job["id"]
    );
    for world in &mut worlds {
        world.stop_bridge().await;
    }
    assert_eq!(
        (worlds[0].depth("ojs.queue.dlx.emails").await, worlds[0].depth("ojs.queue.emails").await),
        (0, 0)
    );
}

#[tokio::test]
async fn a_message_whose_job_may_be_there_after_all_is_one_job_and_no_dead_letter() {
    let store = Faulty::new();
    let world = World::on(store.clone(), shared_vhost().await, &[]).await;
    world.publish(json!([])).await;
    store.set(Mood::LostAnswers);
    // It names itself in no way, so its job has an id that the server made.
    world.publish(json!([{"body": {"type": "email.send", "args": [1]}}])).await;
    world.wait_for_metric("amqp_bridge_queues_held", 1).await;
    store.set(Mood::Fine);
    world.wait_for_metric(&messages("joined"), 1).await;
    assert_eq!((world.n_jobs().await, world.depth("ojs.queue.dlx.emails").await), (1, 0));
}
