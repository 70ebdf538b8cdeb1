//! Three nodes on one PostgreSQL and one broker, and all that networks, clocks and machines do to
//! them while clients submit through each: cut off from the database for longer than a lease, from
//! the broker, from clients, a slow database, lost packets, a clock five minutes ahead, a frozen
//! process, restarts of all nodes one after the other. Nothing that was acknowledged is lost,
//! nothing ends twice, deliveries and events in the broker arrive in order and are complete, a tick
//! makes one job, and work goes on.
//!
//! Each node has a network of its own from the kernel, where that is allowed (`network`).
//!
//! `make torture` plays it for many rounds, in any order.

mod checks;
mod namespaces;
mod network;
mod wire;

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forgerun_engine::{Clock, SystemClock};
use forgerun_store::testing::{Cluster, Durability};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Runtime;

use crate::crash::{Connection, first_key, started};
use crate::load::Load;
use crate::nodes::five_minutes_ahead;
use crate::process::{Server, forgerun};
use crate::rabbitmq::pause;
use crate::sinks::nats::NatsServer;
use crate::sinks::wait_for;
use crate::webhooks::receiver::{Receiver, read_request};
use checks::{Reports, check_deliveries, check_lost_attempts, check_sessions, check_sink, check_ticks, sink};
use network::{Network, NetworkFault, Services, Surroundings};

const TOKEN: &str = "the-operator-and-nobody-else";

/// How long a bad network lasts at least.
const A_WHILE: Duration = Duration::from_secs(4);
/// Longer than a lease, and than a node may be silent in a transaction.
const AWAY: Duration = Duration::from_secs(6);

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    /// To the network of a node.
    Network(NetworkFault),
    /// A node is frozen.
    Frozen,
    /// All nodes are stopped and started, one after the other.
    Restarts,
}

const MISHAPS: [Mishap; 7] = [
    Mishap::Network(NetworkFault::DatabaseCut),
    Mishap::Network(NetworkFault::ClientsCut),
    Mishap::Network(NetworkFault::DatabaseSlow),
    Mishap::Network(NetworkFault::BrokerCut),
    Mishap::Network(NetworkFault::PacketsLost),
    Mishap::Restarts,
    Mishap::Frozen,
];

impl Mishap {
    /// Whether a node cannot send to the broker, so that another takes over.
    fn ends_sending(self) -> bool {
        matches!(self, Mishap::Frozen | Mishap::Network(NetworkFault::DatabaseCut | NetworkFault::BrokerCut))
    }
}

/// A node, and what lies around it.
struct Node {
    server: Server,
    around: Surroundings,
    database: String,
    is_ahead: bool,
    /// Where clients find it.
    address: SocketAddr,
}

impl Node {
    /// `database` is the name of the database.
    fn start(n: usize, mut around: Surroundings, database: &str) -> Node {
        // The last one has a wrong clock.
        let is_ahead = n == 2;
        let server = started(command(&around, database, is_ahead));
        let address = around.for_clients(&server);
        Node { server, around, database: database.to_owned(), is_ahead, address }
    }

    /// Stops the node in good order, and starts it again.
    fn restart(&mut self) {
        self.server.signal("TERM");
        let new = started(command(&self.around, &self.database, self.is_ahead));
        self.address = self.around.for_clients(&new);
        let ended = std::mem::replace(&mut self.server, new).wait();
        assert_eq!(ended.code, Some(0), "a node stops in good order: {}", ended.stderr);
    }

    /// Events that the node has sent to the broker.
    fn n_sent(&self) -> u64 {
        let metrics = self.server.get("/metrics");
        let sent = metrics.lines().find_map(|line| line.strip_prefix("sink_sent_total{sink=\"nats\"} "));
        sent.map_or(0, |sent| sent.trim().parse().unwrap())
    }
}

fn command(around: &Surroundings, database: &str, is_ahead: bool) -> Command {
    let services = around.services();
    let url = format!("postgres://forgerun@{}/{database}", services.database);
    let listen = around.listen().to_string();
    let mut command = forgerun(&["serve", "--listen", &listen, "--database-url", &url]);
    command
        .env("FORGERUN_AUTH__ADMIN_TOKEN", TOKEN)
        .env("FORGERUN_AUTH__REGISTRATION", "open")
        .env("FORGERUN_WEBHOOKS__PRIVATE_TARGETS", "allow")
        .env("FORGERUN_NATS__URL", format!("nats://{}", services.broker))
        .env("FORGERUN_NATS__EVENTS", "all");
    if is_ahead {
        five_minutes_ahead(&mut command);
    }
    around.inside(command)
}

/// What arrived at the receiver: the number of the submission, and the delivery.
type Arrivals = Arc<Mutex<Vec<(usize, String)>>>;

