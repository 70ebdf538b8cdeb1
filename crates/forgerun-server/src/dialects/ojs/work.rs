//! Calls of workers: fetch, ack, nack, progress.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{
    Claim, Conclude, Extend, Fail, HeldJob, LeaseProof, Note, Output, Snooze, Succeed, WorkError, WorkerKind,
};
use forgerun_core::id::JobId;
use forgerun_core::job::{Input, Job, Lane, Name};
use forgerun_core::queue::{Owner, QueueId};
use forgerun_core::scope::KeyScope;
use forgerun_core::{Command, Refusal};
use forgerun_engine::Error;
use forgerun_store::Fault;
use forgerun_wire::ojs::job::{JobView, ParentResults, attempts, completed_at, retry_delay_ms};
use forgerun_wire::ojs::state::StateWord;
use forgerun_wire::ojs::worker::{
    AckRequest, FetchRequest, HeldJobRef, Nack, NackRequest, item_ends, lease_token, read_ack, read_fetch,
    read_nack, read_progress,
};
use forgerun_wire::time::Millis;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::jobs::{Shown, progress_view};
use super::results::of_intake;
use super::scope::{CLIENT_OR_OPERATOR, OF_LEASE, Scope};
use super::taking::{FetchClaim, HandBackGuard};
use super::{objects, refusals, reply};
use crate::app::App;
use crate::http::{
    ApiError,
    routing::{Call, RateCount, Reply, Route},
};
use crate::limits::{
    FETCH_BYTES_MAX, FETCH_READ_JOBS, FETCH_TIMEOUT, OJS_ENVELOPE_BYTES_MAX, OJS_LEASE, SHELVES_SEARCHED_MAX,
    STREAM_CLAIM_GRACE,
};
use crate::traces::RequestSubject;
use crate::workflows::parents_of;

/// The routes of workers. They are called often, so they have a limit of their own (C-99).
pub(super) const ROUTES: &[Route] = &[
    Route {
        timeout: Some(FETCH_TIMEOUT),
        ..of_worker("/ojs/v1/workers/fetch", "fetch", |call| Box::pin(fetch(call)))
            .operation("ojsFetch", "Take jobs to work on.")
            .body(&objects::FETCH)
            .replies(&[Reply::object(
                200,
                "Jobs, each with its `lease_token`; none if there is nothing to do.",
                &objects::JOBS,
            )])
    },
    Route {
        timeout: Some(FETCH_TIMEOUT),
        ..of_worker("/ojs/v1/jobs/fetch", "fetch", |call| Box::pin(fetch(call)))
            .operation("ojsFetchJobs", "Take jobs to work on.")
            .body(&objects::FETCH)
            .replies(&[Reply::object(
                200,
                "Jobs, each with its `lease_token`; none if there is nothing to do.",
                &objects::JOBS,
            )])
    },
    of_worker("/ojs/v1/workers/ack", "ack", |call| Box::pin(ack(call)))
        .operation("ojsAck", "Report that an attempt succeeded.")
        .optional_body(&objects::ACK)
        .replies(&[Reply::object(200, "What became of the job.", &objects::SETTLED)])
        .refuses(OF_LEASE),
    of_worker("/ojs/v1/jobs/{job_id}/ack", "ack", |call| Box::pin(ack(call)))
        .operation("ojsAckJob", "Report that an attempt succeeded.")
        .optional_body(&objects::ACK)
        .replies(&[Reply::object(200, "What became of the job.", &objects::SETTLED)])
        .refuses(OF_LEASE),
    of_worker("/ojs/v1/workers/nack", "nack", |call| Box::pin(nack(call)))
        .operation("ojsNack", "Report that an attempt failed, or give a job back.")
        .optional_body(&objects::NACK)
        .replies(&[Reply::object(200, "What became of the job.", &objects::SETTLED)])
        .refuses(OF_LEASE),
    of_worker("/ojs/v1/jobs/{job_id}/nack", "nack", |call| Box::pin(nack(call)))
        .operation("ojsNackJob", "Report that an attempt failed, or give a job back.")
        .optional_body(&objects::NACK)
        .replies(&[Reply::object(200, "What became of the job.", &objects::SETTLED)])
        .refuses(OF_LEASE),
    of_worker("/ojs/v1/workers/progress", "progress", |call| Box::pin(progress(call)))
        .operation("ojsReportProgress", "Report how far the work on a job is.")
        .optional_body(&objects::PROGRESS)
        .replies(&[Reply::object(200, "Stored.", &objects::PROGRESS_VIEW)])
        .refuses(OF_LEASE),
    Route::put("/ojs/v1/jobs/{job_id}/progress", "progress", |call| Box::pin(progress(call)))
        .access(CLIENT_OR_OPERATOR)
        .rate(RateCount::WorkerCalls)
        .scope(KeyScope::Work)
        .operation("ojsPutProgress", "Report how far the work on a job is.")
        .optional_body(&objects::PROGRESS)
        .replies(&[Reply::object(200, "Stored.", &objects::PROGRESS_VIEW)])
        .refuses(OF_LEASE),
];

