//! Settings that clients see: webhooks, and choices of the dialects.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use forgerun_core::delivery::DeliverySchedule;
use forgerun_wire::body;
use forgerun_wire::members::UnknownMembers;

use super::server::Server;
use super::{DAY_MS, DAY_S, DAYS_MAX, HOUR_S, RETRIES_MAX};
use crate::config::reader::SettingsReader;
use crate::config::values::{ADDRESS, JobReportStatus, PATH, PrivateTargets, Reach, address, path};

#[derive(Clone, Debug)]
pub struct Webhooks {
    pub timeout: Duration,
    pub schedule: DeliverySchedule,
    /// How long a webhook may fail before it is disabled.
    pub disable_after: Duration,
    pub sign: bool,
    pub private_targets: PrivateTargets,
}

impl Webhooks {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>, server: &Server) -> Webhooks {
        let auto = if server.may_be_local() { PrivateTargets::Local } else { PrivateTargets::Deny };
        Webhooks {
            timeout: from.millis("webhooks.timeout_ms", 1..=HOUR_S * 1000),
            schedule: delivery_schedule(from),
            disable_after: from.seconds("webhooks.disable_after_s", 0..=DAYS_MAX * DAY_S),
            sign: from.truth("webhooks.sign"),
            private_targets: from.one_of(
                "webhooks.private_targets",
                &[("auto", auto), ("allow", PrivateTargets::Allow), ("deny", PrivateTargets::Deny)],
            ),
        }
    }
}

/// The listed waits; or doubling ones, if one of their keys is set.
fn delivery_schedule(from: &mut SettingsReader<'_>) -> DeliverySchedule {
    const LISTED: &str = "webhooks.retry_schedule";
    let listed = from.list(LISTED, "waits such as 30s or 1h30m", |text| body::span("", text).ok());
    let retries: Option<u32> = from.whole_or_inherited("webhooks.max_retries", RETRIES_MAX, LISTED);
    let base: Option<u64> = from.whole_or_inherited("webhooks.base_ms", DAY_MS, LISTED);
    let max: Option<u64> = from.whole_or_inherited("webhooks.max_ms", DAY_MS, LISTED);
    if retries.is_none() && base.is_none() && max.is_none() {
        return DeliverySchedule::Listed(listed.into());
    }
    DeliverySchedule::Doubling {
        attempts_max: retries.unwrap_or(5).saturating_add(1),
        base: Duration::from_millis(base.unwrap_or(500)),
        max: Duration::from_millis(max.unwrap_or(30_000)),
    }
}

#[derive(Clone, Debug)]
pub struct Idempotency {
    pub reject_mismatch: bool,
}

impl Idempotency {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Idempotency {
        Idempotency { reject_mismatch: from.truth("idempotency.reject_mismatch") }
    }
}

#[derive(Clone, Debug)]
pub struct Api {
    pub unknown_members: UnknownMembers,
}

impl Api {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Api {
        let choices = [("refuse", UnknownMembers::Refuse), ("ignore", UnknownMembers::Ignore)];
        Api { unknown_members: from.one_of("api.unknown_members", &choices) }
    }
}

#[derive(Clone, Debug)]
pub struct Problem {
    pub job_report_status: JobReportStatus,
    pub header_field: bool,
    pub coarse_times: bool,
}

impl Problem {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Problem {
        let statuses = [
            ("equivalent", JobReportStatus::Equivalent),
            ("http", JobReportStatus::Http),
            ("omit", JobReportStatus::Omit),
        ];
        Problem {
            job_report_status: from.one_of("problem.job_report_status", &statuses),
            header_field: from.truth("problem.header_field"),
            coarse_times: from.truth("problem.coarse_times"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Asyncops {
    pub retry_after: Duration,
    pub retry_base: Duration,
    pub extended_statuses: bool,
}

impl Asyncops {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Asyncops {
        Asyncops {
            retry_after: from.seconds("asyncops.retry_after_s", 1..=HOUR_S),
            retry_base: from.millis("asyncops.retry_base_ms", 0..=DAY_MS),
            extended_statuses: from.truth("asyncops.extended_statuses"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Ojs {
    pub test_hooks: bool,
    pub strict_catalog: bool,
}

impl Ojs {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Ojs {
        Ojs { test_hooks: from.truth("ojs.test_hooks"), strict_catalog: from.truth("ojs.strict_catalog") }
    }
}

#[derive(Clone, Debug)]
pub struct Grpc {
    pub addr: Option<SocketAddr>,
    /// Whether to go on without gRPC if the address is in use: `forgerun dev` chose it.
    pub is_optional: bool,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
}

impl Grpc {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Grpc {
        Grpc {
            addr: from.text_or_unset("grpc.addr", ADDRESS, address),
            is_optional: from.is_of_dev("grpc.addr"),
            tls_cert: from.text_or_unset("grpc.tls.cert", PATH, path),
            tls_key: from.text_or_unset("grpc.tls.key", PATH, path),
        }
    }

    /// From where it can be reached; `None` if it is off.
    pub fn reach(&self) -> Option<Reach> {
        self.addr.map(Reach::of)
    }
}
