//! Access to the dashboard. The operator enters the token once; from then on a signed cookie
//! authenticates. If the operator's API is open to local callers, so is the dashboard.

use std::pin::Pin;
use std::time::Duration;

use axum::http::header::{HeaderValue, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use maud::html;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{layout, see_other, sso};
use crate::app::App;
use crate::audit;
use crate::auth::{
    Operator, OperatorRole, Who, caller as auth,
    sessions::{self, OperatorSession, SESSION_COOKIE, SameSite},
};
use crate::dialects::admin::audit::{ACTION, ACTOR, TARGET, UNTIL};
use crate::http::{
    ApiError, Exchange,
    query::QueryString,
    respond,
    routing::{
        Answers, Call, Callers, Route, RouteAccess,
        operation::{CURSOR, LIMIT, Parameter},
    },
};
use crate::limits::SESSION_LASTS;

pub(super) const LOGIN: &str = "/dashboard/login";

pub(super) const ROUTES: &[Route] = &[
    Route::get(LOGIN, "login", |call| Box::pin(form(call))).access(RouteAccess::Anyone).answers(Answers::Any),
    Route::post(LOGIN, "login", |call| Box::pin(log_in(call)))
        .access(RouteAccess::Anyone)
        .answers(Answers::Any),
    action("/dashboard/logout", "logout", OperatorRole::Viewer, |call| Box::pin(log_out(call))),
];

type PageHandler = for<'a> fn(Call<'a>) -> crate::http::routing::Answering<'a>;

/// A page for all operators.
pub(super) const fn page(path: &'static str, action: &'static str, handler: PageHandler) -> Route {
    Route::get(path, action, handler)
        .role(OperatorRole::Viewer)
        .access(RouteAccess::Own(enter, Callers::Operator))
        .answers(Answers::Any)
        .query(OF_PAGES)
}

/// The action of a form, for operators with this role or a higher one.
pub(super) const fn action(
    path: &'static str,
    action: &'static str,
    role: OperatorRole,
    handler: PageHandler,
) -> Route {
    Route::post(path, action, handler)
        .role(role)
        .access(RouteAccess::Own(enter, Callers::Operator))
        .answers(Answers::Any)
        .query(OF_FORMS)
}

/// Pages show lists of `/admin/v1`, so they take the parameters of these lists.
const OF_PAGES: &[Parameter] = &[
    LIMIT,
    CURSOR,
    Parameter::new("since", "Failures since then."),
    Parameter::new("state", "Workflows in this state."),
    Parameter::new("client", "Workflows of this client."),
    ACTOR,
    ACTION,
    TARGET,
    UNTIL,
];

/// Forms name whose schedule or worker is meant, as under `/admin/v1`.
const OF_FORMS: &[Parameter] =
    &[Parameter::new("client", "The owner."), Parameter::new("tenant", "The owner's tenant.")];

/// Authenticates by session, or like `/admin/v1`.
fn enter<'a>(
    app: &'a App,
    exchange: &'a mut Exchange,
) -> Pin<Box<dyn Future<Output = Result<Who, ApiError>> + Send + 'a>> {
    Box::pin(async move {
        match app.sessions.signed_in(&exchange.headers, exchange.began) {
            Some((session, operator)) if !auth::has_ended(app, session, exchange.began).await? => {
                Ok(Who::Operator(operator))
            }
            Some(_) | None => auth::operator(app, exchange).await,
        }
    })
}

/// The session of a request.
pub(super) fn session(app: &App, exchange: &Exchange) -> Option<OperatorSession> {
    app.sessions.of(&exchange.headers, exchange.began)
}

/// Whether the browser says that a page of another site sent the form. A second defence: the token
/// of the form is the first. `Sec-Fetch-Site` comes before `Origin`, because a proxy may change the
/// host that we see.
fn is_of_foreign_page(app: &App, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return !matches!(site, "same-origin" | "none");
    }
    let authority =
        |url: &str| url.split_once("://").map(|(_, rest)| rest.trim_end_matches('/').to_lowercase());
    // `null` comes from pages that send no referrer, as ours.
    let Some(origin) = text("origin").and_then(authority) else { return false };
    let public = app.config.server.public_base_url.as_deref().and_then(authority);
    let host = text("host").map(str::to_lowercase);
    // A public URL may have a path.
    !(host == Some(origin.clone()) || public.is_some_and(|url| url.split('/').next() == Some(&origin)))
}

