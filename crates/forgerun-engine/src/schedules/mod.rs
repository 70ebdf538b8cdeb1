//! Processes due schedules: computes their ticks, and sends them to the committer, which makes the
//! jobs (`forgerun-core/src/schedule.rs`).

mod cron;
mod recurrence;

use std::collections::VecDeque;

use forgerun_core::Command;
use forgerun_core::command::{DueTick, Firing, ScheduleCommand};
use forgerun_core::id::JobId;
use forgerun_core::limits::CATCH_UP_MAX;
use forgerun_core::schedule::Schedule;
use forgerun_core::time::Time;

pub use recurrence::{Recurrence, RecurrenceError};

/// Ticks that are examined one by one before half of the past time is skipped: a schedule with a
/// tick per second that was down for a month is not caught up completely.
const TICKS_LOOKED_AT: usize = 10_000;

/// The command for the due ticks of a schedule.
pub(crate) fn fire(
    schedule: Schedule,
    now: Time,
    queue_max: Option<u64>,
    mut draw: impl FnMut() -> JobId,
) -> Command {
    let due = match Recurrence::of(&schedule) {
        Ok(recurrence) => due_ticks(&recurrence, &schedule, now),
        Err(error) => {
            // The zone is missing in the database, or a newer version stored the expression.
            tracing::warn!(schedule = %schedule.id.name, %error, "schedule unreadable: retried later");
            return Command::Schedule(ScheduleCommand::PutOff(Box::new(schedule)));
        }
    };
    let ticks = due.ticks.into_iter().map(|at| DueTick { at, job: draw() }).collect();
    let firing = Firing { seen: schedule, ticks, n_older: due.n_older, next: due.next, queue_max };
    Command::Schedule(ScheduleCommand::Fire(Box::new(firing)))
}

/// The command that corrects a schedule whose stored tick is later than its next one; `None` if it
/// is right. Ignored while the clock is earlier than the schedule's creation.
pub(crate) fn brought_forward(schedule: Schedule, now: Time) -> Option<Command> {
    let next_at = schedule.next_at.filter(|_| schedule.paused_at.is_none() && schedule.created_at <= now)?;
    let next = Recurrence::of(&schedule).ok()?.next_after(schedule.anchor, now)?;
    if next_at <= next {
        return None;
    }
    tracing::warn!(schedule = %schedule.id.name, "schedule corrected: next tick was too late");
    let firing = Firing { seen: schedule, ticks: Vec::new(), n_older: 0, next: Some(next), queue_max: None };
    Some(Command::Schedule(ScheduleCommand::Fire(Box::new(firing))))
}

/// Due ticks, and the first that is not due.
#[derive(Debug, Default, PartialEq, Eq)]
struct DueTicks {
    ticks: VecDeque<Time>,
    n_older: u64,
    next: Option<Time>,
}

fn due_ticks(recurrence: &Recurrence, schedule: &Schedule, now: Time) -> DueTicks {
    let mut due = DueTicks { next: schedule.next_at, ..DueTicks::default() };
    let mut looked_at = 0;
    while let Some(tick) = due.next.filter(|tick| schedule.comes_at(*tick) <= now) {
        due.ticks.push_back(tick);
        if due.ticks.len() > CATCH_UP_MAX {
            due.ticks.pop_front();
            due.n_older += 1;
        }
        looked_at += 1;
        let after = if looked_at % TICKS_LOOKED_AT == 0 { tick + now.since(tick) / 2 } else { tick };
        due.next = recurrence.next_after(schedule.anchor, after);
    }
    due
}

#[cfg(test)]
mod tests;