async fn receiver(host: IpAddr, arrivals: Arrivals) -> Receiver {
    Receiver::start_at(host, move |mut connection| {
        let arrivals = arrivals.clone();
        async move {
            while let Some((head, _)) = read_request(&mut connection).await {
                let path = head.split(' ').nth(1).unwrap();
                let n = path.rsplit('/').next().unwrap().parse().unwrap();
                let id = head.lines().find_map(|line| line.strip_prefix("webhook-id: ")).unwrap();
                arrivals.lock().unwrap().push((n, id.to_owned()));
                if connection.write_all(b"HTTP/1.1 204 -\r\n\r\n").await.is_err() {
                    return;
                }
            }
        }
    })
    .await
}

#[test]
fn nothing_is_lost_or_done_twice_whatever_the_network_does() {
    let n_rounds: usize = std::env::var("FORGERUN_TORTURE_ROUNDS").map_or(1, |n| n.parse().unwrap());
    let runtime = Runtime::new().unwrap();
    let network = Network::make(3);
    let host = network.host();
    let cluster = Cluster::start_at(host, Durability::Full);
    let url = runtime.block_on(cluster.database());
    let database = url.rsplit('/').next().unwrap();
    let broker = NatsServer::start_at(host, &[]);
    let services = Services { database: (host, cluster.port()).into(), broker: broker.address };
    let around = |n| network.around(n, services, runtime.handle());
    let mut nodes: Vec<Node> = (0..3).map(|n| Node::start(n, around(n), database)).collect();
    // What happens before the sink was used for the first time is not sent.
    wait_for("the sink to be used", || (sink(&nodes[0].server)["state"] == "ok").then_some(()));
    let n_sessions = runtime.block_on(cluster.n_sessions());
    let arrivals = Arrivals::default();
    let receiver = runtime.block_on(receiver(host, arrivals.clone()));
    let mut load = Load::through(nodes.iter().map(|node| node.address).collect());
    load.callback = Some(format!("http://{}/jobs", receiver.address));
    // Almost a second each, so that many are under way when something happens.
    load.work_kind = "SUCCESS_SLOW";
    load.pace = Duration::from_millis(150);
    load.n_more = 20;
    let scheduling = schedule(&nodes[0].server);
    load.during(|| {
        for round in 0..n_rounds {
            for (turn, mishap) in MISHAPS.into_iter().enumerate() {
                let first = if n_rounds == 1 { 0 } else { SystemClock.random() as usize };
                let n = first.wrapping_add(turn + round) % nodes.len();
                befall(mishap, n, &mut nodes, &load);
            }
        }
    });
    load.check(&nodes[0].server);
    let reports = Reports::read(&nodes[1].server, &load);
    check_lost_attempts(&reports);
    check_deliveries(&reports, &arrivals);
    check_sink(&nodes[2].server, &reports, &broker);
    runtime.block_on(check_ticks(&nodes[2].server, &scheduling));
    runtime.block_on(check_sessions(&cluster, n_sessions));
}

/// Something happens to a node: to this one, or to the one that sends to the broker, if another has
/// to take over from it.
fn befall(mishap: Mishap, n: usize, nodes: &mut [Node], load: &Load) {
    let n = if mishap.ends_sending() { sender(nodes, None) } else { n };
    println!("{mishap:?}, node {n}");
    match mishap {
        Mishap::Network(fault) => {
            let node = &mut nodes[n];
            node.around.spoil(fault, &node.server);
            go_on_without(n, mishap, nodes, load);
            nodes[n].around.mend();
        }
        Mishap::Frozen => {
            nodes[n].server.signal("STOP");
            go_on_without(n, mishap, nodes, load);
            nodes[n].server.signal("CONT");
        }
        Mishap::Restarts => {
            for (n, node) in nodes.iter_mut().enumerate() {
                node.restart();
                load.moved(n, node.address);
                load.wait_for_more();
            }
        }
    }
    load.wait_for_more();
}

/// Work goes on for a while, and somebody sends to the broker.
fn go_on_without(n: usize, mishap: Mishap, nodes: &[Node], load: &Load) {
    load.wait_for_more();
    if mishap.ends_sending() {
        pause(AWAY);
        sender(nodes, Some(n));
    } else {
        pause(A_WHILE);
    }
}

/// Waits for a node that sends to the broker; not for this one, which may not even answer.
fn sender(nodes: &[Node], but: Option<usize>) -> usize {
    let counts = || nodes.iter().enumerate().map(|(n, node)| if but == Some(n) { 0 } else { node.n_sent() });
    let before: Vec<u64> = counts().collect();
    wait_for("a node that sends to the broker", || {
        counts().zip(&before).position(|(now, before)| now > *before)
    })
}

/// Makes a schedule with a tick per second, of a client of its own; its key.
fn schedule(node: &Server) -> String {
    let key = first_key(node.address);
    let body = json!({
        "cron": "* * * * * *", "overlap_policy": "allow", "catch_up": "all",
        "job": {"type": "EXECUTE", "work_kind": "SUCCESS_FAST"},
    });
    let mut connection = Connection::open(node.address, &key).unwrap();
    let (status, schedule) = connection.ask("PUT", "/v1/schedules/each-second", &body.to_string()).unwrap();
    assert!(status < 300, "{schedule}");
    key
}
