//! The audit trail: who changed what. Every process writes a chain of its own, so that nodes never
//! wait for each other: each entry has the hash of the one before, the chain's record has the hash
//! of the last one, and chains are numbered. So a missing, changed or added entry is noticed by
//! [`Verifier`], and so is a missing chain.
//!
//! Retention removes entries from the beginning of a chain. The chain then remembers the last
//! removed one, its *anchor*.

mod verify;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use sha2::{Digest, Sha256};

use crate::codec::{Corrupt, Field, Fields, Writer};
use crate::limits;
use crate::record::{RecordKind, Stored};
use crate::time::Time;
pub use verify::{AuditFault, AuditVerdict, Verifier};

/// Who asked for a change, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditActor {
    /// `operator`, `client ID`, `anonymous`.
    pub actor: String,
    pub address: String,
    /// Id of the request; empty if there were several.
    pub request: String,
    /// Name of the process, and of its chain.
    pub node: String,
    /// How long the entry is kept.
    pub keep: Duration,
}

/// What was done: `pause_queue`, `mail`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditAction {
    pub action: String,
    pub target: String,
    /// How often.
    pub count: u64,
}

impl AuditAction {
    pub fn new(action: &str, target: String) -> AuditAction {
        AuditAction { action: action.into(), target, count: 1 }
    }
}

/// A place in a chain: the number of an entry, from 1, and its hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditLink {
    /// 0 before the first.
    pub seq: u64,
    pub hash: [u8; 32],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Number of the chain.
    pub chain: u32,
    pub seq: u64,
    /// Later than that of the entry before.
    pub at: Time,
    pub by: AuditActor,
    pub what: AuditAction,
    /// Hash of the entry before; zeros for the first.
    pub previous: [u8; 32],
}

impl AuditEntry {
    /// First key of the entries at this moment or earlier: keys are in order of time, the latest
    /// first.
    pub fn key_at(at: Time) -> String {
        format!("{:016x}", i64::MAX - at.as_micros())
    }

    pub fn hash(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.key().as_bytes());
        hash.update(self.encode());
        hash.finalize().into()
    }

    pub fn link(&self) -> AuditLink {
        AuditLink { seq: self.seq, hash: self.hash() }
    }
}

/// At most [`limits::AUDIT_TEXT_BYTES_MAX`] bytes.
pub(crate) fn shortened(text: &str) -> String {
    let mut end = text.len().min(limits::AUDIT_TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].into()
}

impl Stored for AuditEntry {
    const KIND: RecordKind = RecordKind::AuditEntry;

    fn key(&self) -> String {
        format!("{}.{:08x}.{:012x}", AuditEntry::key_at(self.at), self.chain, self.seq)
    }

    fn due_at(&self) -> Option<Time> {
        Some(self.at + self.by.keep)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(160);
        let mut out = Writer(&mut bytes);
        for (tag, text) in [
            (1, &self.by.actor),
            (2, &self.by.address),
            (3, &self.by.request),
            (4, &self.by.node),
            (6, &self.what.action),
            (7, &self.what.target),
        ] {
            out.text(tag, Some(text));
        }
        out.span(5, Some(self.by.keep));
        out.number(8, self.what.count);
        out.bytes(9, &self.previous);
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<AuditEntry, Corrupt> {
        let mut parts = key.split('.').map(|part| u64::from_str_radix(part, 16).map_err(|_| Corrupt));
        let mut part = || parts.next().unwrap_or(Err(Corrupt));
        let at = Time::from_micros(i64::MAX - i64::try_from(part()?).map_err(|_| Corrupt)?);
        let chain = u32::try_from(part()?).map_err(|_| Corrupt)?;
        let seq = part()?;
        let (mut by, mut what) = (AuditActor::default(), AuditAction::new("", String::new()));
        let mut previous = [0; 32];
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => by.actor = field.text()?,
                2 => by.address = field.text()?,
                3 => by.request = field.text()?,
                4 => by.node = field.text()?,
                5 => by.keep = field.span()?,
                6 => what.action = field.text()?,
                7 => what.target = field.text()?,
                8 => what.count = field.number()?,
                9 => previous = hash_of(&field)?,
                _ => {}
            }
        }
        Ok(AuditEntry { chain, seq, at, by, what, previous })
    }
}

