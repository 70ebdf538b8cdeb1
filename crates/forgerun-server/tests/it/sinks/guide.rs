//! The programs in docs/reference/brokers.md run as they stand there.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;

use super::{BrokerSetup, World, submit};
use crate::rabbitmq;

const PAGE: &str = include_str!("../../../../../docs/reference/brokers.md");

/// The program in Python under a heading.
fn program(heading: &str) -> &'static str {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).expect("the heading is there");
    let (_, program) = section.split_once("```python\n").expect("a program in Python");
    let (program, _) = program.split_once("```").expect("the end of the program");
    assert!(program.lines().count() <= 30, "it shall be short");
    program
}

/// Runs the program of a broker until it has told of a job that failed.
fn tells_of_a_result(heading: &str, url: &str, setup: &BrokerSetup<'_>) {
    let world = World::new(setup, &[]);
    let server = world.start();
    super::drained(&server);
    let mut command = Command::new(rabbitmq::python());
    command
        .args(["-c", program(heading), url])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("cannot start python");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let reading = thread::spawn(move || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line
    });
    // A consumer may begin with what comes after it, so there is more than one to tell of.
    super::wait_for("the consumer to tell of a result", || {
        submit(&server, "FAIL_IMMEDIATE");
        reading.is_finished().then_some(())
    });
    let told = reading.join().unwrap();
    assert!(told.starts_with("FAILED"), "{heading}: {told}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(told.split(' ').count() >= 2, "{told}");
}

#[test]
#[cfg(feature = "nats")]
fn the_consumer_for_nats_in_the_guide_runs() {
    let server = super::nats::NatsServer::start(&[]);
    let url = server.url("");
    let environment = vec![("FORGERUN_NATS__URL", url.clone())];
    tells_of_a_result(
        "NATS",
        &url,
        &BrokerSetup { environment, section: "NATS", prefix: "ce-", read: &Vec::new },
    );
}

#[test]
#[cfg(feature = "amqp")]
fn the_consumer_for_rabbitmq_in_the_guide_runs() {
    let url = rabbitmq::Broker::shared().vhost();
    let environment = vec![("FORGERUN_AMQP__URL", url.clone())];
    let setup = BrokerSetup { environment, section: "AMQP", prefix: "cloudEvents_", read: &Vec::new };
    tells_of_a_result("RabbitMQ", &url, &setup);
}

#[test]
#[cfg(feature = "kafka")]
fn the_consumer_for_kafka_in_the_guide_runs() {
    let Some(broker) = super::kafka::KafkaBroker::shared() else { return };
    let environment = vec![("FORGERUN_KAFKA__BROKERS", broker.address())];
    let setup = BrokerSetup { environment, section: "KAFKA", prefix: "ce_", read: &Vec::new };
    tells_of_a_result("Kafka", &broker.address(), &setup);
}
