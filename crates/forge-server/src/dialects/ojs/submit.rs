//! Submitting: one job, a batch of which all or none are taken, or bulk of which each is taken for itself.

use std::sync::Arc;

use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use forge_core::Refusal;
use forge_core::catalog::Kind;
use forge_core::id::JobId;
use forge_core::job::{Conflict, Head, Input, Job, Limit, Name, Unique};
use forge_core::queue::Owner;
use forge_core::state::Facet;
use forge_engine::Error;
use forge_wire::body;
use forge_wire::fingerprint::fingerprint;
use forge_wire::ojs::batch::{read_batch, read_bulk};
use forge_wire::ojs::envelope::{self, JobEnvelope, Rules};
use forge_wire::ojs::job::JobView;
use forge_wire::ojs::state::StateWord;
use forge_wire::ojs::unique::{Dimensions, OnConflict, Uniqueness};
use forge_wire::problem::Refused;
use serde::Serialize;
use serde_json::{Value, json};

use super::scope::{CLIENT, Scope};
use super::{refusals, reply};
use crate::app::App;
use crate::config::PrivateTargets;
use crate::edge::accepted::{self, REPLAYED};
use crate::edge::routing::{Call, Route};
use crate::edge::{ApiError, respond};
use crate::limits::{OJS_BATCH_BYTES_MAX, OJS_ENVELOPE_BYTES_MAX};
use crate::submission::{self, Key, Sent, Submission, SubmissionTerms, Violations};
use crate::traces::RequestSubject;

/// OJS's words for what submissions of all dialects are held to. The envelope as a whole has its own bound (C-101).
const TERMS: SubmissionTerms = SubmissionTerms {
    queue: "options/queue",
    callback: "callback",
    key: "Idempotency-Key",
    execution_at: None,
    payload: "args",
    payload_bytes_max: |_| OJS_ENVELOPE_BYTES_MAX,
    refused: |kind, violations| body::refused(kind, violations, &[]),
};

/// The routes of submissions.
pub(super) const ROUTES: &[Route] = &[
    Route::post("/ojs/v1/jobs", "submit", |call| Box::pin(one(call)))
        .access(CLIENT)
        .body_max(|_| OJS_ENVELOPE_BYTES_MAX),
    Route::post("/ojs/v1/jobs/batch", "submit", |call| Box::pin(batch(call)))
        .access(CLIENT)
        .body_max(|_| OJS_BATCH_BYTES_MAX),
    Route::post("/ojs/v1/jobs/bulk", "submit", |call| Box::pin(bulk(call)))
        .access(CLIENT)
        .body_max(|_| OJS_BATCH_BYTES_MAX),
];

const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");

/// Who submits, and by which rules.
struct Submitter<'a> {
    call: &'a Call<'a>,
    owner: Owner,
}

/// A job that was taken, or was there before.
struct SubmittedJob {
    job: Job,
    input: Arc<Input>,
    existing: bool,
}

impl<'a> Submitter<'a> {
    fn of(call: &'a Call<'a>) -> Result<Submitter<'a>, ApiError> {
        Ok(Submitter { call, owner: Scope::of(call)?.owner()? })
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

