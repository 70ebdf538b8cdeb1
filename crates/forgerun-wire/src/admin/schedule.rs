//! Schedules of all clients.

use forgerun_core::schedule::Schedule;
use forgerun_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::forge::ScheduleView;

/// A schedule, and whose it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminSchedule {
    /// Whose.
    pub client: String,
    /// What people call that client.
    #[serde(default)]
    pub client_name: Option<String>,
    /// Which of the client's tenants.
    pub tenant: Option<String>,
    /// As its owner sees it.
    #[serde(flatten)]
    pub schedule: ScheduleView,
}

impl AdminSchedule {
    /// The schedule as it stands, with its next ticks.
    pub fn new(schedule: &Schedule, next_runs: &[Time]) -> AdminSchedule {
        let owner = &schedule.id.owner;
        AdminSchedule {
            client: owner.client.to_string(),
            client_name: None,
            tenant: owner.tenant.as_ref().map(ToString::to_string),
            schedule: ScheduleView::new(schedule, next_runs),
        }
    }
}
