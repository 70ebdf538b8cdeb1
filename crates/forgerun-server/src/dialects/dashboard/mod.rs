//! The dashboard, `/dashboard`: the data of `/admin/v1` as pages. They are rendered here from the
//! same views and functions; a script refreshes them and adds shortcuts, but nothing depends on it.
//!
//! | file | what |
//! |---|---|
//! | `access.rs`, `sso.rs` | login, logout, forms |
//! | `layout.rs`, `parts.rs`, `chart.rs` | the frame of all pages, and their elements |
//! | `assets.rs` | style, script and icon, as bytes of the binary |
//! | `overview.rs`, `jobs.rs`, … | a page each, with its actions |
//!
//! Nothing is loaded from other hosts, and no page has inline scripts or styles
//! (`Content-Security-Policy`).

mod access;
mod assets;
mod audit;
mod chart;
mod clients;
mod course;
mod failures;
mod graph;
mod job;
mod jobs;
mod layout;
mod overview;
mod parts;
mod queues;
mod schedules;
mod sinks;
mod sso;
mod timeline;
mod webhooks;
mod workers;
mod workflows;

use axum::http::header::{
    CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::job::Dialect;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::status;

use crate::app::App;
use crate::http::{
    Exchange, respond,
    routing::{Api, Route},
};

pub(in crate::dialects) use layout::bare as bare_page;

pub struct Dashboard;

/// Own scripts, styles and pictures only; forms submit here only; no framing.
pub(in crate::dialects) const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

impl Api for Dashboard {
    fn dialect(&self) -> Dialect {
        Dialect::Forge
    }

    fn prefix(&self) -> &'static str {
        "/dashboard"
    }

    fn routes(&self) -> &'static [&'static [Route]] {
        &[
            access::ROUTES,
            sso::ROUTES,
            assets::ROUTES,
            overview::ROUTES,
            jobs::ROUTES,
            job::ROUTES,
            failures::ROUTES,
            queues::ROUTES,
            workers::ROUTES,
            schedules::ROUTES,
            workflows::ROUTES,
            clients::ROUTES,
            webhooks::ROUTES,
            sinks::ROUTES,
            audit::ROUTES,
        ]
    }

    fn media_types(&self) -> &'static [&'static str] {
        &["application/x-www-form-urlencoded"]
    }

    fn is_in_openapi(&self) -> bool {
        false
    }

    /// An error page; without a session a redirect to the login.
    fn refusal(&self, app: &App, exchange: &Exchange, refused: &RefusedRequest) -> Response {
        let is_login = exchange.route.starts_with(access::LOGIN);
        if refused.kind == Kind::Unauthenticated && !is_login {
            return access::to_login(exchange);
        }
        let code = status::http(refused.kind, Dialect::Forge);
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if is_login {
            return access::login_page(app, exchange, code, Some(&refused.detail));
        }
        layout::refusal(app, exchange, code, refused)
    }

    fn add_headers(&self, _: &App, _: &Exchange, headers: &mut HeaderMap) {
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    }
}

/// Redirects a browser, after a form or from an address with an extra slash.
pub(in crate::dialects) fn see_other(path: &str) -> Response {
    let mut response = respond::with_type(
        StatusCode::SEE_OTHER,
        HeaderValue::from_static("text/plain; charset=utf-8"),
        "See the Location header.\n",
    );
    let location = HeaderValue::try_from(path).unwrap_or(HeaderValue::from_static("/dashboard"));
    response.headers_mut().insert(LOCATION, location);
    response
}
