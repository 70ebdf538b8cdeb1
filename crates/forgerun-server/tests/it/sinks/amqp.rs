//! RabbitMQ: a real broker of Debian, read back by PyPI `pika`.

use serde_json::{Value, json};

use super::{BrokerSetup, Message, World, drained, sink, submit_job};
use crate::rabbitmq::{Broker, pika};

/// Binds a queue to the exchange, as a consumer would, before anything is sent.
fn bind(url: &str) {
    let program = "channel.exchange_declare('forgerun.results', 'topic', durable=True)\n\
        channel.queue_declare('mine', durable=True)\n\
        channel.queue_bind('mine', 'forgerun.results', '#')\n\
        print('null')\n";
    pika(url, program, &Value::Null);
}

/// Takes everything that is in the queue.
fn read(url: &str) -> Vec<Message> {
    let program = "import base64\n\
        found = []\n\
        while True:\n    \
            method, properties, body = channel.basic_get('mine', auto_ack=True)\n    \
            if method is None: break\n    \
            headers = {name: str(value) for name, value in (properties.headers or {}).items()}\n    \
            headers['content-type'] = properties.content_type\n    \
            found.append({'address': method.routing_key, 'key': properties.message_id, 'headers': headers,\n        \
                'value': base64.b64encode(body).decode()})\n\
        print(json.dumps(found))\n";
    Message::all(&pika(url, program, &json!(null)))
}

fn setup<'a>(url: &str, read: &'a dyn Fn() -> Vec<Message>) -> BrokerSetup<'a> {
    let environment = vec![("FORGERUN_AMQP__URL", url.to_owned())];
    BrokerSetup { environment, section: "AMQP", prefix: "cloudEvents_", read }
}

#[test]
fn events_arrive_in_a_topic_exchange_as_over_http() {
    let url = Broker::shared().vhost();
    bind(&url);
    super::events_arrive_as_over_http(&setup(&url, &|| read(&url)), |told, job| {
        assert_eq!(told.address, "default.job_failed");
        let value = told.json();
        let object = if value["specversion"].is_string() { &value["data"] } else { &value };
        assert_eq!(object["event_id"], told.key, "the message id is the event's");
        assert_eq!(told.headers["x-ojs-job-id"], job);
        assert_eq!((&*told.headers["x-ojs-queue"], &*told.headers["x-ojs-attempt"]), ("default", "1"));
    });
}

#[test]
fn nothing_is_lost_when_the_server_is_killed() {
    let url = Broker::shared().vhost();
    bind(&url);
    super::nothing_is_lost_when_the_server_is_killed(&setup(&url, &|| read(&url)));
}

#[test]
fn nothing_is_lost_when_the_broker_is_killed() {
    let broker = Broker::start();
    let url = broker.vhost();
    bind(&url);
    super::nothing_is_lost_when_the_broker_is_killed(&setup(&url, &|| read(&url)), &|| {
        broker.kill();
        broker.start_again();
    });
}

#[test]
fn a_wrong_password_and_an_exchange_of_another_type_are_told() {
    let url = Broker::shared().vhost();
    let wrong = url.replace("guest:guest@", "guest:hunter2@");
    super::trouble_is_told_and_the_rest_goes_on(&setup(&wrong, &Vec::new), "could not connect to amqp.url");
    pika(
        &url,
        "channel.exchange_declare('forgerun.results', 'fanout', durable=True)\nprint('null')\n",
        &Value::Null,
    );
    super::trouble_is_told_and_the_rest_goes_on(
        &setup(&url, &Vec::new),
        "could not declare exchange forgerun.results",
    );
}

#[test]
fn a_job_whose_routing_key_would_be_too_long_is_left_out_and_the_next_goes_out() {
    let url = Broker::shared().vhost();
    bind(&url);
    let world = World::new(&setup(&url, &Vec::new), &[]);
    let server = world.start();
    drained(&server);
    // Valid for a queue; in a routing key each dot takes three bytes.
    let submit_to =
        |queue| submit_job(&server, json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "queue": queue}));
    let (long, fine) = (submit_to(["a"; 100].join(".")), submit_to("mail".to_owned()));
    drained(&server);
    let jobs: Vec<String> = read(&url).iter().map(Message::job).collect();
    assert!(jobs.contains(&fine) && !jobs.contains(&long), "{jobs:?}");
    assert_eq!(sink(&server)["refused"], 1);
}
