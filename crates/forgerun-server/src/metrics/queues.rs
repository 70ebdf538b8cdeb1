//! Figures per queue and type. Names come from clients, so their number is bounded: what has no
//! room is counted as `other`. Counters name what they saw first, gauges the fullest queues.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use forgerun_core::history::{Event, EventKind, RetryStatus};
use forgerun_core::job::Job;
use forgerun_core::rows::Counts;
use forgerun_core::state::{Cause, State};
use forgerun_wire::admin::job_type;
use forgerun_wire::words::{forge_outcome, forge_state};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::between;
use crate::config::MetricsConfig;
use crate::dialects::admin::queues::gauges::QueueGauges;

/// Pairs of queue and type with figures of their own. Each has about 30 lines in a scrape, which
/// stays under 1 MB.
const METRIC_PAIRS_MAX: usize = 250;

/// Label of queues and types without a name of their own.
pub(crate) const OTHER: &str = "other";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueueLabel {
    queue: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabel {
    queue: String,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PairLabel {
    queue: String,
    r#type: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabel {
    queue: String,
    r#type: String,
    outcome: &'static str,
}

#[derive(Debug)]
pub struct QueueMetrics {
    bounds: MetricsConfig,
    series: Mutex<KnownSeries>,
    /// Queues of the last scrape.
    shown: Mutex<HashSet<String>>,
    depth: Gauge,
    active: Gauge,
    jobs: Family<StateLabel, Gauge>,
    oldest: Family<QueueLabel, Gauge>,
    unattended: Family<QueueLabel, Gauge>,
    workers: Family<QueueLabel, Gauge>,
    wait: Family<PairLabel, Histogram>,
    run: Family<PairLabel, Histogram>,
    ended: Family<OutcomeLabel, Counter>,
    retries: Family<PairLabel, Counter>,
}

/// The series of pairs of queue and type, so that an event costs two lookups.
#[derive(Debug, Default)]
struct KnownSeries {
    by_queue: HashMap<String, HashMap<String, Series>>,
    types: HashSet<String>,
    n_pairs: usize,
}

#[derive(Clone, Debug)]
struct Series {
    wait: Histogram,
    run: Histogram,
    ended: [Counter; OUTCOMES.len()],
    retries: Counter,
}

const OUTCOMES: [State; 3] = [State::Succeeded, State::Failed, State::Canceled];

impl QueueMetrics {
    pub fn new(registry: &mut Registry, bounds: MetricsConfig) -> QueueMetrics {
        let metrics = QueueMetrics {
            bounds,
            series: Mutex::default(),
            shown: Mutex::default(),
            depth: Gauge::default(),
            active: Gauge::default(),
            jobs: Family::default(),
            oldest: Family::default(),
            unattended: Family::default(),
            workers: Family::default(),
            wait: Family::new_with_constructor(coarse_seconds),
            run: Family::new_with_constructor(coarse_seconds),
            ended: Family::default(),
            retries: Family::default(),
        };
        metrics.register(registry);
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("job_queue_depth", "Jobs that wait", self.depth.clone());
        registry.register("jobs_active", "Jobs that workers hold", self.active.clone());
        registry.register("forgerun_queue_jobs", "Jobs by queue and state", self.jobs.clone());
        registry.register(
            "forgerun_queue_oldest_seconds",
            "Wait of the oldest job that a worker could claim",
            self.oldest.clone(),
        );
        registry.register(
            "forgerun_queue_unattended",
            "1 if jobs wait in the queue and no living worker asks for it",
            self.unattended.clone(),
        );
        registry.register("forgerun_workers", "Living workers that ask for the queue", self.workers.clone());
        registry.register("forgerun_job_wait_seconds", "From claimable to claimed", self.wait.clone());
        registry.register("forgerun_job_run_seconds", "From started to ended", self.run.clone());
        registry.register("forgerun_jobs_ended", "Ends of jobs", self.ended.clone());
        registry.register("forgerun_job_retries", "Retries by a client or the server", self.retries.clone());
    }

    /// Sets the gauges; queues that are not among these any more are removed.
    pub(crate) fn set(&self, queues: &[QueueGauges]) {
        let mut all = Counts::default();
        let mut shown: HashSet<String> = HashSet::with_capacity(queues.len());
        for found in queues {
            all.merge(&found.counts);
            let label = QueueLabel { queue: found.queue.clone() };
            for state in State::ALL {
                let label = StateLabel { queue: found.queue.clone(), state: forge_state(state) };
                self.jobs.get_or_create(&label).set(found.counts.of(state).max(0));
            }
            self.oldest.get_or_create(&label).set(found.oldest_s as i64);
            self.unattended.get_or_create(&label).set(i64::from(found.unattended));
            self.workers.get_or_create(&label).set(found.workers as i64);
            shown.insert(found.queue.clone());
        }
        self.depth.set(all.of(State::Queued));
        self.active.set(all.active());
        let mut before = locked(&self.shown);
        for queue in before.difference(&shown) {
            let label = QueueLabel { queue: queue.clone() };
            for state in State::ALL {
                self.jobs.remove(&StateLabel { queue: queue.clone(), state: forge_state(state) });
            }
            self.oldest.remove(&label);
            self.unattended.remove(&label);
            self.workers.remove(&label);
        }
        *before = shown;
    }

    /// Counts what happened to a job.
    pub(super) fn event(&self, job: &Job, event: &Event) {
        let EventKind::Moved { cause, to, retry_status, .. } = event.kind else { return };
        let is_end = to.is_final() && retry_status != RetryStatus::WillRetry && cause != Cause::HandBack;
        let ran = matches!(cause, Cause::Finish | Cause::Fail | Cause::Mixed | Cause::Timeout);
        let was_retried = matches!(cause, Cause::RetryByUser | Cause::RetryByPolicy);
        if !(is_end || ran || was_retried || to == State::Assigned) {
            return;
        }
        let mut known = locked(&self.series);
        let series = self.series(&mut known, job.head.queue.as_str(), job_type(job));
        if to == State::Assigned {
            series.wait.observe(between(job.queued_at, event.at));
        }
        if ran {
            series.run.observe(between(job.started_at, event.at));
        }
        if was_retried {
            series.retries.inc();
        }
        if let Some(at) = OUTCOMES.iter().position(|state| *state == to).filter(|_| is_end) {
            series.ended[at].inc();
        }
    }

    /// The series of a pair; that of the type `other`, or of both as `other`, if there is no room.
    fn series<'a>(&self, known: &'a mut KnownSeries, queue: &str, kind: &str) -> &'a Series {
        let has_queue = known.by_queue.contains_key(queue);
        let queue = if has_queue || known.by_queue.len() < self.bounds.queues_max { queue } else { OTHER };
        let has_type = known.types.contains(kind);
        let kind = if has_type || known.types.len() < self.bounds.types_max { kind } else { OTHER };
        let has_pair =
            |queue: &str, kind: &str| known.by_queue.get(queue).is_some_and(|types| types.contains_key(kind));
        let (queue, kind) = match () {
            () if has_pair(queue, kind) || known.n_pairs < METRIC_PAIRS_MAX => (queue, kind),
            () if has_pair(queue, OTHER) => (queue, OTHER),
            () => (OTHER, OTHER),
        };
        if !known.by_queue.get(queue).is_some_and(|types| types.contains_key(kind)) {
            let series = self.new_series(queue, kind);
            known.n_pairs += 1;
            known.types.insert(kind.to_owned());
            known.by_queue.entry(queue.to_owned()).or_default().insert(kind.to_owned(), series);
        }
        &known.by_queue[queue][kind]
    }

    fn new_series(&self, queue: &str, kind: &str) -> Series {
        let pair = PairLabel { queue: queue.to_owned(), r#type: kind.to_owned() };
        let ended = OUTCOMES.map(|state| {
            let outcome = forge_outcome(state).expect("the state is final");
            let label = OutcomeLabel { queue: queue.to_owned(), r#type: kind.to_owned(), outcome };
            self.ended.get_or_create(&label).clone()
        });
        Series {
            wait: self.wait.get_or_create(&pair).clone(),
            run: self.run.get_or_create(&pair).clone(),
            ended,
            retries: self.retries.get_or_create(&pair).clone(),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Few bounds, because there are many series: from 5 ms to two hours.
fn coarse_seconds() -> Histogram {
    Histogram::new([0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 300.0, 1800.0, 7200.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(queues_max: usize, types_max: usize) -> QueueMetrics {
        QueueMetrics::new(&mut Registry::default(), MetricsConfig { queues_max, types_max })
    }

    fn pairs(metrics: &QueueMetrics) -> Vec<String> {
        let known = locked(&metrics.series);
        let pairs = known
            .by_queue
            .iter()
            .flat_map(|(queue, types)| types.keys().map(move |kind| format!("{queue}/{kind}")));
        let mut pairs: Vec<String> = pairs.collect();
        pairs.sort_unstable();
        pairs
    }

    fn count(metrics: &QueueMetrics, queue: &str, kind: &str) {
        let mut known = locked(&metrics.series);
        metrics.series(&mut known, queue, kind).retries.inc();
    }

    #[test]
    fn queues_and_types_beyond_their_bounds_are_counted_as_other() {
        let metrics = metrics(2, 2);
        for (queue, kind) in [("a", "x"), ("b", "y"), ("c", "x"), ("a", "z"), ("c", "z"), ("a", "x")] {
            count(&metrics, queue, kind);
        }
        assert_eq!(pairs(&metrics), ["a/other", "a/x", "b/y", "other/other", "other/x"]);
        let label = PairLabel { queue: "a".to_owned(), r#type: "x".to_owned() };
        assert_eq!(metrics.retries.get_or_create(&label).get(), 2);
    }

    #[test]
    fn pairs_are_bounded_whatever_the_names() {
        let metrics = metrics(1000, 1000);
        for n in 0..METRIC_PAIRS_MAX * 2 {
            count(&metrics, &format!("q{}", n % 100), &format!("t{n}"));
        }
        assert_eq!(pairs(&metrics).len(), METRIC_PAIRS_MAX + 1);
        let label = PairLabel { queue: OTHER.to_owned(), r#type: OTHER.to_owned() };
        assert_eq!(metrics.retries.get_or_create(&label).get(), METRIC_PAIRS_MAX as u64);
    }
}
