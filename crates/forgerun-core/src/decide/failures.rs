//! Failures: noted when their execution ends. The notes of a batch form one new record, and a
//! moment later such records are added to their groups.
//!
//! Noting a failure loads nothing, and no two batches write the same record. So batches of several
//! nodes never wait for each other, however many jobs fail for the same reason.

use alloc::string::ToString;

use super::working_set::{Slot, WorkingSet};
use crate::command::{Answer, FailureCommand, FailuresDue};
use crate::failure::{self, FailureBatch, FailureGroup, FailureId, FailureIndex};
use crate::record::{RecordKey, Stored};
use crate::rows::Wants;
use crate::state::State;
use crate::time::Time;

pub(super) fn wants(command: &FailureCommand, wants: &mut Wants) {
    wants.records.insert(FailureIndex::record_key(FailureIndex::KEY.into()));
    let group = |id: &FailureId| FailureGroup::record_key(failure::key(*id));
    match command {
        FailureCommand::Fold(due) => {
            wants.records.extend(due.batches.iter().map(|key| FailureBatch::record_key(key.clone())));
            wants.records.extend(due.groups.iter().map(group));
        }
        FailureCommand::Forget(groups) => wants.records.extend(groups.iter().map(group)),
    }
}

impl WorkingSet<'_> {
    /// Notes the failure of an execution that has just ended.
    pub(super) fn note_failure(&mut self, slot: Slot, at: Time) {
        let job = self.job(slot);
        if job.state != State::Failed {
            return;
        }
        let Some(id) = FailureId::of(job) else { return };
        let one = FailureGroup::of_job(job, id, at);
        let place = (job.id, job.history.next(at).0);
        self.first_failure.get_or_insert(place);
        self.change(slot).failure = Some(id);
        if let Some(one) = one {
            match self.failures.get_mut(&id) {
                Some(group) => group.merge(&one),
                None => drop(self.failures.insert(id, one)),
            }
        }
    }

    pub(super) fn put_failures(&mut self) {
        if let Some(first) = self.first_failure.take() {
            let groups = core::mem::take(&mut self.failures).into_values().collect();
            self.put_record(&FailureBatch { first, at: self.now, groups });
        }
    }

    /// Reports that a batch record must be added to its groups. An unreadable one would be due for
    /// ever.
    pub(super) fn failure_batch_due(&mut self, key: RecordKey, due: &mut FailuresDue) {
        match self.record::<FailureBatch>(key.key.clone()) {
            Some(batch) => {
                due.groups.extend(batch.groups.iter().map(|group| group.id));
                due.batches.push(key.key);
            }
            None => self.remove_record(key),
        }
    }

    /// Reports that a group has expired.
    pub(super) fn failure_group_due(&mut self, key: RecordKey, due: &mut FailuresDue) {
        match self.record::<FailureGroup>(key.key.clone()) {
            Some(group) => due.over.push(group.id),
            None => self.remove_record(key),
        }
    }

    pub(super) fn failure(&mut self, command: &FailureCommand) -> Answer {
        let known: Option<FailureIndex> = self.record(FailureIndex::KEY.to_string());
        let mut index = known.unwrap_or_default();
        let before = index.clone();
        match command {
            FailureCommand::Fold(due) => due.batches.iter().for_each(|key| self.fold(key, &mut index)),
            FailureCommand::Forget(groups) => {
                groups.iter().for_each(|id| self.forget_failures(*id, &mut index));
            }
        }
        if index != before {
            index.n_folds = index.n_folds.wrapping_add(1);
            self.put_record(&index);
        }
        Answer::Folded { surplus: index.surplus() }
    }

    /// Adds a batch record to its groups, unless another node has.
    fn fold(&mut self, key: &str, index: &mut FailureIndex) {
        let Some(batch) = self.record::<FailureBatch>(key.to_string()) else { return };
        for added in batch.groups {
            let group = match self.record::<FailureGroup>(failure::key(added.id)) {
                Some(mut group) => {
                    group.merge(&added);
                    group
                }
                None => added,
            };
            index.seen_at.insert(group.id, group.last_at);
            self.put_record(&group);
        }
        // Also if the batch adds nothing to the index: readers must see that the record is gone.
        index.n_folds = index.n_folds.wrapping_add(1);
        self.remove_record(FailureBatch::record_key(key.to_string()));
    }

    fn forget_failures(&mut self, id: FailureId, index: &mut FailureIndex) {
        let key = failure::key(id);
        let group: Option<FailureGroup> = self.record(key.clone());
        let is_over = group.as_ref().and_then(Stored::due_at).is_none_or(|due_at| due_at <= self.now);
        if is_over || index.surplus().contains(&id) {
            index.seen_at.remove(&id);
            self.remove_record(FailureGroup::record_key(key));
        }
    }
}
