//! Schedules: registered, paused, triggered, deleted; and their ticks.

use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::working_set::WorkingSet;
use super::{client_limits, submit};
use crate::client_limits::ClientLimit;
use crate::command::{
    Answer, Cancel, DueTick, Firing, NewJob, Owned, PutSchedule, Refusal, ResumeSchedule, ScheduleCommand,
    Submit, Trigger,
};
use crate::id::JobId;
use crate::job::Job;
use crate::limits;
use crate::record::{RecordKey, Stored};
use crate::rows::Wants;
use crate::schedule::{Overlap, Schedule, ScheduleCount, ScheduleId, TickSkip};
use crate::state::State;
use crate::time::Time;

pub(super) fn wants(command: &ScheduleCommand, wants: &mut Wants) {
    wants.records.insert(Schedule::record_key(command.id().key()));
    if matches!(command, ScheduleCommand::Put(_) | ScheduleCommand::Delete(_)) {
        wants.records.insert(ScheduleCount::record_key(command.id().owner.client.to_string()));
        client_limits::wants(command.id().owner.client, wants);
    }
    let mut run = |seen: &Schedule, job: JobId, queue_max: Option<u64>| {
        wants.jobs_sought.extend(seen.tick_job);
        let head = Arc::clone(&seen.head);
        let new = NewJob { id: job, id_given: false, head, input: Arc::default() };
        submit::wants(&submission(new, queue_max), wants);
    };
    match command {
        ScheduleCommand::Trigger(trigger) => run(&trigger.seen, trigger.job, trigger.queue_max),
        ScheduleCommand::Fire(firing) => {
            if let Some(tick) = firing.ticks.last() {
                run(&firing.seen, tick.job, firing.queue_max);
            }
        }
        ScheduleCommand::Put(_)
        | ScheduleCommand::Pause(_)
        | ScheduleCommand::Resume(_)
        | ScheduleCommand::Delete(_)
        | ScheduleCommand::PutOff(_) => {}
    }
}

fn submission(new: NewJob, queue_max: Option<u64>) -> Submit {
    Submit { jobs: vec![new], idempotency: None, queue_max, refuse_paused: false }
}

enum Ticked {
    /// Processed, whether it made a job or not.
    Dealt,
    /// The queue is full: retry later.
    PutOff,
}

