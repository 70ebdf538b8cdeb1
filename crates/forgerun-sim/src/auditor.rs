//! Checks every commit, as a reader of the disk would, against the one before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use forgerun_core::delivery::{Delivery, DeliveryStage};
use forgerun_core::failure::{FailureBatch, FailureGroup};
use forgerun_core::history::{Event, EventKind, EventName, JournalEntry};
use forgerun_core::id::{ExecutionId, JobId};
use forgerun_core::job::{Job, Name};
use forgerun_core::queue::QueueSettings;
use forgerun_core::record::{RecordKey, RecordKind, Stored};
use forgerun_core::sink::{SinkCursor, SinkPosition};
use forgerun_core::state::{State, is_legal};
use forgerun_core::time::Time;
use forgerun_core::{Changes, invariants};

use crate::delivery_ledger::DeliveryLedger;
use crate::run_log::RunLog;
use crate::schedules::TickLedger;
use crate::shares::ShareLedger;
use crate::workflows::StepLedger;

pub(crate) struct Auditor {
    log: RunLog,
    state: Mutex<AuditState>,
}

#[derive(Default)]
struct AuditState {
    last: BTreeMap<JobId, LastSeen>,
    fences: BTreeMap<JobId, u64>,
    outcomes: BTreeMap<ExecutionId, [u8; 32]>,
    held: BTreeMap<Name, BTreeSet<JobId>>,
    unique: BTreeMap<[u8; 32], BTreeSet<JobId>>,
    paused: BTreeSet<Name>,
    deliveries: DeliveryLedger,
    ticks: TickLedger,
    steps: StepLedger,
    shares: ShareLedger,
    sink_begin: Option<SinkPosition>,
    /// Failed executions, and how many of them the group and batch records count.
    n_failures: u64,
    failures: BTreeMap<RecordKey, u64>,
    n_commits: u64,
    n_events: u64,
}

impl Auditor {
    pub(crate) fn new(log: RunLog) -> Auditor {
        Auditor { log, state: Mutex::default() }
    }

    /// Numbers of commits and events.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        let state = self.state.lock().expect("no code panics while auditing");
        (state.n_commits, state.n_events)
    }

    /// Ended executions, and the digest of each outcome.
    pub(crate) fn outcomes(&self) -> BTreeMap<ExecutionId, [u8; 32]> {
        self.state.lock().expect("no code panics while auditing").outcomes.clone()
    }

    /// Whether the sending courier still holds the delivery.
    pub(crate) fn holds(&self, delivery: &Delivery) -> bool {
        let state = self.state.lock().expect("no code panics while auditing");
        let known = state.deliveries.delivery(delivery.id);
        known.is_some_and(|known| {
            known.fence == delivery.fence && matches!(known.stage, DeliveryStage::Taken(_))
        })
    }

    pub(crate) fn with_ledger<T>(&self, look: impl FnOnce(&DeliveryLedger) -> T) -> T {
        look(&self.state.lock().expect("no code panics while auditing").deliveries)
    }

    /// Number of ticks that made a job.
    pub(crate) fn n_ticks(&self) -> u64 {
        self.state.lock().expect("no code panics while auditing").ticks.n_ticks()
    }

    /// Number of turns that fair keys took while others waited.
    pub(crate) fn n_turns(&self) -> u64 {
        self.state.lock().expect("no code panics while auditing").shares.n_turns()
    }

    /// Where the sink began; `None` if there is none.
    pub(crate) fn sink_begin(&self) -> Option<SinkPosition> {
        self.state.lock().expect("no code panics while auditing").sink_begin
    }

    pub(crate) fn see(&self, changes: &Changes) {
        let mut state = self.state.lock().expect("no code panics while auditing");
        state.n_commits += 1;
        state.n_events += changes.journal.len() as u64;
        let mut broken = Vec::new();
        state.see_events(changes, &mut broken);
        state.see_outcomes(changes, &mut broken);
        state.see_failures(changes, &mut broken);
        // Updated jobs first: a replaced job releases its key in the commit that inserts the new
        // one.
        let jobs = changes.updated.iter().chain(changes.inserted.iter().map(|(job, _)| job));
        jobs.for_each(|job| state.see_job(job, &mut broken));
        state.see_limits(changes, &mut broken);
        let jobs = changes.updated.iter().chain(changes.inserted.iter().map(|(job, _)| job));
        state.shares.see(jobs, &mut broken);
        state.deliveries.see(changes, &mut broken);
        state.ticks.see(changes, &mut broken);
        state.steps.see(changes, &mut broken);
        let sinks = changes.records.values().filter_map(|change| change.new.as_ref());
        for sink in sinks.filter(|record| record.key.kind == RecordKind::Sink) {
            let begin = SinkCursor::of(sink).ok().map(|sink| sink.position);
            state.sink_begin = state.sink_begin.or(begin);
        }
        for settings in settings(changes) {
            if settings.paused_at.is_some() {
                state.paused.insert(settings.queue)
            } else {
                state.paused.remove(&settings.queue)
            };
        }
        drop(state);
        broken.into_iter().for_each(|what| self.log.broken(what));
    }
}

