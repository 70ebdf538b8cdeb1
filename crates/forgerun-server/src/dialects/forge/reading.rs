//! Report, result and items of a job.

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::id::ExecutionId;
use forgerun_wire::forge::ReportView;
use forgerun_wire::item::ItemsView;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::words::forge_state;

use crate::auth::ownership;
use crate::http::{
    ApiError, items, respond,
    routing::{
        Answers, Call, Reply, Route,
        operation::{CURSOR, LIMIT, OF_RESULT, Parameter, RESULT, RESULT_PARTS, uuid},
    },
};
use crate::limits::POLL_AFTER_S;
use crate::results::{self, ResultFormat};
use crate::traces::RequestSubject;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/v1/jobs/{job_id}/report", "report", |call| Box::pin(report(call)))
        .job_token()
        .operation("getReport", "Get the report of a job that has ended.")
        .replies(&[Reply::json::<ReportView>(200, "The report.")])
        .refuses(&[Kind::ReportNotFound]),
    // A result comes in a type of its own.
    Route::get("/v1/jobs/{job_id}/result", "result", |call| Box::pin(result(call)))
        .answers(Answers::Any)
        .job_token()
        .operation("getResult", "Download a job's result.")
        .headers(RESULT_PARTS)
        .replies(RESULT)
        .refuses(OF_RESULT),
    Route::get("/v1/jobs/{job_id}/items", "items", |call| Box::pin(items(call)))
        .operation("listItems", "List the items of a batch, in order.")
        .query(&[LIMIT, CURSOR, items::STATUS, EXECUTION])
        .replies(&[Reply::json::<ItemsView>(200, "A page.")])
        .refuses(&[Kind::ResultNotFound]),
];

/// Which execution of a batch.
const EXECUTION: Parameter =
    Parameter::new("execution", "The items of this execution; of the one under way if absent.").schema(uuid);

/// `GET /v1/jobs/{id}/report`. Before the end there is none (C-68).
async fn report(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, id) = (call.app, call.exchange, call.caller(), call.job());
    let job = ownership::job(app, caller, id).await?;
    exchange.set_subject(RequestSubject::job(&job, false));
    match ReportView::new(&job) {
        Some(report) => Ok(respond::json(StatusCode::OK, &report)),
        None => {
            let detail = "The job is not finished; its report is written when it is.";
            let refused = RefusedRequest::new(Kind::ReportNotFound, detail).early(POLL_AFTER_S);
            Err(refused.fact("state", forge_state(job.state)).into())
        }
    }
}

/// `GET /v1/jobs/{id}/result`.
async fn result(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, id) = (call.app, call.exchange, call.caller(), call.job());
    let job = ownership::job(app, caller, id).await?;
    exchange.set_subject(RequestSubject::job(&job, false));
    results::answer(app, exchange, &job, ResultFormat::AsAsked).await
}

/// `GET /v1/jobs/{id}/items`: the ends of a batch's items, in the current execution or the named
/// one.
async fn items(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, id) = (call.app, call.exchange, call.caller(), call.job());
    let query = call.query()?;
    let job = ownership::job(app, caller, id).await?;
    exchange.set_subject(RequestSubject::job(&job, false));
    let execution = match query.get("execution").map(str::parse::<ExecutionId>) {
        None => job.execution,
        Some(Ok(named)) if named == job.execution || job.executions_past.contains(&named) => named,
        Some(_) => return Err(query.invalid("execution", "names no execution of this job")),
    };
    items::page(app, &query, &job, execution).await
}