impl WorkingSet<'_> {
    pub(super) fn schedule(&mut self, command: &ScheduleCommand) -> Result<Answer, Refusal> {
        match command {
            ScheduleCommand::Put(put) => self.put_schedule(put),
            ScheduleCommand::Pause(id) => self.pause_schedule(id),
            ScheduleCommand::Resume(resume) => self.resume_schedule(resume),
            ScheduleCommand::Trigger(trigger) => self.trigger_schedule(trigger),
            ScheduleCommand::Delete(id) => {
                let schedule = self.scheduled(id)?;
                let mut count = self.schedule_count(id);
                count.n = count.n.saturating_sub(1);
                self.put_record(&count);
                self.remove_record(Schedule::record_key(id.key()));
                Ok(Answer::Schedule { schedule: schedule.into(), created: false })
            }
            ScheduleCommand::Fire(firing) => Ok(self.fire(firing)),
            ScheduleCommand::PutOff(seen) => Ok(self.put_off(seen)),
        }
    }

    fn scheduled(&self, id: &ScheduleId) -> Result<Schedule, Refusal> {
        self.record(id.key()).ok_or(Refusal::ScheduleNotFound)
    }

    /// Registers a schedule. An existing one keeps its history, and its next tick if its timetable
    /// is unchanged: applications register their schedules on every start, perhaps when a tick is
    /// due.
    fn put_schedule(&mut self, put: &PutSchedule) -> Result<Answer, Refusal> {
        let known: Option<Schedule> = self.record(put.schedule.id.key());
        if known.is_none() {
            self.count_schedule(&put.schedule.id)?;
        }
        let paused_before = known.as_ref().and_then(|known| known.paused_at);
        let mut schedule = put.schedule.clone();
        schedule.paused_at = match put.enabled {
            Some(true) => None,
            Some(false) => paused_before.or(Some(self.now)),
            None => paused_before,
        };
        if let Some(known) = &known {
            schedule.last_at = known.last_at;
            (schedule.last_job, schedule.tick_job) = (known.last_job, known.tick_job);
            schedule.last_skip = known.last_skip;
            schedule.missed_at = known.missed_at;
            (schedule.n_runs, schedule.n_skipped, schedule.n_missed) =
                (known.n_runs, known.n_skipped, known.n_missed);
            schedule.created_at = known.created_at;
            if schedule.ticks_like(known) && known.paused_at.is_none() && known.next_at.is_some() {
                schedule.anchor = known.anchor;
                (schedule.next_at, schedule.put_off_until) = (known.next_at, known.put_off_until);
            }
        }
        self.put_record(&schedule);
        Ok(Answer::Schedule { schedule: schedule.into(), created: known.is_none() })
    }

    fn schedule_count(&self, id: &ScheduleId) -> ScheduleCount {
        let client = id.owner.client;
        self.record(client.to_string()).unwrap_or(ScheduleCount { client, n: 0 })
    }

    /// Counts one more schedule of a client, within the bound.
    fn count_schedule(&mut self, id: &ScheduleId) -> Result<(), Refusal> {
        let mut count = self.schedule_count(id);
        self.check_client_limit(id.owner.client, ClientLimit::MaxSchedules, count.n)?;
        if count.n >= limits::SCHEDULES_MAX {
            return Err(Refusal::TooManySchedules);
        }
        count.n += 1;
        self.put_record(&count);
        Ok(())
    }

    fn pause_schedule(&mut self, id: &ScheduleId) -> Result<Answer, Refusal> {
        let mut schedule = self.scheduled(id)?;
        if schedule.paused_at.is_none() {
            schedule.paused_at = Some(self.now);
            self.put_record(&schedule);
        }
        Ok(Answer::Schedule { schedule: schedule.into(), created: false })
    }

    /// Ticks during the pause do not count as missed.
    fn resume_schedule(&mut self, resume: &ResumeSchedule) -> Result<Answer, Refusal> {
        let mut schedule = self.scheduled(&resume.seen.id)?;
        if !schedule.ticks_like(&resume.seen) {
            return Err(Refusal::ScheduleChanged);
        }
        if schedule.paused_at.is_some() {
            schedule.paused_at = None;
            schedule.next_at = resume.next;
            schedule.put_off_until = None;
            self.put_record(&schedule);
        }
        Ok(Answer::Schedule { schedule: schedule.into(), created: false })
    }

    /// Makes a job on request, even while the schedule is paused or an earlier job runs. The next
    /// tick stays.
    fn trigger_schedule(&mut self, trigger: &Trigger) -> Result<Answer, Refusal> {
        let mut schedule = self.scheduled(&trigger.seen.id)?;
        if schedule.head != trigger.seen.head || schedule.input != trigger.seen.input {
            return Err(Refusal::ScheduleChanged);
        }
        let now = self.now;
        let (job, existing) = self.run(&schedule, now, trigger.job, trigger.queue_max)?;
        if !existing {
            schedule.ran(now, job.id);
            self.put_record(&schedule);
        }
        Ok(Answer::Submitted { jobs: vec![job], existing })
    }

    /// Reports a due schedule. An unreadable one keeps its bytes, but is never due again.
    pub(super) fn schedule_due(&mut self, key: RecordKey) -> Option<Schedule> {
        match self.record::<Schedule>(key.key.clone()) {
            Some(schedule) => schedule.due_at().is_some_and(|at| at <= self.now).then_some(schedule),
            None => {
                self.never_due(key);
                None
            }
        }
    }

    /// Processes ticks, unless another node has, or the schedule was changed: then it is checked
    /// again if still due.
    fn fire(&mut self, firing: &Firing) -> Answer {
        let known: Option<Schedule> = self.record(firing.seen.key());
        let Some(mut schedule) = known.filter(|known| *known == firing.seen) else {
            return Answer::Settled;
        };
        let ticks: Vec<Time> = firing.ticks.iter().map(|tick| tick.at).collect();
        let missed = ticks.len() - schedule.made_up(&ticks, self.now);
        let n_missed = firing.n_older.saturating_add(missed as u64);
        if n_missed > 0 {
            schedule.n_missed = schedule.n_missed.saturating_add(n_missed);
            schedule.missed_at = Some(self.now);
        }
        schedule.next_at = firing.next;
        schedule.put_off_until = None;
        for tick in &firing.ticks[missed..] {
            if let Ticked::PutOff = self.tick(&mut schedule, tick, firing.queue_max) {
                schedule.next_at = Some(tick.at);
                schedule.put_off_until = Some(self.now + limits::SCHEDULE_PUT_OFF);
                break;
            }
        }
        self.put_record(&schedule);
        Answer::Settled
    }

    /// Keeps the tick and retries it after a while.
    fn put_off(&mut self, seen: &Schedule) -> Answer {
        let known: Option<Schedule> = self.record(seen.key());
        if let Some(mut schedule) = known.filter(|known| known == seen) {
            schedule.put_off_until = Some(self.now + limits::SCHEDULE_UNREADABLE_PUT_OFF);
            self.put_record(&schedule);
        }
        Answer::Settled
    }

    fn tick(&mut self, schedule: &mut Schedule, tick: &DueTick, queue_max: Option<u64>) -> Ticked {
        let unfinished = schedule
            .tick_job
            .filter(|job| self.find(*job).is_some_and(|slot| !self.job(slot).state.is_final()));
        match (schedule.overlap, unfinished) {
            (Overlap::Skip, Some(_)) => {
                schedule.skipped(tick.at, TickSkip::Overlap);
                return Ticked::Dealt;
            }
            (Overlap::CancelPrevious, Some(job)) if self.lacks_room(schedule, job, queue_max) => {
                return Ticked::PutOff;
            }
            (Overlap::CancelPrevious, Some(job)) => self.call_off(schedule, job),
            (Overlap::Skip | Overlap::CancelPrevious, None) | (Overlap::Allow | Overlap::Enqueue, _) => {}
        }
        match self.run(schedule, tick.at, tick.job, queue_max) {
            Ok((job, false)) => {
                schedule.ran(tick.at, job.id);
                schedule.tick_job = Some(job.id);
            }
            Ok((_, true)) | Err(Refusal::Duplicate { .. }) => {
                schedule.skipped(tick.at, TickSkip::Duplicate);
            }
            Err(Refusal::QueueFull { .. } | Refusal::OverLimit { limit: ClientLimit::MaxWaiting, .. }) => {
                return Ticked::PutOff;
            }
            Err(_) => schedule.skipped(tick.at, TickSkip::Refused),
        }
        Ticked::Dealt
    }

    /// Whether the job of a tick would find no room even if `previous` were cancelled: then
    /// `previous` goes on.
    fn lacks_room(&mut self, schedule: &Schedule, previous: JobId, queue_max: Option<u64>) -> bool {
        let queue = schedule.head.queue_id();
        let leaves_room = self
            .find(previous)
            .map(|slot| self.job(slot))
            .is_some_and(|job| job.state == State::Queued && job.head.queue_id() == queue);
        let no_room = !leaves_room && self.check_client_room(schedule.head.client, 1, 0).is_err();
        no_room || self.is_full(&queue, queue_max, u64::from(leaves_room))
    }

    fn call_off(&mut self, schedule: &Schedule, job: JobId) {
        let cancel = Cancel {
            owned: Owned { job, client: None },
            execution: None,
            by: "system".into(),
            reason: format!("the next run of the schedule {} has come", schedule.id.name),
            compensate: true,
        };
        let canceled = self.cancel(&cancel);
        debug_assert!(canceled.is_ok(), "{canceled:?}");
    }

    /// Submits the job of a tick like any other: returns the job, and whether it existed.
    fn run(
        &mut self,
        schedule: &Schedule,
        tick: Time,
        job: JobId,
        queue_max: Option<u64>,
    ) -> Result<(Job, bool), Refusal> {
        let head = Arc::new(schedule.head_of(tick, self.now));
        let new = NewJob { id: job, id_given: false, head, input: Arc::clone(&schedule.input) };
        match self.submit(&submission(new, queue_max))? {
            Answer::Submitted { mut jobs, existing } => {
                Ok((jobs.pop().expect("a submission of one job is answered with one"), existing))
            }
            answer => unreachable!("a submission was answered with {answer:?}"),
        }
    }
}

impl Schedule {
    fn ran(&mut self, at: Time, job: JobId) {
        self.last_at = Some(at);
        self.last_job = Some(job);
        self.n_runs = self.n_runs.saturating_add(1);
    }

    fn skipped(&mut self, tick: Time, why: TickSkip) {
        self.last_skip = Some((tick, why));
        self.n_skipped = self.n_skipped.saturating_add(1);
    }
}
