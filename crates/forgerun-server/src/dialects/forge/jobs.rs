//! One job: show, cancel, retry.

use std::sync::Arc;

use axum::http::header::{LINK, RETRY_AFTER, VARY};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Cancel, JobPause, Owned};
use forgerun_core::id::JobId;
use forgerun_core::job::{Dialect, Job};
use forgerun_core::limits::SIGNAL_BODY_BYTES_MAX;
use forgerun_core::scope::KeyScope;
use forgerun_core::state::State;
use forgerun_wire::forge::{CanceledView, JobView, PausedView, RETRY, RetriedView, SignaledView};
use forgerun_wire::workflow::SIGNAL;

use crate::app::App;
use crate::auth::{Caller, ownership};
use crate::http::{
    ApiError, Exchange,
    accept::{self, FailureFormat},
    body, failure,
    prefer::{APPLIED, Prefer},
    respond,
    routing::{Answers, Call, Reply, Route, operation::PREFER},
    wait,
};
use crate::limits::POLL_AFTER_S;
use crate::results;
use crate::traces::RequestSubject;
use crate::workflows;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/v1/jobs/{job_id}", "get", |call| Box::pin(get(call)))
        .answers(Answers::BodyOrFailure)
        .job_token()
        .operation("getJob", "Get a job.")
        .headers(&[PREFER])
        .replies(&[Reply::json::<JobView<'static>>(
            200,
            "The job; one that ended badly also as its failure object.",
        )])
        .refuses(&[Kind::WorkerUnavailable]),
    Route::post("/v1/jobs/{job_id}/cancel", "cancel", |call| Box::pin(cancel(call)))
        .scope(KeyScope::Submit)
        .operation("cancelJob", "Cancel a job that has not ended.")
        .replies(&[Reply::json::<CanceledView>(200, "Cancelled, or ended before.")]),
    Route::post("/v1/jobs/{job_id}/pause", "pause", |call| Box::pin(set_paused(call, true)))
        .scope(KeyScope::Submit)
        .operation("pauseJob", "Keep a job from workers until it is resumed.")
        .replies(&[Reply::json::<PausedView>(200, "Paused, or paused before.")])
        .refuses(&[Kind::IllegalTransition]),
    Route::post("/v1/jobs/{job_id}/resume", "resume", |call| Box::pin(set_paused(call, false)))
        .scope(KeyScope::Submit)
        .operation("resumeJob", "Hand out a paused job again.")
        .replies(&[Reply::json::<PausedView>(200, "Resumed, or not paused before.")]),
    Route::post("/v1/jobs/{job_id}/signals/{name}", "signal", |call| Box::pin(signal(call)))
        .scope(KeyScope::Submit)
        .operation("sendSignalToJob", "Send a signal to the handler of a job, which may wait for it.")
        .body(&SIGNAL)
        .strict()
        .body_max(|_| SIGNAL_BODY_BYTES_MAX)
        .replies(&[Reply::json::<SignaledView>(
            200,
            "Recorded, for the handler to find. A signal that repeats the first changes nothing.",
        )])
        .refuses(&[Kind::Duplicate, Kind::IllegalTransition, Kind::JobPayloadTooLarge]),
    Route::post("/v1/jobs/{job_id}/retry", "retry", |call| Box::pin(retry(call)))
        .scope(KeyScope::Submit)
        .operation("retryJob", "Retry a failed job.")
        .optional_body(&RETRY)
        .replies(&[Reply::json::<RetriedView>(200, "Waiting for its next attempt.")])
        .refuses(&[Kind::IllegalTransition, Kind::RetryLimitReached, Kind::Duplicate]),
];

/// `GET /v1/jobs/{id}`.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, id) = (call.app, call.exchange, call.caller(), call.job());
    let mut job = ownership::job(app, caller, id).await?;
    let prefer = Prefer { respond_async: false, ..exchange.prefer };
    if wait::wait_for_end(app, &job, prefer).await? {
        job = ownership::job(app, caller, id).await?;
    }
    exchange.set_subject(RequestSubject::job(&job, false));
    let mut response = show(app, exchange, &job).await?;
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.extend(prefer.applied().map(|applied| (APPLIED, applied)));
    Ok(response)
}

