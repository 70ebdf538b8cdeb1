//! Records: rows whose meaning only the core knows.
//!
//! Everything that is not a job, an event or an outcome, and is not touched by every job, is a record: the settings of a queue,
//! a worker, and whatever comes later. A store loads records by key, lists them by group, finds those that are due, and writes
//! them if nobody else did meanwhile. It never looks inside. So a new kind of record needs no table, no migration and no code
//! in a store: it is one type that implements [`Stored`], and its rule in `decide`.

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::Corrupt;
use crate::time::Time;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// [`QueueSettings`](crate::queue::QueueSettings).
    Queue = 1,
    /// [`Worker`](crate::worker::Worker).
    Worker = 2,
    /// [`SinkCursor`](crate::sink::SinkCursor).
    Sink = 3,
    /// [`QueuePace`](crate::pace::QueuePace).
    QueuePace = 4,
    /// [`FailureBatch`](crate::failure::FailureBatch).
    FailureBatch = 10,
    /// [`FailureGroup`](crate::failure::FailureGroup).
    FailureGroup = 11,
    /// [`FailureIndex`](crate::failure::FailureIndex).
    FailureIndex = 12,
    /// [`Redrive`](crate::redrive::Redrive).
    Redrive = 13,
    /// [`Node`](crate::node::Node).
    Node = 14,
    /// [`NodeTally`](crate::tally::NodeTally).
    Tally = 15,
    /// [`QuotaCount`](crate::quota::QuotaCount).
    QuotaCount = 16,
    /// [`EndedSession`](crate::session::EndedSession).
    EndedSession = 17,
    /// [`ClientName`](crate::client::ClientName).
    ClientName = 18,
    /// [`Schedule`](crate::schedule::Schedule).
    Schedule = 20,
    /// [`Checkpoint`](crate::checkpoint::Checkpoint).
    Checkpoint = 21,
    /// [`SchemaIndex`](crate::schema::SchemaIndex).
    SchemaIndex = 22,
    /// [`SchemaText`](crate::schema::SchemaText).
    SchemaText = 23,
    /// [`ScheduleCount`](crate::schedule::ScheduleCount).
    ScheduleCount = 24,
    /// [`Workflow`](crate::workflow::Workflow).
    Workflow = 30,
    /// [`WorkflowPart`](crate::workflow::WorkflowPart).
    WorkflowPart = 31,
}

impl RecordKind {
    /// The kinds that this version knows: the bit with the number of each. A record of another kind is left to the newer version that wrote it.
    pub const KNOWN: i64 = {
        let (mut known, mut number) = (0, 0);
        while number < 63 {
            if RecordKind::from_u8(number).is_some() {
                known |= 1 << number;
            }
            number += 1;
        }
        known
    };

    /// The kind by its number; `None` for one that this version does not know.
    pub const fn from_u8(number: u8) -> Option<RecordKind> {
        match number {
            1 => Some(RecordKind::Queue),
            2 => Some(RecordKind::Worker),
            3 => Some(RecordKind::Sink),
            4 => Some(RecordKind::QueuePace),
            10 => Some(RecordKind::FailureBatch),
            11 => Some(RecordKind::FailureGroup),
            12 => Some(RecordKind::FailureIndex),
            13 => Some(RecordKind::Redrive),
            14 => Some(RecordKind::Node),
            15 => Some(RecordKind::Tally),
            16 => Some(RecordKind::QuotaCount),
            17 => Some(RecordKind::EndedSession),
            18 => Some(RecordKind::ClientName),
            20 => Some(RecordKind::Schedule),
            21 => Some(RecordKind::Checkpoint),
            22 => Some(RecordKind::SchemaIndex),
            23 => Some(RecordKind::SchemaText),
            24 => Some(RecordKind::ScheduleCount),
            30 => Some(RecordKind::Workflow),
            31 => Some(RecordKind::WorkflowPart),
            _ => None,
        }
    }
}

/// The identity of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    /// What it is about.
    pub kind: RecordKind,
    /// Which one.
    pub key: String,
}

/// A record, as a store sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its identity.
    pub key: RecordKey,
    /// Records of one kind and group are listed together, by key.
    pub group: String,
    /// When something must happen to it without anybody asking.
    pub due_at: Option<Time>,
    /// Another number with every write, even if the record was deleted and made again in between.
    pub version: u64,
    /// The rest, in the core's own layout.
    pub bytes: Vec<u8>,
}

/// How a record changes: written only if it still is as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChange {
    /// The version that was seen; `None` if there was no such record.
    pub seen: Option<u64>,
    /// What to write; `None` to delete it.
    pub new: Option<Record>,
}

/// A type that is kept as a record.
pub trait Stored: Sized {
    /// What records of this type are about.
    const KIND: RecordKind;
    /// Which one this is.
    fn key(&self) -> String;
    /// The group it is listed in; most are looked up by key alone.
    fn group(&self) -> String {
        String::new()
    }
    /// When something must happen to it without anybody asking.
    fn due_at(&self) -> Option<Time> {
        None
    }
    /// The rest, as bytes.
    fn encode(&self) -> Vec<u8>;
    /// Reads what [`Self::encode`] wrote.
    fn decode(key: &str, bytes: &[u8]) -> Result<Self, Corrupt>;

    /// The record, in this version.
    fn to_record(&self, version: u64) -> Record {
        Record {
            key: Self::record_key(self.key()),
            group: self.group(),
            due_at: self.due_at(),
            version,
            bytes: self.encode(),
        }
    }

    /// The identity of the record with this key.
    fn record_key(key: String) -> RecordKey {
        RecordKey { kind: Self::KIND, key }
    }

    /// What the record means.
    fn of(record: &Record) -> Result<Self, Corrupt> {
        Self::decode(&record.key.key, &record.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_bit_among_the_known_ones() {
        for number in 0..=u8::MAX {
            let is_known = number < 63 && RecordKind::KNOWN >> number & 1 == 1;
            assert_eq!(is_known, RecordKind::from_u8(number).is_some(), "{number}");
        }
    }
}
