//! Work kinds: what a simulated job does while it runs, and how it ends.
//!
//! Jobs carry no code. Each has one of 31 [`WorkKind`]s, and the kind alone fixes how long the job
//! runs, the size of its result and how each attempt ends. Only the choice of a kind for a job that
//! names none is random, and a pure function of the request's time ([`Definition::random`]).
//!
//! Deliberately not here: doing the work, measuring time, or scaling it for tests. The other
//! actions that some kinds are named after (a cancel, a second submission, a slow webhook receiver)
//! are up to the caller.

use crate::random::SplitMix64;
mod kind;

pub use kind::{Behaviour, End, WorkClass, WorkKind};

/// What the server decided that a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Definition {
    /// The scenario, which fixes everything else.
    pub work_kind: WorkKind,
    /// Duration of an attempt if nothing stops it.
    pub duration_ms: u32,
    pub should_fail: bool,
    pub payload_kb: u16,
}

impl Definition {
    /// Shortest duration of a chosen kind.
    pub const DURATION_MIN_MS: u32 = 500;
    /// Longest duration of a chosen kind. Only `RUNS_OVER_TIMEOUT`, which is never chosen, may
    /// exceed it.
    pub const DURATION_MAX_MS: u32 = 120_000;
    /// Smallest result of a chosen kind.
    pub const PAYLOAD_MIN_KB: u16 = 1;
    /// Largest result of a chosen kind.
    pub const PAYLOAD_MAX_KB: u16 = 256;

    /// The definition for the kind that the client asked for. `max_runtime_ms` is the runtime limit
    /// of the job.
    pub fn of(work_kind: WorkKind, max_runtime_ms: u32) -> Definition {
        Definition {
            work_kind,
            duration_ms: work_kind.duration_ms(max_runtime_ms),
            should_fail: work_kind.should_fail(),
            payload_kb: work_kind.payload_kb(),
        }
    }

    /// The definition of a job without a requested kind. The same arguments give the same
    /// definition; `seed_micros` is the time of the request.
    ///
    /// With a probability of `failure_per_mille` (above 1000 counts as 1000) the kind is a failing
    /// one, else a succeeding one. Kinds that would not end within `max_runtime_ms` are excluded,
    /// so that a job meant to succeed does; if the limit excludes all, the shortest is chosen.
    pub fn random(seed_micros: u64, failure_per_mille: u16, max_runtime_ms: u32) -> Definition {
        let mut numbers = SplitMix64::new(seed_micros);
        let should_fail = numbers.below(1000) < u64::from(failure_per_mille);
        let pool: &[WorkKind] = if should_fail { &CHOOSABLE_FAILING } else { &CHOOSABLE_SUCCEEDING };
        let in_time = || pool.iter().filter(|kind| kind.duration_ms(max_runtime_ms) < max_runtime_ms);
        let chosen = in_time().nth(numbers.below(in_time().count() as u64) as usize);
        Definition::of(*chosen.unwrap_or(&pool[0]), max_runtime_ms)
    }
}

/// Succeeding kinds that the server may choose, the shortest first.
///
/// Excluded are kinds that need another action (`CANCEL_*`, `DUPLICATE_*`, `WEBHOOK_*`,
/// `SCHEDULED_*`): without it they would be just another short success under a misleading name.
const CHOOSABLE_SUCCEEDING: [WorkKind; 12] = [
    WorkKind::SuccessFast,
    WorkKind::SuccessNormal,
    WorkKind::SuccessSlow,
    WorkKind::RunsLong,
    WorkKind::CpuBurst,
    WorkKind::MemorySpike,
    WorkKind::IoHeavy,
    WorkKind::ManySmallOutputs,
    WorkKind::LargeOutput,
    WorkKind::PayloadSmall,
    WorkKind::PayloadMedium,
    WorkKind::PayloadLarge,
];

