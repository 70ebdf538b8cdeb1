//! `workflows`: begin, list, read, cancel, retry, follow.

use forgerun_wire::forge::EventsView;
use forgerun_wire::request::text;
use forgerun_wire::request_body;
use std::sync::Arc;

use axum::http::header::VARY;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Cancel, JobPause, Owned};
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_core::limits::SIGNAL_BODY_BYTES_MAX;
use forgerun_core::queue::Owner;
use forgerun_core::scope::KeyScope;
use forgerun_core::state::State;
use forgerun_wire::fingerprint::fingerprint;
use forgerun_wire::ojs::envelope::Rules;
use forgerun_wire::words::{forge_state, parse_forge_state};
use forgerun_wire::workflow::{
    self as wire, SIGNAL, StepResultsView, WORKFLOW, WorkflowSummary, WorkflowView, WorkflowsView,
};

use crate::app::Filter;
use crate::auth::ownership;
use crate::events::{page as events, sse::StreamScope};
use crate::http::{
    ApiError,
    accept::{self, FailureFormat},
    accepted, body, failure,
    query::QueryString,
    respond,
    routing::{
        Answers, Call, Reply, Route,
        operation::{
            ACCEPTED, CURSOR, EVENT_CURSOR, LAST_EVENT_ID, LIMIT, Parameter, STATE, STREAM_ENDED, SUBMITTING,
        },
    },
};
use crate::limits::{LIST_ROWS_MAX, OJS_BATCH_BYTES_MAX, POLL_AFTER_S};
use crate::submission::Key;
use crate::traces::RequestSubject;
use crate::workflows::{self, StartedWorkflow};

pub(super) const ROUTES: &[Route] = &[
    Route::post("/v1/workflows", "submit_workflow", |call| Box::pin(submit(call)))
        .body_max(|_| OJS_BATCH_BYTES_MAX)
        .scope(KeyScope::Submit)
        .operation("submitWorkflow", "Submit a workflow: jobs that wait for each other.")
        .headers(SUBMITTING)
        .body(&WORKFLOW)
        .replies(&[Reply::json::<WorkflowSummary>(202, "Accepted and stored.").headers(ACCEPTED)])
        .refuses(REFUSALS),
    Route::get("/v1/workflows", "list", |call| Box::pin(list(call)))
        .operation("listWorkflows", "List the caller's workflows, newest first.")
        .query(&[STATE, NAME, LIMIT, CURSOR])
        .replies(&[Reply::json::<WorkflowsView>(200, "A page.")]),
    Route::get("/v1/workflows/{workflow_id}", "get", |call| Box::pin(get(call)))
        .answers(Answers::BodyOrFailure)
        .operation("getWorkflow", "Get a workflow with its steps.")
        .replies(&[Reply::json::<WorkflowView>(
            200,
            "The workflow; one that ended badly also as its failure object.",
        )]),
    Route::post("/v1/workflows/{workflow_id}/cancel", "cancel", |call| Box::pin(cancel(call)))
        .scope(KeyScope::Submit)
        .operation("cancelWorkflow", "Cancel what is left of a workflow, and undo what its steps did.")
        .optional_body(&CANCEL)
        .replies(&[Reply::json::<WorkflowView>(
            200,
            "Cancelled with all its steps, ended before, or `RUNNING` and `canceling` until what it \
     did is undone.",
        )]),
    Route::post("/v1/workflows/{workflow_id}/pause", "pause", |call| Box::pin(set_paused(call, true)))
        .scope(KeyScope::Submit)
        .operation("pauseWorkflow", "Start no step of a workflow, and keep its steps from workers.")
        .replies(&[Reply::json::<WorkflowView>(200, "Paused, or paused before.")])
        .refuses(&[Kind::IllegalTransition]),
    Route::post("/v1/workflows/{workflow_id}/resume", "resume", |call| Box::pin(set_paused(call, false)))
        .scope(KeyScope::Submit)
        .operation("resumeWorkflow", "Go on with a paused workflow and its steps.")
        .replies(&[Reply::json::<WorkflowView>(200, "Resumed, or not paused before.")]),
    Route::post("/v1/workflows/{workflow_id}/retry", "retry", |call| Box::pin(retry(call)))
        .scope(KeyScope::Submit)
        .operation(
            "retryWorkflow",
            "Retry the steps that failed and those that had no turn; all of them if the workflow was \
     compensated.",
        )
        .optional_body(&RETRY)
        .replies(&[Reply::json::<WorkflowView>(200, "Running again.")])
        .refuses(&[Kind::IllegalTransition, Kind::RetryLimitReached]),
    Route::post("/v1/workflows/{workflow_id}/steps", "add_steps", |call| Box::pin(add_steps(call)))
        .body_max(|_| OJS_BATCH_BYTES_MAX)
        .scope(KeyScope::Work)
        .and_scope(KeyScope::Submit)
        .operation("addWorkflowSteps", "Add steps to a running workflow, as the worker of one of its steps.")
        .body(&wire::ADDED_STEPS)
        .replies(&[Reply::json::<WorkflowView>(200, "Added; those that are ready have begun.")])
        .refuses(ADDING),
    Route::get("/v1/workflows/{workflow_id}/results", "results", |call| Box::pin(results(call)))
        .operation(
            "listWorkflowResults",
            "List the results of the steps of a workflow, or of the elements of a `for_each`, in order.",
        )
        .query(&[LIMIT, CURSOR])
        .replies(&[Reply::json::<StepResultsView>(200, "A page.")]),
    Route::post("/v1/workflows/{workflow_id}/signals/{name}", "signal", |call| Box::pin(signal(call)))
        .scope(KeyScope::Submit)
        .operation(
            "sendSignal",
            "Send a signal: the step that waits for it succeeds with the body as its result.",
        )
        .body(&SIGNAL)
        .strict()
        .body_max(|_| SIGNAL_BODY_BYTES_MAX)
        .replies(&[Reply::json::<WorkflowView>(
            200,
            "The workflow. A signal that came early is kept; one that repeats the first changes nothing.",
        )])
        .refuses(&[Kind::Duplicate, Kind::IllegalTransition, Kind::JobPayloadTooLarge]),
    Route::get("/v1/workflows/{workflow_id}/events", "events", |call| Box::pin(of_workflow(call)))
        .answers(Answers::BodyOrEvents)
        .operation(
            "listEventsOfWorkflow",
            "List what happened to a workflow; with `Accept: text/event-stream` as it happens.",
        )
        .query(&[LIMIT, EVENT_CURSOR])
        .headers(&[LAST_EVENT_ID])
        .replies(&[
            Reply::json::<EventsView>(
                200,
                "The changes of its state; as a stream, with its progress, until it ends.",
            ),
            STREAM_ENDED,
        ]),
];

