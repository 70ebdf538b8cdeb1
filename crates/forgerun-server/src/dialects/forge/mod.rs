//! ForgeRun's own dialect, `/v1`.
//!
//! | file | routes |
//! |---|---|
//! | `clients.rs` | `clients` |
//! | `keys.rs` | `clients/{id}/keys`, `…/renew`, `…/revoke` |
//! | `submit.rs` | `POST jobs`, `POST jobs/batch` |
//! | `jobs.rs` | `jobs/{id}`, `…/cancel`, `…/retry` |
//! | `delete.rs` | `DELETE jobs/{id}` |
//! | `list.rs` | `GET jobs` |
//! | `schedules.rs` | `schedules`, `schedules/{name}`, `…/pause`, `…/resume`, `…/trigger` |
//! | `webhooks.rs` | `webhooks`, `webhooks/{id}` |
//! | `deliveries.rs` | `…/deliveries` of webhooks and jobs |
//! | `reading.rs` | `…/report`, `…/result`, `…/items` |
//! | `workflows.rs` | `workflows`, `workflows/{id}`, `…/cancel`, `…/retry`, `…/events` |
//! | `events.rs` | `…/events`, `events` |
//! | `logs.rs` | `…/logs` |
//!
//! A route stands next to its handler; [`Forge`] puts the files together.

mod clients;
mod delete;
mod deliveries;
mod events;
mod jobs;
mod keys;
mod list;
mod logs;
mod reading;
mod schedules;
mod submit;
mod tokens;
mod webhooks;
pub(in crate::dialects) mod workflows;

pub(super) use list::narrow;

use forgerun_core::job::Dialect;

use crate::http::routing::{Api, Route};

pub struct Forge;

impl Api for Forge {
    fn dialect(&self) -> Dialect {
        Dialect::Forge
    }

    fn prefix(&self) -> &'static str {
        "/v1"
    }

    fn routes(&self) -> &'static [&'static [Route]] {
        &[
            clients::ROUTES,
            keys::ROUTES,
            list::ROUTES,
            submit::ROUTES,
            jobs::ROUTES,
            delete::ROUTES,
            tokens::ROUTES,
            reading::ROUTES,
            events::ROUTES,
            logs::ROUTES,
            schedules::ROUTES,
            webhooks::ROUTES,
            deliveries::ROUTES,
            workflows::ROUTES,
        ]
    }
}