/// A call of a worker; its body may be as large as a job.
pub(super) const fn of_worker(
    path: &'static str,
    action: &'static str,
    handler: for<'a> fn(Call<'a>) -> crate::http::routing::Answering<'a>,
) -> Route {
    Route::post(path, action, handler)
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Work)
        .rate(RateCount::WorkerCalls)
        .body_max(|_| OJS_ENVELOPE_BYTES_MAX)
}

/// The name of a worker that gives none.
const ANONYMOUS: &str = "anonymous";

/// Claims jobs for a worker, with their inputs: as many as requested, or fewer if they exceed a
/// bound of bytes.
pub(in crate::dialects) async fn fetch_jobs(
    call: &Call<'_>,
    request: &FetchRequest,
    bytes_max: usize,
) -> Result<Vec<AssignedJob>, ApiError> {
    let (app, scope) = (call.app, Scope::of(call)?);
    let mut taken = HandBackGuard::new(app);
    let jobs = match scope.client.or(request.client) {
        Some(client) => {
            if request.client.is_some_and(|named| named != client) {
                return Err(ApiError::new(
                    Kind::Forbidden,
                    "Only the operator may fetch for another client.",
                ));
            }
            let owner = Owner { client, tenant: scope.tenant.clone() };
            let jobs = claim(app, owner, request, request.count, request.wait).await?;
            taken.add(&jobs);
            jobs
        }
        None => fetch_for_all(app, &scope, request, &mut taken).await?,
    };
    if let Some(first) = jobs.first() {
        call.exchange.set_subject(RequestSubject::job(first, false));
    }
    let handed_out = handed_out_within(app, jobs, bytes_max).await?;
    taken.confirm(&handed_out);
    Ok(handed_out)
}

/// The first of these jobs, with all that their worker needs, up to `bytes_max` bytes; at least
/// one.
async fn handed_out_within(
    app: &App,
    mut jobs: Vec<Job>,
    bytes_max: usize,
) -> Result<Vec<AssignedJob>, ApiError> {
    let (mut found, mut n_bytes) = (Vec::with_capacity(jobs.len()), 0);
    while !jobs.is_empty() {
        let rest = jobs.split_off(jobs.len().min(FETCH_READ_JOBS));
        for of in handed_out(app, jobs).await? {
            n_bytes += of.n_bytes();
            if n_bytes > bytes_max && !found.is_empty() {
                return Ok(found);
            }
            found.push(of);
        }
        jobs = rest;
    }
    Ok(found)
}

/// A claimed job, with all that its worker needs.
pub(in crate::dialects) struct AssignedJob {
    pub(in crate::dialects) job: Job,
    pub(in crate::dialects) input: Input,
    pub(in crate::dialects) parents: Option<ParentResults>,
}

impl AssignedJob {
    /// Bytes from clients and other jobs.
    fn n_bytes(&self) -> usize {
        let of_parent = |result: &Option<Box<RawValue>>| result.as_ref().map_or(0, |text| text.get().len());
        let parents = self.parents.as_ref().map_or(0, |left| left.results.iter().map(of_parent).sum());
        self.input.payload.len() + self.input.extra.len() + parents
    }

    /// The view for the worker that has just claimed it.
    pub(in crate::dialects) fn view<'a>(&'a self, token: &'a str) -> JobView<'a> {
        JobView {
            lease_token: Some(token),
            parents: self.parents.as_ref(),
            ..JobView::new(&self.job, &self.input)
        }
    }
}