/// What only a submission is refused for.
const REFUSALS: &[Kind] = &[
    Kind::UnknownJobType,
    Kind::JobTypeTooLong,
    Kind::InvalidRetryPolicy,
    Kind::InvalidMetadata,
    Kind::MetadataTooLarge,
    Kind::UnsupportedFeature,
    Kind::InvalidCallbackUrl,
    Kind::InvalidQueue,
    Kind::QueueNameTooLong,
    Kind::JobPayloadTooLarge,
    Kind::IdempotencyConflict,
];

/// The name in a list.
pub(in crate::dialects) const NAME: Parameter =
    Parameter::new("name", "Only workflows with exactly this name.").schema(text);

/// What steps that are added are refused for.
const ADDING: &[Kind] = &[
    Kind::UnknownJobType,
    Kind::JobTypeTooLong,
    Kind::InvalidRetryPolicy,
    Kind::InvalidMetadata,
    Kind::MetadataTooLarge,
    Kind::UnsupportedFeature,
    Kind::InvalidQueue,
    Kind::QueueNameTooLong,
    Kind::JobPayloadTooLarge,
    Kind::IllegalTransition,
    Kind::AlreadyCompleted,
    Kind::AlreadyCancelled,
    Kind::Duplicate,
];

request_body! {
    /// How a workflow is cancelled.
    CANCEL = "WorkflowCancel" {
        /// Whether the compensations of steps that succeeded run; `true` by default. `false` also
        /// stops those under way.
        "compensate": maybe(truth()),
    }
    ; examples {"at once": {"value": {"compensate": false}}}
}

request_body! {
    /// Where a workflow goes on.
    RETRY = "WorkflowRetry" {
        /// The id of a step: it and all that depend on it run again, and the others stay.
        "from": maybe(text()),
    }
    ; examples {"from a step": {"value": {"from": "charge"}}}
}

