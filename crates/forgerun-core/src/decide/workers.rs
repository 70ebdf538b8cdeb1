//! External workers: heartbeats, directives, and the jobs of lost workers.
//!
//! Commands name a worker together with its owner, and only jobs of that owner are extended or
//! taken back.

use alloc::vec::Vec;

use super::working_set::{Slot, WorkingSet};
use crate::catalog::Kind;
use crate::command::{
    Answer, Claim, Heartbeat, HeartbeatAnswer, HeldJob, Refusal, WorkError, WorkerCommand, WorkerKind,
    WorkerLost,
};
use crate::id::JobId;
use crate::job::Job;
use crate::limits;
use crate::record::{RecordKey, Stored};
use crate::rows::Wants;
use crate::state::{Cause, State};
use crate::worker::{Worker, WorkerId, WorkerState};

pub(super) fn wants(command: &WorkerCommand, wants: &mut Wants) {
    wants.records.insert(Worker::record_key(command.worker().key()));
    match command {
        WorkerCommand::Heartbeat(heartbeat) => {
            wants
                .jobs_sought
                .extend(heartbeat.jobs.iter().take(limits::WORKER_JOBS_MAX).map(|(job, _)| *job));
        }
        WorkerCommand::Lost(lost) | WorkerCommand::Forget(lost) => wants.jobs_sought.extend(&lost.jobs),
        WorkerCommand::Direct { .. } => {}
    }
}

/// The external worker of a claim.
pub(super) fn claimant(claim: &Claim) -> Option<WorkerId> {
    match &claim.worker_kind {
        WorkerKind::External(owner) => Some(WorkerId { owner: owner.clone(), name: claim.worker.clone() }),
        WorkerKind::BuiltIn => None,
    }
}

