//! Effects of time on jobs: schedules and waits end, leases and timeouts run out, jobs expire and
//! are forgotten. Each job has one moment for all of these, [`Job::due_at`].
//!
//! [`Job::due_at`]: crate::job::Job::due_at

use alloc::vec::Vec;

use super::working_set::{Slot, WorkingSet};
use crate::catalog::Kind;
use crate::checkpoint::Checkpoint;
use crate::command::{Answer, FailuresDue, ListWanted, Refusal, WorkError, WorkerLost};
use crate::job::Parked;
use crate::limits;
use crate::node::Node;
use crate::record::RecordKind;
use crate::schedule::Schedule;
use crate::session::EndedSession;
use crate::state::{Cause, State};
use crate::tally::NodeTally;
use crate::time::Time;

#[derive(Default)]
struct RecordsDue {
    n_records: usize,
    workers_lost: Vec<WorkerLost>,
    failures: FailuresDue,
    schedules: Vec<Schedule>,
    lists: Vec<ListWanted>,
}

impl WorkingSet<'_> {
    pub(super) fn due(&mut self, limit: usize) -> Answer {
        let limit = limit.min(limits::DUE_JOBS_MAX);
        let mut more = self.due.len() >= limit;
        let rest = self.due.split_off(self.due.len().min(limit));
        let due = core::mem::replace(&mut self.due, rest);
        let mut n_jobs = 0;
        for id in due {
            let Some(slot) = self.find(id) else {
                // Unreadable, and set aside.
                more = true;
                continue;
            };
            if self.job(slot).due_at().is_some_and(|at| at <= self.now) {
                let done = self.apply_due(slot);
                // Counted as processed without being processed, it would come back for ever. The
                // caller isolates the job.
                assert_eq!(done, Ok(()), "{:?}", self.job(slot));
                n_jobs += 1;
            } else {
                // An earlier command of the batch changed it. If not, the store indexes a wrong
                // moment and the row would stay first in line for ever: writing it again corrects
                // that.
                self.change(slot);
            }
        }
        let RecordsDue { n_records, workers_lost, failures, schedules, lists } = self.records_due();
        more |= n_records >= limits::DUE_RECORDS_MAX;
        Answer::Due { n_jobs, n_records, more, workers_lost, failures, schedules, lists }
    }

    fn records_due(&mut self) -> RecordsDue {
        let due = core::mem::take(&mut self.records_due);
        let mut found = RecordsDue { n_records: due.len(), ..RecordsDue::default() };
        for key in due {
            match key.kind {
                RecordKind::Worker => found.workers_lost.extend(self.worker_due(key)),
                RecordKind::FailureBatch => self.failure_batch_due(key, &mut found.failures),
                RecordKind::FailureGroup => self.failure_group_due(key, &mut found.failures),
                RecordKind::Redrive => self.redrive_due(key),
                RecordKind::Node => self.drop_overdue::<Node>(key),
                RecordKind::Tally => self.drop_overdue::<NodeTally>(key),
                RecordKind::EndedSession => self.drop_overdue::<EndedSession>(key),
                RecordKind::QueuePace => self.pace_due(key),
                RecordKind::Checkpoint => self.drop_overdue::<Checkpoint>(key),
                RecordKind::StepMemo => self.step_due(key),
                RecordKind::MemoIndex => self.step_index_due(key),
                RecordKind::AuditEntry => self.audit_due(key),
                RecordKind::Schedule => found.schedules.extend(self.schedule_due(key)),
                RecordKind::ForEach => found.lists.extend(self.list_due(key)),
                // These are never due.
                RecordKind::Queue
                | RecordKind::QuotaCount
                | RecordKind::ClientName
                | RecordKind::Sink
                | RecordKind::FailureIndex
                | RecordKind::SchemaIndex
                | RecordKind::SchemaText
                | RecordKind::ScheduleCount
                | RecordKind::Workflow
                | RecordKind::WorkflowPart
                | RecordKind::ElementTemplate
                | RecordKind::ElementPart
                | RecordKind::Signal
                | RecordKind::AuditChain
                | RecordKind::AuditCount
                | RecordKind::TokenKey
                | RecordKind::ClientLimits
                | RecordKind::Encryption => {}
            }
        }
        found
    }

    fn apply_due(&mut self, slot: Slot) -> Result<(), Refusal> {
        let is_needed = self.job(slot).state.is_final() && self.is_needed(slot);
        let job = self.job(slot);
        let come = |at: Option<Time>| at.is_some_and(|at| at <= self.now);
        match job.state {
            State::Created | State::Queued if come(job.begin_by()) => self.expire(slot),
            State::Assigned if come(job.deadline()) => self.expire(slot),
            State::Created => self.enqueue(slot, Cause::Due),
            State::Queued => {
                let job = self.change(slot);
                job.available_at = None;
                job.awaited_signal = None;
                job.parked = match job.parked {
                    Parked::ForTurn => Parked::TurnCame,
                    Parked::No | Parked::ForPlace | Parked::TurnCame => Parked::No,
                };
                self.reshelve(slot);
                Ok(())
            }
            State::Running if job.head.wait.is_some() => self.wait_due(slot),
            State::Running if job.head.workflow_head.is_some() => self.workflow_overdue(slot),
            State::Running if come(job.lease.as_ref().and_then(|lease| lease.timeout_at)) => {
                let message = match job.deadline().filter(|&at| at <= self.now) {
                    Some(deadline) => job.head.deadline_message(deadline),
                    None => job.head.timeout_message(job.head.timeout.unwrap_or_default()),
                };
                let error = WorkError::new(Kind::HandlerTimeout, &message);
                self.break_off(slot, Cause::Timeout, &error)
            }
            State::Assigned | State::Running => self.lose(slot),
            State::Succeeded | State::Failed | State::Canceled if is_needed => {
                self.change(slot).forget_at = Some(self.now + limits::WORKFLOW_STEP_KEEP);
                Ok(())
            }
            State::Succeeded | State::Failed | State::Canceled => {
                let kept = job.record_kept();
                self.erase(slot, Some(kept));
                Ok(())
            }
        }
    }
}
