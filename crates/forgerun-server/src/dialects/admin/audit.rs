//! The audit trail: pages, the whole of it as lines, and the log line of each action.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use forgerun_wire::admin::{AdminPage, AuditEntryView};
use forgerun_wire::request;
use futures_util::stream;

use super::failures::moment;
use crate::app::App;
use crate::audit_trail::{self, AuditFilter};
use crate::auth::OperatorRole;
use crate::http::{
    ApiError, Exchange, accept, respond,
    routing::{
        Answers, Call, Reply, Route,
        operation::{CURSOR, LIMIT, Parameter},
    },
};
use crate::limits::AUDIT_READ_AT_ONCE;

pub(super) const ROUTES: &[Route] = &[Route::get("/admin/v1/audit", "audit", |call| Box::pin(list(call)))
    .role(OperatorRole::Viewer)
    .answers(Answers::Any)
    .operation(
        "adminListAudit",
        "List who changed what, the latest first; with `Accept: application/x-ndjson` all of it, a line per entry.",
    )
    .query(&[ACTOR, ACTION, TARGET, SINCE, UNTIL, LIMIT, CURSOR])
    .replies(&[Reply::types(200, "A page; or all entries, as lines.", &[JSON, LINES])])];

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";

pub(in crate::dialects) const ACTOR: Parameter = Parameter::new(
    "actor",
    "Only entries of this actor, such as `operator`, or of the person with this subject.",
);
pub(in crate::dialects) const ACTION: Parameter =
    Parameter::new("action", "Only this action, such as `pause_queue`.");
pub(in crate::dialects) const TARGET: Parameter =
    Parameter::new("target", "Only entries whose target has this text.");
const SINCE: Parameter =
    Parameter::new("since", "Only entries of this moment or later.").schema(request::time);
pub(in crate::dialects) const UNTIL: Parameter =
    Parameter::new("until", "Only entries of this moment or earlier.").schema(request::time);

/// Logs an action of the operator, once it is durable. Refusals are logged like any other.
pub(super) fn note(exchange: &Exchange, action: &'static str, subject: &str) {
    tracing::info!(
        target: "forgerun::audit",
        request_id = exchange.request_id(),
        address = %exchange.address,
        action,
        subject,
        "operator action"
    );
}

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    if accept::names(&call.exchange.headers, LINES) {
        return lines(&call);
    }
    accept::require_one_of(&call.exchange.headers, &[JSON])?;
    Ok(respond::json(StatusCode::OK, &listed(&call).await?))
}

fn filter_of(call: &Call<'_>) -> Result<AuditFilter, ApiError> {
    let query = call.query()?;
    let text = |name| query.get(name).map(str::to_owned);
    Ok(AuditFilter {
        actor: text("actor"),
        action: text("action"),
        target: text("target"),
        since: moment(&query, "since")?,
        until: moment(&query, "until")?,
    })
}

/// A page; the cursor is the key of the last entry that was looked at.
pub(in crate::dialects) async fn listed(call: &Call<'_>) -> Result<AdminPage<AuditEntryView>, ApiError> {
    let (query, filter) = (call.query()?, filter_of(call)?);
    let is_cursor = |text: &str| text.len() <= 64 && text.bytes().all(|b| b == b'.' || b.is_ascii_hexdigit());
    let after = match query.get("cursor") {
        None => filter.first_key(),
        Some(cursor) if is_cursor(cursor) => cursor.to_owned(),
        Some(_) => return Err(query.malformed("cursor", "is no cursor of this list")),
    };
    let store = call.app.engine.store();
    let (entries, next_cursor) = audit_trail::page(&**store, &filter, after, query.limit()?).await?;
    Ok(AdminPage { items: entries.iter().map(AuditEntryView::new).collect(), next_cursor })
}

/// All entries that match, read as they are sent.
fn lines(call: &Call<'_>) -> Result<Response, ApiError> {
    let filter = filter_of(call)?;
    let first = Some((call.app.shared(), filter.first_key()));
    let pages = stream::try_unfold((first, filter), |(next, filter)| async {
        let Some((app, after)): Option<(Arc<App>, String)> = next else { return Ok(None) };
        let store = app.engine.store().clone();
        let (entries, next) = audit_trail::page(&*store, &filter, after, AUDIT_READ_AT_ONCE).await?;
        let text: String = entries.iter().map(audit_trail::line).collect();
        Ok::<_, forgerun_store::Error>(Some((text, (next.map(|next| (app, next)), filter))))
    });
    let mut response = Response::new(Body::from_stream(pages));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(LINES));
    Ok(response)
}