const SUBMIT: &str = "POST /v1/workflows";

/// `POST /v1/workflows`. A step with a `work_kind` is simulated; any other is for external workers.
async fn submit(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, prefer) = (call.app, call.exchange.prefer);
    let rules = Rules { now: app.clock.now(), tenant: None, strict_catalog: false, test_hooks: false };
    let request = wire::read(&call.body, rules, true)?;
    let of_body = request.idempotency_key.clone().filter(|key| !key.is_empty());
    let key = of_body.as_deref().or(accepted::header_key(&call.exchange.headers)?);
    let key = match key {
        Some(key) => Some(Key { operation: SUBMIT, key, fingerprint: fingerprint(&call.body)? }),
        None => None,
    };
    let owner = Owner::client(call.caller().client);
    let begun = workflows::begin(&call, &owner, request, key).await;
    let StartedWorkflow { job, existing } = begun.map_err(|error| error.or_else(ApiError::from))?;
    let job = accepted::awaited(app, call.caller(), &prefer, job).await?;
    call.exchange.set_subject(RequestSubject::job(&job, !existing));
    let view = WorkflowSummary::new(&job);
    let mut response = respond::json(StatusCode::ACCEPTED, &view);
    let location = [&app.base, "/v1/workflows/", &view.workflow_id].concat();
    accepted::announce(&mut response, location, POLL_AFTER_S, &prefer, existing);
    Ok(response)
}

/// `GET /v1/workflows?state=…&limit=…&cursor=…`: newest first. The cursor is the last one shown.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let query = call.query()?;
    let filter = Filter { client: Some(call.caller().client), ..filter(&query)? };
    let (jobs, next) = workflows::list(call.app, filter).await?;
    let workflows = jobs.iter().map(WorkflowSummary::new).collect();
    let next_cursor = next.map(|id| id.to_string());
    Ok(respond::json(StatusCode::OK, &WorkflowsView { workflows, next_cursor }))
}

/// The filters of a list of workflows.
pub(in crate::dialects) fn filter(query: &QueryString) -> Result<Filter, ApiError> {
    let no_state = |word: &str| {
        let states = [State::Running, State::Succeeded, State::Failed, State::Canceled].map(forge_state);
        query.invalid("state", &format!("must be {}, not `{word:.40}`", states.join(", ")))
    };
    let states = query.all("state").map(|word| parse_forge_state(word).ok_or_else(|| no_state(word)));
    let before = match query.get("cursor").map(str::parse::<JobId>) {
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => return Err(query.malformed("cursor", "is no cursor of this list")),
        None => None,
    };
    Ok(Filter {
        states: states.collect::<Result<_, _>>()?,
        workflow_name: query.get("name").map(str::to_owned),
        before,
        limit: query.limit()?,
        look_max: LIST_ROWS_MAX,
        ..Filter::default()
    })
}

fn not_found() -> ApiError {
    ApiError::new(Kind::JobNotFound, "There is no such workflow.")
}

/// The workflow's own job, if it is the caller's.
async fn own_job(call: &Call<'_>) -> Result<Arc<Job>, ApiError> {
    let job = ownership::job(call.app, call.caller(), call.id("workflow_id")).await;
    let hidden = call.app.config.auth.hide_foreign;
    let job = job.map_err(|error| match error.kind() {
        Kind::JobNotFound => not_found(),
        // A foreign workflow must be indistinguishable from a missing one (C-43).
        Kind::ForeignResource if hidden => not_found(),
        _ => error,
    })?;
    call.exchange.set_subject(RequestSubject::job(&job, false));
    if workflows::is_workflow(&job) { Ok(job) } else { Err(not_found()) }
}

