//! ForgeRun's own dialect, `/v1`: jobs, schedules, clients and keys, webhooks.

mod admin;
mod jobs;
mod many;
mod outcome;
mod schedules;
mod submit;
mod workflows;

pub use admin::{NewWebhook, Webhook};
pub use jobs::{Failure, Filter};
pub use submit::{Submit, Submitted};

pub use forgerun_wire::admin::AdminKey as KeyEntry;
pub use forgerun_wire::forge::{
    CanceledView as Canceled, ClientView as ClientId, EventView as Event, KeyRequest, KeyView as Key,
    ReportView as JobReport, RetriedView as Retried, ScheduleView as Schedule,
};

/// A job as `/v1` shows it.
pub type Job = forgerun_wire::forge::JobView<'static>;

/// A page of jobs, newest first.
pub type Jobs = forgerun_wire::forge::JobsView<'static>;

pub use forgerun_wire::workflow::{WorkflowSummary, WorkflowView as Workflow, WorkflowsView as Workflows};

use crate::client::Client;

/// The calls of `/v1`.
#[derive(Clone, Copy, Debug)]
pub struct Forge<'a> {
    pub(crate) client: &'a Client,
}
