//! Routes as tables, one per API: the handler of a request, and the checks before it.
//!
//! - `route`: one row of a table;
//! - `api`: further properties of an API: prefix, media types, refusals, headers;
//! - `table`: from path and method to the route;
//! - `call`: the argument of the handler.
//!
//! The same rows produce `Allow` and the 405, name requests in logs, metrics and traces, and are
//! compared with the OpenAPI document by a test.

mod api;
mod call;
pub(crate) mod operation;
mod route;
mod table;
#[cfg(test)]
mod tests;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use forgerun_core::scope::KeyScopes;
use forgerun_engine::audited;
use forgerun_wire::members::{self, UnknownMembers};

use crate::app::App;
use crate::audit;
use crate::auth::{JobTokens, OperatorRole, caller as auth, caller::Who};
use crate::http::{ApiError, Exchange, accept, body, precondition};
use crate::limits::byte_budget::ByteHolder;

pub(crate) use api::Api;
pub(crate) use call::Call;
pub(crate) use operation::Reply;
pub(crate) use route::{Answering, Answers, Callers, Handler, RateCount, Route, RouteAccess, Verb};
pub(crate) use table::Parameters;
pub(crate) use table::Table;

/// Runs the common checks, in the order of the model (§7), and calls the handler.
pub(super) async fn serve(
    app: &App,
    exchange: &mut Exchange,
    route: &'static Route,
    body: Body,
) -> Result<Response, ApiError> {
    let who =
        enter(app, exchange, route.access, route.scopes, route.role_needed(&app.config.auth), route.rate)
            .await?;
    exchange.holder = ByteHolder::new(&who, exchange.address);
    let exchange = &*exchange;
    match audit::scope(app, exchange, route.scopes, &who) {
        None => handle(app, exchange, who, route, body).await,
        // Boxed, so that other requests need no memory for it.
        Some(scope) => Box::pin(audited(scope, handle(app, exchange, who, route, body))).await,
    }
}

/// The checks of a request itself, and its handler.
async fn handle(
    app: &App,
    exchange: &Exchange,
    who: Who,
    route: &'static Route,
    body: Body,
) -> Result<Response, ApiError> {
    let media_types = exchange.media_types();
    match route.answers {
        Answers::Body => accept::require_one_of(&exchange.headers, media_types)?,
        Answers::BodyOrEvents if accept::wants_stream(&exchange.headers) => {}
        Answers::BodyOrEvents => accept::require_one_of(&exchange.headers, media_types)?,
        Answers::BodyOrFailure => accept::require_own_or_problem(&exchange.headers, media_types)?,
        Answers::Any => {}
    }
    if route.verb != Verb::Get && !route.is_tagged {
        precondition::check_untagged(&exchange.headers)?;
    }
    match route.handler {
        Handler::Streaming(answer) => answer(Call { app, exchange, who, body: Bytes::new() }, body).await,
        Handler::Whole(answer) => {
            // Held until the request is answered.
            let mut reservation = app.incoming.open(exchange.holder);
            // The body of a GET is ignored.
            let body = match route.verb {
                Verb::Get => Bytes::new(),
                Verb::Post | Verb::Put | Verb::Patch | Verb::Delete => {
                    let bytes_max = (route.body_max)(&app.config.limits);
                    let bytes_max = match route.takes_body_of_bearer {
                        true => bytes_max,
                        false => body::bytes_max_of(&who, bytes_max),
                    };
                    let body =
                        body::read(&exchange.headers, body, media_types, bytes_max, &mut reservation).await?;
                    if !body.is_empty() && !route.is_strict {
                        let unknown = match exchange.api.is_some_and(Api::takes_any_members) {
                            true => UnknownMembers::Ignore,
                            false => app.config.api.unknown_members,
                        };
                        members::check(&body, route.members, unknown)?;
                    }
                    body
                }
            };
            let answer = answer(Call { app, exchange, who, body }).await?;
            if route.answers == Answers::BodyOrFailure && !accept::is_problem(&answer) {
                accept::require_one_of(&exchange.headers, media_types)?;
            }
            Ok(answer)
        }
    }
}

/// Authenticates and counts the caller, and checks the scopes of a client's key and the role of an
/// operator: for all protocols, and nowhere else.
pub(crate) async fn enter(
    app: &App,
    exchange: &mut Exchange,
    access: RouteAccess,
    scopes: KeyScopes,
    role: OperatorRole,
    rate: RateCount,
) -> Result<Who, ApiError> {
    let who = match JobTokens::presented(exchange, access) {
        Some(token) => app.job_tokens.admit(app, exchange, &token).await?,
        None => admit(app, exchange, access).await?,
    };
    match &who {
        Who::Anonymous => {}
        Who::Operator(operator) => {
            exchange.operator = Some(operator.clone());
            operator.check(role)?;
        }
        Who::Client(caller) => {
            auth::check_scopes(caller, scopes)?;
            match rate {
                RateCount::Requests => auth::count(app, exchange, caller)?,
                RateCount::WorkerCalls => auth::count_worker_call(app, exchange, caller)?,
                RateCount::Uncounted => {}
            }
        }
    }
    Ok(who)
}

/// Authenticates and authorises the caller.
async fn admit(app: &App, exchange: &mut Exchange, access: RouteAccess) -> Result<Who, ApiError> {
    match access {
        RouteAccess::Anyone => Ok(Who::Anonymous),
        RouteAccess::Optional => auth::identify(app, exchange).await,
        RouteAccess::Client => auth::client(app, exchange).await.map(Who::Client),
        RouteAccess::ClientOrOperator => auth::client_or_operator(app, exchange).await,
        RouteAccess::Operator => auth::operator(app, exchange).await,
        RouteAccess::Own(gate, _) => gate(app, exchange).await,
    }
}
