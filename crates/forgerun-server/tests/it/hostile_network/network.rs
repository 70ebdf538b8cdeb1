//! What lies around a node, and how it is spoiled: by the kernel (`namespaces`), or by wires in
//! this process (`wire`) where the kernel does not allow it. The story of a test is the same with
//! both.
//!
//! The kernel does not delay packets here (`netem` is missing in many), so a slow database is a
//! wire with both: for as long as it is slow the node's connections to it are broken, and new ones
//! lead through the wire.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use tokio::runtime::Handle;

use super::namespaces::{Namespace, Namespaces};
use super::wire::{Condition, Wire};
use crate::process::Server;

/// What happens to a node's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetworkFault {
    DatabaseCut,
    BrokerCut,
    ClientsCut,
    DatabaseSlow,
    PacketsLost,
}

/// How much longer everything takes with a slow database, one way.
const DELAY: Duration = Duration::from_millis(100);
/// Of a hundred packets so many are lost, each way.
const LOST_PERCENT: u32 = 10;

/// Where nodes find what they need.
#[derive(Clone, Copy)]
pub(super) struct Services {
    pub(super) database: SocketAddr,
    pub(super) broker: SocketAddr,
}

/// The network of all nodes.
pub(super) enum Network {
    Namespaces(Namespaces),
    Wires,
}

impl Network {
    /// Of the kernel if it can be had. Says past the capture of test output if not.
    pub(super) fn make(n_nodes: u32) -> Network {
        match Namespaces::make(n_nodes) {
            Ok(namespaces) => Network::Namespaces(namespaces),
            Err(why) => {
                let line =
                    format!("no network namespaces ({why}): wires in the test's process take their place\n");
                std::io::stderr().write_all(line.as_bytes()).unwrap();
                Network::Wires
            }
        }
    }

    /// The address of this machine where nodes can reach it.
    pub(super) fn host(&self) -> IpAddr {
        match self {
            Network::Namespaces(namespaces) => namespaces.host,
            Network::Wires => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// What lies around this node.
    pub(super) fn around(&self, n: usize, services: Services, runtime: &Handle) -> Surroundings {
        let path = match self {
            Network::Namespaces(namespaces) => {
                NetworkPath::Namespace { namespace: namespaces.all[n].clone(), slow: None }
            }
            Network::Wires => NetworkPath::Wires {
                to_database: Wire::to(services.database, runtime),
                to_broker: Wire::to(services.broker, runtime),
                from_clients: None,
            },
        };
        Surroundings { path, services, runtime: runtime.clone() }
    }
}

/// What lies around a node.
pub(super) struct Surroundings {
    path: NetworkPath,
    services: Services,
    runtime: Handle,
}

enum NetworkPath {
    /// `slow` is there while the database is.
    Namespace { namespace: Namespace, slow: Option<Wire> },
    /// `from_clients` is there once the node was started.
    Wires { to_database: Wire, to_broker: Wire, from_clients: Option<Wire> },
}

impl Surroundings {
    /// Where the node shall listen.
    pub(super) fn listen(&self) -> SocketAddr {
        match &self.path {
            NetworkPath::Namespace { namespace, .. } => (namespace.address, 0).into(),
            NetworkPath::Wires { .. } => (Ipv4Addr::LOCALHOST, 0).into(),
        }
    }

    /// Where the node finds what it needs.
    pub(super) fn services(&self) -> Services {
        match &self.path {
            NetworkPath::Namespace { .. } => self.services,
            NetworkPath::Wires { to_database, to_broker, .. } => {
                Services { database: to_database.address, broker: to_broker.address }
            }
        }
    }

    /// The command as it must run to be here.
    pub(super) fn inside(&self, command: Command) -> Command {
        match &self.path {
            NetworkPath::Namespace { namespace, .. } => namespace.inside(&command),
            NetworkPath::Wires { .. } => command,
        }
    }

    /// Where clients find the node, which has just been started.
    pub(super) fn for_clients(&mut self, server: &Server) -> SocketAddr {
        match &mut self.path {
            NetworkPath::Namespace { .. } => server.address,
            NetworkPath::Wires { from_clients, .. } => {
                from_clients.insert(Wire::to(server.address, &self.runtime)).address
            }
        }
    }

    pub(super) fn spoil(&mut self, fault: NetworkFault, server: &Server) {
        match &mut self.path {
            NetworkPath::Namespace { namespace, slow } => {
                let way_round = (fault == NetworkFault::DatabaseSlow).then(|| {
                    let wire = Wire::at(self.services.database.ip(), self.services.database, &self.runtime);
                    wire.set(Condition { delay: DELAY, ..Condition::default() });
                    slow.insert(wire).address
                });
                let rules = rules(fault, self.services, server.address.port(), way_round);
                namespace.set_rules(&rules).unwrap();
            }
            NetworkPath::Wires { to_database, to_broker, from_clients } => {
                let cut = Condition { is_cut: true, ..Condition::default() };
                let slow = Condition { delay: DELAY, ..Condition::default() };
                let losing = Condition { lost_percent: LOST_PERCENT, ..Condition::default() };
                let from_clients = from_clients.as_ref().expect("the node was started");
                match fault {
                    NetworkFault::DatabaseCut => to_database.set(cut),
                    NetworkFault::BrokerCut => to_broker.set(cut),
                    NetworkFault::ClientsCut => from_clients.set(cut),
                    NetworkFault::DatabaseSlow => to_database.set(slow),
                    NetworkFault::PacketsLost => {
                        [&*to_database, to_broker, from_clients]
                            .into_iter()
                            .for_each(|wire| wire.set(losing));
                    }
                }
            }
        }
    }

    pub(super) fn mend(&mut self) {
        match &mut self.path {
            NetworkPath::Namespace { namespace, slow } => {
                namespace.set_rules("").unwrap();
                *slow = None;
            }
            NetworkPath::Wires { to_database, to_broker, from_clients } => {
                for wire in [&*to_database, to_broker].into_iter().chain(from_clients.as_ref()) {
                    wire.set(Condition::default());
                }
            }
        }
    }
}

/// What the firewall of a node does. `port` is where the node listens.
fn rules(fault: NetworkFault, services: Services, port: u16, way_round: Option<SocketAddr>) -> String {
    let Services { database, broker } = services;
    let cut_from = |there: SocketAddr| {
        (format!("tcp sport {} drop", there.port()), format!("tcp dport {} drop", there.port()))
    };
    let lost = format!("numgen random mod 100 < {LOST_PERCENT} drop");
    let (into, out) = match fault {
        NetworkFault::DatabaseCut => cut_from(database),
        NetworkFault::BrokerCut => cut_from(broker),
        NetworkFault::ClientsCut => (format!("tcp dport {port} drop"), format!("tcp sport {port} drop")),
        NetworkFault::PacketsLost => (lost.clone(), lost),
        // What still goes there belongs to a connection that is older than the way round.
        NetworkFault::DatabaseSlow => {
            (String::new(), format!("tcp dport {} reject with tcp reset", database.port()))
        }
    };
    let redirect = way_round.map_or_else(String::new, |to| {
        let from = database.port();
        format!("chain to {{ type nat hook output priority -100; tcp dport {from} dnat ip to {to}; }}")
    });
    format!(
        "table inet mishap {{\n{redirect}\n\
         chain in {{ type filter hook input priority 0; {into}; }}\n\
         chain out {{ type filter hook output priority 0; {out}; }}\n}}"
    )
}
