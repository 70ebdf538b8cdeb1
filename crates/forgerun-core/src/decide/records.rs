//! Records in the working set: decoded once, and written back once, with the version that was read.

use alloc::collections::BTreeMap;
use alloc::string::String;

use super::working_set::WorkingSet;
use crate::record::{Record, RecordChange, RecordKey, Stored};
use crate::time::Time;

#[derive(Default)]
pub(super) struct Records(BTreeMap<RecordKey, WorkingRecord>);

struct WorkingRecord {
    /// Version in the store; `None` if the store has no such record.
    seen: Option<u64>,
    record: Option<Record>,
    changed: bool,
}

impl Records {
    pub(super) fn new(rows: BTreeMap<RecordKey, Record>) -> Records {
        let working = |record: Record| WorkingRecord {
            seen: Some(record.version),
            record: Some(record),
            changed: false,
        };
        Records(rows.into_iter().map(|(key, record)| (key, working(record))).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the batch has loaded this key, deleted or not.
    pub(super) fn contains(&self, key: &RecordKey) -> bool {
        self.0.contains_key(key)
    }

    fn set(&mut self, key: RecordKey, record: Option<Record>) {
        let unseen = WorkingRecord { seen: None, record: None, changed: false };
        let working = self.0.entry(key).or_insert(unseen);
        working.record = record;
        working.changed = true;
    }

    pub(super) fn changes(self) -> impl Iterator<Item = (RecordKey, RecordChange)> {
        let to_write = |working: &WorkingRecord| {
            // Created and deleted within the batch: nothing to write.
            working.changed && (working.seen.is_some() || working.record.is_some())
        };
        let change = |working: WorkingRecord| RecordChange { seen: working.seen, new: working.record };
        let changed = self.0.into_iter().filter(move |(_, working)| to_write(working));
        changed.map(move |(key, working)| (key, change(working)))
    }
}

impl WorkingSet<'_> {
    /// The record with this key. An unreadable one counts as missing: the next write replaces it.
    pub(super) fn record<T: Stored>(&self, key: String) -> Option<T> {
        let working = self.records.0.get(&T::record_key(key))?;
        T::of(working.record.as_ref()?).ok()
    }

    /// Writes a record. The batch must have asked for it.
    pub(super) fn put_record<T: Stored>(&mut self, value: &T) {
        let version = self.random();
        let record = value.to_record(version);
        self.records.set(record.key.clone(), Some(record));
    }

    /// Removes the due moment of a record.
    pub(super) fn never_due(&mut self, key: RecordKey) {
        let version = self.random();
        if let Some(record) = self.records.0.get(&key).and_then(|working| working.record.clone()) {
            self.records.set(key, Some(Record { due_at: None, version, ..record }));
        }
    }

    /// Sets another due moment of a record than the one it says.
    pub(super) fn due_later(&mut self, key: RecordKey, at: Time) {
        let version = self.random();
        if let Some(record) = self.records.0.get(&key).and_then(|working| working.record.clone()) {
            self.records.set(key, Some(Record { due_at: Some(at), version, ..record }));
        }
    }

    pub(super) fn remove_record(&mut self, key: RecordKey) {
        self.records.set(key, None);
    }
}
