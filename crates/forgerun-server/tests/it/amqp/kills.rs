//! Broker and server are killed in the middle of work: nothing is lost, no job is there twice.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::{World, id};
use crate::process::{Server, forgerun};
use crate::rabbitmq::{Broker, pause, pika};

/// Messages of a test.
const N_MESSAGES: u64 = 400;
/// How often the server is killed.
const N_KILLS: u64 = 5;
/// Between two looks.
const MOMENT: Duration = Duration::from_millis(5);

/// A producer that does not give up: what the broker has not confirmed is published again. Half of
/// the messages name their job, the others have a name of their own.
const STUBBORN: &str = r#"
connection.close()
n = data['from']
def opened():
    while True:
        try:
            opened = pika.BlockingConnection(pika.URLParameters(url + '?heartbeat=0')).channel()
            opened.confirm_delivery()
            opened.queue_declare('ojs.queue.retry.emails.3600000', passive=True)
            return opened
        except (pika.exceptions.AMQPError, OSError):
            time.sleep(0.2)
channel = opened()
while n < data['to']:
    body = {'type': 'email.send', 'args': [n], 'options': {'retry': {'max_attempts': 1}}}
    if n % 2:
        body['id'] = f'019539a4-b68c-7def-8000-{n:012x}'
    properties = pika.BasicProperties(delivery_mode=2, message_id=f'order-{n}')
    try:
        channel.basic_publish('ojs.exchange.direct', 'emails', json.dumps(body), properties, mandatory=True)
        n += 1
    except (pika.exceptions.AMQPError, OSError):
        channel = opened()
print('null')
"#;

fn produce(url: &str, from: u64, to: u64) -> thread::JoinHandle<Value> {
    let url = url.to_owned();
    thread::spawn(move || pika(&url, STUBBORN, &json!({"from": from, "to": to})))
}

#[tokio::test]
async fn the_bridge_goes_on_when_the_broker_was_killed_under_load() {
    let broker = spawn_blocking(Broker::start).await.unwrap();
    let url = broker.vhost();
    let world = World::at(url.clone(), &[]).await;
    // One that is in work when the broker goes, and fails without it.
    world.publish(json!([{"body": {"id": id(N_MESSAGES), "type": "email.send", "args": [N_MESSAGES], "options": {"retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}}}}])).await;
    let failing = world.fetch_all(1).await.remove(0);
    let producer = produce(&url, 0, N_MESSAGES);
    world.wait_for_metric(&super::messages("taken"), N_MESSAGES / 4).await;
    let broker = spawn_blocking(move || {
        broker.kill();
        broker
    })
    .await
    .unwrap();
    world.nack(&failing, json!({"code": "HANDLER_ERROR", "message": "while nobody listened"})).await;
    world.wait_for_metric("amqp_bridge_errors_total", 1).await;
    assert_eq!(world.metric("amqp_bridge_connected").await, 0);
    let broker = spawn_blocking(move || {
        broker.start_again();
        broker
    })
    .await
    .unwrap();
    spawn_blocking(move || producer.join().unwrap()).await.unwrap();
    // A message whose acknowledgement was lost with the broker comes again, and counts as joined:
    // only jobs say that all are there.
    while (world.n_jobs().await as u64) < N_MESSAGES + 1 {
        super::pause().await;
    }
    assert_eq!(world.n_jobs().await as u64, N_MESSAGES + 1);
    let dead = world.take("ojs.queue.dlx.emails", 1).await.remove(0);
    assert_eq!(
        (&dead["message_id"], &dead["headers"]["x-ojs-error-message"]),
        (&json!(id(N_MESSAGES)), &json!("while nobody listened"))
    );
    drop(world);
    spawn_blocking(move || drop(broker)).await.unwrap();
}

fn start(folder: &std::path::Path, url: &str) -> Server {
    let database = format!("sqlite:{}", folder.join("jobs.db").display());
    let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", &database]);
    command
        .env("FORGERUN_AMQP__URL", url)
        .env("FORGERUN_AMQP__QUEUES", "emails")
        .env("FORGERUN_AMQP__RATE_PER_MINUTE", "0")
        .env("FORGERUN_AUTH__MODE", "open")
        .env("FORGERUN_LIMITS__RATE_PER_MINUTE", "0")
        .env("FORGERUN_LOG__LEVEL", "error");
    Server::start(&mut command)
}

/// How many messages have become jobs of this process.
fn taken(server: &Server) -> u64 {
    let metrics = server.get("/metrics");
    let line = metrics.lines().find(|line| line.starts_with("amqp_bridge_messages_total{fate=\"taken\"}"));
    line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

/// All jobs of the queue, fetched as a worker does; how often each argument was seen.
fn drain(server: &Server) -> BTreeMap<u64, usize> {
    let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
    loop {
        let jobs = post(
            server,
            "/ojs/v1/workers/fetch",
            &json!({"queues": ["emails"], "worker_id": "w", "count": 100}),
        );
        let jobs = jobs["jobs"].as_array().unwrap().clone();
        if jobs.is_empty() {
            return seen;
        }
        for job in jobs {
            *seen.entry(job["args"][0].as_u64().unwrap()).or_default() += 1;
            post(server, "/ojs/v1/workers/ack", &json!({"job_id": job["id"]}));
        }
    }
}

fn post(server: &Server, path: &str, body: &Value) -> Value {
    use std::io::{Read, Write};
    let (mut connection, body) = (server.connect(), body.to_string());
    write!(
        connection,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn no_message_is_lost_and_none_is_two_jobs_when_the_server_is_killed_under_load() {
    let url = Broker::shared().vhost();
    let folder = tempfile::tempdir().unwrap();
    let part = N_MESSAGES / N_KILLS;
    for round in 0..N_KILLS {
        let server = start(folder.path(), &url);
        let producer = produce(&url, round * part, (round + 1) * part);
        // In the middle of it: some messages are jobs and acknowledged, some are jobs, some are on
        // their way.
        while taken(&server) < part / 8 {
            pause(MOMENT);
        }
        server.signal("KILL");
        producer.join().unwrap();
    }
    let server = start(folder.path(), &url);
    let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
    while seen.len() < N_MESSAGES as usize {
        for (n, times) in drain(&server) {
            *seen.entry(n).or_default() += times;
        }
        pause(MOMENT);
    }
    assert!(seen.values().all(|times| *times == 1), "{seen:?}");
    assert_eq!(drain(&server), BTreeMap::new());
    println!("{N_MESSAGES} messages, {N_KILLS} kills: each is one job");
}
