//! Several nodes on one PostgreSQL, under load, and what happens to nodes and databases: one is
//! frozen and comes back, all are restarted one after the other, the database dies and its standby
//! takes over. Every 202 is there afterwards and has ended once.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use forgerun_store::testing::{Cluster, Durability};

use crate::crash::{start, started_with_leases};
use crate::load::Load;
use crate::process::forgerun;
use crate::rabbitmq::pause;

/// Longer than the leases of these nodes.
const FROZEN_FOR: Duration = Duration::from_secs(4);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_node_that_was_frozen_past_its_leases_ends_nothing_twice() {
    let cluster = Cluster::start(Durability::Full);
    let url = runtime().block_on(cluster.database());
    let (first, second) = (start(&url), start(&url));
    let load = Load::new(&[&first, &second]);
    load.during(|| {
        first.signal("STOP");
        load.wait_for_more();
        pause(FROZEN_FOR);
        first.signal("CONT");
    });
    load.check(&first);
}

#[test]
fn nodes_are_restarted_one_after_the_other_and_nothing_is_lost() {
    let cluster = Cluster::start(Durability::Full);
    let url = runtime().block_on(cluster.database());
    let mut nodes = [start(&url), start(&url), start(&url)];
    let load = Load::new(&nodes.each_ref());
    load.during(|| {
        for (n, node) in nodes.iter_mut().enumerate() {
            node.signal("TERM");
            let new = start(&url);
            load.moved(n, new.address);
            let old = std::mem::replace(node, new);
            assert_eq!(old.wait().code, Some(0), "a node stops in good order");
            load.wait_for_more();
        }
    });
    load.check(&nodes[0]);
}

fn node(database_url: &str) -> Command {
    forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", database_url])
}

/// Its clock will be five minutes ahead of everybody else's.
pub(crate) fn five_minutes_ahead(command: &mut Command) {
    // The library itself: the program `faketime` would stand between us and the server, and outlive
    // neither.
    command.env("LD_PRELOAD", faketime()).env("FAKETIME", "+300s").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}

/// Debian has a folder per kind of processor.
fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let library = |folder: PathBuf| folder.join("faketime/libfaketime.so.1");
    folders.map(library).find(|path| path.exists()).expect("Debian: apt-get install faketime")
}

#[test]
fn a_node_whose_clock_is_ahead_takes_nothing_from_the_others() {
    let cluster = Cluster::start(Durability::Full);
    let url = runtime().block_on(cluster.database());
    // Shorter than what the clocks differ by, longer than any stall of the machine.
    let start = |node: Command| started_with_leases(node, Duration::from_secs(60));
    let mut ahead = node(&url);
    five_minutes_ahead(&mut ahead);
    let (first, second) = (start(node(&url)), start(ahead));
    let load = Load::new(&[&first, &second]);
    load.during(|| load.wait_for_more());
    // Created, queued, assigned, running, ended: one more, and a job was taken for lost.
    assert_eq!(load.check(&first), 5.0);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "says how long clients were refused; nothing depends on it")]
fn nothing_acknowledged_is_lost_when_the_standby_takes_over() {
    let primary = Cluster::start(Durability::Full);
    let runtime = runtime();
    let url = runtime.block_on(primary.database());
    let standby = runtime.block_on(primary.standby());
    let place = |cluster: &Cluster| format!("127.0.0.1:{}", cluster.port());
    let url = url.replace(&place(&primary), &format!("{},{}", place(&primary), place(&standby)));
    let (first, second) = (start(&url), start(&url));
    let load = Load::new(&[&first, &second]);
    load.during(|| {
        primary.kill();
        let killed = Instant::now();
        runtime.block_on(standby.promote());
        let promoted = killed.elapsed();
        let before = load.n_heard();
        while load.n_heard() == before {
            pause(Duration::from_millis(1));
        }
        println!("promoted after {promoted:?}, the first submission taken after {:?}", killed.elapsed());
    });
    load.check(&second);
}