    /// The key of the request, in the header or in the body.
    fn key<'k>(&self, of_body: Option<&'k str>) -> Result<Option<&'k str>, ApiError>
    where
        'a: 'k,
    {
        Ok(accepted::header_key(&self.call.exchange.headers)?.or(of_body))
    }

    fn submission(&self, envelope: JobEnvelope) -> Result<Submission, ApiError> {
        let queue = envelope.queue.unwrap_or_else(|| self.call.app.default_queue.clone());
        let now = self.call.app.clock.now();
        let limit = envelope.limit.map(|limited| Limit {
            key: self.owner.scoped(&limited.key.unwrap_or_else(|| format!("queue:{queue}"))),
            concurrency: limited.concurrency,
            rate: limited.rate,
        });
        let dimensions = Dimensions {
            client: self.owner.client,
            tenant: self.owner.tenant.as_ref().map(Name::as_str),
            job_type: &envelope.job_type,
            queue: queue.as_str(),
            args: &envelope.args,
            meta: &envelope.meta,
        };
        let unique = match &envelope.unique {
            None => None,
            Some(unique) => Some(Unique {
                key: unique.key(dimensions).ok_or_else(incomparable)?,
                facets: facets(unique),
                until: unique.period.map(|period| now + period),
                on_conflict: conflict(unique.on_conflict),
            }),
        };
        let head = Head {
            tenant: self.owner.tenant.clone(),
            priority: envelope.priority,
            execution_at: envelope.scheduled_at.map(|moment| moment.at),
            expires_at: envelope.expires_at.map(|moment| moment.at),
            lease: envelope.lease,
            timeout: envelope.timeout,
            retry: envelope.retry,
            limit,
            hold: envelope.pending,
            unique,
            tags: envelope.tags,
            job_type: envelope.job_type,
            queue,
            ..self.call.head(self.owner.client, None)
        };
        let input =
            Input { payload: envelope.args, meta: envelope.meta, extra: envelope.kept, items: Vec::new() };
        Ok(Submission { id: envelope.id, queue: None, head, input: Arc::new(input) })
    }

    /// Submits, all or none.
    async fn submit(
        &self,
        envelopes: Vec<JobEnvelope>,
        key: Option<&str>,
    ) -> Result<Vec<SubmittedJob>, ApiError> {
        let app = self.call.app;
        let sent = Sent { key, bytes: 0, private: PrivateTargets::Deny };
        let mut checked = Vec::with_capacity(envelopes.len());
        let (mut uniques, mut made) = (Vec::new(), Vec::with_capacity(envelopes.len()));
        for envelope in envelopes {
            let submission = self.submission(envelope)?;
            uniques.extend(submission.head.unique.as_ref().map(|unique| unique.key));
            made.push((submission.head.created_at, submission.input.clone()));
            checked.push(submission.check(app, &TERMS, sent, Violations::default())?);
        }
        let operation = ["POST ", self.call.exchange.uri.path()].concat();
        let key = match key {
            Some(key) => Some(Key { operation: &operation, key, fingerprint: fingerprint(&self.call.body)? }),
            None => None,
        };
        let submitted = app.engine.submit(submission::command(app, checked, key)).await;
        let (jobs, existing) = match submitted {
            Ok(submitted) => submitted,
            Err(Error::Refused(Refusal::Duplicate { existing, .. })) => {
                return Err(self.duplicate(existing, &uniques).await?);
            }
            Err(error) => return Err(refusals::of_engine(app, error)),
        };
        if key.is_some() {
            app.metrics.idempotency(existing);
        }
        let mut taken = Vec::with_capacity(jobs.len());
        for (job, (created_at, input)) in jobs.into_iter().zip(made) {
            // One of several may have met a job that was there; its birth tells.
            let met = existing && job.head.created_at != created_at;
            let input = if met { Arc::new(self.input_of(&job).await?) } else { input };
            taken.push(SubmittedJob { job, input, existing: met });
        }
        Ok(taken)
    }

    async fn input_of(&self, job: &Job) -> Result<Input, ApiError> {
        let found = self.call.app.engine.store().inputs(vec![job.id]).await?;
        Ok(found.into_iter().next().map(|(_, input)| input).unwrap_or_default())
    }

    /// Says which job is in the way; of a job of others, nothing but that its id is taken.
    async fn duplicate(&self, existing: JobId, uniques: &[[u8; 32]]) -> Result<ApiError, ApiError> {
        let mut refused = Refused::new(Kind::Duplicate, "There is such a job already.")
            .fact("existing_job_id", existing.to_string());
        let found = self.call.app.engine.store().job(existing).await?;
        if let Some(job) = found.filter(|job| job.head.client == self.owner.client) {
            refused = refused.fact("existing_state", StateWord::of(&job).as_str());
            let key = job.head.unique.as_ref().map(|unique| unique.key);
            if let Some(key) = key.filter(|key| uniques.contains(key)) {
                refused = refused.fact("unique_key", hex(&key));
            }
        }
        Ok(refused.into())
    }
}

