//! The state machine: seven stored states, and [`next`], the only transition function.
//!
//! ```text
//!            submit            due, activate          claim              start
//!   (none) ─────────► CREATED ──────────────► QUEUED ───────► ASSIGNED ─────────► RUNNING ──► SUCCEEDED
//!                        │                    ▲ │  ▲             │ │                │ │  finish
//!                        │             retry  │ │  └─────────────┘ │                │ └─────► FAILED ─┐
//!                        │                    │ │   lease expired, │                │   fail, timeout,│
//!                        │                    │ │   handed back    │                │   runner lost   │
//!                        │                    └─┼──────────────────┼────────────────┼─────────────────┘
//!                        └──────────────────────┴──────────────────┴────────────────┴──► CANCELED
//! ```
//!
//! A dialect's own states are derived from state and facet, by the dialect.

/// SUCCEEDED, FAILED and CANCELED are final; a retry leaves FAILED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    Created = 0,
    Queued = 1,
    Assigned = 2,
    Running = 3,
    Succeeded = 4,
    Failed = 5,
    Canceled = 6,
}

impl State {
    /// All states, in the order of a job's life.
    pub const ALL: [State; 7] = [
        State::Created,
        State::Queued,
        State::Assigned,
        State::Running,
        State::Succeeded,
        State::Failed,
        State::Canceled,
    ];

    /// The stored number.
    pub const fn as_u8(self) -> u8 {
        self as u8
    }

    /// The inverse of [`Self::as_u8`].
    pub fn from_u8(number: u8) -> Option<State> {
        State::ALL.get(usize::from(number)).copied()
    }

    /// Whether the job has ended (for now, in the case of FAILED).
    pub const fn is_final(self) -> bool {
        matches!(self, State::Succeeded | State::Failed | State::Canceled)
    }

    pub const fn is_active(self) -> bool {
        matches!(self, State::Assigned | State::Running)
    }
}

/// Finer than the state: for dialects with more states, and for counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Facet {
    /// CREATED: its time has not come.
    Scheduled = 0,
    /// QUEUED: claimable, or next in line for a place in its limit.
    Available = 1,
    Assigned = 2,
    Running = 3,
    Succeeded = 4,
    Failed = 5,
    Canceled = 6,
    /// CREATED: until a client activates it.
    Held = 7,
    /// QUEUED: waiting for its retry.
    Waiting = 8,
    /// CANCELED: it did not start before it expired.
    Expired = 9,
}

impl Facet {
    /// All facets, in the order of their numbers.
    pub const ALL: [Facet; 10] = [
        Facet::Scheduled,
        Facet::Available,
        Facet::Assigned,
        Facet::Running,
        Facet::Succeeded,
        Facet::Failed,
        Facet::Canceled,
        Facet::Held,
        Facet::Waiting,
        Facet::Expired,
    ];

    /// Its state.
    pub const fn state(self) -> State {
        match self {
            Facet::Scheduled | Facet::Held => State::Created,
            Facet::Available | Facet::Waiting => State::Queued,
            Facet::Assigned => State::Assigned,
            Facet::Running => State::Running,
            Facet::Succeeded => State::Succeeded,
            Facet::Failed => State::Failed,
            Facet::Canceled | Facet::Expired => State::Canceled,
        }
    }

    /// Its bit in a set of facets.
    pub const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// Why a job moves. [`next`] defines the moves of each cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// A client submitted the job.
    Submit = 0,
    /// Its time has come, or it never had to wait.
    Due = 1,
    /// A client activated a held job.
    Activate = 2,
    Claim = 3,
    Start = 4,
    /// The lease expired before the work began.
    LeaseExpired = 5,
    /// The worker returned it without an outcome.
    HandBack = 6,
    Finish = 7,
    Fail = 8,
    /// An attempt exceeded its limit.
    Timeout = 9,
    /// The lease expired during the work: its runner is gone.
    RunnerLost = 10,
    /// A client asked for another execution.
    RetryByUser = 11,
    /// The retry policy asked for another attempt.
    RetryByPolicy = 12,
    CancelByUser = 13,
    /// For example with its workflow.
    CancelBySystem = 14,
    /// It did not start before it expired.
    Expire = 15,
    /// A newer job with the same unique key replaced it.
    Replace = 16,
    /// Some items of a batch succeeded, and some failed.
    Mixed = 17,
}

impl Cause {
    /// All causes, in stored order.
    pub const ALL: [Cause; 18] = [
        Cause::Submit,
        Cause::Due,
        Cause::Activate,
        Cause::Claim,
        Cause::Start,
        Cause::LeaseExpired,
        Cause::HandBack,
        Cause::Finish,
        Cause::Fail,
        Cause::Timeout,
        Cause::RunnerLost,
        Cause::RetryByUser,
        Cause::RetryByPolicy,
        Cause::CancelByUser,
        Cause::CancelBySystem,
        Cause::Expire,
        Cause::Replace,
        Cause::Mixed,
    ];

