//! The async-operations dialect, `/api/v1`: start with POST and 202, poll, fetch the result.
//!
//! | file | routes |
//! |---|---|
//! | `submit.rs` | `POST jobs`, `POST jobs/batch`, and the operations of the configuration |
//! | `status.rs` | `jobs/{jobId}` |
//! | `cancel.rs` | `DELETE jobs/{jobId}`, `…/cancel` |
//! | `events.rs` | `…/events` |
//! | `items.rs` | `…/items` |
//! | `results.rs` | `…/result`, `reports/{id}`, `reports/{id}/download`, `results/{id}` |
//!
//! A `jobId` is the id of an execution (C-14): an ended one never changes, even if the job is
//! retried on `/v1`.

mod cancel;
mod events;
mod items;
mod results;
mod status;
mod submit;

use forgerun_core::job::Dialect;

use crate::config::Config;
use crate::http::routing::{Api, Route};

pub struct Operations;

impl Api for Operations {
    fn dialect(&self) -> Dialect {
        Dialect::Operations
    }

    fn prefix(&self) -> &'static str {
        "/api/v1"
    }

    fn routes(&self) -> &'static [&'static [Route]] {
        &[submit::ROUTES, status::ROUTES, cancel::ROUTES, events::ROUTES, items::ROUTES, results::ROUTES]
    }

    /// A declared operation takes precedence over a path parameter.
    fn configured(&self, config: &Config) -> Vec<(String, &'static Route)> {
        let names = config.operations.iter().map(|(name, _)| name);
        names.map(|name| (format!("/api/v1/{name}"), &submit::OPERATION)).collect()
    }

    fn job_parameter(&self) -> &'static str {
        "jobId"
    }
}
