//! Invariants as named pure functions, for tests, the simulator and debug assertions.

use crate::delivery::{Delivery, DeliveryStage};
use crate::history::{Event, EventKind};
use crate::job::{AttemptError, Job, Parked};
use crate::limits;
use crate::state::{State, is_legal};

/// The name of a violated invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken(pub &'static str);

/// The invariants of a single job.
pub fn job(job: &Job) -> Result<(), Broken> {
    match rules(job).into_iter().find(|(_, holds)| !holds) {
        Some((name, _)) => Err(Broken(name)),
        None => Ok(()),
    }
}

/// Every invariant of a job by name, and whether it holds.
pub fn rules(job: &Job) -> [(&'static str, bool); 28] {
    let waits = matches!(job.parked, Parked::ForPlace | Parked::ForTurn);
    let first_execution = *job.executions_past.first().unwrap_or(&job.execution);
    let order_of_errors = job.errors.iter().map(|error| (error.execution, error.attempt));
    let of_now = |error: &&AttemptError| error.execution == 0 || error.execution == job.execution_n();
    [
        (
            "a worker holds a job exactly while it is assigned or running",
            job.lease.is_some() == (job.state.is_active() && job.head.needs_worker()),
        ),
        ("a held job was handed out under a token", !job.state.is_active() || job.fence > 0),
        (
            "the attempt a worker holds was handed out",
            !job.state.is_active() || job.attempt_handed == job.attempt,
        ),
        ("a running job has begun", job.state != State::Running || job.started_at.is_some()),
        ("a job has an end exactly while it is final", job.finished_at.is_some() == job.state.is_final()),
        ("an ended job knows when it is forgotten", job.forget_at.is_some() == job.state.is_final()),
        ("a canceled job says who and why", (job.state == State::Canceled) == job.cancel.is_some()),
        ("only failed jobs are dead letters", job.dead_lettered_at.is_none() || job.state == State::Failed),
        ("only failed jobs have a reason", job.failure.is_none() || job.state == State::Failed),
        ("no ended job is paused", !job.paused || !job.state.is_final()),
        ("only jobs that succeeded leave a result", job.result.is_none() || job.state == State::Succeeded),
        ("attempts count from one", job.attempt >= 1),
        ("attempts stay within the budget", job.attempt <= job.head.retry.attempts_max.max(1)),
        ("no attempt was handed out before its time", job.attempt_handed <= job.attempt),
        ("errors are kept in the order of attempts", order_of_errors.is_sorted_by(|a, b| a < b)),
        (
            "no error is of an attempt to come",
            job.errors.iter().filter(of_now).all(|error| error.attempt <= job.attempt),
        ),
        ("the error history is bounded", job.errors.len() <= limits::ERRORS_MAX),
        ("the first execution has the id of the job", first_execution == job.id.first_execution()),
        ("no execution comes back", !job.executions_past.contains(&job.execution)),
        ("executions are bounded", job.executions_past.len() < limits::EXECUTIONS_MAX),
        ("a held back job was never queued", !job.hold || job.queued_at.is_none()),
        ("only queued jobs wait", job.available_at.is_none() || job.state == State::Queued),
        ("only queued jobs with a limit are parked", job.parked == Parked::No || may_park(job)),
        (
            "only claimable jobs with a fair key have a turn",
            job.turn.is_none() || (job.head.fair.is_some() && job.is_claimable()),
        ),
        ("a parked job knows when it is looked at again", !waits || job.available_at.is_some()),
        ("progress is a percentage", job.progress.is_none_or(|percent| percent <= 100)),
        ("the history is bounded", job.history.len() <= limits::EVENTS_MAX),
        ("the history ends where the job stands", last_state(job) == Some(job.state)),
    ]
}

/// A legal chain of events: numbers and times ascend, and each move begins where the last one ended
/// and is one that the state machine allows.
///
/// A long history drops events between the first and the newest ones, so the second event may begin
/// anywhere if its number shows a gap.
pub fn chain(events: impl IntoIterator<Item = Event>) -> Result<(), Broken> {
    let mut last: Option<Event> = None;
    let mut stood = None;
    for (place, event) in events.into_iter().enumerate() {
        if last.is_some_and(|before| event.n <= before.n || event.at <= before.at) {
            return Err(Broken("events are numbered and timed upwards"));
        }
        if last.is_some_and(|before| event.execution < before.execution) {
            return Err(Broken("executions are counted upwards"));
        }
        if let EventKind::Moved { from, to, .. } = event.kind {
            let gap = place == 1 && last.is_some_and(|before| event.n > before.n + 1);
            if from != stood && !gap {
                return Err(Broken("each move begins where the last one ended"));
            }
            if !is_legal(from, to) {
                return Err(Broken("every move is one of the allowed"));
            }
            stood = Some(to);
        } else if stood.is_none() {
            return Err(Broken("a life begins with a birth"));
        }
        last = Some(event);
    }
    Ok(())
}

pub fn delivery(delivery: &Delivery) -> Result<(), Broken> {
    let rules = [
        ("only what is about a job is chained", !delivery.chained || delivery.job().is_some()),
        ("only what is chained is blocked", delivery.stage != DeliveryStage::Blocked || delivery.chained),
        (
            "what is taken was counted",
            !matches!(delivery.stage, DeliveryStage::Taken(_)) || delivery.attempts > 0,
        ),
        ("no attempt without a fence", delivery.attempts <= delivery.fence),
        ("the log is bounded", delivery.log.len() <= limits::ATTEMPTS_KEPT),
    ];
    match rules.into_iter().find(|(_, holds)| !holds) {
        Some((name, _)) => Err(Broken(name)),
        None => Ok(()),
    }
}

/// Of the open deliveries of a chain, by position, the first can be sent and the others wait.
pub fn order<'a>(open: impl IntoIterator<Item = &'a Delivery>) -> Result<(), Broken> {
    let mut last: Option<&Delivery> = None;
    for delivery in open {
        match last {
            None if delivery.stage == DeliveryStage::Blocked => {
                return Err(Broken("the first open delivery of a chain can be sent"));
            }
            Some(_) if delivery.stage != DeliveryStage::Blocked => {
                return Err(Broken("what is behind in a chain waits for the first"));
            }
            Some(before) if delivery.position() <= before.position() => {
                return Err(Broken("a chain has an order"));
            }
            None | Some(_) => {}
        }
        last = Some(delivery);
    }
    Ok(())
}

