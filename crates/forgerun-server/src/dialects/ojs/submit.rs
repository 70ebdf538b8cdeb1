//! Submitting: one job, a batch (all or nothing), or bulk (each on its own).

use std::sync::Arc;

use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::id::JobId;
use forgerun_core::job::{Input, Job, Name, Rate};
use forgerun_core::queue::Owner;
use forgerun_core::scope::KeyScope;
use forgerun_engine::Error;
use forgerun_wire::fingerprint::fingerprint;
use forgerun_wire::ojs::batch::{read_batch, read_bulk};
use forgerun_wire::ojs::envelope::{self, JobEnvelope, Rules};
use forgerun_wire::ojs::job::{BothView, JobView};
use forgerun_wire::ojs::state::StateWord;
use forgerun_wire::problem::RefusedRequest;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::jobs::Shown;
use super::scope::{CLIENT, REFUSALS, Scope};
use super::submission::{TERMS, from_envelope};
use super::{objects, refusals, reply};
use crate::app::App;
use crate::config::PrivateTargets;
use crate::http::{
    ApiError,
    accepted::{self, REPLAYED},
    prefer::APPLIED,
    respond,
    routing::{Call, Reply, Route, operation::SUBMITTING},
};
use crate::limits::{OJS_BATCH_BYTES_MAX, OJS_ENVELOPE_BYTES_MAX};
use crate::submission::{self, Key, SubmissionContext, Violations};
use crate::traces::RequestSubject;

pub(super) const ROUTES: &[Route] = &[
    Route::post("/ojs/v1/jobs", "submit", |call| Box::pin(one(call)))
        .access(CLIENT)
        .body_max(|_| OJS_ENVELOPE_BYTES_MAX)
        .scope(KeyScope::Submit)
        .operation("ojsEnqueue", "Enqueue a job.")
        .headers(SUBMITTING)
        .body(&objects::ENVELOPE)
        .replies(&[
            Reply::object(200, "The job was there before.", &objects::JOB).headers(&[
                "Location?",
                "Preference-Applied?",
                "Idempotent-Replayed?",
                "X-OJS-Queue-Depth?",
                "X-OJS-Queue-Bound?",
                "X-OJS-Queue-Pressure?",
            ]),
            Reply::object(201, "The job is stored.", &objects::JOB).headers(&[
                "Location?",
                "Preference-Applied?",
                "Idempotent-Replayed?",
                "X-OJS-Queue-Depth?",
                "X-OJS-Queue-Bound?",
                "X-OJS-Queue-Pressure?",
            ]),
        ])
        .refuses(REFUSALS),
    Route::post("/ojs/v1/jobs/batch", "submit", |call| Box::pin(batch(call)))
        .access(CLIENT)
        .body_max(|_| OJS_BATCH_BYTES_MAX)
        .scope(KeyScope::Submit)
        .operation("ojsEnqueueBatch", "Enqueue several jobs: all of them or none.")
        .headers(SUBMITTING)
        .body(&objects::BATCH)
        .replies(&[
            Reply::object(200, "The jobs were there before.", &objects::JOBS)
                .headers(&["Idempotent-Replayed?"]),
            Reply::object(201, "The jobs are stored.", &objects::JOBS).headers(&["Idempotent-Replayed?"]),
        ])
        .refuses(REFUSALS),
    Route::post("/ojs/v1/jobs/bulk", "submit", |call| Box::pin(bulk(call)))
        .access(CLIENT)
        .body_max(|_| OJS_BATCH_BYTES_MAX)
        .scope(KeyScope::Submit)
        .operation("ojsEnqueueBulk", "Enqueue several jobs, each for itself.")
        .headers(SUBMITTING)
        .body(&objects::BATCH)
        .replies(&[
            Reply::object(200, "All are stored.", &objects::BULK),
            Reply::object(207, "Some are stored.", &objects::BULK),
            Reply::object(422, "None is stored, or the request is refused.", &objects::BULK),
        ])
        .refuses(REFUSALS),
];

