//! ForgeRun's own dialect, `/v1`: jobs, schedules, clients and keys, webhooks.

mod admin;
mod children;
mod jobs;
mod logs;
mod many;
mod outcome;
mod schedules;
mod submit;
mod waits;
mod workflows;

pub use admin::{NewWebhook, Webhook};
pub use children::ChildStep;
pub use jobs::{Failure, Filter};
pub use logs::LogFilter;
pub use submit::{Submit, Submitted};
pub use waits::WaitStep;

pub use forgerun_wire::admin::AdminKey as KeyEntry;
pub use forgerun_wire::forge::{
    CanceledView as Canceled, ClientView as ClientId, EventView as Event, KeyRequest, KeyView as Key,
    LogLineView as LogLine, LogsView as Logs, PausedView as Paused, ReportView as JobReport,
    RetriedView as Retried, ScheduleView as Schedule, SignaledView as Signaled,
};

/// A job as `/v1` shows it.
pub type Job = forgerun_wire::forge::JobView<'static>;

/// A page of jobs, newest first.
pub type Jobs = forgerun_wire::forge::JobsView<'static>;

pub use forgerun_wire::workflow::{
    StepResultsView as WorkflowResults, StepView as WorkflowStep, WaitView, WorkflowSummary,
    WorkflowView as Workflow, WorkflowsView as Workflows,
};

use crate::client::Client;

/// The calls of `/v1`.
#[derive(Clone, Copy, Debug)]
pub struct Forge<'a> {
    pub(crate) client: &'a Client,
}