fn may_park(job: &Job) -> bool {
    job.state == State::Queued && usize::from(job.parked_for) < job.head.limits.len()
}

fn last_state(job: &Job) -> Option<State> {
    let moves = job.history.events().filter_map(|event| match event.kind {
        EventKind::Moved { to, .. } => Some(to),
        EventKind::Progress(_) | EventKind::Emitted => None,
    });
    moves.last()
}

#[cfg(test)]
mod tests {
    //! Every invariant can fail: for each there is a sample that it, and no invariant before it,
    //! rejects.

    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::vec;
    use std::vec::Vec;

    use super::Broken;
    use crate::codec::put_varint;
    use crate::failure::FailureId;
    use crate::history::{Event, EventKind, History, RetryStatus};
    use crate::id::ExecutionId;
    use crate::job::{Job, Parked, ResultNote};
    use crate::limits;
    use crate::state::{Cause, State};
    use crate::time::Time;
    use crate::world::World;
    use crate::world::build::*;

    type Break = fn(&mut Job);

    /// A state, and how to break a valid job in it.
    const SPOILT: [(&str, State, Break); 28] = [
        ("a worker holds a job exactly while it is assigned or running", State::Running, |job| {
            job.lease = None
        }),
        ("a held job was handed out under a token", State::Running, |job| job.fence = 0),
        ("the attempt a worker holds was handed out", State::Assigned, |job| job.attempt_handed = 0),
        ("a running job has begun", State::Running, |job| job.started_at = None),
        ("a job has an end exactly while it is final", State::Succeeded, |job| job.finished_at = None),
        ("an ended job knows when it is forgotten", State::Failed, |job| job.forget_at = None),
        ("a canceled job says who and why", State::Canceled, |job| job.cancel = None),
        ("only failed jobs are dead letters", State::Succeeded, |job| job.dead_lettered_at = job.finished_at),
        ("only failed jobs have a reason", State::Succeeded, |job| job.failure = Some(FailureId(1))),
        ("only jobs that succeeded leave a result", State::Failed, |job| {
            job.result = Some(ResultNote { media_type: "".into(), size: 0, expires_at: None })
        }),
        ("attempts count from one", State::Queued, |job| job.attempt = 0),
        ("attempts stay within the budget", State::Queued, |job| job.attempt = 5),
        ("no attempt was handed out before its time", State::Queued, |job| job.attempt_handed = 2),
        ("errors are kept in the order of attempts", State::Failed, |job| {
            job.errors.push(job.errors[0].clone())
        }),
        ("no error is of an attempt to come", State::Failed, |job| job.errors[0].attempt = 2),
        ("the error history is bounded", State::Failed, many_errors),
        ("the first execution has the id of the job", State::Queued, |job| {
            job.execution = ExecutionId::from_u128(9)
        }),
        ("no execution comes back", State::Failed, |job| job.executions_past.push(job.execution)),
        ("executions are bounded", State::Failed, many_executions),
        ("a held back job was never queued", State::Queued, |job| job.hold = true),
        ("no ended job is paused", State::Succeeded, |job| job.paused = true),
        ("only queued jobs wait", State::Created, |job| job.available_at = Some(Time::MAX)),
        ("only queued jobs with a limit are parked", State::Queued, |job| job.parked = Parked::TurnCame),
        ("only claimable jobs with a fair key have a turn", State::Running, |job| job.turn = Some(1)),
        ("a parked job knows when it is looked at again", State::Queued, parked_for_ever),
        ("progress is a percentage", State::Running, |job| job.progress = Some(101)),
        ("the history is bounded", State::Queued, long_history),
        ("the history ends where the job stands", State::Created, |job| job.state = State::Queued),
    ];