/// Failing kinds that the server may choose, the shortest first.
///
/// Excluded: `RETRY_*`, which need a retry by a client (and `RETRY_ON_FAIL` would succeed where
/// retries are automatic); `RUNS_OVER_TIMEOUT`, which may exceed the bounds of a definition;
/// `PAYLOAD_INVALID`, which never becomes a job.
const CHOOSABLE_FAILING: [WorkKind; 3] =
    [WorkKind::FailImmediate, WorkKind::FailAfterProgress, WorkKind::FailAfterRetryable];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    const MAX_RUNTIME_MS: u32 = 125_000;
    /// A moment in 2026, in microseconds.
    const NOON: u64 = 1_780_000_000_000_000;

    fn randoms(failure_per_mille: u16, max_runtime_ms: u32) -> impl Iterator<Item = Definition> {
        (0..1000).map(move |n| Definition::random(NOON + n, failure_per_mille, max_runtime_ms))
    }

    #[test]
    fn the_same_time_gives_the_same_definition() {
        assert!(randoms(200, MAX_RUNTIME_MS).eq(randoms(200, MAX_RUNTIME_MS)));
    }

    #[test]
    fn random_definitions_stay_in_bounds_and_match_their_kind() {
        for definition in randoms(500, MAX_RUNTIME_MS) {
            let durations = Definition::DURATION_MIN_MS..=Definition::DURATION_MAX_MS;
            let payloads = Definition::PAYLOAD_MIN_KB..=Definition::PAYLOAD_MAX_KB;
            assert!(durations.contains(&definition.duration_ms), "{definition:?}");
            assert!(payloads.contains(&definition.payload_kb), "{definition:?}");
            assert_eq!(definition, Definition::of(definition.work_kind, MAX_RUNTIME_MS));
        }
    }

    #[test]
    fn random_kinds_cover_all_classes_and_both_pools() {
        let mut n_of = BTreeMap::new();
        for definition in randoms(200, MAX_RUNTIME_MS) {
            *n_of.entry(definition.work_kind.class()).or_insert(0) += 1;
        }
        // Expected: 800 × 10/12, 200, 800 × 2/12; a generous margin around each.
        assert!((600..735).contains(&n_of[&WorkClass::Success]), "{n_of:?}");
        assert!((150..250).contains(&n_of[&WorkClass::Failure]), "{n_of:?}");
        assert!((90..180).contains(&n_of[&WorkClass::Slow]), "{n_of:?}");
        let chosen: BTreeSet<_> =
            randoms(200, MAX_RUNTIME_MS).map(|definition| definition.work_kind).collect();
        let pools: BTreeSet<_> = CHOOSABLE_SUCCEEDING.into_iter().chain(CHOOSABLE_FAILING).collect();
        assert_eq!(chosen, pools);
    }

    #[test]
    fn probability_zero_never_fails_and_one_always_does() {
        assert!(randoms(0, MAX_RUNTIME_MS).all(|definition| !definition.should_fail));
        assert!(randoms(1000, MAX_RUNTIME_MS).all(|definition| definition.should_fail));
        assert!(randoms(u16::MAX, MAX_RUNTIME_MS).all(|definition| definition.should_fail));
    }

    #[test]
    fn a_chosen_failing_kind_fails_however_often_it_is_retried() {
        for kind in CHOOSABLE_FAILING {
            assert!([1, 2, 9].iter().all(|attempt| kind.end(*attempt) != End::Success), "{kind:?}");
        }
        assert!(CHOOSABLE_SUCCEEDING.iter().all(|kind| kind.behaviour() == Behaviour::Succeeds));
    }

    #[test]
    fn a_chosen_kind_ends_within_the_runtime_limit_if_any_can() {
        assert!(randoms(200, 9_000).all(|definition| definition.duration_ms < 9_000));
        for pool in [&CHOOSABLE_SUCCEEDING[..], &CHOOSABLE_FAILING[..]] {
            assert!(pool.iter().all(|kind| kind.duration_ms(0) >= pool[0].duration_ms(0)), "{:?}", pool[0]);
        }
        assert!(randoms(0, 100).all(|definition| definition.work_kind == WorkKind::SuccessFast));
    }
}
