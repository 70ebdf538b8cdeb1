//! Redrives: all jobs of a failure group are retried, by a job of its own.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::client::Client;
use forgerun_core::command::{NewJob, RedriveCommand, Submit};
use forgerun_core::failure::FailureId;
use forgerun_core::job::{Head, Input, Name};
use forgerun_core::redrive::{self, Redrive, RedriveTerms};
use forgerun_core::retry::{Jitter, RetryPolicy};
use forgerun_core::{Answer, Command, Refusal};
use forgerun_wire::admin::{REDRIVE, RedrivePreview, RedriveStarted, RedriveUseless, read_redrive};

use super::{audit, failures};
use crate::app::App;
use crate::auth::OperatorRole;
use crate::http::{
    ApiError, respond,
    routing::{Call, Reply, Route},
};
use crate::limits::{REDRIVE_MATCHED_MAX, REDRIVE_SHOWN_MAX};

pub(super) const ROUTES: &[Route] =
    &[Route::post("/admin/v1/failures/{group}/redrive", "redrive", |call| Box::pin(begin(call)))
        .role(OperatorRole::Operator)
        .operation(
            "adminRedrive",
            "Retry all jobs that failed for one reason; the redrive is a job of its own.",
        )
        .optional_body(&REDRIVE)
        .replies(&[
            Reply::json::<RedrivePreview>(200, "What would be done; or nothing is left to do."),
            Reply::json::<RedriveStarted>(
                202,
                "It has begun. `Location` is its own job, which can be watched and cancelled.",
            )
            .headers(&["Location"]),
        ])
        .refuses(&[Kind::Duplicate])];

/// When a redrive continues after its node was lost.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How often a redrive may lose its node.
const ATTEMPTS_MAX: u32 = 1000;

/// `POST /admin/v1/failures/{group}/redrive`.
async fn begin(call: Call<'_>) -> Result<Response, ApiError> {
    let request = read_redrive(&call.body)?;
    if request.dry_run {
        return Ok(respond::json(StatusCode::OK, &preview(&call, &request.terms).await?));
    }
    let Some(started) = start(&call, request.terms).await? else {
        return Ok(respond::json(StatusCode::OK, &RedriveUseless { matched: 0 }));
    };
    let mut response = respond::json(StatusCode::ACCEPTED, &started);
    let location = respond::value(format!("{}/admin/v1/jobs/{}", call.app.base, started.job_id));
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// What a redrive of the group in the path would do.
pub(in crate::dialects) async fn preview(
    call: &Call<'_>,
    terms: &RedriveTerms,
) -> Result<RedrivePreview, ApiError> {
    let group = failures::named(call).await?;
    let store = call.app.engine.store();
    let matched = store.count_failed(group.id, REDRIVE_MATCHED_MAX).await?;
    let would_redrive = matched.min(terms.limit.unwrap_or(u64::MAX));
    let shown = REDRIVE_SHOWN_MAX.min(usize::try_from(would_redrive).unwrap_or(usize::MAX));
    let first = store.failed_jobs(group.id, None, shown).await?;
    Ok(RedrivePreview::new(matched, would_redrive, terms, &first))
}

/// Starts a redrive of the group in the path; `None` if the group has no failed job.
pub(in crate::dialects) async fn start(
    call: &Call<'_>,
    terms: RedriveTerms,
) -> Result<Option<RedriveStarted>, ApiError> {
    let group = failures::named(call).await?;
    let matched = call.app.engine.store().count_failed(group.id, REDRIVE_MATCHED_MAX).await?;
    if matched == 0 {
        return Ok(None);
    }
    let job_id = submit(call.app, group.id, terms, matched).await?;
    audit::note(call.exchange, "redrive", &format!("{} as job {job_id}", group.id));
    let will_redrive = matched.min(terms.limit.unwrap_or(u64::MAX));
    Ok(Some(RedriveStarted { job_id, matched, will_redrive }))
}

async fn submit(
    app: &App,
    failure: FailureId,
    terms: RedriveTerms,
    matched: u64,
) -> Result<String, ApiError> {
    let (store, now) = (app.engine.store(), app.clock.now());
    if store.client(redrive::CLIENT).await?.is_none() {
        let registered = app.engine.run(Command::Register(Client::new(redrive::CLIENT, now))).await;
        // Another node may have been faster.
        if store.client(redrive::CLIENT).await?.is_none() {
            registered?;
        }
    }
    let before: Option<Redrive> = store.record(failure.to_string()).await?;
    let queue = Name::new(redrive::QUEUE).expect("a short name");
    let retry = RetryPolicy {
        attempts_max: ATTEMPTS_MAX,
        initial: TRIED_AGAIN_AFTER,
        max: TRIED_AGAIN_AFTER,
        jitter: Jitter::None,
        ..RetryPolicy::auto()
    };
    let head = Head {
        job_type: redrive::JOB_TYPE.to_owned(),
        tags: vec![failure.to_string()],
        retry,
        ..Head::new(redrive::CLIENT, queue, now)
    };
    let id = app.engine.job_id();
    let new = NewJob { id, id_given: false, head: Arc::new(head), input: Arc::new(Input::default()) };
    let submit = Submit { jobs: vec![new], idempotency: None, queue_max: None, refuse_paused: false };
    let command = RedriveCommand::Begin {
        redrive: Box::new(Redrive::new(failure, id, now, terms, matched)),
        submit: Box::new(submit),
        before: before.map(|before| before.job),
    };
    match app.engine.run(Command::Redrive(command)).await {
        Ok(Answer::Submitted { .. }) => Ok(id.to_string()),
        Ok(_) => Err(ApiError::internal(Kind::Internal, "a redrive was answered without a job")),
        Err(error @ forgerun_engine::Error::Refused(Refusal::RedriveRunning(_))) => Err(error.into()),
        Err(error) => Err(error.into()),
    }
}