/// Jobs with their inputs and the results of the steps they depend on.
pub(in crate::dialects) async fn handed_out(app: &App, jobs: Vec<Job>) -> Result<Vec<AssignedJob>, ApiError> {
    let jobs = with_readable_inputs(app, jobs).await?;
    let parents = parents_of(app, &jobs.iter().map(|(job, _)| job).collect::<Vec<_>>()).await?;
    let jobs = jobs.into_iter().zip(parents);
    Ok(jobs.map(|((job, input), parents)| AssignedJob { job, input, parents }).collect())
}

/// Claimed jobs with their inputs. A job with an unreadable input fails: handed back, it would be
/// the next to be claimed again, and no worker would get the jobs behind it.
async fn with_readable_inputs(app: &App, jobs: Vec<Job>) -> Result<Vec<(Job, Input)>, ApiError> {
    let store = app.engine.store();
    match store.inputs(jobs.iter().map(|job| job.id).collect()).await {
        Err(error) if error.fault.is_unreadable() => {}
        inputs => return Ok(paired(jobs, inputs?)),
    }
    let mut found = Vec::with_capacity(jobs.len());
    for job in jobs {
        match store.inputs(vec![job.id]).await {
            Err(error) if error.fault.is_unreadable() => {
                tracing::error!(job.id = %job.id, %error, "job input unreadable: job failed");
                let (kind, message) = match error.fault {
                    Fault::Sealed => {
                        (Kind::ContentUnreadable, "The stored input of the job cannot be decrypted.")
                    }
                    _ => (Kind::StorageError, "The stored input of the job is damaged."),
                };
                let error = WorkError { retryable: Some(false), ..WorkError::new(kind, message) };
                let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None };
                if let Err(error) = app.engine.act(Command::Fail(Fail { held, error })).await {
                    tracing::warn!(job.id = %job.id, %error, "job with unreadable input could not be failed");
                }
            }
            input => found.extend(paired(vec![job], input?)),
        }
    }
    Ok(found)
}

/// Jobs with their inputs.
async fn with_inputs(app: &App, jobs: Vec<Job>) -> Result<Vec<(Job, Input)>, ApiError> {
    let inputs = app.engine.store().inputs(jobs.iter().map(|job| job.id).collect()).await?;
    Ok(paired(jobs, inputs))
}

fn paired(jobs: Vec<Job>, mut inputs: Vec<(JobId, Input)>) -> Vec<(Job, Input)> {
    let input_of = |job: Job| {
        let found = inputs.iter().position(|(id, _)| *id == job.id);
        let input = found.map(|at| inputs.swap_remove(at).1).unwrap_or_default();
        (job, input)
    };
    jobs.into_iter().map(input_of).collect()
}

/// The first of these jobs, with their inputs, up to `bytes_max` bytes; at least one.
pub(in crate::dialects) async fn with_inputs_within(
    app: &App,
    mut jobs: Vec<Job>,
    bytes_max: usize,
) -> Result<Vec<(Job, Input)>, ApiError> {
    let (mut found, mut n_bytes) = (Vec::with_capacity(jobs.len()), 0);
    while !jobs.is_empty() {
        let rest = jobs.split_off(jobs.len().min(FETCH_READ_JOBS));
        for (job, input) in with_inputs(app, jobs).await? {
            n_bytes += input.payload.len() + input.extra.len();
            if n_bytes > bytes_max && !found.is_empty() {
                return Ok(found);
            }
            found.push((job, input));
        }
        jobs = rest;
    }
    Ok(found)
}

async fn fetch(call: Call<'_>) -> Result<Response, ApiError> {
    let jobs = fetch_jobs(&call, &read_fetch(&call.body)?, FETCH_BYTES_MAX).await?;
    let tokens: Vec<String> = jobs.iter().map(|of| lease_token(of.job.id, of.job.fence)).collect();
    let views: Vec<JobView<'_>> = jobs.iter().zip(&tokens).map(|(of, token)| of.view(token)).collect();
    Ok(reply::ok(&json_jobs(&views)))
}

#[derive(serde::Serialize)]
struct Jobs<'a> {
    jobs: &'a [JobView<'a>],
}

