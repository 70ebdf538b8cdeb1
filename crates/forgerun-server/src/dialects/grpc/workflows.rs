//! Workflows: begin, read, cancel. Steps name their dependencies; OJS has no other form over gRPC.

use forgerun_wire::grpc::{request, v1, workflow};

use super::call::{needs_job, with_body};
use crate::dialects::ojs::workflows::{cancel_all, shown, take};
use crate::http::{ApiError, routing::Call};
use crate::limits::OJS_BATCH_BYTES_MAX;

pub(super) async fn create(
    call: Call<'_>,
    message: v1::CreateWorkflowRequest,
) -> Result<v1::CreateWorkflowResponse, ApiError> {
    let call = with_body(call, request::workflow(&message)?, OJS_BATCH_BYTES_MAX)?;
    let (rows, _) = take(&call).await?;
    Ok(v1::CreateWorkflowResponse { workflow: Some(workflow::message(&rows)) })
}

pub(super) async fn get(
    call: Call<'_>,
    message: v1::GetWorkflowRequest,
) -> Result<v1::GetWorkflowResponse, ApiError> {
    needs_job(&message.workflow_id)?;
    Ok(v1::GetWorkflowResponse { workflow: Some(workflow::message(&shown(&call).await?)) })
}

pub(super) async fn cancel(
    call: Call<'_>,
    message: v1::CancelWorkflowRequest,
) -> Result<v1::CancelWorkflowResponse, ApiError> {
    needs_job(&message.workflow_id)?;
    let reason = Some(message.reason).filter(|reason| !reason.trim().is_empty());
    let rows = cancel_all(&call, reason, true).await?;
    Ok(v1::CancelWorkflowResponse { workflow: Some(workflow::message(&rows)) })
}