/// The fields of a form, if it is of this session.
pub(super) fn form_of(call: &Call<'_>, known: &[&str]) -> Result<QueryString, ApiError> {
    let text = str::from_utf8(&call.body)
        .map_err(|_| ApiError::new(Kind::MalformedRequest, "The form is not UTF-8."))?;
    let known: Vec<&str> = known.iter().copied().chain(["csrf"]).collect();
    let form = QueryString::read(text, &known)?;
    if is_of_foreign_page(call.app, &call.exchange.headers) {
        let detail = "The form was sent by a page of another site.";
        return Err(ApiError::new(Kind::Forbidden, detail));
    }
    let token = form.get("csrf").unwrap_or_default();
    if call.app.sessions.is_form_token(session(call.app, call.exchange), token) {
        return Ok(form);
    }
    let detail =
        "The form is of another session or of an older page; go back, load the page again and repeat it.";
    Err(ApiError::new(Kind::Forbidden, detail))
}

/// Redirects to the login form, and from there back to the page. A browser that follows a link of
/// another site sends no cookie; it is asked to reload from here.
pub(super) fn to_login(exchange: &Exchange) -> Response {
    let from = exchange.headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if from == Some(b"cross-site") && exchange.is_read() {
        return layout::once_more();
    }
    let asked = exchange.uri.path_and_query().map_or("/dashboard", |asked| asked.as_str());
    let back = if exchange.is_read() { asked } else { "/dashboard" };
    see_other(&format!("{LOGIN}?next={}", utf8_percent_encode(back, NON_ALPHANUMERIC)))
}

/// The page after login: a path of ours, never another site.
pub(super) fn next_of(query: &QueryString) -> String {
    let next = query.get("next").unwrap_or("/dashboard");
    let is_ours = next == "/dashboard" || next.starts_with("/dashboard/") || next.starts_with("/dashboard?");
    let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_ours && is_plain && !next.starts_with(LOGIN) { next.to_owned() } else { "/dashboard".to_owned() }
}

async fn form(call: Call<'_>) -> Result<Response, ApiError> {
    let query = QueryString::of(&call.exchange.uri, &["next"])?;
    if session(call.app, call.exchange).is_some() || is_open(call.app, call.exchange) {
        return Ok(see_other(&next_of(&query)));
    }
    Ok(login_page(call.app, call.exchange, StatusCode::OK, None))
}

/// Whether this request counts as the operator's without a session.
fn is_open(app: &App, exchange: &Exchange) -> bool {
    !auth::knows_operator(app) && app.default_client.is_some() && exchange.check_local(app).is_ok()
}

async fn log_in(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange) = (call.app, call.exchange);
    let text = str::from_utf8(&call.body).unwrap_or_default();
    let fields = QueryString::read(text, &["token", "csrf"])?;
    let query = QueryString::of(&exchange.uri, &["next"])?;
    auth::check_token(app, exchange, fields.get("token").unwrap_or_default().trim()).await?;
    let mut response = see_other(&next_of(&query));
    begin_session(app, exchange, &Operator::of_token(), &mut response).await?;
    Ok(response)
}

/// Records the log-in of an operator, and begins a new session with this answer.
pub(super) async fn begin_session(
    app: &App,
    exchange: &Exchange,
    operator: &Operator,
    response: &mut Response,
) -> Result<(), ApiError> {
    audit::login(app, exchange, operator).await?;
    let value = app.sessions.open(app.clock.random(), operator, exchange.began);
    set(app, response, SESSION_COOKIE, &value, SESSION_LASTS, SameSite::Strict);
    tracing::info!(
        target: "forgerun::audit",
        request_id = exchange.request_id(),
        address = %exchange.address,
        action = "login",
        operator = %operator.name,
        role = operator.role.word(),
        "operator logged in"
    );
    Ok(())
}

async fn log_out(call: Call<'_>) -> Result<Response, ApiError> {
    form_of(&call, &[])?;
    if let Some(session) = session(call.app, call.exchange) {
        call.app.engine.run(Command::EndSession(session.ended())).await?;
        call.app.sessions.end(session, call.exchange.began);
    }
    let mut response = see_other(LOGIN);
    set(call.app, &mut response, SESSION_COOKIE, "", Duration::ZERO, SameSite::Strict);
    Ok(response)
}

