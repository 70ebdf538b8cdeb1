//! What must always hold, as named pure functions. Tests, the simulator and debug assertions all ask these.

use crate::history::{Event, News};
use crate::job::{Job, Parked};
use crate::limits;
use crate::state::{State, is_legal};

/// An invariant that does not hold, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken(pub &'static str);

/// Everything a single job must satisfy, whoever wrote it.
pub fn job(job: &Job) -> Result<(), Broken> {
    let holds = [
        (
            "a worker holds a job exactly while it is assigned or running",
            job.lease.is_some() == job.state.is_active(),
        ),
        ("a job has an end exactly while it is final", job.finished_at.is_some() == job.state.is_final()),
        ("an ended job knows when it is forgotten", job.forget_at.is_some() == job.state.is_final()),
        ("attempts count from one", job.attempt >= 1),
        ("no attempt was handed out before its time", job.attempt_handed <= job.attempt),
        ("a held job was handed out under a token", !job.state.is_active() || job.fence > 0),
        ("a canceled job says who and why", (job.state == State::Canceled) == job.cancel.is_some()),
        ("only failed jobs are dead letters", job.dead_lettered_at.is_none() || job.state == State::Failed),
        ("only queued jobs wait", job.available_at.is_none() || job.state == State::Queued),
        ("only queued jobs are parked", job.parked == Parked::No || job.state == State::Queued),
        ("a job parked for its turn knows when", job.parked != Parked::ForTurn || job.available_at.is_some()),
        ("the error history is bounded", job.errors.len() <= limits::ERRORS_MAX),
        ("the history is bounded", job.history.len() <= limits::EVENTS_MAX),
        ("progress is a percentage", job.progress.is_none_or(|percent| percent <= 100)),
        ("the history ends where the job stands", last_state(job) == Some(job.state)),
    ];
    match holds.into_iter().find(|(_, holds)| !holds) {
        Some((name, _)) => Err(Broken(name)),
        None => Ok(()),
    }
}

/// A legal chain of events: numbered and timed upwards, each move beginning where the last one ended, and every
/// move one that the state machine allows.
pub fn chain(events: impl IntoIterator<Item = Event>) -> Result<(), Broken> {
    let mut last: Option<(Event, Option<State>)> = None;
    for event in events {
        let stood = last.and_then(|(_, state)| state);
        if last.is_some_and(|(before, _)| event.n <= before.n || event.at <= before.at) {
            return Err(Broken("events are numbered and timed upwards"));
        }
        let state = match event.news {
            News::Moved { from, to, .. } => {
                let forgotten = last.is_some_and(|(before, _)| event.n > before.n + 1);
                if from != stood && !forgotten {
                    return Err(Broken("each move begins where the last one ended"));
                }
                if !is_legal(from, to) {
                    return Err(Broken("every move is one of the allowed"));
                }
                Some(to)
            }
            News::Progress(_) | News::Emitted => stood,
        };
        last = Some((event, state));
    }
    Ok(())
}

fn last_state(job: &Job) -> Option<State> {
    let moves = job.history.events().filter_map(|event| match event.news {
        News::Moved { to, .. } => Some(to),
        News::Progress(_) | News::Emitted => None,
    });
    moves.last()
}
