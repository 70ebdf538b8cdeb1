//! Whether the trail is whole: entries are followed from the last one of each chain to its anchor.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{AuditChain, AuditCount, AuditEntry, AuditLink};

/// Compares entries with their chains. Memory grows with chains, not with entries.
pub struct Verifier {
    /// By number: what the next older entry must be.
    expected: BTreeMap<u32, Expected>,
    n_entries: u64,
    faults: Vec<AuditFault>,
    /// Numbers of chains without a record that were reported.
    unknown: BTreeSet<u32>,
}

struct Expected {
    node: String,
    /// Its hash is `None` after a fault: the link is unknown.
    next: (u64, Option<[u8; 32]>),
    anchor: AuditLink,
}

/// What is wrong with the trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditFault {
    /// These entries are missing or unreadable.
    Missing { node: String, first: u64, last: u64 },
    /// The entry is not what its successor, or the chain, says.
    Changed { node: String, seq: u64 },
    /// No chain has this entry.
    Foreign { chain: u32, seq: u64 },
    /// The chain with this number has no record.
    NoChain { chain: u32 },
}

impl fmt::Display for AuditFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuditFault::Missing { node, first, last } if first == last => {
                write!(f, "missing: entry {first} of node {node}")
            }
            AuditFault::Missing { node, first, last } => {
                write!(f, "missing: entries {first} to {last} of node {node}")
            }
            AuditFault::Changed { node, seq } => write!(f, "changed: entry {seq} of node {node}"),
            AuditFault::Foreign { chain, seq } => {
                write!(f, "added: entry {seq} of chain {chain}, which the chain does not have")
            }
            AuditFault::NoChain { chain } => write!(f, "missing: chain {chain} as a whole"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditVerdict {
    pub n_entries: u64,
    pub n_chains: usize,
    /// Entries that retention removed.
    pub n_removed: u64,
    pub faults: Vec<AuditFault>,
}

impl Verifier {
    /// `chains` are all that there are.
    pub fn new(chains: Vec<AuditChain>, count: AuditCount) -> Verifier {
        let expected: BTreeMap<u32, Expected> = chains
            .into_iter()
            .map(|chain| {
                let next = (chain.head.seq, Some(chain.head.hash));
                (chain.number, Expected { node: chain.node, next, anchor: chain.anchor })
            })
            .collect();
        let missing = (1..=count.n_chains).filter(|number| !expected.contains_key(number));
        let unknown: BTreeSet<u32> = missing.collect();
        let faults = unknown.iter().map(|&chain| AuditFault::NoChain { chain }).collect();
        Verifier { expected, n_entries: 0, faults, unknown }
    }

    /// The next entry, in the order of keys: the latest first.
    pub fn see(&mut self, entry: &AuditEntry) {
        self.n_entries += 1;
        let (chain, seq) = (entry.chain, entry.seq);
        let Some(expected) = self.expected.get_mut(&chain) else {
            if self.unknown.insert(chain) {
                self.faults.push(AuditFault::NoChain { chain });
            }
            return;
        };
        let (next, hash) = expected.next;
        if seq > next || seq <= expected.anchor.seq {
            self.faults.push(AuditFault::Foreign { chain, seq });
            return;
        }
        let node = &expected.node;
        if seq < next {
            self.faults.push(AuditFault::Missing { node: node.clone(), first: seq + 1, last: next });
        } else if hash.is_some_and(|hash| hash != entry.hash()) {
            self.faults.push(AuditFault::Changed { node: node.clone(), seq });
        }
        // Links go on from what the entry says, so that one fault is reported once.
        expected.next = (seq - 1, Some(entry.previous));
    }

    /// The verdict, after the last entry.
    pub fn finish(mut self) -> AuditVerdict {
        let mut n_removed = 0;
        for expected in self.expected.values() {
            let (AuditLink { seq: anchor, hash: of_anchor }, (next, hash)) = (expected.anchor, expected.next);
            n_removed += anchor;
            let node = expected.node.clone();
            if next > anchor {
                self.faults.push(AuditFault::Missing { node, first: anchor + 1, last: next });
            } else if hash.is_some_and(|hash| hash != of_anchor) {
                self.faults.push(AuditFault::Changed { node, seq: anchor + 1 });
            }
        }
        AuditVerdict {
            n_entries: self.n_entries,
            n_chains: self.expected.len(),
            n_removed,
            faults: self.faults,
        }
    }
}
