//! Tokens that read one job.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::scope::KeyScope;
use forgerun_wire::body::{refused, violation};
use forgerun_wire::forge::{JOB_TOKEN, JobTokenView};
use forgerun_wire::time;

use crate::auth::ownership;
use crate::http::{
    ApiError, body, respond,
    routing::{Call, Reply, Route},
};
use crate::limits::{JOB_TOKEN_MAX, JOB_TOKEN_USUAL};

pub(super) const ROUTES: &[Route] =
    &[Route::post("/v1/jobs/{job_id}/token", "issue_token", |call| Box::pin(issue(call)))
        .scope(KeyScope::Read)
        .operation(
            "issueJobToken",
            "Make a token that reads a job, its events, logs and result, for a browser.",
        )
        .optional_body(&JOB_TOKEN)
        .replies(&[Reply::json::<JobTokenView>(201, "The token.")])];

/// `POST /v1/jobs/{job_id}/token`.
async fn issue(call: Call<'_>) -> Result<Response, ApiError> {
    let max = JOB_TOKEN_MAX.as_secs();
    let what = format!("a whole number from 1 to {max}");
    let seconds: Option<u64> = body::member(&call.body, "expires_in_s", &what)?;
    let seconds = seconds.unwrap_or(JOB_TOKEN_USUAL.as_secs());
    if !(1..=max).contains(&seconds) {
        let wrong = violation("expires_in_s", &format!("must be {what}"), "range");
        return Err(refused(Kind::MalformedRequest, vec![wrong], &["expires_in_s"]).into());
    }
    let job = ownership::job(call.app, call.caller(), call.job()).await?;
    let (token, until) = call.app.job_tokens.issue(call.app, &job, Duration::from_secs(seconds)).await?;
    Ok(respond::json(StatusCode::CREATED, &JobTokenView { token, expires_at: time::millis(until) }))
}
