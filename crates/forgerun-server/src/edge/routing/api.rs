//! What makes an API of the server: its routes, and how it says what all of them say.

use axum::http::HeaderMap;
use axum::response::Response;
use forgerun_core::job::Dialect;
use forgerun_wire::problem::RefusedRequest;

use super::Route;
use crate::app::App;
use crate::config::Config;
use crate::edge::{Exchange, finish};

/// An API of the server. It owns no rule and no state; what it does not say itself is said as in
/// `/v1`.
pub trait Api: Send + Sync {
    /// In whose words its jobs are told, and with which statuses its refusals.
    fn dialect(&self) -> Dialect;

    /// Where its paths begin, without a slash at the end. What is below and no route of it is
    /// refused in its words.
    fn prefix(&self) -> &'static str;

    /// Its routes, file by file.
    fn routes(&self) -> &'static [&'static [Route]];

    /// Routes that are there because the configuration says so, each with the path that leads to
    /// it.
    fn configured(&self, config: &Config) -> Vec<(String, &'static Route)> {
        let _ = config;
        Vec::new()
    }

    /// The parameter of paths that is the id of a job.
    fn job_parameter(&self) -> &'static str {
        "job_id"
    }

    /// The types of bodies it takes and answers with, its own one first.
    fn media_types(&self) -> &'static [&'static str] {
        &["application/json"]
    }

    /// Whether members of a body that a route does not name are its own business, as Open Job Spec
    /// has it (C-112).
    fn takes_any_members(&self) -> bool {
        self.dialect() == Dialect::Ojs
    }

    /// Whether our OpenAPI document describes it. What a standard describes is described there.
    fn is_in_openapi(&self) -> bool {
        true
    }

    /// The answer to a request that is refused, by `refused` in the words for it. `Retry-After`,
    /// `Allow` and the like are added to it.
    fn refusal(&self, app: &App, exchange: &Exchange, refused: &RefusedRequest) -> Response {
        finish::problem(app, exchange, refused)
    }

    /// Adds what every answer of the API carries, refusals too. Said last, so it may also replace.
    fn add_headers(&self, app: &App, exchange: &Exchange, headers: &mut HeaderMap) {
        let _ = (app, exchange, headers);
    }
}
