//! Log-in with an identity provider: the way there, and back with its answer.

use std::time::Duration;

use axum::http::header::HOST;
use axum::response::Response;
use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use url::form_urlencoded;

use super::access::{begin_session, next_of, set};
use super::{layout, see_other};
use crate::auth::oidc::{Oidc, PendingLogin};
use crate::auth::sessions::{OperatorSession, SameSite, cookies};
use crate::auth::{Operator, caller as auth};
use crate::http::{
    ApiError,
    query::QueryString,
    routing::{Answers, Call, Route, RouteAccess},
};
use crate::limits::OIDC_LOGIN_LASTS;

/// Where a log-in begins.
pub(super) const START: &str = "/dashboard/login/sso";

/// Where the provider sends the browser back to.
const CALLBACK: &str = "/dashboard/login/callback";

/// The cookie of a log-in that has begun. A provider's page leads back with it.
const LOGIN_COOKIE: &str = "forgerun_login";

pub(super) const ROUTES: &[Route] = &[
    Route::get(START, "login", |call| Box::pin(start(call)))
        .access(RouteAccess::Anyone)
        .answers(Answers::Any),
    Route::get(CALLBACK, "login", |call| Box::pin(finish(call)))
        .access(RouteAccess::Anyone)
        .answers(Answers::Any),
];

fn oidc<'a>(call: &Call<'a>) -> Result<&'a Oidc, ApiError> {
    let missing = || ApiError::new(Kind::RouteNotFound, "This server has no single sign-on.");
    call.app.oidc.as_ref().ok_or_else(missing)
}

async fn start(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, oidc) = (call.app, oidc(&call)?);
    let next = next_of(&QueryString::of(&call.exchange.uri, &["next"])?);
    app.limiter.login(call.exchange.address, call.exchange.began)?;
    let (location, cookie) = oidc.begin(&app.sessions, &*app.clock, &redirect_uri(&call), &next).await?;
    let mut response = see_other(&location);
    set(app, &mut response, LOGIN_COOKIE, &cookie, OIDC_LOGIN_LASTS, SameSite::Lax);
    Ok(response)
}

async fn finish(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange) = (call.app, call.exchange);
    app.limiter.login(exchange.address, exchange.began)?;
    let (login, operator) = match authenticated(&call).await {
        Ok(found) => found,
        Err(refused) => {
            if matches!(refused.kind(), Kind::Unauthenticated | Kind::Forbidden) {
                app.wrong_keys.note_login(exchange.address, exchange.began);
            }
            return Err(refused);
        }
    };
    // The session is sent by our own pages only, so one of them has to lead on.
    let mut response = layout::going_on(&login.next);
    begin_session(app, exchange, &operator, &mut response).await?;
    set(app, &mut response, LOGIN_COOKIE, "", Duration::ZERO, SameSite::Lax);
    Ok(response)
}

/// The log-in that the provider answers, and its operator.
async fn authenticated(call: &Call<'_>) -> Result<(PendingLogin, Operator), ApiError> {
    let oidc = oidc(call)?;
    let answer: Vec<(String, String)> =
        form_urlencoded::parse(call.exchange.uri.query().unwrap_or_default().as_bytes())
            .into_owned()
            .collect();
    let given = |name: &str| answer.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let login = pending(call, given("state").unwrap_or_default()).await?;
    if given("iss").is_some_and(|issuer| !oidc.is_issuer(issuer)) {
        return Err(auth::unauthenticated("The answer is of another identity provider."));
    }
    let Some(code) = given("code") else {
        let error: String = given("error").unwrap_or("no code").chars().take(80).collect();
        return Err(auth::unauthenticated(&format!("The identity provider refused the log-in: {error}.")));
    };
    let operator = oidc.finish(&login, code, &redirect_uri(call), call.exchange.began).await?;
    Ok((login, operator))
}

/// The log-in that began in this browser with this state, which is used up by that.
async fn pending(call: &Call<'_>, state: &str) -> Result<PendingLogin, ApiError> {
    let (app, now) = (call.app, call.exchange.began);
    let begun = cookies(&call.exchange.headers, LOGIN_COOKIE);
    let mut begun = begun.filter_map(|cookie| PendingLogin::read(&app.sessions, cookie));
    let login = begun.find(|login| login.state_text() == state);
    let unknown = || {
        auth::unauthenticated(
            "This log-in did not begin in this browser, took too long, or was used before. Begin again.",
        )
    };
    let login = login.ok_or_else(unknown)?;
    // Kept like the end of a session, until the log-in would have expired.
    let once = OperatorSession { id: login.state, until: login.until };
    if auth::has_ended(app, once, now).await? || !app.sessions.end(once, now) {
        return Err(unknown());
    }
    app.engine.run(Command::EndSession(once.ended())).await?;
    Ok(login)
}

/// The address of the callback, as the provider must know it.
fn redirect_uri(call: &Call<'_>) -> String {
    if !call.app.base.is_empty() {
        return format!("{}{CALLBACK}", call.app.base);
    }
    let scheme = if call.app.config.server.tls.is_on() { "https" } else { "http" };
    let host = call.exchange.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or(call.exchange.uri.authority().map(|authority| authority.as_str()));
    format!("{scheme}://{}{CALLBACK}", host.unwrap_or_default())
}
