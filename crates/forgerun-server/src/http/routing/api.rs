//! The definition of an API: its routes, and what they have in common.

use axum::http::HeaderMap;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::job::Dialect;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::status;
use serde_json::Value;

use super::Route;
use crate::app::App;
use crate::config::Config;
use crate::http::{Exchange, finish};

/// An API of the server. It has no rules and no state; the defaults are those of `/v1`.
pub trait Api: Send + Sync {
    /// The dialect of its jobs, and of the statuses of its refusals.
    fn dialect(&self) -> Dialect;

    /// Path prefix, without a trailing slash. Unknown paths below it are refused in its form.
    fn prefix(&self) -> &'static str;

    fn routes(&self) -> &'static [&'static [Route]];

    /// Routes that depend on the configuration, with their paths.
    fn configured(&self, config: &Config) -> Vec<(String, &'static Route)> {
        let _ = config;
        Vec::new()
    }

    /// The path parameter with the job id.
    fn job_parameter(&self) -> &'static str {
        "job_id"
    }

    /// The media types of its bodies, its own one first.
    fn media_types(&self) -> &'static [&'static str] {
        &["application/json"]
    }

    /// Whether unknown members of a body are allowed, as in Open Job Spec (C-112).
    fn takes_any_members(&self) -> bool {
        self.dialect() == Dialect::Ojs
    }

    /// Whether browsers get its refusals as pages.
    fn answers_browsers(&self) -> bool {
        false
    }

    /// Whether our OpenAPI document describes it. Standards have documents of their own.
    fn is_in_openapi(&self) -> bool {
        true
    }

    /// The status of a refusal, for the OpenAPI document.
    fn refusal_status(&self, config: &Config, kind: Kind) -> u16 {
        let _ = config;
        status::http(kind, self.dialect())
    }

    /// The body of a refusal, for the OpenAPI document; `None` for the problem in the words of the
    /// dialect.
    fn refusal_example(
        &self,
        config: &Config,
        base: &str,
        refused: &RefusedRequest,
        instance: &str,
    ) -> Option<Value> {
        let _ = (config, base, refused, instance);
        None
    }

    /// The answer to a request that is refused, by `refused` in the words for it. `Retry-After`,
    /// `Allow` and the like are added to it.
    fn refusal(&self, app: &App, exchange: &Exchange, refused: &RefusedRequest) -> Response {
        finish::problem(app, exchange, refused)
    }

    /// Adds the common headers of its answers, including refusals. Called last, so it may replace
    /// others.
    fn add_headers(&self, app: &App, exchange: &Exchange, headers: &mut HeaderMap) {
        let _ = (app, exchange, headers);
    }
}