fn hash_of(field: &Field<'_>) -> Result<[u8; 32], Corrupt> {
    field.bytes.try_into().map_err(|_| Corrupt)
}

/// The chain of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditChain {
    /// Name of the process.
    pub node: String,
    /// From 1, in the order in which processes wrote their first entry.
    pub number: u32,
    pub head: AuditLink,
    /// When the last entry was written.
    pub last_at: Time,
    /// The last entry that retention removed.
    pub anchor: AuditLink,
}

impl Stored for AuditChain {
    const KIND: RecordKind = RecordKind::AuditChain;

    fn key(&self) -> String {
        self.node.clone()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(96);
        let mut out = Writer(&mut bytes);
        out.number(1, self.number.into());
        out.number(2, self.head.seq);
        out.bytes(3, &self.head.hash);
        out.time(4, Some(self.last_at));
        out.number(5, self.anchor.seq);
        out.bytes(6, &self.anchor.hash);
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<AuditChain, Corrupt> {
        let empty = AuditLink::default();
        let mut chain =
            AuditChain { node: key.into(), number: 0, head: empty, last_at: Time::ZERO, anchor: empty };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => chain.number = field.small()?,
                2 => chain.head.seq = field.number()?,
                3 => chain.head.hash = hash_of(&field)?,
                4 => chain.last_at = field.time()?,
                5 => chain.anchor.seq = field.number()?,
                6 => chain.anchor.hash = hash_of(&field)?,
                _ => {}
            }
        }
        Ok(chain)
    }
}

/// How many chains there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditCount {
    pub n_chains: u32,
}

impl AuditCount {
    /// The key of its only record.
    pub const KEY: &str = "chains";
}

impl Stored for AuditCount {
    const KIND: RecordKind = RecordKind::AuditCount;

    fn key(&self) -> String {
        AuditCount::KEY.into()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8);
        Writer(&mut bytes).number(1, self.n_chains.into());
        bytes
    }

    fn decode(_: &str, bytes: &[u8]) -> Result<AuditCount, Corrupt> {
        let mut count = AuditCount::default();
        for field in Fields(bytes) {
            let field = field?;
            if field.tag == 1 {
                count.n_chains = field.small()?;
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_chains_are_read_back_as_they_were_written() {
        let entry = AuditEntry {
            chain: 3,
            seq: 1 << 33,
            at: Time::from_millis(77),
            by: AuditActor {
                actor: "operator".into(),
                address: "192.0.2.1".into(),
                request: "r".into(),
                node: "n-1".into(),
                keep: Duration::from_secs(9),
            },
            what: AuditAction { count: 5, ..AuditAction::new("pause_queue", "mail".into()) },
            previous: [7; 32],
        };
        assert_eq!(AuditEntry::of(&entry.to_record(1)), Ok(entry.clone()));
        let later = AuditEntry { at: Time::from_millis(78), ..entry.clone() };
        assert!(later.key() < entry.key(), "the latest comes first");
        assert_ne!(later.hash(), entry.hash());
        for key in ["", "x", "1.2", "7fffffffffffffff.1ffffffff.1", "ffffffffffffffff.1.1"] {
            assert_eq!(AuditEntry::decode(key, &[]), Err(Corrupt), "{key}");
        }
        let (head, anchor) = (entry.link(), AuditLink { seq: 2, hash: [1; 32] });
        let chain = AuditChain { node: "n-1".into(), number: 3, head, last_at: entry.at, anchor };
        assert_eq!(AuditChain::of(&chain.to_record(1)), Ok(chain));
        let count = AuditCount { n_chains: 4 };
        assert_eq!(AuditCount::of(&count.to_record(1)), Ok(count));
    }

    #[test]
    fn a_long_text_is_cut_between_two_characters() {
        let text = "ä".repeat(limits::AUDIT_TEXT_BYTES_MAX);
        assert!(text.starts_with(&shortened(&text)));
        assert!(shortened(&text).len() <= limits::AUDIT_TEXT_BYTES_MAX);
        assert_eq!(shortened("short"), "short");
    }
}