fn json_jobs<'a>(jobs: &'a [JobView<'a>]) -> Jobs<'a> {
    Jobs { jobs }
}

async fn claim(
    app: &App,
    owner: Owner,
    request: &FetchRequest,
    limit: usize,
    wait: Duration,
) -> Result<Vec<Job>, ApiError> {
    let mut claiming = FetchClaim::begin(app, claim_of(owner, request, limit), wait);
    let claimed = tokio::select! {
        biased;
        claimed = claiming.claimed() => Some(claimed),
        () = app.stopping(), if !wait.is_zero() => None,
    };
    let claimed = match claimed {
        Some(claimed) => claimed,
        // A claim that is being written cannot be cancelled, so its worker gets the jobs.
        None => timeout(STREAM_CLAIM_GRACE, claiming.claimed()).await.unwrap_or(Ok(Vec::new())),
    };
    claimed.map_err(|error| refusals::of_engine(app, error))
}

pub(in crate::dialects) fn claim_of(owner: Owner, request: &FetchRequest, limit: usize) -> Claim {
    Claim {
        worker: request.worker.clone().unwrap_or_else(|| Name::new(ANONYMOUS).expect("a short name")),
        worker_kind: WorkerKind::External(owner),
        queues: request.queues.clone(),
        limit,
        lease: request.lease,
        lease_default: OJS_LEASE,
        start: true,
        active_max: None,
    }
}

/// The operator's worker claims jobs of all clients, queue by queue. It does not wait, because it
/// has no single shelf.
async fn fetch_for_all(
    app: &App,
    scope: &Scope,
    request: &FetchRequest,
    taken: &mut HandBackGuard,
) -> Result<Vec<Job>, ApiError> {
    let mut jobs = Vec::new();
    let mut owners: Vec<Owner> = Vec::new();
    let mut after = String::new();
    while owners.len() < SHELVES_SEARCHED_MAX {
        let names = app.engine.store().shelf_names(Lane::External, after, SHELVES_SEARCHED_MAX).await?;
        let Some(last) = names.last() else { break };
        after = last.as_str().to_owned();
        for queue in names.iter().map(QueueId::parse).filter(|queue| request.queues.contains(&queue.name)) {
            let Some(owner) = queue.owner else { continue };
            if !owners.contains(&owner) && (scope.tenant.is_none() || scope.tenant == owner.tenant) {
                owners.push(owner);
            }
        }
    }
    for owner in owners {
        if jobs.len() < request.count {
            let left = request.count - jobs.len();
            let more = claim(app, owner, request, left, Duration::ZERO).await?;
            taken.add(&more);
            jobs.extend(more);
        }
    }
    Ok(jobs)
}

/// The id in the path, if the route has one.
fn in_path<'a>(call: &'a Call<'_>) -> Option<std::borrow::Cow<'a, str>> {
    call.exchange.parameter("job_id").map(|_| call.text("job_id"))
}

/// The job, caller and proof for the engine.
pub(super) async fn held(app: &App, scope: &Scope, claimed: HeldJobRef) -> Result<HeldJob, ApiError> {
    let Some(job) = claimed.job else {
        return Err(forgerun_engine::Error::Refused(forgerun_core::Refusal::NotFound).into());
    };
    scope.check_tenant(app, job).await?;
    Ok(HeldJob { job, proof: claimed.proof, client: scope.client })
}

/// Ends an attempt with success; returns the job.
pub(in crate::dialects) async fn acknowledge(call: &Call<'_>, request: AckRequest) -> Result<Job, ApiError> {
    let (app, scope) = (call.app, Scope::of(call)?);
    let held = held(app, &scope, request.claimed).await?;
    let output = match &request.result {
        Some(result) => Some(kept(app, result).await?),
        None => None,
    };
    let succeeded = app.engine.act(Command::Succeed(Succeed { held: held.clone(), output })).await;
    let done = match succeeded {
        Err(Error::Refused(Refusal::WrongItems { .. })) => {
            conclude(app, held, request.result.as_deref()).await?
        }
        succeeded => succeeded,
    };
    said(call, done)
}

/// Ends an attempt of a batch: the batch ends as its items did.
pub(super) async fn conclude(
    app: &App,
    held: HeldJob,
    result: Option<&RawValue>,
) -> Result<Result<(Job, bool), Error>, ApiError> {
    let input = app.engine.store().inputs(vec![held.job]).await?.pop();
    let items = input.map(|(_, input)| input.items).unwrap_or_default();
    let ends = item_ends(&items, result)?.into();
    Ok(app.engine.act(Command::Conclude(Conclude { held, ends })).await)
}

async fn ack(call: Call<'_>) -> Result<Response, ApiError> {
    let request = read_ack(&call.body, in_path(&call).as_deref())?;
    let job = acknowledge(&call, request).await?;
    answer(&call, job).await
}

/// A result in the ack. A large one becomes a blob.
pub(super) async fn kept(app: &App, result: &RawValue) -> Result<Arc<Output>, ApiError> {
    let mut intake = app.engine.begin_result("application/json", None);
    intake.write(result.get().as_bytes().to_vec().into()).await.map_err(of_intake)?;
    Ok(Arc::new(intake.finish().await.map_err(of_intake)?))
}

/// Ends an attempt as the worker reports; returns the job.
pub(in crate::dialects) async fn end_attempt(call: &Call<'_>, request: NackRequest) -> Result<Job, ApiError> {
    let (app, scope) = (call.app, Scope::of(call)?);
    let held = held(app, &scope, request.claimed).await?;
    run(call, command_of(held, request.answer)).await
}

/// The command of a nack.
pub(super) fn command_of(held: HeldJob, nack: Nack) -> Command {
    match nack {
        Nack::Requeue { delay, until_signal: None } if delay.is_zero() => Command::HandBack(held),
        Nack::Requeue { delay, until_signal } => Command::Snooze(Snooze { held, delay, until_signal }),
        Nack::Succeed => Command::Succeed(Succeed { held, output: None }),
        Nack::Fail(error) => Command::Fail(Fail { held, error: *error }),
    }
}

async fn nack(call: Call<'_>) -> Result<Response, ApiError> {
    let request = read_nack(&call.body, in_path(&call).as_deref())?;
    let job = end_attempt(&call, request).await?;
    answer(&call, job).await
}

async fn run(call: &Call<'_>, command: Command) -> Result<Job, ApiError> {
    let done = call.app.engine.act(command).await;
    said(call, done)
}

fn said(call: &Call<'_>, done: Result<(Job, bool), Error>) -> Result<Job, ApiError> {
    let (job, _) = done.map_err(|error| refusals::of_engine(call.app, error))?;
    call.exchange.set_subject(RequestSubject::job(&job, false));
    Ok(job)
}

/// Where the job stands after what the worker said.
#[derive(serde::Serialize)]
struct SettledView<'a> {
    acknowledged: bool,
    id: &'a str,
    job_id: &'a str,
    state: &'static str,
    attempt: u32,
    max_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    discarded_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<JobView<'a>>,
}

