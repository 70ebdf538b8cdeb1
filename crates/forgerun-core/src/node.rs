//! Nodes: the processes that share one store. Their heartbeats show an operator which are up, and
//! which versions run. No decision depends on them.

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::{Corrupt, Fields, Writer};
use crate::job::Name;
use crate::limits;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Different with every process start.
    pub id: String,
    pub version: String,
    pub started_at: Time,
    /// Last heartbeat.
    pub seen_at: Time,
    /// Queues for which workers asked it, as [`queue_digest`]s; at most
    /// [`limits::NODE_QUEUES_MAX`].
    pub queues: Vec<u64>,
    /// Whether it runs simulated work itself.
    pub has_built_in: bool,
}

/// A short digest of a queue's key: FNV-1a, the same in every version. Two queues with one digest
/// count as attended together.
pub fn queue_digest(key: &Name) -> u64 {
    key.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Node {
    /// Whether it has been silent for too long.
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
        let queues: Vec<u8> = self.queues.iter().flat_map(|queue| queue.to_le_bytes()).collect();
        if !queues.is_empty() {
            out.bytes(4, &queues);
        }
        out.number(5, u64::from(self.has_built_in));
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<Node, Corrupt> {
        let mut node = Node {
            id: key.into(),
            version: String::new(),
            started_at: Time::ZERO,
            seen_at: Time::ZERO,
            queues: Vec::new(),
            has_built_in: false,
        };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => node.version = field.text()?,
                2 => node.started_at = field.time()?,
                3 => node.seen_at = field.time()?,
                4 => {
                    node.queues = field.bytes.as_chunks().0.iter().map(|of| u64::from_le_bytes(*of)).collect()
                }
                5 => node.has_built_in = field.number()? == 1,
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
            queues: alloc::vec![queue_digest(&Name::joined("mail")), 7],
            has_built_in: true,
        };
        assert_eq!(Node::of(&node.to_record(1)), Ok(node.clone()));
        assert!(!node.is_gone(node.seen_at));
        assert!(node.is_gone(node.seen_at + limits::NODE_SILENCE));
    }
}
