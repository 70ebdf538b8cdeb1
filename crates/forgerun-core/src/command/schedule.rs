//! What can be asked about a schedule.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::id::JobId;
use crate::schedule::{Schedule, ScheduleId};
use crate::time::Time;

/// Registers, pauses, resumes, triggers or deletes a schedule; or deals with ticks that are due.
#[derive(Clone, Debug)]
pub enum ScheduleCommand {
    /// Register a schedule, or change the one of that name.
    Put(Box<PutSchedule>),
    /// Make no more jobs.
    Pause(ScheduleId),
    /// Make jobs again, from the next tick on.
    Resume(Box<ResumeSchedule>),
    /// Make a job now, whatever the time.
    Trigger(Box<Trigger>),
    /// Forget it. Jobs that it made stay.
    Delete(ScheduleId),
    /// Deal with ticks that are due.
    Fire(Box<Firing>),
    /// Look at ticks that are due later: whoever asks cannot read when the schedule ticks. One that has changed meanwhile is left alone.
    PutOff(Box<Schedule>),
}

impl ScheduleCommand {
    /// Which schedule is meant.
    pub fn id(&self) -> &ScheduleId {
        match self {
            ScheduleCommand::Put(put) => &put.schedule.id,
            ScheduleCommand::Pause(id) | ScheduleCommand::Delete(id) => id,
            ScheduleCommand::Resume(resume) => &resume.seen.id,
            ScheduleCommand::Trigger(trigger) => &trigger.seen.id,
            ScheduleCommand::Fire(firing) => &firing.seen.id,
            ScheduleCommand::PutOff(seen) => &seen.id,
        }
    }
}

/// A schedule as it shall be.
#[derive(Clone, Debug)]
pub struct PutSchedule {
    /// What its owner says about it, and its next tick.
    pub schedule: Schedule,
    /// Whether it makes jobs; `None` leaves it as it was, and begins with yes.
    pub enabled: Option<bool>,
}

/// A schedule that shall make jobs again.
#[derive(Clone, Debug)]
pub struct ResumeSchedule {
    /// As it was when the next tick was found. One that ticks otherwise by now is refused.
    pub seen: Schedule,
    /// The next tick.
    pub next: Option<Time>,
}

/// A job that is wanted now.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// The schedule. One whose job was changed meanwhile is refused.
    pub seen: Schedule,
    /// The id of the job.
    pub job: JobId,
    /// Refuse when the queue holds as many jobs.
    pub queue_max: Option<u64>,
}

/// Ticks that are due.
#[derive(Clone, Debug)]
pub struct Firing {
    /// The schedule when its ticks were found. One that has changed meanwhile is left alone.
    pub seen: Schedule,
    /// The newest ticks that are due, oldest first; at most [`CATCH_UP_MAX`](crate::limits::CATCH_UP_MAX).
    pub ticks: Vec<DueTick>,
    /// Older ticks that are due and are not among these, as far as they were counted.
    pub n_older: u64,
    /// The first tick that is not due; `None` if there is none any more.
    pub next: Option<Time>,
    /// Put the tick off when the queue holds as many jobs.
    pub queue_max: Option<u64>,
}

/// A tick, and the id of its job.
#[derive(Clone, Copy, Debug)]
pub struct DueTick {
    /// The tick.
    pub at: Time,
    /// The id of the job, should it make one.
    pub job: JobId,
}
