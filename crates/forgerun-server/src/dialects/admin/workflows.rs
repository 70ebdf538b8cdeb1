//! Workflows of all clients.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::id::{ClientId, JobId};
use forgerun_wire::admin::AdminPage;
use forgerun_wire::workflow::{AdminWorkflow, AdminWorkflowDetail};

use crate::app::Filter;
use crate::auth::OperatorRole;
use crate::dialects::forge::workflows::{NAME, filter};
use crate::http::{
    ApiError, respond,
    routing::{
        Call, Reply, Route,
        operation::{CLIENT, CURSOR, LIMIT, STATE},
    },
};
use crate::traces::RequestSubject;
use crate::workflows;

/// The routes of workflows. They are cancelled and retried as their own jobs.
pub(super) const ROUTES: &[Route] = &[
    Route::get("/admin/v1/workflows", "list", |call| Box::pin(list(call)))
        .role(OperatorRole::Viewer)
        .operation("adminListWorkflows", "List the workflows of all clients, newest first.")
        .query(&[STATE, NAME, CLIENT, LIMIT, CURSOR])
        .replies(&[Reply::json::<AdminPage<AdminWorkflow>>(200, "A page.")]),
    Route::get("/admin/v1/workflows/{workflow_id}", "get", |call| Box::pin(get(call)))
        .role(OperatorRole::Viewer)
        .operation("adminGetWorkflow", "Get a workflow of any client.")
        .replies(&[Reply::json::<AdminWorkflowDetail>(200, "The workflow.")]),
];

/// `GET /admin/v1/workflows`: newest first. The cursor is the last one shown.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(respond::json(StatusCode::OK, &listed(&call).await?))
}

pub(in crate::dialects) async fn listed(call: &Call<'_>) -> Result<AdminPage<AdminWorkflow>, ApiError> {
    let query = call.query()?;
    let client = match query.get("client").map(str::parse::<ClientId>) {
        Some(Ok(client)) => Some(client),
        Some(Err(_)) => return Err(query.invalid("client", "is no id of a client")),
        None => None,
    };
    let (jobs, next) = workflows::list(call.app, Filter { client, ..filter(&query)? }).await?;
    let mut items: Vec<_> = jobs.iter().map(AdminWorkflow::new).collect();
    call.app
        .client_names
        .fill(call.app, items.iter_mut().map(|item| (&item.client, &mut item.client_name)))
        .await?;
    let next_cursor = next.map(|id| id.to_string());
    Ok(AdminPage { items, next_cursor })
}

/// `GET /admin/v1/workflows/{id}`: with its steps and dependencies.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(respond::json(StatusCode::OK, &shown(&call).await?))
}

/// The workflow in the path, with its steps.
pub(in crate::dialects) async fn shown(call: &Call<'_>) -> Result<AdminWorkflowDetail, ApiError> {
    let not_found = || ApiError::new(Kind::JobNotFound, "There is no such workflow.");
    let id: JobId = call.id("workflow_id").ok_or_else(not_found)?;
    let job = call.app.engine.store().job(id).await?.ok_or_else(not_found)?;
    call.exchange.set_subject(RequestSubject::job(&job, false));
    let failure = workflows::failure(call.app, &job).await?;
    let rows = workflows::read(call.app, Arc::clone(&job)).await?.ok_or_else(not_found)?;
    let client_name = call.app.client_names.get(call.app, job.head.client).await?;
    let detail = AdminWorkflowDetail::new(&rows, failure);
    // A token changes the workflow, so viewers get none.
    let workflow = match call.may(OperatorRole::Operator) {
        true => detail.workflow.with_tokens(&rows, &workflows::signals_at(call.app)),
        false => detail.workflow,
    };
    Ok(AdminWorkflowDetail { client_name, workflow, ..detail })
}
