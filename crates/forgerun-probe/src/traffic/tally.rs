//! Counts and latencies, in total and per second.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::state::State;
use crate::limits::LATENCY_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Submit,
    Poll,
    /// Counted as a request, but in no histogram.
    Other,
}

/// Latencies, counted from the intended start.
pub(super) struct Latencies {
    histogram: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Latencies {
        // Three digits from a microsecond to the bound: 200 KB each.
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX.as_micros() as u64, 3);
        Latencies { histogram: histogram.expect("the bounds are right") }
    }
}

impl Latencies {
    fn record(&mut self, took: Duration) {
        self.histogram.saturating_record((took.as_micros() as u64).max(1));
    }

    /// A quantile in milliseconds; `None` without values.
    pub(super) fn quantile_ms(&self, share: f64) -> Option<f64> {
        (!self.histogram.is_empty()).then(|| self.histogram.value_at_quantile(share) as f64 / 1e3)
    }

    /// The longest in milliseconds.
    pub(super) fn max_ms(&self) -> Option<f64> {
        (!self.histogram.is_empty()).then(|| self.histogram.max() as f64 / 1e3)
    }
}

#[derive(Default)]
pub(super) struct LatencySet {
    pub(super) submit: Latencies,
    pub(super) poll: Latencies,
    pub(super) end_to_end: Latencies,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct JobCounts {
    /// Submissions, without repetitions.
    pub submitted: u64,
    pub accepted: u64,
    pub refused: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub canceled: u64,
    /// Acknowledged and missing in the end.
    pub lost: u64,
    /// Ended twice, or two jobs for one idempotency key.
    pub doubled: u64,
    /// Not ended when the tool stopped waiting.
    pub unfinished: u64,
}

/// One second of a run.
#[derive(Clone, Debug, Default)]
pub struct Tick {
    pub at_s: u64,
    pub phase: String,
    pub requests: u64,
    pub accepted: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub canceled: u64,
    pub errors: u64,
    /// Journeys under way at its end.
    pub in_flight: u64,
    pub violations: u64,
    /// Latency of submissions: p50, p99.
    pub submit_ms: Option<(f64, f64)>,
    /// Latency of polls: p50, p99.
    pub poll_ms: Option<(f64, f64)>,
    /// Time until clients knew of an end: p50, p99.
    pub end_to_end_ms: Option<(f64, f64)>,
}

#[derive(Clone, Debug, Default)]
pub struct PhaseCounts {
    pub name: String,
    pub duration: Duration,
    pub journeys: u64,
    pub requests: u64,
}

#[derive(Default)]
pub(super) struct Tally {
    pub(super) jobs: JobCounts,
    pub(super) requests: u64,
    /// Requests without an answer, and answers of 500 and above.
    pub(super) errors: u64,
    /// Requests without an answer while the server was killed on purpose.
    pub(super) interrupted: u64,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) in_flight: u64,
    pub(super) latencies: LatencySet,
    pub(super) phases: Vec<PhaseCounts>,
    pub(super) ticks: Vec<Tick>,
    second: LatencySet,
    now: Tick,
}

impl Tally {
    pub(super) fn answered(&mut self, class: Class, status: u16, took: Duration) {
        self.requests += 1;
        self.now.requests += 1;
        *self.statuses.entry(status).or_default() += 1;
        match class {
            Class::Submit => {
                self.latencies.submit.record(took);
                self.second.submit.record(took);
            }
            Class::Poll => {
                self.latencies.poll.record(took);
                self.second.poll.record(took);
            }
            Class::Other => {}
        }
        if status >= 500 {
            self.error();
        }
    }

    pub(super) fn error(&mut self) {
        self.errors += 1;
        self.now.errors += 1;
    }

    pub(super) fn accepted(&mut self) {
        self.jobs.accepted += 1;
        self.now.accepted += 1;
    }

    /// A client learned of the end of its job.
    pub(super) fn ended(&mut self, state: State, took: Option<Duration>) {
        let (all, now) = match state {
            State::Succeeded => (&mut self.jobs.succeeded, &mut self.now.succeeded),
            State::Failed => (&mut self.jobs.failed, &mut self.now.failed),
            _ => (&mut self.jobs.canceled, &mut self.now.canceled),
        };
        *all += 1;
        *now += 1;
        if let Some(took) = took {
            self.latencies.end_to_end.record(took);
            self.second.end_to_end.record(took);
        }
    }

    pub(super) fn tick(&mut self, at_s: u64, phase: &str, violations: u64) -> Tick {
        let pair = |latencies: &Latencies| Some((latencies.quantile_ms(0.5)?, latencies.quantile_ms(0.99)?));
        let tick = Tick {
            at_s,
            phase: phase.to_owned(),
            in_flight: self.in_flight,
            violations,
            submit_ms: pair(&self.second.submit),
            poll_ms: pair(&self.second.poll),
            end_to_end_ms: pair(&self.second.end_to_end),
            ..std::mem::take(&mut self.now)
        };
        for latencies in [&mut self.second.submit, &mut self.second.poll, &mut self.second.end_to_end] {
            latencies.histogram.reset();
        }
        self.ticks.push(tick.clone());
        tick
    }
}
