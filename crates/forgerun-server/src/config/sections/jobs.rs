//! Settings of jobs: limits, execution, workers, retries, retention, catalog, simulation.

use std::time::Duration;

use forgerun_core::job::JobForm;
use forgerun_core::limits::EXECUTIONS_MAX;
use forgerun_core::retry::Jitter;

use super::{
    BODY_BYTES_MAX, COUNT_MAX, DAY_MS, DAY_S, DAYS_MAX, HOUR_S, INCOMING_BYTES_MAX, INCOMING_BYTES_MIN, KIB,
    RESULT_BYTES_MAX, STREAMS_MAX, WORKERS_MAX,
};
use crate::config::reader::SettingsReader;
use crate::config::values::RetryMode;

#[derive(Clone, Debug)]
pub struct Limits {
    pub rate_per_minute: Option<u32>,
    pub worker_rate_per_minute: Option<u32>,
    pub quota: Option<u64>,
    pub max_active_jobs: u64,
    pub queue_size: u64,
    pub max_streams_per_client: usize,
    pub max_body_bytes: usize,
    pub max_incoming_bytes: usize,
    pub connections_per_address: Option<usize>,
    /// From `max_job_payload_kb`.
    pub max_job_payload_bytes: usize,
    pub max_result_bytes: u64,
    pub write_stall: Duration,
}

impl Limits {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Limits {
        let payload_kb: usize = from.whole("limits.max_job_payload_kb", 1..=BODY_BYTES_MAX / KIB);
        Limits {
            rate_per_minute: from.whole_or_off("limits.rate_per_minute", COUNT_MAX),
            worker_rate_per_minute: from.whole_or_off("limits.worker_rate_per_minute", COUNT_MAX),
            quota: from.whole_or_off("limits.quota", COUNT_MAX),
            max_active_jobs: from.whole("limits.max_active_jobs", 1..=COUNT_MAX),
            queue_size: from.whole("limits.queue_size", 1..=COUNT_MAX),
            max_streams_per_client: from.whole("limits.max_streams_per_client", 1..=STREAMS_MAX),
            max_body_bytes: from.whole("limits.max_body_bytes", KIB..=BODY_BYTES_MAX),
            max_incoming_bytes: from
                .whole("limits.max_incoming_bytes", INCOMING_BYTES_MIN..=INCOMING_BYTES_MAX),
            connections_per_address: from.whole_or_off("limits.connections_per_address", COUNT_MAX),
            max_job_payload_bytes: payload_kb * KIB as usize,
            max_result_bytes: from.whole("limits.max_result_bytes", KIB..=RESULT_BYTES_MAX),
            write_stall: from.seconds("limits.write_stall_s", 1..=HOUR_S),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Exec {
    pub max_runtime: Duration,
    pub real_max_runtime: Option<Duration>,
}

impl Exec {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Exec {
        let real: Option<u64> = from.whole_or_off("exec.real_max_runtime_ms", 365 * DAY_MS);
        Exec {
            max_runtime: from.millis("exec.max_runtime_ms", 1..=DAY_MS),
            real_max_runtime: real.map(Duration::from_millis),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Workers {
    pub count: usize,
    pub concurrency: usize,
    pub lease: Duration,
    pub heartbeat: Duration,
}

impl Workers {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Workers {
        Workers {
            count: from.whole("workers.count", 0..=WORKERS_MAX),
            concurrency: from.whole("workers.concurrency", 1..=WORKERS_MAX),
            lease: from.seconds("workers.lease_s", 1..=DAY_S),
            heartbeat: from.seconds("workers.heartbeat_s", 1..=HOUR_S),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Retry {
    /// Retries after the first attempt.
    pub max: u32,
    pub wait_base: Duration,
    pub wait_max: Duration,
    pub jitter: Jitter,
    pub mode: RetryModes,
}

#[derive(Clone, Debug)]
pub struct RetryModes {
    pub v1: RetryMode,
    pub api: RetryMode,
    pub ojs: RetryMode,
}

impl Retry {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Retry {
        let jitters = [("full", Jitter::Full), ("around", Jitter::Around), ("none", Jitter::None)];
        let modes = [("manual", RetryMode::Manual), ("auto", RetryMode::Auto), ("policy", RetryMode::Policy)];
        // Only OJS jobs bring a policy.
        let without_policy = &modes[..2];
        Retry {
            // The first attempt counts as an execution.
            max: from.whole("retry.max", 0..=EXECUTIONS_MAX as i64 - 1),
            wait_base: from.millis("retry.base_ms", 0..=DAY_MS),
            wait_max: from.millis("retry.max_ms", 0..=DAY_MS),
            jitter: from.one_of("retry.jitter", &jitters),
            mode: RetryModes {
                v1: from.one_of("retry.mode.v1", without_policy),
                api: from.one_of("retry.mode.api", without_policy),
                ojs: from.one_of("retry.mode.ojs", &modes),
            },
        }
    }
}

#[derive(Clone, Debug)]
pub struct Retention {
    pub jobs: Duration,
    pub tombstones: Duration,
    pub revoked_keys: Duration,
    pub deliveries: Duration,
    pub audit: Duration,
    pub allow_delete: bool,
}

impl Retention {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Retention {
        Retention {
            jobs: from.days("retention.jobs_days", 0..=DAYS_MAX),
            tombstones: from.days("retention.tombstone_days", 0..=DAYS_MAX),
            revoked_keys: from.days("retention.revoked_keys_days", 0..=DAYS_MAX),
            deliveries: from.days("retention.deliveries_days", 0..=DAYS_MAX),
            audit: from.days("retention.audit_days", 1..=DAYS_MAX),
            allow_delete: from.truth("retention.allow_delete"),
        }
    }
}

/// `[jobRetention]`: retention of results.
#[derive(Clone, Debug)]
pub struct JobRetention {
    pub completed_default: Duration,
    pub completed_small: Duration,
    pub completed_large: Duration,
    pub failed: Duration,
}

impl JobRetention {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> JobRetention {
        JobRetention {
            completed_default: from.days("jobRetention.completedJobs.defaultDays", 0..=DAYS_MAX),
            completed_small: from.days("jobRetention.completedJobs.smallResultsDays", 0..=DAYS_MAX),
            completed_large: from.days("jobRetention.completedJobs.largeResultsDays", 0..=DAYS_MAX),
            failed: from.days("jobRetention.failedJobs.defaultDays", 0..=DAYS_MAX),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Catalog {
    /// In the order of the catalogue, distinct, at least one.
    pub allowed_types: Vec<JobForm>,
    pub failure_probability: f64,
}

impl Catalog {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Catalog {
        let types = [
            ("EXECUTE", JobForm::Execute),
            ("DEFERRED", JobForm::Deferred),
            ("EMIT_EVENT", JobForm::EmitEvent),
        ];
        Catalog {
            allowed_types: from.some_of("catalog.allowed_types", &types),
            failure_probability: from.decimal("catalog.failure_probability", 0.0..=1.0),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Sim {
    pub enabled: bool,
    pub time_scale: f64,
}

impl Sim {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Sim {
        Sim { enabled: from.truth("sim.enabled"), time_scale: from.decimal("sim.time_scale", 0.0..=1000.0) }
    }
}
