//! Records: rows that stores handle as opaque bytes.
//!
//! Everything that is not a job, event or outcome, and is not used by every job, is a record: queue
//! settings, workers, schedules. A store loads records by key, lists them by group, finds those
//! that are due, and writes them unless they changed meanwhile. It never decodes them. So a new
//! kind of record needs no table, no migration and no code in a store: it is one type that
//! implements [`Stored`], and its rule in `decide`.

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::Corrupt;
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RecordKind {
    Queue = 1,
    Worker = 2,
    Sink = 3,
    QueuePace = 4,
    FailureBatch = 10,
    FailureGroup = 11,
    FailureIndex = 12,
    Redrive = 13,
    Node = 14,
    Tally = 15,
    QuotaCount = 16,
    EndedSession = 17,
    ClientName = 18,
    Schedule = 20,
    Checkpoint = 21,
    SchemaIndex = 22,
    SchemaText = 23,
    ScheduleCount = 24,
    StepMemo = 25,
    MemoIndex = 26,
    Workflow = 30,
    WorkflowPart = 31,
    ForEach = 35,
    ElementTemplate = 36,
    ElementPart = 37,
    Signal = 32,
    AuditEntry = 45,
    AuditChain = 46,
    AuditCount = 47,
    TokenKey = 40,
    ClientLimits = 41,
    Encryption = 50,
}

impl RecordKind {
    /// Bits of the kinds that this version knows. Records of other kinds are left to the newer
    /// version that wrote them.
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

    /// `None` for a kind that this version does not know.
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
            25 => Some(RecordKind::StepMemo),
            26 => Some(RecordKind::MemoIndex),
            30 => Some(RecordKind::Workflow),
            31 => Some(RecordKind::WorkflowPart),
            35 => Some(RecordKind::ForEach),
            36 => Some(RecordKind::ElementTemplate),
            37 => Some(RecordKind::ElementPart),
            32 => Some(RecordKind::Signal),
            45 => Some(RecordKind::AuditEntry),
            46 => Some(RecordKind::AuditChain),
            47 => Some(RecordKind::AuditCount),
            40 => Some(RecordKind::TokenKey),
            41 => Some(RecordKind::ClientLimits),
            50 => Some(RecordKind::Encryption),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    pub kind: RecordKind,
    pub key: String,
}

/// A record, as a store sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub key: RecordKey,
    /// Records of one kind and group are listed together, by key.
    pub group: String,
    /// When the core must process it.
    pub due_at: Option<Time>,
    /// Changes with every write, even if the record was deleted and created again in between.
    pub version: u64,
    /// The content, encoded by the core.
    pub bytes: Vec<u8>,
}

/// A change of a record: written only if its version is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChange {
    /// The version that was read; `None` if there was no such record.
    pub seen: Option<u64>,
    /// `None` deletes it.
    pub new: Option<Record>,
}

/// A type stored as a record.
pub trait Stored: Sized {
    const KIND: RecordKind;
    fn key(&self) -> String;
    /// The group it is listed in; most are looked up by key only.
    fn group(&self) -> String {
        String::new()
    }
    /// When the core must process it.
    fn due_at(&self) -> Option<Time> {
        None
    }
    fn encode(&self) -> Vec<u8>;
    /// Decodes the bytes of [`Self::encode`].
    fn decode(key: &str, bytes: &[u8]) -> Result<Self, Corrupt>;

    /// The record, with this version.
    fn to_record(&self, version: u64) -> Record {
        Record {
            key: Self::record_key(self.key()),
            group: self.group(),
            due_at: self.due_at(),
            version,
            bytes: self.encode(),
        }
    }

    fn record_key(key: String) -> RecordKey {
        RecordKey { kind: Self::KIND, key }
    }

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
