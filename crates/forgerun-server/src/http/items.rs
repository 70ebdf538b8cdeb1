//! Pages of a batch's items, for all dialects.

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::id::ExecutionId;
use forgerun_core::item::Tally;
use forgerun_core::job::Job;
use forgerun_problem::{ItemStatus, JobStatus};
use forgerun_wire::item::{ItemView, ItemsView};
use forgerun_wire::request;
use forgerun_wire::words;

use crate::app::App;
use crate::http::{ApiError, query::QueryString, respond, routing::operation::Parameter};

/// How items ended.
pub(crate) const STATUS: Parameter = Parameter::new("status", "Only items that ended like this.")
    .schema(|| request::words(&ItemStatus::ALL.map(ItemStatus::as_str)));

/// A page of the items of one execution, in the order of the request. The cursor is the next
/// position.
pub(crate) async fn page(
    app: &App,
    query: &QueryString,
    job: &Job,
    execution: ExecutionId,
) -> Result<Response, ApiError> {
    let Some(items) = job.head.items else {
        return Err(ApiError::new(Kind::ResultNotFound, "The job is no batch; it has no items."));
    };
    let limit = query.limit()?;
    let from = match query.get("cursor").map(str::parse::<usize>) {
        None => 0,
        Some(Ok(from)) if from <= items.n as usize => from,
        Some(_) => return Err(query.malformed("cursor", "is no cursor of this list")),
    };
    let status = match query.get("status") {
        None => None,
        Some(word) => match ItemStatus::parse(&word.to_ascii_uppercase()) {
            Some(status) => Some(status.as_str()),
            None => return Err(query.invalid("status", "names a status that no item ends in")),
        },
    };
    let (views, tally) = views(app, job, execution).await?;
    let fits = |view: &ItemView| status.is_none_or(|status| view.status == status);
    let mut rest = views.into_iter().enumerate().skip(from).filter(|(_, view)| fits(view));
    let shown: Vec<(usize, ItemView)> = rest.by_ref().take(limit).collect();
    let next_cursor = rest.next().map(|(place, _)| place.to_string());
    let view = ItemsView {
        execution_id: execution.to_string(),
        total: items.n,
        completed: tally.completed,
        failed: tally.failed,
        items: shown.into_iter().map(|(_, view)| view).collect(),
        next_cursor,
    };
    Ok(respond::json(StatusCode::OK, &view))
}

/// Every item of an execution, with its end or the state of its batch.
async fn views(app: &App, job: &Job, execution: ExecutionId) -> Result<(Vec<ItemView>, Tally), ApiError> {
    let store = app.engine.store();
    if let Some(ends) = store.items(execution).await? {
        return Ok((ends.iter().map(ItemView::ended).collect(), Tally::of(&ends)));
    }
    // No ends were reported: it is running, or was not ended by its worker.
    let status = match words::job_status(job) {
        status if execution == job.execution => status,
        // Only failed items are retried.
        _ => JobStatus::Failed,
    };
    let inputs = store.inputs(vec![job.id]).await?;
    let items = inputs.into_iter().flat_map(|(_, input)| input.items);
    Ok((items.map(|item| ItemView::open(&item.id, &status)).collect(), Tally::default()))
}