/// Queue settings written by a commit.
fn settings(changes: &Changes) -> impl Iterator<Item = QueueSettings> {
    let records = changes.records.values().filter_map(|change| change.new.as_ref());
    let queues = records.filter(|record| record.key.kind == RecordKind::Queue);
    queues.filter_map(|record| QueueSettings::of(record).ok())
}

impl AuditState {
    fn see_events(&mut self, changes: &Changes, broken: &mut Vec<String>) {
        let jobs = changes.inserted.iter().map(|(job, _)| job).chain(&changes.updated);
        let queues: BTreeMap<JobId, &Name> = jobs.map(|job| (job.id, &job.head.queue)).collect();
        for (job, event) in changes.journal.iter().filter_map(JournalEntry::job_event) {
            let last = self.last.get(&job).copied();
            match follow(last, event) {
                Ok(stand) => drop(self.last.insert(job, stand)),
                Err(rule) => broken.push(format!("job {job}: {rule}: {event:?} after {last:?}")),
            }
            // A pause in the same batch may have come after the claim.
            let paused = queues.get(&job).is_some_and(|queue| self.paused.contains(*queue));
            if event.name() == EventName::Assigned && paused && settings(changes).next().is_none() {
                broken.push(format!("job {job} was handed out from a paused queue"));
            }
        }
    }

    fn see_outcomes(&mut self, changes: &Changes, broken: &mut Vec<String>) {
        for outcome in &changes.outcomes {
            if self.outcomes.insert(outcome.execution, outcome.object.digest).is_some() {
                broken.push(format!("execution {} ended twice", outcome.execution));
            }
        }
    }

    /// Every failure is counted once, from the commit that ends its execution on, whether it was
    /// added to its group or not.
    fn see_failures(&mut self, changes: &Changes, broken: &mut Vec<String>) {
        let ended_badly =
            |event: &&Event| event.ends() && matches!(event.kind, EventKind::Moved { to: State::Failed, .. });
        let events = changes.journal.iter().filter_map(JournalEntry::job_event).map(|(_, event)| event);
        self.n_failures += events.filter(ended_badly).count() as u64;
        for (key, change) in &changes.records {
            let counted = change.new.as_ref().map(|record| match key.kind {
                RecordKind::FailureBatch => FailureBatch::of(record)
                    .map_or(0, |batch| batch.groups.iter().map(|group| group.count).sum()),
                RecordKind::FailureGroup => FailureGroup::of(record).map_or(0, |group| group.count),
                _ => 0,
            });
            match counted {
                Some(n) => drop(self.failures.insert(key.clone(), n)),
                None => drop(self.failures.remove(key)),
            }
        }
        let counted: u64 = self.failures.values().sum();
        if counted != self.n_failures {
            broken.push(format!("{} executions ended badly, {counted} are counted", self.n_failures));
        }
    }

    /// Checked once the whole commit is entered: one job may take the place that another frees in
    /// it.
    fn see_limits(&self, changes: &Changes, broken: &mut Vec<String>) {
        let jobs = changes.inserted.iter().map(|(job, _)| job).chain(&changes.updated);
        for limit in jobs.flat_map(|job| &job.head.limits) {
            let n_held = self.held.get(&limit.key).map_or(0, BTreeSet::len);
            if limit.concurrency.is_some_and(|most| n_held > most as usize) {
                broken.push(format!("limit {} holds {n_held} jobs", limit.key));
            }
        }
    }

    fn see_job(&mut self, job: &Job, broken: &mut Vec<String>) {
        if let Err(invariants::Broken(name)) = invariants::job(job) {
            broken.push(format!("job {}: {name}", job.id));
        }
        let fence = self.fences.insert(job.id, job.fence).unwrap_or(0);
        if job.fence < fence {
            broken.push(format!("job {}: its fencing token went back from {fence} to {}", job.id, job.fence));
        }
        for limit in &job.head.limits {
            let held = self.held.entry(limit.key.clone()).or_default();
            if job.state.is_active() {
                held.insert(job.id)
            } else {
                held.remove(&job.id)
            };
        }
        if let Some(unique) = &job.head.unique {
            let holders = self.unique.entry(unique.key).or_default();
            match job.state.is_final() {
                true => holders.remove(&job.id),
                false => holders.insert(job.id),
            };
            if holders.len() > 1 {
                broken.push(format!("a unique key is held by {holders:?}"));
            }
        }
    }
}

/// The state of a job after its last event.
#[derive(Clone, Copy, Debug)]
struct LastSeen {
    n: u32,
    at: Time,
    state: State,
}

/// The state of a job after `event`, or the violated rule.
fn follow(last: Option<LastSeen>, event: &Event) -> Result<LastSeen, &'static str> {
    if event.n != last.map_or(1, |last| last.n + 1) {
        return Err("no event may be missing");
    }
    if last.is_some_and(|last| event.at <= last.at) {
        return Err("events are timed upwards");
    }
    let before = last.map(|last| last.state);
    let state = match event.kind {
        EventKind::Moved { from, .. } if from != before => {
            return Err("a move begins where the last one ended");
        }
        EventKind::Moved { from, to, .. } if !is_legal(from, to) => return Err("only allowed moves happen"),
        EventKind::Moved { to, .. } => to,
        EventKind::Progress(_) | EventKind::Emitted => before.ok_or("a job begins with a move")?,
    };
    Ok(LastSeen { n: event.n, at: event.at, state })
}
