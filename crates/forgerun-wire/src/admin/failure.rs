//! Groups of failures.

use forgerun_core::failure::FailureGroup;
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::job::Name;
use forgerun_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::time;

/// Failures with the same reason.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FailureGroup"))]
pub struct FailureGroupView {
    /// Which group.
    pub group: String,
    /// The problem type: where its page is.
    #[serde(rename = "type")]
    pub problem_type: String,
    /// The code that workers gave, or the catalog's.
    pub code: String,
    /// The title of the problem type.
    pub title: String,
    /// The operation, what was simulated, or the type of the jobs; may be empty.
    pub operation: String,
    /// The message without what differs between occurrences.
    pub message: String,
    /// How many executions ended like this.
    pub count: u64,
    /// When the first of them did.
    pub first_seen: String,
    /// When the newest did.
    pub last_seen: String,
    /// How many in each of the last 24 hours, the newest last.
    pub trend: Vec<u64>,
    /// Whose jobs; the first twenty.
    pub clients: Vec<String>,
    /// Of which queues; the first twenty.
    pub queues: Vec<String>,
    /// The newest three jobs, newest first.
    pub examples: Vec<String>,
}

impl FailureGroupView {
    /// The group at this moment, on a server at this public address.
    pub fn new(group: &FailureGroup, base: &str, now: Time) -> FailureGroupView {
        let entry = group.kind.entry();
        FailureGroupView {
            group: group.id.to_string(),
            problem_type: format!("{base}/problems/{}", entry.slug),
            code: group.code.clone(),
            title: entry.title.to_owned(),
            operation: group.subject.clone(),
            message: group.message.clone(),
            count: group.count,
            first_seen: time::millis(group.first_at),
            last_seen: time::millis(group.last_at),
            trend: group.trend(now).to_vec(),
            clients: group.clients.iter().map(ClientId::to_string).collect(),
            queues: group.queues.iter().map(Name::to_string).collect(),
            examples: group.examples.iter().map(JobId::to_string).collect(),
        }
    }
}