/// The answer about the job. The full job is omitted if the client prefers a short answer: it costs
/// a query.
async fn answer(call: &Call<'_>, job: Job) -> Result<Response, ApiError> {
    let (id, word) = (job.id.to_string(), StateWord::of(&job));
    let completed_at = completed_at(&job).map(Millis);
    let is_retryable = word == StateWord::Retryable;
    let settled = SettledView {
        acknowledged: true,
        id: &id,
        job_id: &id,
        state: word.as_str(),
        attempt: attempts(&job),
        max_attempts: job.head.retry.attempts_max,
        completed_at,
        discarded_at: completed_at.filter(|_| word == StateWord::Discarded),
        next_attempt_at: job.available_at.filter(|_| is_retryable).map(Millis),
        retry_delay_ms: retry_delay_ms(&job).filter(|_| is_retryable),
        job: None,
    };
    if call.exchange.prefer.return_minimal {
        return Ok(reply::ok(&settled));
    }
    let shown = Shown::read(call.app, Arc::new(job)).await?;
    Ok(reply::ok(&SettledView { job: Some(shown.view()), ..settled }))
}

async fn progress(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    let request = read_progress(&call.body, in_path(&call).as_deref())?;
    let held = held(app, &scope, request.claimed).await?;
    let note = Some(Note::Progress { percent: request.percent, message: request.message });
    let id = held.job;
    let (job, acknowledged) = match run(&call, Command::Extend(Extend { held, lease: None, note })).await {
        Ok(job) => (job, true),
        Err(error) if is_late(error.kind()) => {
            let job = scope.job(app, Some(id)).await?;
            // A report that comes too late is no fault; one about a job of another worker is.
            match job.state.is_active() {
                true => return Err(error),
                false => (Job::clone(&job), false),
            }
        }
        Err(error) => return Err(error),
    };
    let mut view = progress_view(&job);
    view["acknowledged"] = acknowledged.into();
    Ok(reply::ok(&view))
}

/// Whether the job is not active any more, or not yet.
const fn is_late(kind: Kind) -> bool {
    matches!(kind, Kind::IllegalTransition | Kind::AlreadyCompleted | Kind::AlreadyCancelled)
}
