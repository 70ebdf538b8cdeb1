//! Nodes: the processes that work on one store. Each says now and then that it is there, so that an operator sees who is up, and which versions.
//! Nothing depends on it.

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::{Corrupt, Fields, Writer};
use crate::limits;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

/// A process that works on the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it calls itself: another name with every start.
    pub id: String,
    /// The version of the program.
    pub version: String,
    /// When it was started.
    pub started_at: Time,
    /// When it last said that it is there.
    pub seen_at: Time,
}

impl Node {
    /// Whether it has been silent for so long that it counts as gone.
    pub fn is_gone(&self, now: Time) -> bool {
        self.due_at().is_some_and(|due_at| due_at <= now)
    }
}

impl Stored for Node {
    const KIND: RecordKind = RecordKind::Node;

    fn key(&self) -> String {
        self.id.clone()
    }

    /// When it counts as gone and is forgotten.
    fn due_at(&self) -> Option<Time> {
        Some(self.seen_at + limits::NODE_SILENCE)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(48);
        let mut out = Writer(&mut bytes);
        out.text(1, Some(&self.version));
        out.time(2, Some(self.started_at));
        out.time(3, Some(self.seen_at));
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<Node, Corrupt> {
        let mut node =
            Node { id: key.into(), version: String::new(), started_at: Time::ZERO, seen_at: Time::ZERO };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => node.version = field.text()?,
                2 => node.started_at = field.time()?,
                3 => node.seen_at = field.time()?,
                _ => {}
            }
        }
        Ok(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_read_back_as_it_was_written_and_is_gone_after_a_silence() {
        let node = Node {
            id: "n-1".into(),
            version: "0.1.0".into(),
            started_at: Time::from_micros(3),
            seen_at: Time::from_micros(5),
        };
        assert_eq!(Node::of(&node.to_record(1)), Ok(node.clone()));
        assert!(!node.is_gone(node.seen_at));
        assert!(node.is_gone(node.seen_at + limits::NODE_SILENCE));
    }
}
