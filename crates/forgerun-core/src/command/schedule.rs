//! Commands about schedules.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::id::JobId;
use crate::schedule::{Schedule, ScheduleId};
use crate::time::Time;

#[derive(Clone, Debug)]
pub enum ScheduleCommand {
    /// Register a schedule, or change the one of that name.
    Put(Box<PutSchedule>),
    Pause(ScheduleId),
    /// Make jobs again, starting with the next tick.
    Resume(Box<ResumeSchedule>),
    Trigger(Box<Trigger>),
    /// Delete it. Jobs that it made stay.
    Delete(ScheduleId),
    /// Process ticks that are due.
    Fire(Box<Firing>),
    /// Check due ticks again later, because the timetable cannot be read now. Skipped if the
    /// schedule has changed since.
    PutOff(Box<Schedule>),
}

impl ScheduleCommand {
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

#[derive(Clone, Debug)]
pub struct PutSchedule {
    /// The owner's settings, and the next tick.
    pub schedule: Schedule,
    /// Whether it makes jobs; `None` keeps the setting, and means yes for a new schedule.
    pub enabled: Option<bool>,
}

#[derive(Clone, Debug)]
pub struct ResumeSchedule {
    /// The schedule for which the next tick was computed. Refused if its timetable has changed
    /// since.
    pub seen: Schedule,
    pub next: Option<Time>,
}

/// Make a job now.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// The schedule. Refused if its job was changed since.
    pub seen: Schedule,
    pub job: JobId,
    /// Refuse if the queue holds this many jobs.
    pub queue_max: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Firing {
    /// The schedule for which the ticks were computed. Skipped if it has changed since.
    pub seen: Schedule,
    /// The newest due ticks, oldest first; at most [`CATCH_UP_MAX`](crate::limits::CATCH_UP_MAX).
    pub ticks: Vec<DueTick>,
    /// Older due ticks that are not among these, as far as they were counted.
    pub n_older: u64,
    /// The first tick that is not due; `None` if there is no further tick.
    pub next: Option<Time>,
    /// Put the tick off if the queue holds this many jobs.
    pub queue_max: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub struct DueTick {
    pub at: Time,
    pub job: JobId,
}
