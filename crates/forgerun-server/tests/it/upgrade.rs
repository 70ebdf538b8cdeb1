//! The last release and this version side by side on one database, under load, in both orders.
//! `make upgrade-test` builds the release and runs this.

use std::process::{Command, Stdio};

use forgerun_store::testing::{Cluster, Durability};

use crate::crash::{start, started};
use crate::load::Load;
use crate::process::Server;

/// The server of the last release.
const RELEASE: &str = "FORGERUN_LAST_RELEASE";

/// Starts a node of the last release.
fn start_release(database_url: &str) -> Server {
    let program = std::env::var(RELEASE).expect("make upgrade-test says where the last release is");
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--database-url", database_url]).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    started(command)
}

/// Replaces node `n` under load; the one that goes must stop in good order.
fn replace(load: &Load, n: usize, node: &mut Server, new: Server) {
    node.signal("TERM");
    load.moved(n, new.address);
    let gone = std::mem::replace(node, new);
    assert_eq!(gone.wait().code, Some(0), "a node stops in good order");
    load.wait_for_more();
}

fn database(cluster: &Cluster) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(cluster.database())
}

#[test]
#[ignore = "needs a build of the last release, which takes minutes: make upgrade-test"]
fn nodes_of_the_last_release_are_replaced_one_after_the_other() {
    let cluster = Cluster::start(Durability::Full);
    let url = database(&cluster);
    let mut nodes = [start_release(&url), start_release(&url)];
    let load = Load::new(&nodes.each_ref());
    let [first, second] = &mut nodes;
    load.during(|| {
        // This version brings the schema up to date while the other node works on it.
        replace(&load, 0, first, start(&url));
        // A node of the release that is restarted meets the new schema.
        replace(&load, 1, second, start_release(&url));
        replace(&load, 1, second, start(&url));
    });
    load.check(&nodes[1]);
}

#[test]
#[ignore = "needs a build of the last release, which takes minutes: make upgrade-test"]
fn nodes_of_this_version_go_back_to_the_last_release() {
    let cluster = Cluster::start(Durability::Full);
    let url = database(&cluster);
    let mut nodes = [start(&url), start(&url)];
    let load = Load::new(&nodes.each_ref());
    let [first, second] = &mut nodes;
    load.during(|| {
        replace(&load, 0, first, start_release(&url));
        replace(&load, 1, second, start_release(&url));
        replace(&load, 0, first, start(&url));
    });
    // Each sees what the other has done.
    load.check(&nodes[0]);
    load.check(&nodes[1]);
}