/// Arguments that JSON allows and no number can hold, `1e999`, are like nothing else: nobody could say whether a job is unique.
fn incomparable() -> ApiError {
    let detail = "`args` and `meta` of a unique job must have numbers that can be compared.";
    Refused::new(Kind::InvalidArgs, detail).fact("field", "args").fact("constraint", "range").into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where the other job must stand to count.
fn facets(unique: &Uniqueness) -> u16 {
    let bits = |word: &StateWord| match word {
        StateWord::Scheduled => Facet::Scheduled.bit(),
        StateWord::Pending => Facet::Held.bit(),
        StateWord::Available => Facet::Available.bit(),
        StateWord::Retryable => Facet::Waiting.bit(),
        StateWord::Active => Facet::Assigned.bit() | Facet::Running.bit(),
        StateWord::Completed => Facet::Succeeded.bit(),
        StateWord::Discarded => Facet::Failed.bit() | Facet::Expired.bit(),
        StateWord::Cancelled => Facet::Canceled.bit(),
    };
    unique.states.iter().map(bits).fold(0, |all, bits| all | bits)
}

const fn conflict(on_conflict: OnConflict) -> Conflict {
    match on_conflict {
        OnConflict::Reject => Conflict::Reject,
        OnConflict::Ignore => Conflict::Ignore,
        OnConflict::Replace => Conflict::Replace,
        OnConflict::ReplaceExceptSchedule => Conflict::ReplaceKeepingSchedule,
    }
}

#[derive(Serialize)]
struct OneView<'a> {
    job: JobView<'a>,
    #[serde(skip_serializing_if = "is_false")]
    deduplicated: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

async fn one(call: Call<'_>) -> Result<Response, ApiError> {
    let submitter = Submitter::of(&call)?;
    let envelope = envelope::read(&call.body, submitter.rules())?;
    let rate = envelope.limit.as_ref().and_then(|limit| limit.rate);
    let mut taken = submitter.submit(vec![envelope], submitter.key(None)?).await?;
    let SubmittedJob { job, input, existing } =
        taken.pop().expect("a submission of one job is answered with one");
    call.exchange.is_about(RequestSubject::job(&job, !existing));
    let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
    let view = OneView { job: JobView::new(&job, &input), deduplicated: existing };
    let mut response = reply::json(status, &view);
    let headers = response.headers_mut();
    announce(call.app, headers, &job, existing);
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
    jobs: Vec<JobView<'a>>,
    count: usize,
}

async fn batch(call: Call<'_>) -> Result<Response, ApiError> {
    let submitter = Submitter::of(&call)?;
    let envelopes = read_batch(&call.body, submitter.rules())?;
    let taken = submitter.submit(envelopes, submitter.key(None)?).await?;
    let existing = taken.iter().all(|taken| taken.existing);
    let jobs: Vec<JobView<'_>> = taken.iter().map(|taken| JobView::new(&taken.job, &taken.input)).collect();
    let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
    let mut response = reply::json(status, &BatchView { count: jobs.len(), jobs });
    if existing {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

async fn bulk(call: Call<'_>) -> Result<Response, ApiError> {
    let submitter = Submitter::of(&call)?;
    let request = read_bulk(&call.body, submitter.rules())?;
    let mut items = Vec::with_capacity(request.jobs.len());
    let n_refused = request.jobs.iter().filter(|job| job.is_err()).count();
    if request.atomic && n_refused == 0 {
        let envelopes = request.jobs.into_iter().filter_map(Result::ok).collect();
        let key = submitter.key(request.idempotency_key.as_deref())?;
        let taken = submitter.submit(envelopes, key).await?;
        items.extend(taken.iter().enumerate().map(|(index, taken)| accepted(index, taken)));
        return Ok(bulk_answer(items));
    }
    let key = submitter.key(request.idempotency_key.as_deref())?;
    for (index, job) in request.jobs.into_iter().enumerate() {
        items.push(match job {
            Err(refused) => declined(&call, index, &refused),
            // All or none, and another is refused.
            Ok(_) if request.atomic => json!({"index": index, "status": "skipped"}),
            Ok(envelope) => {
                // Each has a key of its own, so that a repetition meets what was taken the first time.
                let key = key.map(|key| format!("{key}#{index}"));
                match submitter.submit(vec![envelope], key.as_deref()).await {
                    Ok(taken) => accepted(index, &taken[0]),
                    Err(error) => declined(&call, index, &error.into_parts().0),
                }
            }
        });
    }
    Ok(bulk_answer(items))
}

fn accepted(index: usize, taken: &SubmittedJob) -> Value {
    let status = if taken.existing { "duplicate" } else { "created" };
    json!({"index": index, "status": status, "job": JobView::new(&taken.job, &taken.input).value()})
}

fn declined(call: &Call<'_>, index: usize, refused: &Refused) -> Value {
    let object = refusals::object(call.app, call.exchange, refused);
    json!({"index": index, "status": "failed", "error": object["error"]})
}

fn bulk_answer(items: Vec<Value>) -> Response {
    let succeeded = items.iter().filter(|item| item.get("job").is_some()).count();
    let failed = items.len() - succeeded;
    let status = match (succeeded, failed) {
        (_, 0) => StatusCode::OK,
        (0, _) => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::MULTI_STATUS,
    };
    let view = json!({"total": items.len(), "succeeded": succeeded, "failed": failed, "items": items});
    reply::json(status, &view)
}