/// `GET /v1/workflows/{id}`. A failed one is shown as its failure object if the client asks for
/// problem details.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let job = own_job(&call).await?;
    let form = accept::form(call.exchange, FailureFormat::Json);
    let ended_badly = matches!(job.state, State::Failed | State::Canceled);
    let last_word = if ended_badly { failure::last_word(call.app, &job, form).await? } else { None };
    let mut response = match last_word {
        Some(response) => response,
        None => shown(&call, job).await?,
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// The workflow, with tokens of its signals for callers that may send them.
async fn shown(call: &Call<'_>, job: Arc<Job>) -> Result<Response, ApiError> {
    let app = call.app;
    let last_word = workflows::failure(app, &job).await?;
    let rows = workflows::read(app, job).await?.ok_or_else(not_found)?;
    let mut view = WorkflowView::new(&rows, last_word);
    if call.caller().scopes.contains(KeyScope::Submit) {
        view = view.with_tokens(&rows, &workflows::signals_at(app));
    }
    Ok(respond::json(StatusCode::OK, &view))
}

/// `POST /v1/workflows/{id}/cancel`. On an ended one it changes nothing and reports the state. One
/// with compensations runs on until they are done, unless `compensate` is false.
async fn cancel(call: Call<'_>) -> Result<Response, ApiError> {
    let compensate: Option<bool> = body::member(&call.body, "compensate", "true or false")?;
    let own = own_job(&call).await?;
    let cancel = Cancel {
        owned: Owned { job: own.id, client: Some(call.caller().client) },
        execution: None,
        by: "user".to_owned(),
        reason: "the client asked for it".to_owned(),
        compensate: compensate.unwrap_or(true),
    };
    let (job, _) = call.app.engine.act(Command::Cancel(cancel)).await?;
    shown(&call, Arc::new(job)).await
}

/// `POST /v1/workflows/{id}/pause` and `…/resume`: with all its steps that have not ended.
async fn set_paused(call: Call<'_>, paused: bool) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    let own = own_job(&call).await?;
    let owned = Owned { job: own.id, client: Some(call.caller().client) };
    let (job, _) = call.app.engine.act(Command::Pause(JobPause { owned, paused })).await?;
    shown(&call, Arc::new(job)).await
}

/// `POST /v1/workflows/{id}/retry`: retries failed steps and runs those that did not run; all steps
/// if it was compensated. `from` names a step to continue from.
async fn retry(call: Call<'_>) -> Result<Response, ApiError> {
    let from: Option<String> = body::member(&call.body, "from", "the id of a step")?;
    let own = own_job(&call).await?;
    let from = match from {
        Some(id) => Some(workflows::step_index(call.app, &own, &id).await?),
        None => None,
    };
    let owned = Owned { job: own.id, client: Some(call.caller().client) };
    let (job, _) = call.app.engine.retry_workflow(owned, from).await?;
    shown(&call, Arc::new(job)).await
}

/// `POST /v1/workflows/{id}/steps`: steps added by the worker that holds one of its steps.
async fn add_steps(call: Call<'_>) -> Result<Response, ApiError> {
    let own = own_job(&call).await?;
    let job = workflows::add_steps(&call, &own).await?;
    shown(&call, Arc::new(job)).await
}

/// `GET /v1/workflows/{id}/results?limit=…&cursor=…`: what its steps left, in order.
async fn results(call: Call<'_>) -> Result<Response, ApiError> {
    let query = call.query()?;
    let first = match query.get("cursor").map(str::parse::<u32>) {
        Some(Ok(first)) => first,
        Some(Err(_)) => return Err(query.malformed("cursor", "is no cursor of this list")),
        None => 0,
    };
    let own = own_job(&call).await?;
    let view = workflows::results(call.app, &own, first, query.limit()?).await?.ok_or_else(not_found)?;
    Ok(respond::json(StatusCode::OK, &view))
}

/// `POST /v1/workflows/{id}/signals/{name}`.
async fn signal(call: Call<'_>) -> Result<Response, ApiError> {
    let own = own_job(&call).await?;
    let name = call.exchange.parameter("name").unwrap_or_default();
    workflows::send_named(call.app, call.caller().client, own.id, name, &call.body).await?;
    shown(&call, fresh(&call, own.id).await?).await
}

/// The workflow's own job after a command that answers with less.
async fn fresh(call: &Call<'_>, id: JobId) -> Result<Arc<Job>, ApiError> {
    call.app.engine.store().job(id).await?.ok_or_else(not_found)
}

/// `GET /v1/workflows/{id}/events`: its events, or a stream of them.
async fn of_workflow(call: Call<'_>) -> Result<Response, ApiError> {
    let query = events::query(call.exchange)?;
    let job = own_job(&call).await?;
    events::show(call.app, call.exchange, call.caller(), &query, job, StreamScope::Job).await
}
