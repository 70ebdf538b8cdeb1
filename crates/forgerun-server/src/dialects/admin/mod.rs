//! The operator's API, `/admin/v1`: views across all clients, and a few actions.
//!
//! | file | routes |
//! |---|---|
//! | `overview.rs` | `overview` |
//! | `jobs.rs` | `jobs`, `jobs/{id}`, `…/cancel`, `…/retry`, `dead-letters` |
//! | `audit.rs` | `audit` |
//! | `clients.rs` | `clients`, their keys |
//! | `webhooks.rs` | `webhooks` |
//! | `crons.rs` | `crons`, `…/pause`, `…/resume`, `…/trigger` |
//! | `deliveries.rs` | `webhooks/{id}/deliveries`, `jobs/{id}/deliveries`, `…/redeliver` |
//! | `events.rs` | `events` |
//! | `failures.rs` | `failures`, `failures/{group}` |
//! | `queues.rs` | `queues` |
//! | `redrives.rs` | `failures/{group}/redrive` |
//! | `sinks.rs` | `sinks` |
//! | `workers.rs` | `workers`, `workers/{id}/quiet` |
//! | `workflows.rs` | `workflows`, `workflows/{id}` |
//!
//! All of it needs the operator's token, unless the server is open to local callers (`forgerun
//! dev`). Changes are commands like any other, and are recorded in the audit trail
//! ([`crate::audit`]). Errors have the form of
//! `/v1`.

pub(in crate::dialects) mod audit;
pub(in crate::dialects) mod clients;
pub(in crate::dialects) mod crons;
pub(in crate::dialects) mod deliveries;
pub(in crate::dialects) mod events;
pub(in crate::dialects) mod failures;
pub(in crate::dialects) mod jobs;
pub(in crate::dialects) mod overview;
mod problems;
pub(crate) mod queues;
pub(in crate::dialects) mod redrives;
mod sinks;
pub(in crate::dialects) mod webhooks;
pub(in crate::dialects) mod workers;
pub(in crate::dialects) mod workflows;

use forgerun_core::job::Dialect;

use crate::http::routing::{Api, Route};

pub struct Admin;

impl Api for Admin {
    fn dialect(&self) -> Dialect {
        Dialect::Forge
    }

    fn prefix(&self) -> &'static str {
        "/admin"
    }

    fn routes(&self) -> &'static [&'static [Route]] {
        &[
            overview::ROUTES,
            jobs::ROUTES,
            failures::ROUTES,
            redrives::ROUTES,
            queues::ROUTES,
            sinks::ROUTES,
            workers::ROUTES,
            workflows::ROUTES,
            clients::ROUTES,
            crons::ROUTES,
            webhooks::ROUTES,
            deliveries::ROUTES,
            events::ROUTES,
            audit::ROUTES,
        ]
    }
}
