//! The states of a job on `/v1`, and their possible orders.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Created,
    Queued,
    Assigned,
    Running,
    Succeeded,
    Failed,
    Canceled,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            State::Created => "CREATED",
            State::Queued => "QUEUED",
            State::Assigned => "ASSIGNED",
            State::Running => "RUNNING",
            State::Succeeded => "SUCCEEDED",
            State::Failed => "FAILED",
            State::Canceled => "CANCELED",
        }
    }

    pub(super) fn parse(word: &str) -> Option<State> {
        match word {
            "CREATED" => Some(State::Created),
            "QUEUED" => Some(State::Queued),
            "ASSIGNED" => Some(State::Assigned),
            "RUNNING" => Some(State::Running),
            "SUCCEEDED" => Some(State::Succeeded),
            "FAILED" => Some(State::Failed),
            "CANCELED" => Some(State::Canceled),
            _ => None,
        }
    }

    pub(super) fn is_final(self) -> bool {
        matches!(self, State::Succeeded | State::Failed | State::Canceled)
    }

    /// The outcome of the state.
    pub(super) fn outcome(self) -> Option<&'static str> {
        match self {
            State::Succeeded => Some("SUCCESS"),
            State::Failed => Some("FAILED"),
            State::Canceled => Some("CANCELED"),
            State::Created | State::Queued | State::Assigned | State::Running => None,
        }
    }

    /// Whether one change leads there. A lost lease leads from ASSIGNED back to QUEUED.
    pub(super) fn may_become(self, next: State) -> bool {
        use State::{Assigned, Canceled, Created, Failed, Queued, Running, Succeeded};
        matches!(
            (self, next),
            (Created, Queued | Canceled)
                | (Queued, Assigned | Canceled)
                | (Assigned, Running | Queued | Canceled)
                | (Running, Succeeded | Failed | Canceled)
                | (Failed, Queued)
        )
    }

    /// Whether it may be seen after this one, with unseen changes in between; without retries,
    /// FAILED is an end.
    pub(super) fn may_be_followed_by(self, later: State, retried: bool) -> bool {
        let mut reached = vec![self];
        let mut n = 0;
        while n < reached.len() {
            let from = reached[n];
            for to in ALL {
                let allowed = from.may_become(to) && (retried || from != State::Failed);
                if allowed && !reached.contains(&to) {
                    reached.push(to);
                }
            }
            n += 1;
        }
        reached.contains(&later)
    }
}

const ALL: [State; 7] = [
    State::Created,
    State::Queued,
    State::Assigned,
    State::Running,
    State::Succeeded,
    State::Failed,
    State::Canceled,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_seen_later_follows_from_the_changes() {
        for (from, to, retried, expected) in [
            (State::Created, State::Succeeded, false, true),
            (State::Running, State::Queued, false, false),
            (State::Running, State::Queued, true, true),
            (State::Assigned, State::Queued, false, true),
            (State::Failed, State::Failed, false, true),
            (State::Failed, State::Running, false, false),
            (State::Failed, State::Running, true, true),
            (State::Succeeded, State::Canceled, true, false),
            (State::Canceled, State::Queued, true, false),
        ] {
            assert_eq!(from.may_be_followed_by(to, retried), expected, "{from:?} {to:?} {retried}");
        }
    }
}
