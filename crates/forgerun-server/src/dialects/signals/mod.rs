//! `/v1/signals/{token}`: answers a waiting step without a key. The bearer of the token of a wait
//! may send its signal: programs as JSON, people by the page at this address. The page is a plain
//! form, so it works without scripts.

mod form;
mod page;

use std::pin::Pin;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::job::Dialect;
use forgerun_core::limits::SIGNAL_BODY_BYTES_MAX;
use forgerun_core::workflow::SignalToken;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::status;
use forgerun_wire::workflow::{SIGNAL, SignalView};

use crate::app::App;
use crate::auth::Who;
use crate::dialects::dashboard::{PAGE_POLICY, bare_page, see_other};
use crate::http::{
    ApiError, Exchange, accept, finish, respond,
    routing::{Answers, Api, Call, Callers, Reply, Route, RouteAccess},
};
use crate::workflows::{self, AskedSignal};

pub struct Signals;

const FORM: &str = "application/x-www-form-urlencoded";

impl Api for Signals {
    fn dialect(&self) -> Dialect {
        Dialect::Forge
    }

    fn prefix(&self) -> &'static str {
        "/v1/signals"
    }

    fn routes(&self) -> &'static [&'static [Route]] {
        &[ROUTES]
    }

    fn media_types(&self) -> &'static [&'static str] {
        &["application/json", FORM]
    }

    fn answers_browsers(&self) -> bool {
        true
    }

    /// A page for browsers, a problem for programs.
    fn refusal(&self, app: &App, exchange: &Exchange, refused: &RefusedRequest) -> Response {
        if !wants_page(&exchange.headers) {
            return finish::problem(app, exchange, refused);
        }
        let code = status::http(refused.kind, Dialect::Forge);
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut page = bare_page(code, refused.kind.entry().title, &page::refusal(refused));
        page.headers_mut().insert(CONTENT_LANGUAGE, HeaderValue::from_static("en"));
        page
    }

    fn add_headers(&self, _: &App, _: &Exchange, headers: &mut HeaderMap) {
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // The address is a secret.
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(VARY, HeaderValue::from_static("Accept"));
    }
}

const ROUTES: &[Route] = &[
    Route::get("/v1/signals/{token}", "signal", |call| Box::pin(show(call)))
        .access(BEARER)
        .answers(Answers::Any)
        .operation("getSignal", "Get what a waiting step asks for; for browsers as a page with a form.")
        .replies(&[Reply::json::<SignalView>(200, "The signal that is waited for.")]),
    Route::post("/v1/signals/{token}", "signal", |call| Box::pin(send(call)))
        .access(BEARER)
        .answers(Answers::Any)
        .strict()
        .body_max(|_| SIGNAL_BODY_BYTES_MAX)
        .body_of_bearer()
        .operation("sendSignalByToken", "Send a signal by the token of its wait, without a key.")
        .body(&SIGNAL)
        .replies(&[Reply::json::<SignalView>(200, "Received, now or before.")])
        .refuses(&[Kind::Duplicate, Kind::IllegalTransition, Kind::JobPayloadTooLarge, Kind::InvalidArgs]),
];

/// Callers with the token of a wait. Checked before the body is read.
const BEARER: RouteAccess = RouteAccess::Own(gate, Callers::Anyone);

fn gate<'a>(
    app: &'a App,
    exchange: &'a mut Exchange,
) -> Pin<Box<dyn Future<Output = Result<Who, ApiError>> + Send + 'a>> {
    Box::pin(async move {
        app.limiter.signal(exchange.address, exchange.began)?;
        let token = token(exchange)?;
        // So that a wrong token counts as a guess.
        exchange.subject = Some(token.job);
        workflows::asked(app, token).await?.ok_or_else(unknown)?;
        Ok(Who::Anonymous)
    })
}

fn token(exchange: &Exchange) -> Result<SignalToken, ApiError> {
    exchange.parameter("token").and_then(|token| token.parse().ok()).ok_or_else(unknown)
}

fn unknown() -> ApiError {
    ApiError::new(Kind::JobNotFound, "No step waits for this signal.")
}

async fn asked(call: &Call<'_>) -> Result<AskedSignal, ApiError> {
    workflows::asked(call.app, token(call.exchange)?).await?.ok_or_else(unknown)
}

/// Whether the caller is a browser.
fn wants_page(headers: &HeaderMap) -> bool {
    accept::names(headers, "text/html")
}

fn is_form(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(FORM.as_bytes()))
}

async fn show(call: Call<'_>) -> Result<Response, ApiError> {
    let asked = asked(&call).await?;
    if wants_page(&call.exchange.headers) {
        return page::show(&call, &asked, None).await;
    }
    Ok(respond::json(StatusCode::OK, &SignalView::new(&asked.job, asked.wait())))
}

/// A form is turned into JSON by the schema of the wait, and answered with a page.
async fn send(call: Call<'_>) -> Result<Response, ApiError> {
    let asked = asked(&call).await?;
    if !is_form(&call.exchange.headers) {
        workflows::send_by_token(call.app, &asked, &call.body).await?;
        let asked = self::asked(&call).await?;
        return Ok(respond::json(StatusCode::OK, &SignalView::new(&asked.job, asked.wait())));
    }
    let body = match form::read(&asked.wait().schema, &call.body) {
        Ok(body) => body,
        Err(wrong) => return page::show(&call, &asked, Some(&wrong)).await,
    };
    match workflows::send_by_token(call.app, &asked, &body).await {
        Ok(_) => Ok(see_other(call.exchange.uri.path())),
        Err(error) if error.kind() == Kind::InvalidArgs => {
            page::show(&call, &asked, Some(&error.explained())).await
        }
        Err(error) => Err(error),
    }
}