    fn many_errors(job: &mut Job) {
        Arc::make_mut(&mut job.head).retry.attempts_max = 100;
        job.attempt = 100;
        let error = job.errors.remove(0);
        let errors = (1..=limits::ERRORS_MAX as u32 + 1).map(|attempt| {
            let mut error = error.clone();
            error.attempt = attempt;
            error
        });
        job.errors = errors.collect();
    }

    fn many_executions(job: &mut Job) {
        job.executions_past = vec![job.execution; limits::EXECUTIONS_MAX];
        job.execution = ExecutionId::from_u128(9);
    }

    fn parked_for_ever(job: &mut Job) {
        Arc::make_mut(&mut job.head).limits = vec![limit(Some(1))];
        job.parked = Parked::ForPlace;
    }

    /// No command can make a history too long, so the count in its stored form is altered to one
    /// too many.
    fn long_history(job: &mut Job) {
        let mut stored = Vec::new();
        job.history.encode(&mut stored);
        let mut altered = Vec::new();
        put_varint(&mut altered, limits::EVENTS_MAX as u64 + 1);
        altered.extend(&stored[1..]);
        job.history = History::decode(&altered).unwrap();
    }

    #[test]
    fn every_invariant_of_a_job_has_a_sample_that_breaks_it() {
        for (name, state, spoil) in SPOILT {
            let mut job = World::with_job_in(state, |_| {}).job(1).clone();
            assert_eq!(super::job(&job), Ok(()), "{name}: sound before");
            spoil(&mut job);
            assert_eq!(super::job(&job), Err(Broken(name)));
        }
        let sample = World::with_job_in(State::Queued, |_| {}).job(1).clone();
        let named: BTreeSet<&str> = super::rules(&sample).into_iter().map(|(name, _)| name).collect();
        assert_eq!(SPOILT.map(|(name, ..)| name).into_iter().collect::<BTreeSet<_>>(), named);
    }

    fn moved(n: u32, from: Option<State>, to: State) -> Event {
        let kind = EventKind::Moved { from, to, cause: Cause::Due, retry_status: RetryStatus::Open };
        Event { n, kind, at: Time::from_millis(i64::from(n)), attempt: 1, execution: 1 }
    }

    #[test]
    fn every_way_a_chain_can_break_is_caught() {
        use State::{Assigned, Created, Queued, Running};
        let birth = moved(1, None, Created);
        let queued = moved(2, Some(Created), Queued);
        let progress = |n| Event { kind: EventKind::Progress(1), ..moved(n, None, Created) };
        let check = |events: &[Event], expected: Result<(), Broken>| {
            assert_eq!(super::chain(events.iter().copied()), expected, "{events:?}");
        };
        check(&[], Ok(()));
        check(&[birth, queued, progress(3), moved(4, Some(Queued), Assigned)], Ok(()));
        check(&[birth, moved(300, Some(Assigned), Running)], Ok(()));

        let upwards = Err(Broken("events are numbered and timed upwards"));
        check(&[birth, Event { n: 1, ..queued }], upwards);
        check(&[birth, Event { at: birth.at, ..queued }], upwards);
        let executions = Err(Broken("executions are counted upwards"));
        check(&[Event { execution: 2, ..birth }, queued], executions);
        let torn = Err(Broken("each move begins where the last one ended"));
        check(&[queued], torn);
        check(&[birth, birth_again(2)], torn);
        check(&[birth, moved(2, Some(Queued), Assigned)], torn);
        check(&[birth, queued, progress(3), moved(4, Some(Assigned), Running)], torn);
        check(&[birth, queued, moved(9, Some(Assigned), Running)], torn);
        let forbidden = Err(Broken("every move is one of the allowed"));
        check(&[moved(1, None, Queued)], forbidden);
        check(&[birth, moved(2, Some(Created), Running)], forbidden);
        check(&[progress(1)], Err(Broken("a life begins with a birth")));
    }

    fn birth_again(n: u32) -> Event {
        moved(n, None, State::Created)
    }
}
