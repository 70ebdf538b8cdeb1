//! Queues as the operator sees them: all queues of one name together, whoever owns them.

use forgerun_core::rows::{Activity, Counts};
use forgerun_core::state::Facet;
use serde::{Deserialize, Serialize};

use crate::shares::FairView;
use crate::time;

/// All queues of one name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminQueue {
    /// The name.
    pub name: String,
    /// Jobs that wait for a worker, those between two attempts included.
    pub waiting: u64,
    /// Jobs that workers hold.
    pub active: u64,
    /// Jobs whose time has not come, and jobs that are held back.
    pub scheduled: u64,
    /// Jobs that ended well and are still kept.
    pub succeeded: u64,
    /// Jobs that ended badly and are still kept.
    pub failed: u64,
    /// Jobs that were cancelled and are still kept.
    pub canceled: u64,
    /// How long the oldest claimable job has waited, in seconds; null if none waits, or if too many queues have the name to look.
    pub oldest_waiting_s: Option<u64>,
    /// Whether jobs of one of these queues have waited for longer than `alerts.no_worker_s` and no living worker asks for it.
    pub unattended: bool,
    /// Whether the operator stopped handing out jobs.
    pub paused: bool,
    /// Since when.
    pub paused_at: Option<String>,
    /// Keys with waiting jobs that take turns, as far as they are next in line: up to 20 for each queue of the name.
    #[serde(default)]
    pub fair_keys: Vec<FairView>,
    /// What the operator set for each queue of the name.
    pub limits: QueueLimits,
    /// What happened within the last minute, per second.
    pub last_minute: QueueFigures,
    /// What happened within the last hour, per second.
    pub last_hour: QueueFigures,
    /// How many queues have the name: one that everybody shares, and one of each owner with work for workers outside.
    pub n_queues: usize,
}

impl AdminQueue {
    /// A queue in which nothing has happened.
    pub fn new(name: &str) -> AdminQueue {
        AdminQueue {
            name: name.to_owned(),
            waiting: 0,
            active: 0,
            scheduled: 0,
            succeeded: 0,
            failed: 0,
            canceled: 0,
            oldest_waiting_s: None,
            unattended: false,
            paused: false,
            paused_at: None,
            fair_keys: Vec::new(),
            limits: QueueLimits::default(),
            last_minute: QueueFigures::default(),
            last_hour: QueueFigures::default(),
            n_queues: 0,
        }
    }

    /// Adds the jobs of one queue of the name.
    pub fn add(&mut self, counts: &Counts) {
        let at = |facets: &[Facet]| facets.iter().map(|facet| counts.at(*facet)).sum::<i64>().max(0) as u64;
        self.waiting += at(&[Facet::Available, Facet::Waiting]);
        self.active += at(&[Facet::Assigned, Facet::Running]);
        self.scheduled += at(&[Facet::Scheduled, Facet::Held]);
        self.succeeded += at(&[Facet::Succeeded]);
        self.failed += at(&[Facet::Failed]);
        self.canceled += at(&[Facet::Canceled, Facet::Expired]);
        self.n_queues += 1;
    }

    /// Says since when the operator has paused it.
    pub fn set_paused_at(&mut self, at: Option<forgerun_core::time::Time>) {
        self.paused = at.is_some();
        self.paused_at = at.map(time::millis);
    }
}

/// What the operator set for each queue of a name; null where nothing is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueLimits {
    /// New jobs are refused while so many wait.
    pub max_waiting: Option<u64>,
    /// Nothing is handed out while workers hold so many.
    pub max_active: Option<u64>,
    /// No more jobs are handed out per second.
    pub rate_per_s: Option<f64>,
}

/// How much happened, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueFigures {
    /// Jobs that came in.
    pub submitted_per_s: f64,
    /// Executions that ended well or badly.
    pub ended_per_s: f64,
    /// Executions that ended badly.
    pub failed_per_s: f64,
}

impl QueueFigures {
    /// What happened within so many seconds.
    pub fn of(activity: &Activity, seconds: f64) -> QueueFigures {
        // Three digits: more would only look exact.
        let per_s = |n: i64| (n.max(0) as f64 / seconds.max(1.0) * 1000.0).round() / 1000.0;
        QueueFigures {
            submitted_per_s: per_s(activity.submitted),
            ended_per_s: per_s(activity.succeeded + activity.failed),
            failed_per_s: per_s(activity.failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_one_name_are_added_up() {
        let mut counts = Counts::default();
        for (facet, n) in [
            (Facet::Available, 3),
            (Facet::Waiting, 2),
            (Facet::Running, 1),
            (Facet::Held, 4),
            (Facet::Expired, 5),
        ] {
            counts.add(facet, n);
        }
        let mut queue = AdminQueue::new("mail");
        queue.add(&counts);
        queue.add(&counts);
        assert_eq!((queue.waiting, queue.active, queue.scheduled, queue.canceled), (10, 2, 8, 10));
        assert_eq!(queue.n_queues, 2);
    }

    #[test]
    fn figures_are_per_second_and_never_negative() {
        let activity = Activity { submitted: 90, succeeded: 60, failed: 30, ..Activity::default() };
        let figures = QueueFigures::of(&activity, 90.0);
        assert_eq!((figures.submitted_per_s, figures.ended_per_s, figures.failed_per_s), (1.0, 1.0, 0.333));
        let odd = Activity { failed: -3, ..Activity::default() };
        assert_eq!(QueueFigures::of(&odd, 0.0), QueueFigures::default());
    }
}
