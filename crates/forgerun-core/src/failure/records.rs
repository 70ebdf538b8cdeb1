//! Records beside the groups: batches to be added, and the index of groups.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{FailureGroup, FailureId};
use crate::codec::{Corrupt, Fields, Writer};
use crate::id::JobId;
use crate::limits;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

/// The failures of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureBatch {
    /// Its first failure: the job, and the number of the event that ended it. Unique per
    /// transaction.
    pub first: (JobId, u32),
    pub at: Time,
    pub groups: Vec<FailureGroup>,
}

impl Stored for FailureBatch {
    const KIND: RecordKind = RecordKind::FailureBatch;

    fn key(&self) -> String {
        let (job, event) = self.first;
        format!("{:032x}-{event:08x}-{:016x}", job.as_u128(), self.at.as_micros())
    }

    fn due_at(&self) -> Option<Time> {
        Some(self.at + limits::FAILURES_FOLDED_AFTER)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        let mut out = Writer(&mut bytes);
        out.time(1, Some(self.at));
        self.groups.iter().for_each(|group| out.group(2, |out| group.write(out)));
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<FailureBatch, Corrupt> {
        let mut parts = key.split('-');
        let mut part = || u128::from_str_radix(parts.next().ok_or(Corrupt)?, 16).map_err(|_| Corrupt);
        let first = (JobId::from_u128(part()?), part()? as u32);
        let mut batch = FailureBatch { first, at: Time::ZERO, groups: Vec::new() };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => batch.at = field.time()?,
                2 => batch.groups.push(FailureGroup::read(field.bytes)?),
                _ => {}
            }
        }
        Ok(batch)
    }
}

/// All groups, and when each was last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureIndex {
    pub seen_at: BTreeMap<FailureId, Time>,
    /// Changed by every fold: readers of groups and batches detect by it whether a batch was folded
    /// in between.
    pub n_folds: u64,
}

impl FailureIndex {
    /// Key of the only record of this kind.
    pub const KEY: &'static str = "groups";

    /// Groups beyond the bound: those not seen for the longest time.
    pub(crate) fn surplus(&self) -> Vec<FailureId> {
        let n_surplus = self.seen_at.len().saturating_sub(limits::FAILURE_GROUPS_MAX);
        let mut by_age: Vec<(Time, FailureId)> = self.seen_at.iter().map(|(id, at)| (*at, *id)).collect();
        by_age.sort_unstable();
        by_age.into_iter().take(n_surplus).map(|(_, id)| id).collect()
    }
}

impl Stored for FailureIndex {
    const KIND: RecordKind = RecordKind::FailureIndex;

    fn key(&self) -> String {
        FailureIndex::KEY.into()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + self.seen_at.len() * 24);
        let mut out = Writer(&mut bytes);
        out.number(1, self.n_folds);
        for (id, at) in &self.seen_at {
            out.group(2, |out| {
                out.bytes(1, &id.0.to_be_bytes());
                out.time(2, Some(*at));
            });
        }
        bytes
    }

    fn decode(_key: &str, bytes: &[u8]) -> Result<FailureIndex, Corrupt> {
        let mut index = FailureIndex::default();
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => index.n_folds = field.number()?,
                2 => {
                    let (mut id, mut at) = (FailureId(0), Time::ZERO);
                    for inner in Fields(field.bytes) {
                        let inner = inner?;
                        match inner.tag {
                            1 => {
                                id = FailureId(u64::from_be_bytes(
                                    inner.bytes.try_into().map_err(|_| Corrupt)?,
                                ))
                            }
                            2 => at = inner.time()?,
                            _ => {}
                        }
                    }
                    index.seen_at.insert(id, at);
                }
                _ => {}
            }
        }
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_back_and_damage_is_an_error() {
        let batch = FailureBatch {
            first: (JobId::from_u128(u128::MAX), 7),
            at: Time::from_micros(5),
            groups: Vec::new(),
        };
        assert_eq!(FailureBatch::of(&batch.to_record(1)), Ok(batch.clone()));
        assert_eq!(FailureBatch::decode("no key", &batch.encode()), Err(Corrupt));
        assert_eq!(FailureBatch::decode(&batch.key(), &[2, 0]), Err(Corrupt));
    }

    #[test]
    fn the_index_is_read_back_and_names_what_is_too_much() {
        let mut index = FailureIndex { n_folds: 7, ..FailureIndex::default() };
        assert_eq!(FailureIndex::of(&index.to_record(1)), Ok(index.clone()));
        for n in 0..limits::FAILURE_GROUPS_MAX as u64 {
            index.seen_at.insert(FailureId(n), Time::from_micros(1000 - n as i64));
        }
        assert_eq!(FailureIndex::of(&index.to_record(1)), Ok(index.clone()));
        assert_eq!(index.surplus(), []);
        index.seen_at.insert(FailureId(u64::MAX), Time::ZERO);
        assert_eq!(index.surplus(), [FailureId(u64::MAX)]);
    }
}
