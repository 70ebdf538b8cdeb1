//! What nodes tell each other is kept as they say it, for a while; what clients have spent adds up,
//! for good.

use std::time::Duration;
use std::vec;
use std::vec::Vec;

use crate::command::{Answer, Command};
use crate::id::ClientId;
use crate::limits;
use crate::node::Node;
use crate::quota::QuotaCount;
use crate::session::EndedSession;
use crate::tally::NodeTally;
use crate::world::World;

fn count(client: u128, n_requests: u64) -> QuotaCount {
    QuotaCount { client: ClientId::from_u128(client), n_requests }
}

#[test]
fn what_nodes_spend_of_a_quota_adds_up_and_stays() {
    let mut world = World::new();
    let answer = world.ask(Command::Spend(vec![count(1, 3), count(2, 1)]));
    assert_eq!(answer, Answer::Spent(vec![count(1, 3), count(2, 1)]));
    // Another node, and one client twice in a batch.
    let answer = world.ask(Command::Spend(vec![count(2, 5), count(2, 2)]));
    assert_eq!(answer, Answer::Spent(vec![count(2, 6), count(2, 8)]));
    world.pass(limits::RETENTION);
    world.due();
    assert_eq!(world.ask(Command::Spend(vec![count(1, 0)])), Answer::Spent(vec![count(1, 3)]));
}

#[test]
fn nodes_tallies_and_ended_sessions_are_forgotten_when_their_time_is_over() {
    let mut world = World::new();
    let now = world.now;
    let node = Node {
        id: "n".into(),
        version: "1".into(),
        started_at: now,
        seen_at: now,
        queues: Vec::new(),
        has_built_in: false,
    };
    let tally = |round| NodeTally {
        node: "n".into(),
        round,
        written_at: now,
        entries: Vec::new(),
        keys_changed: Vec::new(),
    };
    let session = EndedSession { id: 1, until: now + Duration::from_secs(200) };
    for command in [
        Command::Node(node),
        Command::Tally(tally(1).into()),
        Command::Tally(tally(2).into()),
        Command::EndSession(session),
    ] {
        assert_eq!(world.ask(command), Answer::Settled);
    }
    assert_eq!(world.records.len(), 3);
    world.pass(limits::NODE_SILENCE);
    world.due();
    assert_eq!(world.records.len(), 2, "the tally stays a little longer than its node");
    world.pass(Duration::from_secs(60));
    world.due();
    assert_eq!(world.records.len(), 1);
    world.pass(Duration::from_secs(60));
    world.due();
    assert!(world.records.is_empty());
}