impl WorkingSet<'_> {
    pub(super) fn worker(&mut self, command: &WorkerCommand) -> Result<Answer, Refusal> {
        match command {
            WorkerCommand::Heartbeat(heartbeat) => Ok(self.heartbeat(heartbeat)),
            WorkerCommand::Direct { worker, to } => self.direct(worker, *to),
            WorkerCommand::Lost(lost) => Ok(self.release(lost)),
            WorkerCommand::Forget(known) => self.forget_worker(known),
        }
    }

    /// Whether the worker's directive allows new jobs. Unknown workers may claim.
    pub(super) fn takes_work(&self, id: &WorkerId) -> bool {
        self.record::<Worker>(id.key()).is_none_or(|worker| worker.takes_work())
    }

    /// Notes the claimed jobs with a worker that sends heartbeats, so that they are taken back if
    /// it is lost. A worker without heartbeats is not tracked, since its silence means nothing.
    pub(super) fn note_fetch(&mut self, id: &WorkerId, claim: &Claim, jobs: &[Job]) {
        let Some(mut worker) = self.record::<Worker>(id.key()) else { return };
        worker.jobs.extend(jobs.iter().map(|job| job.id));
        let surplus = worker.jobs.len().saturating_sub(limits::WORKER_JOBS_MAX);
        worker.jobs.drain(..surplus);
        if worker.facts.queues.is_empty() {
            worker.facts.queues = claim.queues.iter().take(limits::WORKER_QUEUES_MAX).cloned().collect();
        }
        worker.seen_at = worker.seen_at.max(self.now);
        worker.lost_at = None;
        self.put_record(&worker);
    }

    fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Answer {
        let now = self.now;
        let known: Option<Worker> = self.record(heartbeat.worker.key());
        let mut worker = known.unwrap_or_else(|| Worker::new(heartbeat.worker.clone(), now));
        let (mut extended, mut canceled, mut paused) = (Vec::new(), Vec::new(), Vec::new());
        for (job, proof) in heartbeat.jobs.iter().take(limits::WORKER_JOBS_MAX) {
            let client = Some(heartbeat.worker.owner.client);
            match self.held(&HeldJob { job: *job, proof: proof.clone(), client }) {
                Ok(slot) => {
                    self.prolong(slot, heartbeat.lease);
                    extended.push(*job);
                    if self.job(slot).paused {
                        paused.push(*job);
                    }
                }
                Err(Refusal::AlreadyCanceled) => canceled.push(*job),
                Err(_) => {}
            }
        }
        worker.learn(&heartbeat.facts);
        worker.state = heartbeat.state.unwrap_or(worker.state);
        worker.seen_at = worker.seen_at.max(now);
        worker.lost_at = None;
        worker.jobs.clone_from(&extended);
        self.put_record(&worker);
        Answer::Heartbeat(HeartbeatAnswer { worker, extended, canceled, paused }.into())
    }

    fn direct(&mut self, id: &WorkerId, to: WorkerState) -> Result<Answer, Refusal> {
        let mut worker: Worker = self.record(id.key()).ok_or(Refusal::WorkerNotFound)?;
        worker.directive = to;
        self.put_record(&worker);
        Ok(Answer::Settled)
    }

    fn forget_worker(&mut self, known: &WorkerLost) -> Result<Answer, Refusal> {
        let id = &known.worker;
        let worker: Worker = self.record(id.key()).ok_or(Refusal::WorkerNotFound)?;
        // Its record may list jobs that have ended since. One that was fetched just now is not
        // loaded.
        let is_held = |job: &JobId| self.held_by(*job, id).is_some() || !known.jobs.contains(job);
        if worker.jobs.iter().any(is_held) {
            return Err(Refusal::WrongState(State::Running));
        }
        self.remove_record(Worker::record_key(id.key()));
        Ok(Answer::Settled)
    }

    /// Processes a silent worker: reported as lost if it held jobs, else forgotten.
    pub(super) fn worker_due(&mut self, key: RecordKey) -> Option<WorkerLost> {
        let Some(mut worker) = self.record::<Worker>(key.key.clone()) else {
            // Unreadable, and would be due for ever.
            self.remove_record(key);
            return None;
        };
        if worker.due_at().is_none_or(|at| at > self.now) {
            return None;
        }
        if worker.jobs.is_empty() {
            self.remove_record(key);
            return None;
        }
        // If the follow-up is lost with this process, the worker becomes due again.
        worker.lost_at = Some(self.now);
        self.put_record(&worker);
        Some(WorkerLost { worker: worker.id, jobs: worker.jobs })
    }

    /// Takes back the jobs of a lost worker.
    fn release(&mut self, lost: &WorkerLost) -> Answer {
        let Some(worker) = self.record::<Worker>(lost.worker.key()).filter(|worker| worker.lost_at.is_some())
        else {
            // It has come back.
            return Answer::Settled;
        };
        for &job in &lost.jobs {
            if let Some(slot) = self.held_by(job, &worker.id) {
                let released = self.lose(slot);
                debug_assert_eq!(released, Ok(()), "{:?}", self.job(slot));
            }
        }
        self.remove_record(Worker::record_key(worker.id.key()));
        Answer::Settled
    }

    fn held_by(&self, job: JobId, worker: &WorkerId) -> Option<Slot> {
        let slot = self.find(job)?;
        let job = self.job(slot);
        let proof = job.lease.as_ref().map(|lease| &lease.worker);
        (job.state.is_active() && job.head.client == worker.owner.client && proof == Some(&worker.name))
            .then_some(slot)
    }

    /// The worker of a job stopped extending its lease.
    pub(super) fn lose(&mut self, slot: Slot) -> Result<(), Refusal> {
        if self.job(slot).state == State::Assigned {
            return self.take_back(slot, Cause::LeaseExpired);
        }
        let mut error = WorkError::new(Kind::RunnerLost, "the worker gave no sign of life");
        if !self.job(slot).head.is_simulated() {
            error.class = Some("visibility_timeout".into());
        }
        self.break_off(slot, Cause::RunnerLost, &error)
    }
}
