//! The Open Job Spec dialect, `/ojs/v1`: jobs for external workers, and their protocol.
//!
//! | file | routes |
//! |---|---|
//! | `submit.rs` | `POST jobs`, `…/batch`, `…/bulk`; `submission.rs` makes jobs of envelopes, also
//! for workflows and the bridge |
//! | `jobs.rs` | `jobs/{id}`: read, cancel, activate, progress |
//! | `job_actions.rs` | `jobs/{id}`: retry, attempts; `agents/{id}`, `unique-jobs` |
//! | `job_list.rs` | `jobs`: the list, and what bulk calls select |
//! | `bulk.rs` | `jobs/bulk/retry`, `cancel`, `delete` |
//! | `results.rs` | `jobs/{id}/result`: uploaded before the ack, fetched after it |
//! | `work.rs` | `workers/fetch`, `ack`, `nack`, `progress` |
//! | `exchange.rs` | `workers/exchange`: ends of many jobs in, new jobs out |
//! | `taking.rs` | no routes: jobs between their claim and the answer to their worker |
//! | `fleet.rs` | `workers/heartbeat`, the list of workers, directives |
//! | `workflows.rs` | `workflows`: begin, read, cancel, retry |
//! | `queues.rs` | `queues`: list, numbers, pause, bounds |
//! | `queue_jobs.rs` | no routes: deletes queues, and ended jobs of a queue |
//! | `rate_limits.rs` | `rate-limits` |
//! | `tenants.rs` | `admin/tenants` |
//! | `checkpoints.rs` | `jobs/{id}/checkpoint` |
//! | `cron.rs` | `cron`: register, list, pause, trigger, delete |
//! | `dead_letters.rs` | `dead-letter` |
//! | `schemas.rs` | `schemas`, `admin/schemas` |
//! | `subscriptions.rs` | `webhooks/subscriptions` |
//! | `overall.rs` | `admin/stats`, now and over time |
//! | `system.rs` | `admin/system`, `metrics`, `middleware`, `admin/pools` |
//! | `events.rs` | `events`, `events/stream`, `jobs/{id}/events`, `queues/{name}/events` |
//! | `objects.rs` | no routes: bodies and objects as the OpenAPI document shows them |
//! | `server.rs` | `/ojs/manifest`, `health`, what is not supported, the hooks of the suite |
//! | `errors.rs` | `/ojs/errors/{code}`: a page for each code |
//!
//! Functions that are visible outside of a file do the work without the HTTP answer, because gRPC
//! calls them too.
//!
//! A worker gets jobs of its own client only, and of the tenant it names (C-97). The operator may
//! work for any client.

mod bulk;
mod checkpoints;
pub(in crate::dialects) mod cron;
pub(in crate::dialects) mod dead_letters;
mod errors;
pub(in crate::dialects) mod events;
mod exchange;
pub(in crate::dialects) mod fleet;
mod job_actions;
mod job_list;
pub(in crate::dialects) mod jobs;
mod logs;
mod objects;
mod overall;
mod queue_jobs;
pub(in crate::dialects) mod queues;
mod rate_limits;
pub(in crate::dialects) mod refusals;
mod reply;
mod results;
mod schemas;
pub(in crate::dialects) mod scope;
pub(in crate::dialects) mod server;
pub(crate) mod submission;
pub(in crate::dialects) mod submit;
mod subscriptions;
mod system;
pub(in crate::dialects) mod taking;
mod tenants;
pub(in crate::dialects) mod work;
pub(in crate::dialects) mod workflows;

use axum::http::HeaderMap;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::job::Dialect;
use forgerun_wire::ojs::MEDIA_TYPE;
use forgerun_wire::ojs::error::{self, ErrorContext};
use forgerun_wire::problem::RefusedRequest;
use serde_json::Value;

use crate::app::App;
use crate::config::Config;
use crate::http::{
    Exchange,
    routing::{Api, Route},
};

pub struct Ojs;

impl Api for Ojs {
    fn dialect(&self) -> Dialect {
        Dialect::Ojs
    }

    fn prefix(&self) -> &'static str {
        "/ojs"
    }

    fn routes(&self) -> &'static [&'static [Route]] {
        &[
            submit::ROUTES,
            jobs::ROUTES,
            job_list::ROUTES,
            job_actions::ROUTES,
            bulk::ROUTES,
            results::ROUTES,
            work::ROUTES,
            exchange::ROUTES,
            fleet::ROUTES,
            queues::ROUTES,
            rate_limits::ROUTES,
            tenants::ROUTES,
            logs::ROUTES,
            checkpoints::ROUTES,
            cron::ROUTES,
            workflows::ROUTES,
            dead_letters::ROUTES,
            overall::ROUTES,
            system::ROUTES,
            schemas::ROUTES,
            subscriptions::ROUTES,
            events::ROUTES,
            server::ROUTES,
            errors::ROUTES,
        ]
    }

    fn media_types(&self) -> &'static [&'static str] {
        &[MEDIA_TYPE, "application/json"]
    }

    fn refusal_status(&self, config: &Config, kind: Kind) -> u16 {
        error::status(kind, config.ojs.strict_catalog)
    }

    fn refusal_example(
        &self,
        config: &Config,
        base: &str,
        refused: &RefusedRequest,
        instance: &str,
    ) -> Option<Value> {
        let status = self.refusal_status(config, refused.kind);
        let request_id = "req_01890a5d-ac96-774b-bcce-b302099a8057";
        Some(error::body(&refusals::detailed(refused), ErrorContext { base, instance, request_id, status }))
    }

    fn refusal(&self, app: &App, exchange: &Exchange, refused: &RefusedRequest) -> Response {
        refusals::response(app, exchange, refused)
    }

    fn add_headers(&self, _: &App, exchange: &Exchange, headers: &mut HeaderMap) {
        reply::add_headers(exchange, headers);
    }
}
