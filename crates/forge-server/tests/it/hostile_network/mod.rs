//! Three nodes on one PostgreSQL, and all that networks, clocks and machines do to them while clients submit through each: cut off from the database for
//! longer than a lease, cut off from clients, a slow database, lost packets, a clock five minutes ahead, a frozen process. Nothing that was
//! acknowledged is lost, nothing ends twice, deliveries of a job arrive in order, a tick makes one job, and work goes on.
//!
//! `make torture` plays it for many rounds, in any order.

mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forge_engine::{Clock, SystemClock};
use forge_store::testing::{Cluster, Durability};
use forge_wire::time;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::runtime::{Handle, Runtime};

use crate::crash::{Connection, first_key, start};
use crate::load::Load;
use crate::nodes::start_ahead;
use crate::process::Server;
use crate::rabbitmq::pause;
use crate::schedules::ticks;
use crate::webhooks::receiver::{Receiver, read_request};
use wire::{Condition, Wire};

/// What `start` gives nodes.
const LEASE: Duration = Duration::from_secs(2);
/// Longer than a lease, and than a node may be silent in a transaction.
const TROUBLE: Duration = Duration::from_secs(6);
/// How much later than lease + 1 s work may go on: this machine has other things to do.
const SLACK: Duration = Duration::from_secs(30);

/// What happens to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    DatabaseCut,
    ClientsCut,
    DatabaseSlow,
    PacketsLost,
    Frozen,
}

const MISHAPS: [Mishap; 5] =
    [Mishap::DatabaseCut, Mishap::ClientsCut, Mishap::DatabaseSlow, Mishap::PacketsLost, Mishap::Frozen];

/// A node, and what lies before and behind it.
struct Node {
    server: Server,
    to_database: Wire,
    from_clients: Wire,
}

impl Node {
    fn start(url: &str, database: SocketAddr, start: fn(&str) -> Server, runtime: &Handle) -> Node {
        let to_database = Wire::to(database, runtime);
        let server = start(&url.replace(&database.to_string(), &to_database.address.to_string()));
        let from_clients = Wire::to(server.address, runtime);
        Node { server, to_database, from_clients }
    }

    fn befall(&self, mishap: Mishap, load: &Load) {
        let cut = Condition { is_cut: true, ..Condition::default() };
        let slow = Condition { delay: Duration::from_millis(100), ..Condition::default() };
        let losing = Condition { loses_one_in: 20, ..Condition::default() };
        match mishap {
            Mishap::DatabaseCut => self.to_database.set(cut),
            Mishap::ClientsCut => self.from_clients.set(cut),
            Mishap::DatabaseSlow => self.to_database.set(slow),
            Mishap::PacketsLost => self.to_database.set(losing),
            Mishap::Frozen => self.server.signal("STOP"),
        }
        load.wait_for_more();
        match mishap {
            Mishap::DatabaseCut | Mishap::Frozen => pause(TROUBLE),
            Mishap::ClientsCut => pause(LEASE),
            Mishap::DatabaseSlow | Mishap::PacketsLost => {}
        }
        self.to_database.set(Condition::default());
        self.from_clients.set(Condition::default());
        if mishap == Mishap::Frozen {
            self.server.signal("CONT");
        }
        load.wait_for_more();
    }
}

/// What arrived at the receiver: the number of the submission, and the delivery.
type Arrivals = Arc<Mutex<Vec<(usize, String)>>>;

