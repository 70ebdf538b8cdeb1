//! What a job left: its report, its result, its items.

use axum::http::StatusCode;
use axum::response::Response;
use forge_core::catalog::Kind;
use forge_core::id::{ExecutionId, JobId};
use forge_wire::forge::ReportView;
use forge_wire::problem::Refused;
use forge_wire::words::forge_state;

use crate::app::App;
use crate::edge::query::Query;
use crate::edge::results::{self, Form};
use crate::edge::{ApiError, Caller, Exchange, items, ownership, respond};
use crate::traces::About;

/// `GET /v1/jobs/{id}/report`. Before the end there is none (C-68).
pub(super) async fn report(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<JobId>,
) -> Result<Response, ApiError> {
    let job = ownership::job(app, caller, id).await?;
    exchange.is_about(About::job(&job, false));
    match ReportView::new(&job) {
        Some(report) => Ok(respond::json(StatusCode::OK, &report)),
        None => {
            let detail = "The job is not finished; its report is written when it is.";
            Err(Refused::new(Kind::ReportNotFound, detail).fact("state", forge_state(job.state)).into())
        }
    }
}

/// `GET /v1/jobs/{id}/result`.
pub(super) async fn result(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<JobId>,
) -> Result<Response, ApiError> {
    let job = ownership::job(app, caller, id).await?;
    exchange.is_about(About::job(&job, false));
    results::answer(app, exchange, &job, Form::AsAsked).await
}

/// `GET /v1/jobs/{id}/items`: how the items of a batch ended, in the execution under way or the one that is named.
pub(super) async fn items(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<JobId>,
) -> Result<Response, ApiError> {
    let [limit, cursor, status] = items::PARAMETERS;
    let query = Query::of(&exchange.uri, &[limit, cursor, status, "execution"])?;
    let job = ownership::job(app, caller, id).await?;
    exchange.is_about(About::job(&job, false));
    let execution = match query.get("execution").map(str::parse::<ExecutionId>) {
        None => job.execution,
        Some(Ok(named)) if named == job.execution || job.executions_past.contains(&named) => named,
        Some(_) => return Err(query.invalid("execution", "names no execution of this job")),
    };
    items::page(app, &query, &job, execution).await
}