/// The login form, with the error of the last attempt.
pub(super) fn login_page(app: &App, exchange: &Exchange, code: StatusCode, wrong: Option<&str>) -> Response {
    let next = QueryString::of(&exchange.uri, &["next"]).map(|query| next_of(&query)).unwrap_or_default();
    let action = format!("{LOGIN}?next={}", utf8_percent_encode(&next, NON_ALPHANUMERIC));
    // Every form has this field. Here it proves nothing: a form with the operator's token needs no
    // proof. So it must not be derived from that token, or it could be guessed offline.
    let form_token = format!("{:032x}", app.clock.random());
    let main = html! {
        main #main .login {
            h1 { (layout::mark()) "ForgeRun" }
            @if app.oidc.is_some() {
                p { a .button .primary href=(format!("{}?next={}", sso::START, utf8_percent_encode(&next, NON_ALPHANUMERIC))) { "Log in with single sign-on" } }
                @if app.admin_digest.is_none() { @if let Some(wrong) = wrong { p .error role="alert" { (wrong) } } }
            }
            @if app.admin_digest.is_some() {
                form method="post" action=(action) {
                    input type="hidden" name="csrf" value=(form_token);
                    label for="token" { "Operator token" }
                    input #token type="password" name="token" autocomplete="current-password" required autofocus
                        aria-describedby="token-help";
                    @if let Some(wrong) = wrong { p .error role="alert" { (wrong) } }
                    button .primary type="submit" { "Log in" }
                    p #token-help .muted { "The value of " code { "auth.admin_token" } " in the configuration of this server." }
                }
            } @else if app.oidc.is_none() {
                p .error role="alert" {
                    "This server has no operator token. Set " code { "auth.admin_token" } " and start it again, or use "
                    code { "forgerun dev" } " on your own machine."
                }
            }
        }
    };
    layout::bare(code, "Log in", &main)
}

const NOTE_COOKIE: &str = "forgerun_note";

/// Long enough for the next page to show it.
const NOTE_LASTS: Duration = Duration::from_secs(20);

/// Redirects to a page that shows a note once.
pub(super) fn done(app: &App, path: &str, note: &str) -> Response {
    let mut response = see_other(path);
    let value = utf8_percent_encode(note, NON_ALPHANUMERIC).to_string();
    set(app, &mut response, NOTE_COOKIE, &value, NOTE_LASTS, SameSite::Strict);
    response
}

/// The note of the last action.
pub(super) fn note_of(exchange: &Exchange) -> Option<String> {
    let note = sessions::cookies(&exchange.headers, NOTE_COOKIE).next().filter(|note| !note.is_empty())?;
    Some(percent_decode_str(note).decode_utf8_lossy().into_owned())
}

/// Deletes the note that was just shown.
pub(super) fn forget_note(app: &App, response: &mut Response) {
    set(app, response, NOTE_COOKIE, "", Duration::ZERO, SameSite::Strict);
}

pub(super) fn set(
    app: &App,
    response: &mut Response,
    name: &str,
    value: &str,
    lasts: Duration,
    same_site: SameSite,
) {
    let is_secure = app.base.starts_with("https://") || app.config.server.tls.is_on();
    let cookie = sessions::set_cookie(name, value, lasts, same_site, is_secure);
    response.headers_mut().append(SET_COOKIE, respond::value(cookie));
}

pub(super) const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_logging_in_one_stays_here() {
        let next = |text: &str| {
            let text = format!("next={}", utf8_percent_encode(text, NON_ALPHANUMERIC));
            next_of(&QueryString::read(&text, &["next"]).unwrap())
        };
        for ours in ["/dashboard", "/dashboard/jobs?state=FAILED", "/dashboard?x=1"] {
            assert_eq!(next(ours), ours);
        }
        for other in [
            "",
            "/",
            "//evil.example",
            "/dashboardx",
            "/dashboard/login",
            "https://evil.example/",
            "/dashboard/\\x",
        ] {
            assert_eq!(next(other), "/dashboard", "{other}");
        }
    }
}