async fn receiver(arrivals: Arrivals) -> Receiver {
    Receiver::start(move |mut connection| {
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
    let cluster = Cluster::start(Durability::Full);
    let url = runtime.block_on(cluster.database());
    let database = SocketAddr::from(([127, 0, 0, 1], cluster.port()));
    let starts: [fn(&str) -> Server; 3] = [start, start, start_ahead];
    let nodes = starts.map(|start| Node::start(&url, database, start, runtime.handle()));
    let arrivals = Arrivals::default();
    let receiver = runtime.block_on(receiver(arrivals.clone()));
    let mut load = Load::through(nodes.iter().map(|node| node.from_clients.address).collect());
    load.callback = Some(format!("http://{}/jobs", receiver.address));
    // A tenth of a second each, so that some are under way when something happens.
    load.work_kind = "SUCCESS_NORMAL";
    load.pace = Duration::from_millis(150);
    load.n_more = 20;
    let scheduling = schedule(&nodes[0].server);
    load.during(|| {
        for round in 0..n_rounds {
            for (turn, mishap) in MISHAPS.into_iter().enumerate() {
                let first = if n_rounds == 1 { 0 } else { SystemClock.random() as usize };
                let n = first.wrapping_add(turn + round) % nodes.len();
                println!("round {round}: {mishap:?} befalls node {n}");
                nodes[n].befall(mishap, &load);
            }
        }
    });
    load.check(&nodes[0].server);
    check_lost_attempts(&nodes[1].server, &load);
    check_deliveries(&load, &arrivals);
    runtime.block_on(check_ticks(&nodes[2].server, &scheduling));
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

/// A job whose worker was lost went on soon after its lease, by the times that its own report has.
fn check_lost_attempts(node: &Server, load: &Load) {
    let mut connection = Connection::open(node.address, &load.key).unwrap();
    let (mut n_lost, mut longest) = (0, Duration::ZERO);
    for id in load.heard.lock().unwrap().keys() {
        let (_, report) = connection.ask("GET", &format!("/v1/jobs/{id}/report"), "").unwrap();
        let events = report["events"].as_array().unwrap();
        let at = |event: &Value| time::parse(event["timestamp"].as_str().unwrap()).unwrap();
        for pair in events.windows(2) {
            let reason = pair[1]["reason"].as_str().unwrap_or_default();
            if ["runner_lost", "lease_expired"].contains(&reason) {
                n_lost += 1;
                longest = longest.max(at(&pair[1]).since(at(&pair[0])));
            }
        }
    }
    println!("{n_lost} attempts were lost, and noticed after {longest:?} at most");
    assert!(longest < LEASE + Duration::from_secs(1) + SLACK, "{longest:?}");
}

/// Deliveries of a job arrive in order, those that arrive again aside, and none is missing.
fn check_deliveries(load: &Load, arrivals: &Arrivals) {
    let heard = load.heard.lock().unwrap();
    // Created, queued, assigned, started, succeeded: at least.
    let is_complete = || {
        let mut distinct: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for (n, id) in arrivals.lock().unwrap().iter() {
            distinct.entry(*n).or_default().insert(id.clone());
        }
        heard.values().all(|n| distinct.get(n).is_some_and(|ids| ids.len() >= 5))
    };
    for _ in 0..1200 {
        if is_complete() {
            break;
        }
        pause(Duration::from_millis(100));
    }
    assert!(is_complete(), "deliveries are missing");
    let mut known: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let arrivals = arrivals.lock().unwrap();
    for (n, id) in arrivals.iter() {
        let before = known.entry(*n).or_default();
        if before.contains(&id.as_str()) {
            continue;
        }
        // Ids of deliveries begin with the time of their event and its number.
        assert!(before.last().is_none_or(|last| *last < id.as_str()), "{id} arrived after {before:?}");
        before.push(id);
    }
    let n_distinct: usize = known.values().map(Vec::len).sum();
    println!("{} deliveries, of which {} arrived again", arrivals.len(), arrivals.len() - n_distinct);
}

/// No second is missing, and none is there twice.
async fn check_ticks(node: &Server, key: &str) {
    let ticks = ticks(node, key, "each-second").await;
    assert!(ticks.len() > 5, "{ticks:?}");
    let odd = ticks.windows(2).filter(|pair| pair[1].since(pair[0]).as_secs() != 1).count();
    assert_eq!(odd, 0, "each second once: {ticks:?}");
    println!("{} ticks made one job each", ticks.len());
}
