//! Tallies: what one node reports to the others about its callers, a few times per second. So a
//! request limit holds for all nodes together without a store access per request.
//!
//! A node writes its own record and reads those of the others, so nodes never wait for each other.
//! An entry is a count since its beginning, so a reader that missed a round loses nothing.

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::{Corrupt, Fields, Writer};
use crate::id::ClientId;
use crate::limits;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTally {
    pub node: String,
    /// Rounds written, from 1.
    pub round: u64,
    pub written_at: Time,
    /// Recent use of limits by callers.
    pub entries: Vec<TallyEntry>,
    /// Clients whose keys changed on this node recently, each with the first round that reported
    /// it.
    pub keys_changed: Vec<(ClientId, u64)>,
}

/// Use of one limit by one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TallyEntry {
    /// Number of the limit in the server.
    pub limit: u8,
    /// Bits of a client's id, or of an address.
    pub caller: u128,
    /// First round with this entry. The count began then.
    pub begun: u64,
    /// How much the caller used at this node.
    pub spent: u64,
    /// When the limit is fully available again, as far as this node knows. For nodes that have just
    /// started.
    pub full_at: Time,
}

impl NodeTally {
    /// Whether the node has been silent for so long that its tally no longer counts.
    pub fn is_over(&self, now: Time) -> bool {
        self.due_at().is_some_and(|due_at| due_at <= now)
    }
}

impl Stored for NodeTally {
    const KIND: RecordKind = RecordKind::Tally;

    fn key(&self) -> String {
        self.node.clone()
    }

    /// In whole minutes, so that most rounds leave the due index unchanged.
    fn due_at(&self) -> Option<Time> {
        const MINUTE_US: i64 = 60_000_000;
        let silent_at = self.written_at + limits::NODE_SILENCE;
        Some(Time::from_micros((silent_at.as_micros() / MINUTE_US + 1) * MINUTE_US))
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32 + 40 * self.entries.len());
        let mut out = Writer(&mut bytes);
        out.number(1, self.round);
        out.time(2, Some(self.written_at));
        for entry in &self.entries {
            out.group(3, |out| {
                out.number(1, entry.limit.into());
                out.bytes(2, &entry.caller.to_be_bytes());
                out.number(3, entry.begun);
                out.number(4, entry.spent);
                out.time(5, Some(entry.full_at));
            });
        }
        for (client, round) in &self.keys_changed {
            out.group(4, |out| {
                out.bytes(1, &client.to_bytes());
                out.number(2, *round);
            });
        }
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<NodeTally, Corrupt> {
        let mut tally = NodeTally {
            node: key.into(),
            round: 0,
            written_at: Time::ZERO,
            entries: Vec::new(),
            keys_changed: Vec::new(),
        };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => tally.round = field.number()?,
                2 => tally.written_at = field.time()?,
                3 => tally.entries.push(read_entry(field.bytes)?),
                4 => tally.keys_changed.push(read_change(field.bytes)?),
                _ => {}
            }
        }
        Ok(tally)
    }
}

fn read_entry(bytes: &[u8]) -> Result<TallyEntry, Corrupt> {
    let mut entry = TallyEntry { limit: 0, caller: 0, begun: 0, spent: 0, full_at: Time::ZERO };
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => entry.limit = field.small()?,
            2 => entry.caller = field.id()?,
            3 => entry.begun = field.number()?,
            4 => entry.spent = field.number()?,
            5 => entry.full_at = field.time()?,
            _ => {}
        }
    }
    Ok(entry)
}

fn read_change(bytes: &[u8]) -> Result<(ClientId, u64), Corrupt> {
    let mut change = (ClientId::from_u128(0), 0);
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => change.0 = ClientId::from_u128(field.id()?),
            2 => change.1 = field.number()?,
            _ => {}
        }
    }
    Ok(change)
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use core::time::Duration;

    use super::*;

    #[test]
    fn a_tally_is_read_back_as_it_was_written() {
        let entry =
            TallyEntry { limit: 3, caller: 7 << 90, begun: 2, spent: 900, full_at: Time::from_millis(12) };
        let tally = NodeTally {
            node: "n-1".into(),
            round: 4,
            written_at: Time::from_millis(9),
            entries: vec![entry, TallyEntry { limit: 0, spent: 0, ..entry }],
            keys_changed: vec![(ClientId::from_u128(5), 3)],
        };
        assert_eq!(NodeTally::of(&tally.to_record(1)), Ok(tally));
    }

    #[test]
    fn a_tally_outlives_the_silence_of_its_node_by_a_minute_at_most() {
        for ms in [0, 1, 29_999, 30_000, 59_999, 1_780_000_012_345] {
            let written_at = Time::from_millis(ms);
            let tally = NodeTally {
                node: String::new(),
                round: 1,
                written_at,
                entries: Vec::new(),
                keys_changed: Vec::new(),
            };
            assert!(!tally.is_over(written_at + limits::NODE_SILENCE), "{ms}");
            assert!(tally.is_over(written_at + limits::NODE_SILENCE + Duration::from_secs(60)), "{ms}");
        }
    }
}
