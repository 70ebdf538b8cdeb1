//! Schedules, for all dialects: the way from a parsed request to the engine.

use forgerun_core::catalog::Kind;
use forgerun_core::command::{PutSchedule, ResumeSchedule, ScheduleCommand, Trigger};
use forgerun_core::job::Job;
use forgerun_core::limits::SCHEDULE_INPUT_BYTES_MAX;
use forgerun_core::schedule::{Overlap, Schedule, ScheduleId};
use forgerun_core::time::Time;
use forgerun_core::{Answer, Command, Refusal};
use forgerun_engine::{Error, Recurrence, RecurrenceError};
use forgerun_wire::body::{refused, violation};
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::schedule::ScheduleTerms;

use crate::app::App;
use crate::http::ApiError;
use crate::submission::Checked;

/// Attempts at a change that concurrent changes may invalidate.
const TRIES_MAX: usize = 3;

/// Next runs shown for a schedule.
pub const NEXT_RUNS: usize = 5;

/// Registers a schedule or changes the one of that name: returns it, and whether it is new. `given`
/// is the client's description of the job.
pub async fn put(
    app: &App,
    id: ScheduleId,
    terms: ScheduleTerms,
    job: Checked,
    given: Vec<u8>,
) -> Result<(Schedule, bool), ApiError> {
    let recurrence =
        Recurrence::parse(&terms.expression, &terms.zone).map_err(|error| bad(&terms, &error))?;
    let (head, input) = job.into_template(app);
    if input.encode().len() > SCHEDULE_INPUT_BYTES_MAX {
        let detail =
            format!("The job of a schedule must have at most {} KB.", SCHEDULE_INPUT_BYTES_MAX / 1024);
        return Err(ApiError::new(Kind::JobPayloadTooLarge, &detail));
    }
    if terms.overlap == Overlap::Enqueue && !head.limits.is_empty() {
        let wrong = violation("overlap_policy", "cannot be enqueue for jobs that have a limit", "forbidden");
        return Err(refused(Kind::MalformedRequest, vec![wrong], &[]).into());
    }
    let now = head.created_at;
    let next = recurrence.next_after(now, now);
    if next.is_none() {
        return Err(bad(&terms, &RecurrenceError::Expression("never comes".into())));
    }
    if recurrence.upcoming(now, now, NEXT_RUNS).windows(2).any(|pair| pair[1].since(pair[0]) < terms.jitter) {
        let wrong = violation("jitter_ms", "must not be longer than the time between two runs", "range");
        return Err(refused(Kind::MalformedRequest, vec![wrong], &[]).into());
    }
    let schedule = Schedule {
        overlap: terms.overlap,
        catch_up: terms.catch_up,
        jitter: terms.jitter,
        description: terms.description,
        given,
        next_at: next,
        ..Schedule::new(id, terms.expression, recurrence.zone_name().to_owned(), head, input)
    };
    let put = PutSchedule { schedule, enabled: terms.enabled };
    asked(app, ScheduleCommand::Put(Box::new(put))).await
}

fn bad(terms: &ScheduleTerms, error: &RecurrenceError) -> ApiError {
    let (kind, member, value) = match error {
        RecurrenceError::Expression(_) => (Kind::InvalidCron, terms.expression_member, &terms.expression),
        RecurrenceError::Zone(_) => (Kind::MalformedRequest, "timezone", &terms.zone),
    };
    let wrong = violation(member, &error.to_string(), "format");
    let refused: RefusedRequest = *refused(kind, vec![wrong], &[]);
    if value.len() <= 128 { refused.fact("value", value.as_str()).into() } else { refused.into() }
}

async fn asked(app: &App, command: ScheduleCommand) -> Result<(Schedule, bool), ApiError> {
    match app.engine.run(Command::Schedule(command)).await? {
        Answer::Schedule { schedule, created } => Ok((*schedule, created)),
        answer => unreachable!("a command about a schedule was answered with {answer:?}"),
    }
}

