//! The bridge to RabbitMQ, with a real broker. Producers, and whoever looks at queues on the
//! broker, are PyPI's `pika`; workers speak `/ojs/v1`.

mod cancelling;
mod damage;
mod failing;
mod intake;
mod kills;
mod pressure;
mod samples;
mod trouble;

use std::sync::Arc;

use forgerun_server::Bounds;
use forgerun_server::bridge::Bridge;
use forgerun_store::Store;
use forgerun_store::memory::Memory;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::api::http::Answer;
use crate::api::server::Server;
use crate::rabbitmq::{Broker, pika as run_pika};

/// Publishes messages: `body` (a text as it is, anything else as JSON) and what else there is to
/// say. Waits for each confirm, and first until the topology of the queue is there.
const PUBLISH: &str = r#"
def ready(queue):
    for _ in range(1200):
        try:
            look = connection.channel()
            look.queue_declare(f'ojs.queue.retry.{queue}.3600000', passive=True)
            return look.close()
        except pika.exceptions.ChannelClosedByBroker:
            time.sleep(0.1)
    raise SystemExit('the topology is not there')
ready(data['queue'])
channel.confirm_delivery()
for message in data['messages']:
    body = message['body'] if isinstance(message['body'], str) else json.dumps(message['body'])
    properties = pika.BasicProperties(delivery_mode=2, message_id=message.get('message_id'), type=message.get('type'),
        headers=message.get('headers'), user_id=message.get('user_id'))
    exchange, key = message.get('exchange', 'ojs.exchange.direct'), message.get('key', data['queue'])
    channel.basic_publish(exchange, key, body, properties, mandatory=True)
print('null')
"#;

/// Takes so many messages from a queue.
const TAKE: &str = r#"
taken = []
for _ in range(1200):
    method, properties, body = channel.basic_get(data['queue'], auto_ack=True)
    if method is None:
        time.sleep(0.1)
        continue
    headers = {name: value for name, value in (properties.headers or {}).items() if isinstance(value, (str, int))}
    taken.append({'headers': headers, 'body': body.decode(errors='replace'), 'expiration': properties.expiration,
        'message_id': properties.message_id, 'type': properties.type, 'content_type': properties.content_type,
        'delivery_mode': properties.delivery_mode, 'routing_key': method.routing_key})
    if len(taken) == data['n']:
        break
else:
    raise SystemExit(f'only {taken} came')
print(json.dumps(taken))
"#;

/// How many messages are ready in a queue.
const DEPTH: &str = "print(channel.queue_declare(data, passive=True).method.message_count)\n";

/// A server that is open, so that the bridge's jobs are those of whoever asks; and its place on the
/// broker.
struct World {
    server: Server,
    bridge: Option<Bridge>,
    url: String,
}

impl World {
    async fn start() -> World {
        World::with(&[]).await
    }

    async fn with(settings: &[(&str, &str)]) -> World {
        World::at(shared_vhost().await, settings).await
    }

    async fn at(url: String, settings: &[(&str, &str)]) -> World {
        World::on(Arc::new(Memory::new()), url, settings).await
    }

    async fn on(store: Arc<dyn Store>, url: String, settings: &[(&str, &str)]) -> World {
        let mut all = vec![
            ("amqp.url", url.as_str()),
            ("amqp.queues", "emails"),
            ("auth.mode", "open"),
            ("amqp.rate_per_minute", "0"),
        ];
        all.retain(|(key, _)| !settings.iter().any(|(other, _)| other == key));
        all.extend(settings);
        let server = Server::on(store, &all, Bounds::default()).await;
        let bridge = Bridge::start(&server.app);
        assert!(bridge.is_some());
        World { server, bridge, url }
    }

    async fn pika(&self, program: &'static str, data: Value) -> Value {
        pika(self.url.clone(), program, data).await
    }

    /// Publishes messages to the queue `emails`.
    async fn publish(&self, messages: Value) {
        self.pika(PUBLISH, json!({"queue": "emails", "messages": messages})).await;
    }

    /// Takes messages from a queue of the broker.
    async fn take(&self, queue: &str, n: usize) -> Vec<Value> {
        let taken = self.pika(TAKE, json!({"queue": queue, "n": n})).await;
        taken.as_array().unwrap().clone()
    }

    /// Stops the bridge, so that all that was not acknowledged is back in its queue.
    async fn stop_bridge(&mut self) {
        self.bridge.take().unwrap().stop().await;
    }

    async fn depth(&self, queue: &str) -> u64 {
        self.pika(DEPTH, json!(queue)).await.as_u64().unwrap()
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.server.call("POST", &format!("/ojs/v1/{path}")).json(body).send().await
    }

    /// Jobs of the queue `emails`, waiting for the first of them.
    async fn fetch(&self, n: usize) -> Vec<Value> {
        let body = json!({"queues": ["emails"], "worker_id": "w-1", "count": n, "wait_ms": 30_000});
        self.post("workers/fetch", body).await.expect(200)["jobs"].as_array().unwrap().clone()
    }

    /// Exactly so many jobs of the queue `emails`.
    async fn fetch_all(&self, n: usize) -> Vec<Value> {
        let mut jobs = Vec::new();
        while jobs.len() < n {
            let more = self.fetch(n - jobs.len()).await;
            assert!(!more.is_empty(), "only {} of {n} jobs came", jobs.len());
            jobs.extend(more);
        }
        jobs
    }

    async fn ack(&self, job: &Value) {
        self.post("workers/ack", json!({"job_id": job["id"]})).await.expect(200);
    }

    async fn nack(&self, job: &Value, error: Value) {
        self.post("workers/nack", json!({"job_id": job["id"], "error": error})).await.expect(200);
    }

    async fn job(&self, id: &str) -> Value {
        self.server.call("GET", &format!("/ojs/v1/jobs/{id}")).send().await.expect(200)["job"].clone()
    }

    /// How many jobs there are.
    async fn n_jobs(&self) -> usize {
        self.server.traces().await.0
    }

    /// The value of a metric.
    async fn metric(&self, name: &str) -> u64 {
        let metrics = self.server.call("GET", "/metrics").send().await;
        let line = metrics.text().lines().find(|line| line.starts_with(name)).map(str::to_owned);
        let line = line.unwrap_or_else(|| panic!("no {name}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Waits until a metric is at least this.
    async fn wait_for_metric(&self, name: &str, least: u64) {
        for _ in 0..1200 {
            if self.metric(name).await >= least {
                return;
            }
            pause().await;
        }
        panic!("{name} does not become {least}");
    }
}

/// What the metric of messages is called, for this fate.
fn messages(fate: &str) -> String {
    format!("amqp_bridge_messages_total{{fate=\"{fate}\"}}")
}

async fn shared_vhost() -> String {
    spawn_blocking(|| Broker::shared().vhost()).await.unwrap()
}

async fn pika(url: String, program: &'static str, data: Value) -> Value {
    spawn_blocking(move || run_pika(&url, program, &data)).await.unwrap()
}

#[expect(clippy::disallowed_methods, reason = "waits for another process, which gives no other sign")]
async fn pause() {
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
}

/// A job's id, from a number.
fn id(n: u64) -> String {
    format!("019539a4-b68c-7def-8000-{n:012x}")
}

/// A message with a plain job.
fn plain(n: u64) -> Value {
    json!({"body": {"id": id(n), "type": "email.send", "args": [n]}, "message_id": id(n), "type": "email.send"})
}
