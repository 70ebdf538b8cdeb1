//! One job: read, cancel, activate, progress.

use std::sync::Arc;

use axum::http::HeaderValue;
use axum::http::header::VARY;
use axum::response::Response;
use forgerun_core::Command;
use forgerun_core::command::{Cancel, Content, Owned};
use forgerun_core::job::{Input, Job, is_json};
use forgerun_core::scope::KeyScope;
use forgerun_core::state::State;
use forgerun_wire::ojs::job::{BothView, JobView, ParentResults};
use forgerun_wire::ojs::members::{Members, ViolationList};
use forgerun_wire::ojs::state::StateWord;
use forgerun_wire::time;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::scope::{CLIENT_OR_OPERATOR, ENDED, Scope};
use super::{objects, refusals, reply};
use crate::app::App;
use crate::http::{
    ApiError,
    accept::{self, FailureFormat},
    failure,
    prefer::APPLIED,
    routing::{Answers, Call, Reply, Route},
    wait::wait_for_end,
};
use crate::traces::RequestSubject;
use crate::workflows::parents_of;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/jobs/{job_id}", "get", |call| Box::pin(get(call)))
        .access(CLIENT_OR_OPERATOR)
        .answers(Answers::BodyOrFailure)
        .job_token()
        .operation("ojsGetJob", "Get a job.")
        .replies(&[Reply::object(
            200,
            "The job. One that ended badly is its failure object if `Accept` names that.",
            &objects::JOB,
        )]),
    Route::get("/ojs/v1/admin/jobs/{job_id}", "get", |call| Box::pin(get(call)))
        .access(CLIENT_OR_OPERATOR)
        .answers(Answers::BodyOrFailure)
        .operation("ojsGetJobAdmin", "Get a job.")
        .replies(&[Reply::object(
            200,
            "The job. One that ended badly is its failure object if `Accept` names that.",
            &objects::JOB,
        )]),
    Route::delete("/ojs/v1/jobs/{job_id}", "cancel", |call| Box::pin(cancel(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Submit)
        .operation("ojsCancelJob", "Cancel a job.")
        .optional_body(&objects::CANCEL)
        .replies(&[Reply::object(200, "The job is cancelled.", &objects::JOB)])
        .refuses(ENDED),
    Route::post("/ojs/v1/jobs/{job_id}/cancel", "cancel", |call| Box::pin(cancel(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Submit)
        .operation("ojsCancelJobByPost", "Cancel a job.")
        .optional_body(&objects::CANCEL)
        .replies(&[Reply::object(200, "The job is cancelled.", &objects::JOB)])
        .refuses(ENDED),
    Route::post("/ojs/v1/admin/jobs/{job_id}/cancel", "cancel", |call| Box::pin(cancel(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Submit)
        .operation("ojsCancelJobAdmin", "Cancel a job.")
        .optional_body(&objects::CANCEL)
        .replies(&[Reply::object(200, "The job is cancelled.", &objects::JOB)])
        .refuses(ENDED),
    Route::post("/ojs/v1/jobs/{job_id}/activate", "activate", |call| Box::pin(activate(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Submit)
        .operation("ojsActivateJob", "Release a job that is held back.")
        .replies(&[Reply::object(200, "The job is available.", &objects::JOB)])
        .refuses(ENDED),
    Route::get("/ojs/v1/jobs/{job_id}/progress", "progress", |call| Box::pin(progress(call)))
        .access(CLIENT_OR_OPERATOR)
        .job_token()
        .operation("ojsGetProgress", "Get how far a job is.")
        .replies(&[Reply::object(200, "How far it is.", &objects::PROGRESS_VIEW)]),
];

/// The default cancel reason.
const REASON: &str = "cancelled by the client";

/// A job with all rows of its view.
pub(in crate::dialects) struct Shown {
    pub(in crate::dialects) job: Arc<Job>,
    pub(in crate::dialects) input: Input,
    result: Option<Box<RawValue>>,
    result_url: Option<String>,
    parents: Option<ParentResults>,
}

impl Shown {
    /// Loads the rows of a job's view.
    pub(in crate::dialects) async fn read(app: &App, job: Arc<Job>) -> Result<Shown, ApiError> {
        let store = app.engine.store();
        let input = store.inputs(vec![job.id]).await?.pop().map(|(_, input)| input).unwrap_or_default();
        let mut shown = Shown { job, input, result: None, result_url: None, parents: None };
        shown.parents = parents_of(app, &[&shown.job]).await?.pop().flatten();
        let left = shown.job.state == State::Succeeded && shown.job.result.is_some();
        if let Some(kept) = if left { store.result(shown.job.execution).await? } else { None } {
            let inline = match kept.content {
                Some(Content::Inline(bytes)) if is_json(&kept.media_type) => String::from_utf8(bytes).ok(),
                Some(_) | None => None,
            };
            shown.result = inline.and_then(|text| RawValue::from_string(text).ok());
            if shown.result.is_none() {
                shown.result_url = Some(format!("{}/ojs/v1/jobs/{}/result", app.base, shown.job.id));
            }
        }
        Ok(shown)
    }

    pub(in crate::dialects) fn view(&self) -> JobView<'_> {
        JobView {
            result: self.result.as_deref(),
            result_url: self.result_url.as_deref(),
            parents: self.parents.as_ref(),
            ..JobView::new(&self.job, &self.input)
        }
    }

    /// The answer in both forms, with these facts.
    pub(super) fn both(&self, facts: Vec<(&'static str, Value)>) -> Response {
        reply::ok(&BothView { job: self.view(), facts })
    }
}

/// A job; a failed one as its failure object if the client asks for problem details (C-08).
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange) = (call.app, call.exchange);
    let scope = Scope::of(&call)?;
    let mut job = scope.job(app, call.job()).await?;
    exchange.set_subject(RequestSubject::job(&job, false));
    if wait_for_end(app, &job, exchange.prefer).await? {
        job = scope.job(app, call.job()).await?;
    }
    let ended_badly = matches!(job.state, State::Failed | State::Canceled);
    let form = accept::form(exchange, FailureFormat::Json);
    let last_word = if ended_badly { failure::last_word(app, &job, form).await? } else { None };
    let mut response = match last_word {
        Some(response) => response,
        None => Shown::read(app, job).await?.both(Vec::new()),
    };
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.extend(exchange.prefer.applied().map(|applied| (APPLIED, applied)));
    Ok(response)
}

/// A job after a command, and its state before.
pub(in crate::dialects) struct ChangedJob {
    before: StateWord,
    pub(in crate::dialects) job: Job,
}

/// Cancels the job in the request.
pub(in crate::dialects) async fn cancel_job(
    call: &Call<'_>,
    reason: Option<String>,
) -> Result<ChangedJob, ApiError> {
    let (app, scope) = (call.app, Scope::of(call)?);
    let before = scope.job(app, call.job()).await?;
    let cancel = Cancel {
        owned: Owned { job: before.id, client: scope.client },
        execution: None,
        by: if scope.client.is_some() { "user" } else { "operator" }.to_owned(),
        reason: reason.unwrap_or_else(|| REASON.to_owned()),
        compensate: true,
    };
    let cancelled = app.engine.act(Command::Cancel(cancel)).await;
    let (job, changed) = cancelled.map_err(|error| refusals::of_engine(app, error))?;
    call.exchange.set_subject(RequestSubject::job(&job, false));
    if !changed {
        return Err(refusals::ended(StateWord::of(&job).as_str()));
    }
    Ok(ChangedJob { before: StateWord::of(&before), job })
}

async fn cancel(call: Call<'_>) -> Result<Response, ApiError> {
    let cancelled = cancel_job(&call, reason(&call)?).await?;
    let shown = Shown::read(call.app, Arc::new(cancelled.job)).await?;
    Ok(shown.both(vec![("previous_state", cancelled.before.as_str().into())]))
}

/// The cancel reason; an empty body has none.
pub(super) fn reason(call: &Call<'_>) -> Result<Option<String>, ApiError> {
    if call.body.is_empty() {
        return Ok(None);
    }
    let members = Members::of_body(&call.body)?;
    let mut violations = ViolationList::default();
    let kind = forgerun_core::catalog::Kind::MalformedRequest;
    let reason: Option<String> = violations.typed(kind, "reason", members.get("reason"), "a string");
    Ok(violations.settle(Some(reason))?.filter(|reason| !reason.trim().is_empty()))
}

/// Activates the job in the request.
pub(in crate::dialects) async fn activate_job(call: &Call<'_>) -> Result<ChangedJob, ApiError> {
    let (app, scope) = (call.app, Scope::of(call)?);
    let before = scope.job(app, call.job()).await?;
    let owned = Owned { job: before.id, client: scope.client };
    let (job, changed) = match app.engine.act(Command::Activate(owned)).await {
        Ok(activated) => activated,
        // The job's facet is finer than its state.
        Err(forgerun_engine::Error::Refused(forgerun_core::Refusal::WrongState(_))) => {
            let job = scope.job(app, call.job()).await?;
            return Err(refusals::wrong_state(StateWord::of(&job).as_str()));
        }
        Err(error) => return Err(refusals::of_engine(app, error)),
    };
    call.exchange.set_subject(RequestSubject::job(&job, false));
    if !changed {
        return Err(refusals::wrong_state(StateWord::of(&job).as_str()));
    }
    Ok(ChangedJob { before: StateWord::of(&before), job })
}

async fn activate(call: Call<'_>) -> Result<Response, ApiError> {
    let ChangedJob { before, job } = activate_job(&call).await?;
    let activated_at = time::millis(job.updated_at);
    let shown = Shown::read(call.app, Arc::new(job)).await?;
    let previous = before.as_str();
    Ok(shown.both(vec![("previous_state", previous.into()), ("activated_at", activated_at.into())]))
}

async fn progress(call: Call<'_>) -> Result<Response, ApiError> {
    let job = Scope::of(&call)?.job(call.app, call.job()).await?;
    Ok(reply::ok(&progress_view(&job)))
}

pub(super) fn progress_view(job: &Job) -> Value {
    // A job that reported progress and succeeded is done, whatever it reported last.
    let percent = job.progress.map(|percent| if job.state == State::Succeeded { 100 } else { percent });
    json!({
        "id": job.id.to_string(),
        "job_id": job.id.to_string(),
        "state": StateWord::of(job).as_str(),
        "progress": percent.map(|percent| f64::from(percent) / 100.0),
        "percentage": percent,
        "message": job.message,
        "updated_at": time::millis(job.updated_at),
    })
}