const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");

/// Scope of idempotency keys: the same for all ways a request comes.
const ONE: &str = "POST /ojs/v1/jobs";
const BATCH: &str = "POST /ojs/v1/jobs/batch";
const BULK: &str = "POST /ojs/v1/jobs/bulk";

/// The submitter and its rules.
struct Submitter<'a> {
    call: &'a Call<'a>,
    owner: Owner,
    operation: &'static str,
}

/// A job that was accepted, or existed.
pub(in crate::dialects) struct SubmittedJob {
    pub(in crate::dialects) job: Job,
    pub(in crate::dialects) input: Arc<Input>,
    pub(in crate::dialects) existing: bool,
}

impl<'a> Submitter<'a> {
    fn of(call: &'a Call<'a>, operation: &'static str) -> Result<Submitter<'a>, ApiError> {
        Ok(Submitter { call, owner: Scope::of(call)?.owner()?, operation })
    }

    fn rules(&self) -> Rules<'_> {
        let app = self.call.app;
        Rules {
            now: app.clock.now(),
            tenant: self.owner.tenant.as_ref().map(Name::as_str),
            strict_catalog: app.config.ojs.strict_catalog,
            test_hooks: app.config.ojs.test_hooks,
        }
    }

    /// The idempotency key, in the header or in the body.
    fn key<'k>(&self, of_body: Option<&'k str>) -> Result<Option<&'k str>, ApiError>
    where
        'a: 'k,
    {
        Ok(accepted::header_key(&self.call.exchange.headers)?.or(of_body))
    }

    async fn submit(
        &self,
        envelopes: Vec<JobEnvelope>,
        key: Option<&str>,
    ) -> Result<Vec<SubmittedJob>, ApiError> {
        let app = self.call.app;
        let context = SubmissionContext { key, bytes: 0, private: PrivateTargets::Deny };
        let mut checked = Vec::with_capacity(envelopes.len());
        let (mut uniques, mut made) = (Vec::new(), Vec::with_capacity(envelopes.len()));
        for envelope in envelopes {
            let head = self.call.head(self.owner.client, None);
            let submission = from_envelope(app, &self.owner, envelope, head)?;
            uniques.extend(submission.head.unique.as_ref().map(|unique| unique.key));
            made.push((submission.head.created_at, submission.input.clone()));
            checked.push(submission.check(app, &TERMS, context, Violations::default()).await?);
        }
        let key = match key {
            Some(key) => {
                Some(Key { operation: self.operation, key, fingerprint: fingerprint(&self.call.body)? })
            }
            None => None,
        };
        let command = submission::command(app, checked, key);
        let ids: Vec<JobId> = command.jobs.iter().map(|job| job.id).collect();
        let (jobs, existing) = match app.engine.submit(command).await {
            Ok(submitted) => submitted,
            Err(Error::Refused(Refusal::Duplicate { existing, index, .. })) => {
                let refused = self.duplicate(existing, &uniques).await?;
                return Err(if self.is_list(&ids) { refused.fact("index", index) } else { refused }.into());
            }
            Err(error) => return Err(refusals::of_engine(app, error)),
        };
        if key.is_some() {
            app.metrics.idempotency(existing);
        }
        let mut taken = Vec::with_capacity(jobs.len());
        for ((job, id), (created_at, input)) in jobs.into_iter().zip(ids).zip(made) {
            // One of several may have met an existing job, or another of them: that is not the one
            // that was sent.
            let met = existing && (job.id != id || job.head.created_at != created_at);
            let input = if met { Arc::new(self.input_of(&job).await?) } else { input };
            taken.push(SubmittedJob { job, input, existing: met });
        }
        Ok(taken)
    }

    async fn input_of(&self, job: &Job) -> Result<Input, ApiError> {
        let found = self.call.app.engine.store().inputs(vec![job.id]).await?;
        Ok(found.into_iter().next().map(|(_, input)| input).unwrap_or_default())
    }

    /// Names the job that holds the id or key; of a foreign job, only that its id is taken.
    async fn duplicate(&self, existing: JobId, uniques: &[[u8; 32]]) -> Result<RefusedRequest, ApiError> {
        let mut refused = RefusedRequest::new(Kind::Duplicate, "There is such a job already.")
            .fact("existing_job_id", existing.to_string());
        let found = self.call.app.engine.store().job(existing).await?;
        if let Some(job) = found.filter(|job| job.head.client == self.owner.client) {
            refused = refused.fact("existing_state", StateWord::of(&job).as_str());
            let key = job.head.unique.as_ref().map(|unique| unique.key);
            if let Some(key) = key.filter(|key| uniques.contains(key)) {
                refused = refused.fact("unique_key", hex(&key));
            }
        }
        Ok(refused)
    }

    /// Whether the refusal must name the job. In bulk the caller adds that.
    fn is_list(&self, ids: &[JobId]) -> bool {
        self.operation == BATCH || ids.len() > 1
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A job that was taken, as its submitter wants it shown (RFC 7240).
#[derive(Serialize)]
#[serde(untagged)]
enum TakenView<'a> {
    Full(JobView<'a>),
    Minimal { id: String, state: &'static str },
}

impl<'a> TakenView<'a> {
    fn of(call: &Call<'_>, taken: &'a SubmittedJob) -> TakenView<'a> {
        let SubmittedJob { job, input, .. } = taken;
        match call.exchange.prefer.return_minimal {
            true => TakenView::Minimal { id: job.id.to_string(), state: StateWord::of(job).as_str() },
            false => TakenView::Full(JobView::new(job, input)),
        }
    }
}

/// The answer to one job: within an object and at the top, as SDKs read one or the other (D3).
fn one_view(status: StatusCode, view: JobView<'_>, existing: bool) -> Response {
    let facts = if existing { vec![("deduplicated", true.into())] } else { Vec::new() };
    reply::json(status, &BothView { job: view, facts })
}

/// Submits the job of the envelope in the body. Returns its rate too, if the envelope has one.
pub(in crate::dialects) async fn take_one(call: &Call<'_>) -> Result<(SubmittedJob, Option<Rate>), ApiError> {
    let submitter = Submitter::of(call, ONE)?;
    let envelope = envelope::read(&call.body, submitter.rules())?;
    let rate = envelope.limits.iter().find_map(|limit| limit.rate);
    let mut taken = submitter.submit(vec![envelope], submitter.key(None)?).await?;
    let taken = taken.pop().expect("a submission of one job is answered with one");
    call.exchange.set_subject(RequestSubject::job(&taken.job, !taken.existing));
    Ok((taken, rate))
}

async fn one(call: Call<'_>) -> Result<Response, ApiError> {
    let (taken, rate) = take_one(&call).await?;
    let SubmittedJob { ref job, existing, .. } = taken;
    let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
    let prefer = call.exchange.prefer;
    let mut response = match prefer.wait {
        None => match TakenView::of(&call, &taken) {
            TakenView::Full(view) => one_view(status, view, existing),
            TakenView::Minimal { id, state } => {
                reply::json(status, &json!({"job": {"id": id, "state": state}, "id": id, "state": state}))
            }
        },
        // In its final state, with its result, if the client prefers to wait.
        Some(_) => {
            let job = accepted::awaited(call.app, call.caller(), &prefer, job.clone()).await?;
            let shown = Shown::read(call.app, Arc::new(job)).await?;
            one_view(status, shown.view(), existing)
        }
    };
    let headers = response.headers_mut();
    headers.extend(prefer.applied().map(|applied| (APPLIED, applied)));
    announce(call.app, headers, job, existing);
    headers.extend(rate.map(|rate| (RATE_LIMIT, HeaderValue::from(rate.count))));
    Ok(response)
}

fn announce(app: &App, headers: &mut HeaderMap, job: &Job, existing: bool) {
    headers.insert(LOCATION, respond::value(format!("{}/ojs/v1/jobs/{}", app.base, job.id)));
    if existing {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
}

#[derive(Serialize)]
struct BatchView<'a> {
    jobs: Vec<TakenView<'a>>,
    count: usize,
}

/// Submits the envelopes in the body, all or nothing.
pub(in crate::dialects) async fn take_batch(call: &Call<'_>) -> Result<Vec<SubmittedJob>, ApiError> {
    let submitter = Submitter::of(call, BATCH)?;
    let envelopes = read_batch(&call.body, submitter.rules())?;
    submitter.submit(envelopes, submitter.key(None)?).await
}

async fn batch(call: Call<'_>) -> Result<Response, ApiError> {
    let taken = take_batch(&call).await?;
    let existing = taken.iter().all(|taken| taken.existing);
    let jobs: Vec<TakenView<'_>> = taken.iter().map(|taken| TakenView::of(&call, taken)).collect();
    let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
    let mut response = reply::json(status, &BatchView { count: jobs.len(), jobs });
    if existing {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

async fn bulk(call: Call<'_>) -> Result<Response, ApiError> {
    let submitter = Submitter::of(&call, BULK)?;
    let request = read_bulk(&call.body, submitter.rules())?;
    let mut items = Vec::with_capacity(request.jobs.len());
    let n_refused = request.jobs.iter().filter(|job| job.is_err()).count();
    if request.atomic && n_refused == 0 {
        let envelopes = request.jobs.into_iter().filter_map(Result::ok).collect();
        let key = submitter.key(request.idempotency_key.as_deref())?;
        let taken = submitter.submit(envelopes, key).await?;
        items.extend(taken.iter().enumerate().map(|(index, taken)| accepted(&call, index, taken)));
        return Ok(bulk_answer(items));
    }
    let key = submitter.key(request.idempotency_key.as_deref())?;
    for (index, job) in request.jobs.into_iter().enumerate() {
        items.push(match job {
            Err(refused) => declined(&call, index, &refused),
            // All or nothing, and one is refused.
            Ok(_) if request.atomic => BulkItem { index, status: "skipped", job: None, error: None },
            Ok(envelope) => {
                // Each has a key of its own, so that a repetition finds what was accepted the first
                // time.
                let key = key.map(|key| format!("{key}#{index}"));
                match submitter.submit(vec![envelope], key.as_deref()).await {
                    Ok(taken) => accepted(&call, index, &taken[0]),
                    Err(error) => declined(&call, index, &error.into_parts().0),
                }
            }
        });
    }
    Ok(bulk_answer(items))
}

/// The result of one of many.
#[derive(Serialize)]
struct BulkItem {
    index: usize,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

fn accepted(call: &Call<'_>, index: usize, taken: &SubmittedJob) -> BulkItem {
    let status = if taken.existing { "duplicate" } else { "created" };
    let job = to_raw_value(&TakenView::of(call, taken)).expect("our views have text keys");
    BulkItem { index, status, job: Some(job), error: None }
}

fn declined(call: &Call<'_>, index: usize, refused: &RefusedRequest) -> BulkItem {
    let error = refusals::object(call.app, call.exchange, refused)["error"].take();
    BulkItem { index, status: "failed", job: None, error: Some(error) }
}

#[derive(Serialize)]
struct BulkView {
    total: usize,
    succeeded: usize,
    failed: usize,
    items: Vec<BulkItem>,
}

fn bulk_answer(items: Vec<BulkItem>) -> Response {
    let succeeded = items.iter().filter(|item| item.job.is_some()).count();
    let failed = items.len() - succeeded;
    let status = match (succeeded, failed) {
        (_, 0) => StatusCode::OK,
        (0, _) => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::MULTI_STATUS,
    };
    reply::json(status, &BulkView { total: items.len(), succeeded, failed, items })
}
