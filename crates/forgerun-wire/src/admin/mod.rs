//! The bodies of the operator's API, `/admin/v1`. The dashboard shows the same views.

mod audit;
mod client;
mod failure;
mod job;
mod overview;
mod page;
mod queue;
mod rate;
mod redrive;
mod schedule;
mod sink;
mod webhook;
mod worker;

pub use audit::AuditEntryView;
pub use client::{
    AdminClient, AdminClientDetail, AdminKey, CLIENT_LIMITS, ClientLimitsView, ClientUsageView,
};
pub use failure::FailureGroupView;
pub use job::{AdminJob, AdminJobDetail, AdminResult, has_code, job_type};
pub use overview::{NodeView, Overview, OverviewMinute, OverviewProblem, OverviewQueue, OverviewRates};
pub use page::AdminPage;
pub use queue::{AdminQueue, QueueFigures, QueueLimits};
pub use rate::read_rate;
pub use redrive::{REDRIVE, RedrivePreview, RedriveRequest, RedriveStarted, RedriveUseless, read_redrive};
pub use schedule::AdminSchedule;
pub use sink::{AdminSink, AdminSinkLag};
pub use webhook::AdminWebhook;
pub use worker::AdminWorker;
