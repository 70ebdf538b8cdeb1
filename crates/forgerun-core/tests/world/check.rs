//! What must hold in the whole world after every batch: what the invariants of a single job cannot
//! see.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use forgerun_core::client_limits::ClientUsage;
use forgerun_core::failure::{FailureBatch, FailureGroup};
use forgerun_core::fair;
use forgerun_core::history::{Event, EventKind, JournalEntry};
use forgerun_core::id::JobId;
use forgerun_core::invariants;
use forgerun_core::job::{Name, Parked, Unique};
use forgerun_core::record::{RecordKind, Stored};
use forgerun_core::rows::Counts;
use forgerun_core::state::State;

use super::World;

impl World {
    /// Panics with the name of what does not hold.
    pub(crate) fn check(&self) {
        self.check_jobs();
        self.check_journal();
        self.check_counts();
        self.check_limits();
        self.check_turns();
        self.check_references();
        self.check_post();
        self.check_failures();
    }

    fn check_jobs(&self) {
        for job in self.jobs.values() {
            assert_eq!(invariants::job(job), Ok(()), "{job:?}");
            assert_eq!(invariants::chain(job.history.events()), Ok(()), "{job:?}");
            let ended = self.outcomes.contains_key(&job.execution);
            assert_eq!(ended, job.state.is_final(), "an execution has an outcome once it ended: {job:?}");
            for past in &job.executions_past {
                assert!(self.outcomes.contains_key(past), "a closed execution keeps its outcome: {job:?}");
            }
        }
    }

    /// The journal tells every job's life without a gap, the forgotten ones included.
    fn check_journal(&self) {
        let mut lives: BTreeMap<JobId, Vec<Event>> = BTreeMap::new();
        for (job, event) in self.journal.iter().filter_map(JournalEntry::job_event) {
            lives.entry(job).or_default().push(*event);
        }
        for (job, events) in lives {
            assert!(events.iter().zip(1..).all(|(event, n)| event.n == n), "{job} has a gap in its events");
            assert_eq!(invariants::chain(events), Ok(()), "{job}");
        }
    }

    fn check_counts(&self) {
        let mut recount: BTreeMap<Name, Counts> = BTreeMap::new();
        for job in self.jobs.values() {
            recount.entry(job.head.queue_id().key()).or_default().add(job.facet(), 1);
            let is_real = !job.head.is_simulated() && job.head.workflow_head.is_none();
            let usage = ClientUsage {
                waiting: i64::from(job.state == State::Queued),
                active: i64::from(job.state.is_active() && is_real),
                bytes: job.stored_bytes.cast_signed(),
            };
            let key = ClientUsage::key(job.head.client);
            recount.entry(key).or_default().merge(&usage.to_counts());
        }
        recount.retain(|_, counts| !counts.is_zero());
        let kept: BTreeMap<_, _> = self.counts.iter().filter(|(_, counts)| !counts.is_zero()).collect();
        assert_eq!(kept, recount.iter().collect(), "the counts are a recount");
    }

    /// Groups and what is not added to them yet make up all failures there ever were; and a failed
    /// job is found by its reason.
    fn check_failures(&self) {
        let mut n_counted = 0;
        for record in self.records.values() {
            n_counted += match record.key.kind {
                RecordKind::FailureBatch => {
                    let batch = FailureBatch::of(record).unwrap();
                    batch.groups.iter().map(|group| group.count).sum()
                }
                RecordKind::FailureGroup => FailureGroup::of(record).unwrap().count,
                _ => 0,
            };
        }
        let failed =
            |event: &&Event| event.ends() && matches!(event.kind, EventKind::Moved { to: State::Failed, .. });
        let events = self.journal.iter().filter_map(JournalEntry::job_event).map(|(_, event)| event);
        assert_eq!(n_counted, events.filter(failed).count() as u64, "every failure is counted once");
        for job in self.jobs.values() {
            assert_eq!(job.failure.is_some(), job.state == State::Failed, "{job:?}");
        }
    }

    fn check_limits(&self) {
        let limited =
            || self.jobs.values().flat_map(|job| job.head.limits.iter().map(move |limit| (job, limit)));
        for (key, row) in self.limits.iter().filter(|(key, _)| !fair::is_about_turns(key)) {
            let held = limited().filter(|(job, limit)| limit.key == *key && job.state.is_active());
            assert_eq!(row.active as usize, held.count(), "the places taken of {key} are a recount");
        }
        for (job, limit) in limited() {
            let active = self.limits.get(&limit.key).map_or(0, |row| row.active);
            let most = limited()
                .filter(|(_, other)| other.key == limit.key)
                .filter_map(|(_, other)| other.concurrency);
            assert!(
                most.max().is_none_or(|most| active <= most),
                "more jobs of {} are held than may be",
                limit.key
            );
            let waits = job.parked == Parked::ForPlace;
            assert!(!waits || job.due_at().is_some(), "a job parked for a place is looked at again: {job:?}");
        }
    }

    /// Of each fair key with claimable jobs one stands in line, and the rows say so.
    fn check_turns(&self) {
        let mut in_line: BTreeMap<Name, usize> = BTreeMap::new();
        let mut n_keys: BTreeMap<Name, usize> = BTreeMap::new();
        for job in self.jobs.values() {
            let Some(names) = fair::TurnNames::of(&job.head) else { continue };
            let claimable = job.state == State::Queued && !job.paused && job.available_at.is_none();
            if claimable {
                *in_line.entry(names.key).or_default() += usize::from(job.turn.is_some());
            }
            *n_keys.entry(names.queue).or_default() += usize::from(job.turn.is_some());
        }
        assert!(in_line.values().all(|&n| n == 1), "one job of each key is in line: {in_line:?}");
        for (key, row) in self.limits.iter().filter(|(key, _)| fair::is_about_turns(key)) {
            let n = n_keys.get(key).or_else(|| in_line.get(key)).copied().unwrap_or(0);
            let active = if n_keys.contains_key(key) { row.active } else { row.active.min(1) };
            assert_eq!(active as usize, n, "the row of {key:?} says what is in line");
        }
    }

    fn check_references(&self) {
        for outcome in self.outcomes.values() {
            assert!(self.jobs.contains_key(&outcome.job), "an outcome is forgotten with its job");
        }
        for (execution, job) in &self.executions {
            let known = self
                .jobs
                .get(job)
                .is_some_and(|job| job.execution == *execution || job.executions_past.contains(execution));
            assert!(known, "an execution belongs to its job");
        }
        let succeeded = |job: &&forgerun_core::job::Job| job.state == State::Succeeded;
        let ended_well: BTreeSet<_> = self.jobs.values().filter(succeeded).map(|job| job.execution).collect();
        assert!(
            self.results.keys().all(|execution| ended_well.contains(execution)),
            "results are of successes"
        );
        for (key, holder) in &self.uniques {
            let unique = self.jobs.get(holder).and_then(|job| job.head.unique.as_ref());
            assert!(
                unique.is_some_and(|unique| unique.key == *key),
                "a unique key is forgotten with its holder"
            );
        }
        let unfinished = self.jobs.values().filter(|job| !job.state.is_final());
        let uniques = unfinished.filter_map(|job| job.head.unique.as_ref());
        let mut held = BTreeSet::new();
        for unique in uniques.filter(|unique| unique.until.is_none() && unique.facets == Unique::UNFINISHED) {
            assert!(held.insert(unique.key), "of the jobs with one unique key one is unfinished");
        }
    }
}