    /// The stored number.
    pub const fn as_u8(self) -> u8 {
        self as u8
    }

    /// The inverse of [`Self::as_u8`].
    pub fn from_u8(number: u8) -> Option<Cause> {
        Cause::ALL.get(usize::from(number)).copied()
    }
}

/// The state that `cause` leads to from `from`; `None` if it does not apply there.
pub const fn next(from: State, cause: Cause) -> Option<State> {
    use Cause as C;
    use State as S;
    match (from, cause) {
        (S::Created, C::Due | C::Activate) => Some(S::Queued),
        (S::Queued, C::Claim) => Some(S::Assigned),
        (S::Assigned, C::Start) => Some(S::Running),
        // Only the system takes an assigned job back; no client call can (ruling C-15).
        (S::Assigned, C::LeaseExpired | C::HandBack) => Some(S::Queued),
        (S::Running, C::Finish) => Some(S::Succeeded),
        // Handing back running work is a failure with an immediate retry: RUNNING never goes
        // straight to QUEUED (C-16).
        (S::Running, C::Fail | C::Mixed | C::Timeout | C::RunnerLost | C::HandBack) => Some(S::Failed),
        (S::Failed, C::RetryByUser | C::RetryByPolicy) => Some(S::Queued),
        (
            S::Created | S::Queued | S::Assigned | S::Running,
            C::CancelByUser | C::CancelBySystem | C::Expire | C::Replace,
        ) => Some(S::Canceled),
        (
            S::Created | S::Queued | S::Assigned | S::Running | S::Succeeded | S::Failed | S::Canceled,
            C::Submit
            | C::Due
            | C::Activate
            | C::Claim
            | C::Start
            | C::LeaseExpired
            | C::HandBack
            | C::Finish
            | C::Fail
            | C::Timeout
            | C::RunnerLost
            | C::RetryByUser
            | C::RetryByPolicy
            | C::CancelByUser
            | C::CancelBySystem
            | C::Expire
            | C::Replace
            | C::Mixed,
        ) => None,
    }
}

/// Whether some cause leads from one state to the other.
pub fn is_legal(from: Option<State>, to: State) -> bool {
    match from {
        None => to == State::Created,
        Some(from) => Cause::ALL.iter().any(|&cause| next(from, cause) == Some(to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// The published table: the ten moves that FR allows, and the one that lease expiry needs.
    const ALLOWED: [(State, State); 11] = [
        (State::Created, State::Queued),
        (State::Created, State::Canceled),
        (State::Queued, State::Assigned),
        (State::Queued, State::Canceled),
        (State::Assigned, State::Running),
        (State::Assigned, State::Canceled),
        (State::Running, State::Succeeded),
        (State::Running, State::Failed),
        (State::Running, State::Canceled),
        (State::Failed, State::Queued),
        (State::Assigned, State::Queued),
    ];

    #[test]
    fn exactly_the_published_moves_are_possible_among_the_49_pairs() {
        for from in State::ALL {
            for to in State::ALL {
                assert_eq!(is_legal(Some(from), to), ALLOWED.contains(&(from, to)), "{from:?} → {to:?}");
            }
        }
    }

    #[test]
    fn assigned_goes_back_to_queued_only_by_lease_expiry_or_hand_back() {
        let causes: Vec<Cause> =
            Cause::ALL.into_iter().filter(|&c| next(State::Assigned, c) == Some(State::Queued)).collect();
        assert_eq!(causes, [Cause::LeaseExpired, Cause::HandBack]);
    }

    #[test]
    fn nothing_leaves_succeeded_or_canceled_and_only_a_retry_leaves_failed() {
        for cause in Cause::ALL {
            assert_eq!(next(State::Succeeded, cause), None);
            assert_eq!(next(State::Canceled, cause), None);
            let retry = matches!(cause, Cause::RetryByUser | Cause::RetryByPolicy);
            assert_eq!(next(State::Failed, cause).is_some(), retry);
        }
    }

    #[test]
    fn a_log_begins_with_created() {
        for to in State::ALL {
            assert_eq!(is_legal(None, to), to == State::Created);
        }
    }

    #[test]
    fn stored_numbers_come_back() {
        for state in State::ALL {
            assert_eq!(State::from_u8(state.as_u8()), Some(state));
        }
        for cause in Cause::ALL {
            assert_eq!(Cause::from_u8(cause.as_u8()), Some(cause));
        }
        assert_eq!(State::from_u8(7), None);
        assert_eq!(Cause::from_u8(18), None);
    }
}