/// The failure object, if the client asks for problem details; otherwise the dialect's own JSON.
async fn show(app: &App, exchange: &Exchange, job: &Arc<Job>) -> Result<Response, ApiError> {
    if matches!(job.state, State::Failed | State::Canceled) {
        let form = accept::form(exchange, FailureFormat::Json);
        if let Some(response) = failure::last_word(app, job, form).await? {
            return Ok(response);
        }
    }
    Ok(view(app, job))
}

/// The dialect's own JSON, with the failure in a header field (C-08).
fn view(app: &App, job: &Arc<Job>) -> Response {
    let bytes = app.body_cache.of(Dialect::Forge, job, None, || respond::written(&JobView::new(job)));
    let mut response = respond::with_type(StatusCode::OK, respond::JSON, bytes);
    match job.state {
        State::Created | State::Queued | State::Assigned | State::Running => {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(POLL_AFTER_S));
        }
        State::Succeeded if job.result.is_some() => {
            let link = results::link(app, &format!("/v1/jobs/{}/result", job.id));
            response.headers_mut().insert(LINK, link);
        }
        State::Succeeded => {}
        State::Failed | State::Canceled => {
            failure::add_field(app, &mut response, || app.outcomes.failure(job, &[]));
        }
    }
    response
}

/// `POST /v1/jobs/{id}/cancel`. On an ended job it changes nothing and reports the state (C-22).
async fn cancel(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, id) = (call.app, call.exchange, call.caller(), call.job());
    body::expect_object(&call.body)?;
    let cancel = Cancel {
        owned: owned(caller, id)?,
        execution: None,
        by: "user".to_owned(),
        reason: "the client asked for it".to_owned(),
        compensate: true,
    };
    let (job, _) = app.engine.act(Command::Cancel(cancel)).await?;
    exchange.set_subject(RequestSubject::job(&job, false));
    Ok(respond::json(StatusCode::OK, &CanceledView::new(&job)))
}

/// `POST /v1/jobs/{id}/pause` and `…/resume`. The state stays; deadlines and leases run on.
async fn set_paused(call: Call<'_>, paused: bool) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    let pause = JobPause { owned: owned(call.caller(), call.job())?, paused };
    let (job, _) = call.app.engine.act(Command::Pause(pause)).await?;
    call.exchange.set_subject(RequestSubject::job(&job, false));
    Ok(respond::json(StatusCode::OK, &PausedView::new(&job)))
}

/// `POST /v1/jobs/{id}/signals/{name}`.
async fn signal(call: Call<'_>) -> Result<Response, ApiError> {
    let owned = owned(call.caller(), call.job())?;
    let name = call.exchange.parameter("name").unwrap_or_default();
    let job = workflows::send_to_handler(call.app, owned, name, &call.body).await?;
    call.exchange.set_subject(RequestSubject::job(&job, false));
    Ok(respond::json(StatusCode::OK, &SignaledView::new(&job, name)))
}

/// `POST /v1/jobs/{id}/retry`. While the retry is running, another call changes nothing and reports
/// the state (C-23). A dead letter has no retry left, but an explicit retry revives it.
async fn retry(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, id) = (call.app, call.exchange, call.caller(), call.job());
    let revive: Option<bool> = body::member(&call.body, "revive", "true or false")?;
    let owned = owned(caller, id)?;
    let (job, _) = match revive.unwrap_or_default() {
        true => app.engine.revive(owned).await?,
        false => app.engine.retry(owned, false).await?,
    };
    exchange.set_subject(RequestSubject::job(&job, false));
    Ok(respond::json(StatusCode::OK, &RetriedView::new(&job)))
}

fn owned(caller: &Caller, id: Option<JobId>) -> Result<Owned, ApiError> {
    let job = id.ok_or_else(ownership::not_found)?;
    Ok(Owned { job, client: Some(caller.client) })
}
