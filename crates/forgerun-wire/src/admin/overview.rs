//! The whole server at a glance.

use std::collections::BTreeMap;

use forgerun_core::rows::Activity;
use forgerun_core::time::Time;
use serde::{Deserialize, Serialize};

use super::{AdminQueue, AdminSink, AdminWorker, QueueFigures};
use crate::time;

/// The whole server at a glance.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overview {
    /// How many jobs stand in each state.
    pub jobs: BTreeMap<String, u64>,
    /// The queues in which most jobs wait; at most 200.
    pub queues: Vec<OverviewQueue>,
    /// How much happened within the last minute, and within the last hour.
    pub rates: OverviewRates,
    /// What happened in each of the last 60 minutes, the newest last.
    pub minutes: Vec<OverviewMinute>,
    /// Workers outside that send heartbeats; at most 200.
    pub workers: Vec<AdminWorker>,
    /// Where events are sent to.
    pub sinks: Vec<AdminSink>,
    /// The nodes that are up.
    pub nodes: Vec<NodeView>,
    /// What is wrong at this moment, as far as the server knows.
    pub problems: Vec<OverviewProblem>,
}

/// Something that an operator should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverviewProblem {
    /// `queue_unattended`, `webhook_failing`, `sink_behind`, `schedule_missed` or `node_versions`.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::ProblemKind"))]
    pub kind: String,
    /// What is wrong, for people.
    pub what: String,
    /// Since when, if that is known.
    pub since: Option<String>,
    /// The page of the dashboard that shows more.
    pub link: String,
}

/// What happened within one minute, in all queues together.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverviewMinute {
    /// When it began.
    pub at: String,
    /// Jobs that came in.
    pub submitted: u64,
    /// Executions that ended well.
    pub succeeded: u64,
    /// Executions that ended badly.
    pub failed: u64,
    /// How long the attempts that began had waited, on average, in milliseconds; null if none began.
    pub waited_ms: Option<u64>,
    /// How long the executions that ended had run since their last attempt began, on average; null if none ended.
    pub ran_ms: Option<u64>,
}

impl OverviewMinute {
    /// The minute that begins at this moment.
    pub fn new(at: Time, activity: &Activity) -> OverviewMinute {
        let n = |number: i64| number.max(0) as u64;
        let average = |sum: i64, count: i64| (count > 0).then(|| n(sum) / n(count).max(1));
        OverviewMinute {
            at: time::millis(at),
            submitted: n(activity.submitted),
            succeeded: n(activity.succeeded),
            failed: n(activity.failed),
            waited_ms: average(activity.waited_ms, activity.started),
            ran_ms: average(activity.ran_ms, activity.succeeded + activity.failed),
        }
    }
}

/// How much happened, per second.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverviewRates {
    /// Within the last minute.
    #[serde(flatten)]
    pub last_minute: QueueFigures,
    /// Within the last hour.
    pub last_hour: QueueFigures,
}

/// A queue at a glance.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverviewQueue {
    /// The name.
    pub name: String,
    /// Jobs that wait for a worker.
    pub waiting: u64,
    /// Jobs that workers hold.
    pub active: u64,
    /// How long the oldest claimable job has waited, in seconds.
    pub oldest_waiting_s: Option<u64>,
    /// Whether the operator paused it.
    pub paused: bool,
    /// Whether jobs wait and no living worker asks for it.
    pub unattended: bool,
}

impl From<AdminQueue> for OverviewQueue {
    fn from(queue: AdminQueue) -> OverviewQueue {
        let AdminQueue { name, waiting, active, oldest_waiting_s, paused, unattended, .. } = queue;
        OverviewQueue { name, waiting, active, oldest_waiting_s, paused, unattended }
    }
}

/// A node that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Node"))]
pub struct NodeView {
    /// What it calls itself: another name with every start.
    pub id: String,
    /// The version of the program.
    pub version: String,
    /// When it was started.
    pub started_at: String,
}