pub async fn find(app: &App, id: &ScheduleId) -> Result<Schedule, ApiError> {
    let found: Option<Schedule> = app.engine.store().record(id.key()).await?;
    found.ok_or_else(|| Error::Refused(Refusal::ScheduleNotFound).into())
}

pub async fn enable(app: &App, id: &ScheduleId, enabled: bool) -> Result<Schedule, ApiError> {
    if !enabled {
        return Ok(asked(app, ScheduleCommand::Pause(id.clone())).await?.0);
    }
    for _ in 0..TRIES_MAX {
        let seen = find(app, id).await?;
        let next = next_run(&seen, app.clock.now())?;
        let resume = ScheduleCommand::Resume(Box::new(ResumeSchedule { seen, next }));
        match app.engine.run(Command::Schedule(resume)).await {
            Ok(Answer::Schedule { schedule, .. }) => return Ok(*schedule),
            Ok(answer) => unreachable!("a command about a schedule was answered with {answer:?}"),
            Err(Error::Refused(Refusal::ScheduleChanged)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Refused(Refusal::ScheduleChanged).into())
}

/// The next tick after `now`. A schedule that this node cannot read must not be resumed: it would
/// never tick.
fn next_run(schedule: &Schedule, now: Time) -> Result<Option<Time>, ApiError> {
    let recurrence = Recurrence::of(schedule).map_err(|error| {
        let detail = format!("When the schedule ticks cannot be read here: {error}.");
        ApiError::new(Kind::InvalidCron, &detail)
    })?;
    Ok(recurrence.next_after(schedule.anchor, now))
}

/// Makes a job now: returns it, and whether it existed by its unique key.
pub async fn trigger(app: &App, id: &ScheduleId) -> Result<(Job, bool), ApiError> {
    for _ in 0..TRIES_MAX {
        let seen = find(app, id).await?;
        let queue_max = Some(app.config.limits.queue_size);
        let trigger = Trigger { seen, job: app.engine.job_id(), queue_max };
        match app.engine.run(Command::Schedule(ScheduleCommand::Trigger(Box::new(trigger)))).await {
            Ok(Answer::Submitted { mut jobs, existing }) => {
                let job = jobs.pop().expect("a trigger is answered with one job");
                return Ok((job, existing));
            }
            Ok(answer) => unreachable!("a trigger was answered with {answer:?}"),
            Err(Error::Refused(Refusal::ScheduleChanged)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Refused(Refusal::ScheduleChanged).into())
}

/// Deletes it; returns its last state.
pub async fn delete(app: &App, id: &ScheduleId) -> Result<Schedule, ApiError> {
    Ok(asked(app, ScheduleCommand::Delete(id.clone())).await?.0)
}

/// The next runs of a schedule; none while it is paused.
pub fn next_runs(schedule: &Schedule) -> Vec<Time> {
    let Some(next_at) = schedule.next_at.filter(|_| schedule.paused_at.is_none()) else { return Vec::new() };
    let later = Recurrence::of(schedule)
        .map(|recurrence| recurrence.upcoming(schedule.anchor, next_at, NEXT_RUNS - 1))
        .unwrap_or_default();
    std::iter::once(next_at).chain(later).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forgerun_core::id::ClientId;
    use forgerun_core::job::{Head, Name};
    use forgerun_core::queue::Owner;

    use super::*;

    #[test]
    fn a_schedule_that_cannot_be_read_has_no_next_run_and_is_not_resumed() {
        let (owner, now) = (Owner::client(ClientId::from_u128(1)), Time::from_millis(0));
        let head = Head::new(owner.client, Name::new("q").unwrap(), now);
        let id = ScheduleId { owner, name: Name::new("s").unwrap() };
        let known = Schedule::new(id, "* * * * *".into(), "UTC".into(), head, Arc::default());
        assert_eq!(next_run(&known, now).unwrap_or_default(), Some(Time::from_millis(60_000)));
        let unknown = Schedule { zone: "Atlantis/City".into(), ..known };
        assert!(next_run(&unknown, now).is_err());
    }
}
