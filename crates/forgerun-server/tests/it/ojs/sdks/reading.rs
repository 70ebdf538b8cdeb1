//! What typed SDKs read, each member as strict as the strictest of them has it.

use std::collections::HashMap;

use forgerun_wire::time;
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

/// A moment, in the one form that all of them read.
#[derive(Clone, Debug)]
pub(super) struct Moment;

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Moment, D::Error> {
        let text = String::deserialize(from)?;
        match time::parse(&text) {
            Some(_) => Ok(Moment),
            None => Err(de::Error::custom(format!("{text} is no moment"))),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum JobState {
    Pending,
    Scheduled,
    Available,
    Active,
    Completed,
    Retryable,
    Cancelled,
    Discarded,
}

#[derive(Debug, Deserialize)]
pub(super) struct Job {
    pub(super) specversion: String,
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) job_type: String,
    pub(super) queue: String,
    pub(super) args: Vec<Value>,
    pub(super) state: JobState,
    #[serde(default)]
    pub(super) meta: Map<String, Value>,
    #[serde(default)]
    pub(super) priority: i32,
    #[serde(default)]
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) retry: Option<Retry>,
    pub(super) unique: Option<Unique>,
    pub(super) schema: Option<String>,
    pub(super) error: Option<JobError>,
    #[serde(default)]
    pub(super) errors: Vec<Map<String, Value>>,
    pub(super) result: Option<Map<String, Value>>,
    pub(super) created_at: Option<Moment>,
    pub(super) enqueued_at: Option<Moment>,
    pub(super) started_at: Option<Moment>,
    pub(super) completed_at: Option<Moment>,
    pub(super) cancelled_at: Option<Moment>,
    pub(super) discarded_at: Option<Moment>,
    pub(super) scheduled_at: Option<Moment>,
    pub(super) expires_at: Option<Moment>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Retry {
    pub(super) max_attempts: u32,
    pub(super) initial_interval: String,
    pub(super) backoff_coefficient: f64,
    pub(super) max_interval: String,
    pub(super) jitter: bool,
    pub(super) non_retryable_errors: Vec<String>,
    pub(super) on_exhaustion: OnExhaustion,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnExhaustion {
    Discard,
    DeadLetter,
}

#[derive(Debug, Deserialize)]
pub(super) struct Unique {
    #[serde(default)]
    pub(super) keys: Vec<Dimension>,
    #[serde(default)]
    pub(super) key: Vec<String>,
    #[serde(default)]
    #[expect(dead_code, reason = "they must be states where they are there")]
    pub(super) states: Vec<JobState>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Dimension {
    Type,
    Queue,
    Args,
    Meta,
}

#[derive(Debug, Deserialize)]
pub(super) struct JobError {
    #[serde(rename = "type")]
    pub(super) class: String,
    pub(super) code: String,
    pub(super) message: String,
    pub(super) retryable: bool,
    pub(super) details: Option<Map<String, Value>>,
    pub(super) backtrace: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Pagination {
    pub(super) total: u64,
    pub(super) limit: u64,
    pub(super) offset: u64,
    pub(super) has_more: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) status: String,
    pub(super) paused: bool,
    #[expect(dead_code, reason = "it must be a moment where it is there")]
    pub(super) created_at: Option<Moment>,
}

#[derive(Debug, Deserialize)]
pub(super) struct QueueStats {
    pub(super) queue: String,
    pub(super) status: String,
    pub(super) stats: Figures,
    #[expect(dead_code, reason = "it must be there")]
    pub(super) computed_at: Moment,
    // One of them reads the figures at the top.
    pub(super) name: String,
    pub(super) paused: bool,
    #[serde(flatten)]
    pub(super) top: TopFigures,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct TopFigures {
    pub(super) available: u64,
    pub(super) active: u64,
    pub(super) scheduled: u64,
    pub(super) retryable: u64,
    pub(super) completed: u64,
    pub(super) discarded: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Figures {
    pub(super) available: u64,
    pub(super) active: u64,
    pub(super) scheduled: u64,
    pub(super) retryable: u64,
    pub(super) discarded: u64,
    pub(super) completed_last_hour: u64,
    pub(super) failed_last_hour: u64,
    pub(super) avg_duration_ms: f64,
    pub(super) avg_wait_ms: f64,
    pub(super) throughput_per_second: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct CronJob {
    pub(super) name: String,
    pub(super) cron: String,
    pub(super) timezone: String,
    #[serde(rename = "type")]
    pub(super) job_type: String,
    pub(super) args: Vec<Value>,
    pub(super) meta: Option<Map<String, Value>>,
    pub(super) options: Option<Map<String, Value>>,
    pub(super) overlap_policy: Overlap,
    pub(super) enabled: bool,
    pub(super) status: String,
    pub(super) last_run_at: Option<Moment>,
    pub(super) next_run_at: Option<Moment>,
    pub(super) run_count: u64,
    #[expect(dead_code, reason = "it must be there")]
    pub(super) created_at: Moment,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Overlap {
    Skip,
    Allow,
    CancelPrevious,
    Enqueue,
}

#[derive(Debug, Deserialize)]
pub(super) struct Workflow {
    pub(super) id: String,
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) form: Form,
    pub(super) state: WorkflowState,
    pub(super) steps: Vec<Step>,
    pub(super) metadata: WorkflowMetadata,
    pub(super) cancelled_at: Option<Moment>,
    pub(super) steps_cancelled: Option<u32>,
    pub(super) steps_already_completed: Option<u32>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    Chain,
    Group,
    Batch,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkflowState {
    Pending,
    Running,
    Completed,
    Failed,
    Cancelled,
}

#[derive(Debug, Deserialize)]
pub(super) struct Step {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) job_type: String,
    pub(super) state: String,
    pub(super) args: Vec<Value>,
    pub(super) depends_on: Vec<String>,
    pub(super) job_id: Option<String>,
    #[expect(dead_code, reason = "it must be a moment where it is there")]
    pub(super) started_at: Option<Moment>,
    #[expect(dead_code, reason = "it must be a moment where it is there")]
    pub(super) completed_at: Option<Moment>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WorkflowMetadata {
    pub(super) job_count: u64,
    pub(super) completed_count: u64,
    pub(super) failed_count: u64,
    #[expect(dead_code, reason = "it must be there")]
    pub(super) created_at: Moment,
}

#[derive(Debug, Deserialize)]
pub(super) struct Health {
    pub(super) status: String,
    pub(super) version: String,
    pub(super) uptime_seconds: u64,
    pub(super) backend: Backend,
}

#[derive(Debug, Deserialize)]
pub(super) struct Backend {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) latency_ms: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    pub(super) ojs_version: String,
    pub(super) implementation: HashMap<String, String>,
    pub(super) conformance_level: u8,
    pub(super) protocols: Vec<String>,
    pub(super) backend: String,
    pub(super) capabilities: HashMap<String, bool>,
    pub(super) extensions: Vec<String>,
    pub(super) endpoints: HashMap<String, String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ServerError {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) retryable: bool,
    pub(super) details: Map<String, Value>,
    pub(super) request_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Beat {
    pub(super) state: String,
    pub(super) jobs_extended: Vec<String>,
    #[expect(dead_code, reason = "it must be there")]
    pub(super) server_time: Moment,
}
