//! Kafka: Apache Kafka itself, one node in KRaft mode, read back by PyPI `confluent-kafka`.
//!
//! Its jars come from Maven Central, by `make tools`. Where that cannot be reached there are none,
//! and these tests say so and end.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use forgerun_store::testing::free_ports;

use super::broker_process::BrokerProcess;
use super::{BrokerSetup, Message, python, tools, wait_for};

const PASSWORD: &str = "right";

/// A broker; all tests but those that kill it share one, and have a topic each.
pub(super) struct KafkaBroker {
    process: BrokerProcess,
    plain: u16,
    secure: u16,
    expired: u16,
    controller: u16,
}

/// The jars; `None` where Maven Central could not be reached. Says so past the capture of test
/// output: `scripts/count-tests` counts the line.
fn jars() -> Option<PathBuf> {
    let folder = tools().join("kafka/lib");
    if folder.is_dir() {
        return Some(folder);
    }
    let folder = folder.display();
    let line =
        format!("SKIPPED: Apache Kafka is not there ({folder}); `make tools` gets it from Maven Central\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    None
}

impl KafkaBroker {
    pub(super) fn shared() -> Option<&'static KafkaBroker> {
        static SHARED: OnceLock<Option<KafkaBroker>> = OnceLock::new();
        jars()?;
        SHARED.get_or_init(KafkaBroker::start).as_ref()
    }

    fn start() -> Option<KafkaBroker> {
        jars()?;
        let [plain, secure, expired, controller] = free_ports();
        let broker = KafkaBroker { process: BrokerProcess::new(), plain, secure, expired, controller };
        broker.write_settings();
        let made = broker
            .java("kafka.tools.StorageTool")
            .args(["format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAA", "--config", "server.properties"])
            .args(["--add-scram", &format!("SCRAM-SHA-512=[name=me,password={PASSWORD}]")])
            .current_dir(broker.process.folder())
            .output()
            .expect("cannot start java");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        broker.start_again();
        Some(broker)
    }

    fn start_again(&self) {
        let mut command = self.java("kafka.Kafka");
        command.arg("server.properties");
        self.process.start(&mut command);
        const LOOK: &str = r#"
import sys
from confluent_kafka.admin import AdminClient
try:
    AdminClient({"bootstrap.servers": sys.argv[1]}).list_topics(timeout=2)
    print("true")
except Exception:
    print("false")
"#;
        let address = self.address();
        wait_for(&format!("Kafka to start\n{}", self.process.log()), || {
            (python(LOOK, &[&address]) == true).then_some(())
        });
    }

    fn java(&self, class: &str) -> Command {
        let jars = jars().expect("looked for before");
        let mut command = Command::new("java");
        command.args(["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]);
        command.arg(format!("{}/*", fs::canonicalize(jars).unwrap().display())).arg(class);
        command
    }

    fn write_settings(&self) {
        let folder = self.process.folder();
        for (name, not_after) in [("good", 2100), ("expired", 2001)] {
            let (certificate, key) = certificate(not_after);
            fs::write(folder.join(format!("{name}.pem")), format!("{key}{certificate}")).unwrap();
            fs::write(folder.join(format!("{name}.crt")), certificate).unwrap();
        }
        let KafkaBroker { plain, secure, expired, controller, .. } = self;
        let path = folder.display();
        let listeners = format!(
            "PLAINTEXT://127.0.0.1:{plain},SECURE://127.0.0.1:{secure},EXPIRED://127.0.0.1:{expired}"
        );
        let advertised = format!(
            "PLAINTEXT://127.0.0.1:{plain},SECURE://localhost:{secure},EXPIRED://localhost:{expired}"
        );
        let jaas = "org.apache.kafka.common.security";
        let settings = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners={listeners},CONTROLLER://127.0.0.1:{controller}\nadvertised.listeners={advertised}\n\
             controller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,EXPIRED:SSL,CONTROLLER:PLAINTEXT\n\
             sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n\
             listener.name.secure.plain.sasl.jaas.config={jaas}.plain.PlainLoginModule required user_me=\"{PASSWORD}\";\n\
             listener.name.secure.scram-sha-512.sasl.jaas.config={jaas}.scram.ScramLoginModule required;\n\
             listener.name.secure.ssl.keystore.type=PEM\nlistener.name.secure.ssl.keystore.location={path}/good.pem\n\
             listener.name.expired.ssl.keystore.type=PEM\nlistener.name.expired.ssl.keystore.location={path}/expired.pem\n\
             log.dirs={path}/data\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             auto.create.topics.enable=false\ngroup.initial.rebalance.delay.ms=0\n"
        );
        fs::write(folder.join("server.properties"), settings).unwrap();
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.plain)
    }

    /// Everything in a topic, partition by partition.
    fn read(&self, topic: &str) -> Vec<Message> {
        const PROGRAM: &str = r#"
import base64, json, sys
from confluent_kafka import Consumer, TopicPartition
reader = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "test", "enable.auto.commit": False})
parts = [TopicPartition(sys.argv[2], n, 0) for n in reader.list_topics(sys.argv[2], 60).topics[sys.argv[2]].partitions]
left = sum(reader.get_watermark_offsets(part, 60)[1] for part in parts)
reader.assign(parts)
found = []
while len(found) < left:
    one = reader.poll(60)
    assert one and not one.error(), one and one.error()
    found.append(one)
print(json.dumps([{"address": one.topic(), "key": one.key().decode(), "partition": one.partition(),
    "headers": {name: value.decode() for name, value in one.headers()},
    "value": base64.b64encode(one.value()).decode()} for one in found]))
"#;
        Message::all(&python(PROGRAM, &[&self.address(), topic]))
    }

    fn make_topic(&self, topic: &str, settings: &str) {
        const PROGRAM: &str = r#"
import json, sys
from confluent_kafka.admin import AdminClient, NewTopic
new = NewTopic(sys.argv[2], 1, 1, config=json.loads(sys.argv[3]))
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
for made in admin.create_topics([new]).values():
    made.result(60)
print("null")
"#;
        python(PROGRAM, &[&self.address(), topic, settings]);
    }
}

/// A certificate for `localhost` that ends in this year, and its key, both as PEM.
fn certificate(year: i32) -> (String, String) {
    let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    (parameters.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn setup<'a>(broker: &KafkaBroker, topic: &str, read: &'a dyn Fn() -> Vec<Message>) -> BrokerSetup<'a> {
    let environment =
        vec![("FORGERUN_KAFKA__BROKERS", broker.address()), ("FORGERUN_KAFKA__TOPIC", topic.to_owned())];
    BrokerSetup { environment, section: "KAFKA", prefix: "ce_", read }
}

#[test]
fn events_arrive_in_a_topic_as_over_http() {
    let Some(broker) = KafkaBroker::shared() else { return };
    let topic = "arrive";
    super::events_arrive_as_over_http(&setup(broker, topic, &|| broker.read(topic)), |told, job| {
        assert_eq!((told.key.as_str(), told.address.as_str()), (job, topic));
    });
}

#[test]
fn nothing_is_lost_when_the_server_is_killed() {
    let Some(broker) = KafkaBroker::shared() else { return };
    let topic = "killed";
    super::nothing_is_lost_when_the_server_is_killed(&setup(broker, topic, &|| broker.read(topic)));
}

#[test]
fn nothing_is_lost_when_the_broker_is_killed() {
    let Some(broker) = KafkaBroker::start() else { return };
    let topic = "restarted";
    super::nothing_is_lost_when_the_broker_is_killed(&setup(&broker, topic, &|| broker.read(topic)), &|| {
        broker.process.kill();
        broker.start_again();
    });
}

#[test]
fn a_message_above_the_bound_of_the_topic_is_left_out() {
    let Some(broker) = KafkaBroker::shared() else { return };
    let topic = "small";
    broker.make_topic(topic, r#"{"max.message.bytes": "4096", "compression.type": "uncompressed"}"#);
    super::a_message_that_is_too_large_is_left_out(&setup(broker, topic, &|| broker.read(topic)));
}

#[test]
fn a_topic_that_does_not_exist_is_told_where_it_shall_not_be_made() {
    let Some(broker) = KafkaBroker::shared() else { return };
    let mut setup = setup(broker, "missing", &Vec::new);
    setup.environment.push(("FORGERUN_KAFKA__CREATE_TOPIC", "false".to_owned()));
    super::trouble_is_told_and_the_rest_goes_on(
        &setup,
        "topic missing does not exist; make it, or set kafka.create_topic",
    );
}

/// What a server needs to talk over TLS, as `me` with this password.
fn secure(broker: &KafkaBroker, mechanism: &str, password: &str) -> Vec<(&'static str, String)> {
    let ca = broker.process.folder().join("good.crt");
    vec![
        ("FORGERUN_KAFKA__BROKERS", format!("localhost:{}", broker.secure)),
        ("FORGERUN_KAFKA__TLS__ENABLED", "true".to_owned()),
        ("FORGERUN_KAFKA__TLS__CA", ca.display().to_string()),
        ("FORGERUN_KAFKA__SASL__MECHANISM", mechanism.to_owned()),
        ("FORGERUN_KAFKA__SASL__USERNAME", "me".to_owned()),
        ("FORGERUN_KAFKA__SASL__PASSWORD", password.to_owned()),
    ]
}

#[test]
fn results_go_out_over_tls_with_plain_and_scram() {
    let Some(broker) = KafkaBroker::shared() else { return };
    for (mechanism, topic) in [("PLAIN", "secure-plain"), ("SCRAM-SHA-512", "secure-scram")] {
        let read = || broker.read(topic);
        let mut setup = setup(broker, topic, &read);
        setup.environment.extend(secure(broker, mechanism, PASSWORD));
        let world = super::World::new(&setup, &[]);
        let server = world.start();
        let job = super::submit(&server, "FAIL_IMMEDIATE");
        super::drained(&server);
        let keys: Vec<String> = (setup.read)().into_iter().map(|message| message.key).collect();
        assert_eq!(keys, [job], "{mechanism}");
    }
}

#[test]
fn a_wrong_password_and_an_expired_certificate_are_told() {
    let Some(broker) = KafkaBroker::shared() else { return };
    let mut wrong = setup(broker, "wrong", &Vec::new);
    wrong.environment.extend(secure(broker, "SCRAM-SHA-512", "hunter2"));
    super::trouble_is_told_and_the_rest_goes_on(&wrong, "uthentication failed");
    let mut expired = setup(broker, "expired", &Vec::new);
    let ca = broker.process.folder().join("expired.crt");
    expired.environment.extend([
        ("FORGERUN_KAFKA__BROKERS", format!("localhost:{}", broker.expired)),
        ("FORGERUN_KAFKA__TLS__ENABLED", "true".to_owned()),
        ("FORGERUN_KAFKA__TLS__CA", ca.display().to_string()),
    ]);
    super::trouble_is_told_and_the_rest_goes_on(&expired, "certificate");
}
