//! Every operation of the server.

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::api::DeclaredOperation;
use super::operation::{Access, Operation, OperationAnswer, OperationBody, Presence};
use super::schemas::QUEUE_NAME;
use crate::problem::RefusedRequest;

/// All of them, in the order of the document.
pub(super) fn all(declared: &[DeclaredOperation<'_>]) -> Vec<Operation> {
    let mut operations = clients();
    operations.extend(jobs());
    operations.extend(steps());
    operations.extend(super::batches::all());
    operations.extend(super::schedules::all());
    operations.extend(super::workflows::all());
    operations.extend(super::webhooks::all());
    operations.extend(readings());
    operations.extend(super::events::all());
    operations.extend(super::api::all(declared));
    operations.extend(super::admin::all());
    operations.extend(super::pages::all());
    operations
}

/// What any request of `/v1` may meet.
pub(super) const ANY: &[Kind] = &[
    Kind::NotAcceptable,
    Kind::RateLimited,
    Kind::Internal,
    Kind::StorageUnavailable,
    Kind::StorageError,
    Kind::StorageTimeout,
    Kind::OperationTimeout,
    Kind::DependencyTimeout,
];

/// What a request with credentials may meet.
pub(super) const KEYED: &[Kind] =
    &[Kind::Unauthenticated, Kind::KeyExpired, Kind::KeyRevoked, Kind::QuotaExceeded];

/// What a request with a body may meet, and one that writes.
pub(super) const WRITING: &[Kind] = &[
    Kind::MalformedRequest,
    Kind::BodyTooLarge,
    Kind::UnsupportedMediaType,
    Kind::UnsupportedCompression,
    Kind::PreconditionFailed,
    Kind::QueueFull,
];

/// What a request about one job may meet.
pub(super) const OF_JOB: &[Kind] = &[Kind::Forbidden, Kind::ForeignResource, Kind::JobNotFound];

const OF_CLIENT: &[Kind] = &[Kind::ForeignResource, Kind::ClientNotFound];

/// The refusals of these kinds, in the words of the catalog.
pub(super) fn refusals(kinds: &[&[Kind]]) -> Vec<RefusedRequest> {
    let kinds = kinds.iter().flat_map(|kinds| kinds.iter());
    kinds.map(|kind| RefusedRequest::new(*kind, kind.entry().meaning)).collect()
}

pub(super) const JOB: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const CLIENT: &str = "6f1b7b46-5d6e-4a2f-9c0b-3f1f8d1f2a10";
/// What examples show of a result.
const ETAG: &str = "\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"";
const KEY: &str = "01890a5d-b1c2-7d3e-8f40-5a6b7c8d9e0f";
pub(super) const NOON: &str = "2026-05-28T12:00:00.000Z";

fn clients() -> Vec<Operation> {
    let key = |secret: Option<&str>| {
        json!({
            "api_key": secret, "key_id": KEY, "key_prefix": "frk_q83v8wX1", "created_at": NOON,
            "expires_at": "2026-08-26T12:00:00.000Z",
        })
    };
    let secret = Some("frk_q83v8wX1mZ4n9c2Tt7yL0aB5dEfGhJkLmNpQrStUvWx");
    let nothing = || Some(OperationBody { schema: "Nothing", required: false, examples: vec![] });
    let post = |path: &'static str, id: &'static str, summary: &'static str| Operation {
        method: "post",
        path: path.into(),
        id: id.into(),
        tag: "clients",
        summary: summary.into(),
        access: Access::ClientOrOperator,
        parameters: vec![path_parameter("client_id", "The client.")],
        body: nothing(),
        answers: vec![],
        refusals: vec![],
    };
    vec![
        Operation {
            access: Access::AnybodyOrOperator,
            parameters: tracing(),
            body: Some(OperationBody {
                schema: "ClientRequest",
                required: false,
                examples: vec![("named", json!({"name": "Billing"}))],
            }),
            answers: vec![answer(
                201,
                "Registered.",
                "Client",
                json!({"client_id": CLIENT, "name": "Billing"}),
            )],
            refusals: refusals(&[WRITING, ANY, &KEYED[..3], &[Kind::Forbidden, Kind::ConfigInvalid]]),
            ..post("/v1/clients", "createClient", "Registers a client.")
        },
        Operation {
            method: "patch",
            body: Some(OperationBody {
                schema: "ClientRequest",
                required: true,
                examples: vec![("named", json!({"name": "Billing"})), ("unnamed", json!({"name": null}))],
            }),
            answers: vec![answer(200, "Named.", "Client", json!({"client_id": CLIENT, "name": "Billing"}))],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_CLIENT]),
            ..post(
                "/v1/clients/{client_id}",
                "nameClient",
                "Names a client: itself, or any client with the operator's token.",
            )
        },
        Operation {
            access: Access::FirstKey,
            body: Some(OperationBody {
                schema: "KeyRequest",
                required: false,
                examples: vec![("rotate", json!({"rotate": true}))],
            }),
            answers: vec![OperationAnswer {
                headers: vec![("Idempotent-Replayed", Presence::Sometimes)],
                ..answer(201, "The key, with its secret if it was made just now.", "Key", key(secret))
            }],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_CLIENT]),
            ..post(
                "/v1/clients/{client_id}/keys",
                "createKey",
                "Makes a key, or names the one there is. The first one needs no key.",
            )
        },
        Operation {
            answers: vec![answer(200, "The new key; the one before stops working.", "Key", key(secret))],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_CLIENT, &[Kind::Duplicate]]),
            ..post(
                "/v1/clients/{client_id}/keys/renew",
                "renewKey",
                "Puts a new key in the place of the old; for `auth.renew_grace_days` after its end an expired key may do it too.",
            )
        },
        Operation {
            body: Some(OperationBody {
                schema: "RevokeRequest",
                required: true,
                examples: vec![("revoke", json!({"key_id": KEY}))],
            }),
            answers: vec![answer(200, "Revoked, now or before.", "Revoked", json!({"revoked": true}))],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_CLIENT, &[Kind::KeyNotFound]]),
            ..post("/v1/clients/{client_id}/keys/revoke", "revokeKey", "Makes a key stop working.")
        },
    ]
}

/// Kinds that only a submission meets.
pub(super) const SUBMITTING: &[Kind] = &[
    Kind::Forbidden,
    Kind::UnknownJobType,
    Kind::InvalidArgs,
    Kind::ScheduleInPast,
    Kind::InvalidCallbackUrl,
    Kind::InvalidQueue,
    Kind::QueueNameTooLong,
    Kind::JobPayloadTooLarge,
    Kind::IdempotencyConflict,
];

fn jobs() -> Vec<Operation> {
    let listing = vec![
        query("state", "Only jobs in one of these states, with commas.", json!({"type": "string"})),
        query(
            "queue",
            "Only jobs of this queue.",
            json!({"type": "string", "maxLength": 255, "pattern": QUEUE_NAME}),
        ),
        query("type", "Only jobs of this type.", json!({"enum": ["EXECUTE", "DEFERRED", "EMIT_EVENT"]})),
        query("dead_letter", "Only dead letters, or only what is none.", json!({"type": "boolean"})),
        limit(),
        query("cursor", "The `next_cursor` of the page before.", json!({"type": "string", "format": "uuid"})),
    ];
    let listing = [listing, narrowing()].concat();
    vec![
        Operation {
            parameters: submitting(),
            body: Some(OperationBody { schema: "SubmitRequest", required: true, examples: submissions() }),
            answers: vec![accepted()],
            refusals: refusals(&[WRITING, ANY, KEYED, SUBMITTING]),
            ..of_jobs("post", "/v1/jobs", "submitJob", "Submits a job.")
        },
        Operation {
            parameters: listing,
            answers: vec![answer(200, "A page.", "Jobs", json!({"jobs": [queued()], "next_cursor": null}))],
            refusals: refusals(&[ANY, KEYED, &[Kind::Forbidden, Kind::MalformedRequest, Kind::InvalidArgs]]),
            ..of_jobs("get", "/v1/jobs", "listJobs", "The caller's jobs, newest first.")
        },
    ]
}

/// The parameters of a submission.
pub(super) fn submitting() -> Vec<Value> {
    let mut parameters = tracing();
    parameters.push(header(
        "Idempotency-Key",
        "Makes a repetition harmless; the body's key goes first.",
        "order-4711",
    ));
    parameters.push(header("Prefer", "`wait=N`: hold the answer until the job has ended.", "wait=5"));
    parameters
}

/// The answer to a submission.
pub(super) fn accepted() -> OperationAnswer {
    let headers = vec![
        ("Location", Presence::Always),
        ("Link", Presence::Always),
        ("Retry-After", Presence::Always),
        ("Preference-Applied", Presence::Sometimes),
        ("Idempotent-Replayed", Presence::Sometimes),
    ];
    let job = json!({"job_id": JOB, "state": "QUEUED", "created_at": NOON, "simulated": true});
    OperationAnswer { headers, ..answer(202, "Accepted, and written down.", "Submitted", job) }
}

/// Submissions that are accepted as they stand.
fn submissions() -> Vec<(&'static str, Value)> {
    vec![
        ("at_once", json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST"})),
        (
            "later",
            json!({"type": "DEFERRED", "execution_at": "2999-01-31T12:00:00Z", "queue": "reports", "priority": 5}),
        ),
        (
            "event",
            json!({"type": "EMIT_EVENT", "callback": "https://client.example/hooks", "payload": {"order": 4711}}),
        ),
        (
            "repeatable",
            json!({"type": "EXECUTE", "idempotency_key": "order-4711", "retry_mode": "auto", "correlation_id": "a-1"}),
        ),
    ]
}

fn steps() -> Vec<Operation> {
    let getting = vec![
        path_parameter("job_id", "The job."),
        header("Prefer", "`wait=N`: hold the answer until the job has ended.", "wait=5"),
    ];
    let found = OperationAnswer {
        content: vec![
            ("application/json", Some("Job"), Some(queued())),
            ("application/problem+json", Some("FailedJob"), None),
            ("application/problem+xml", Some("FailedJob"), None),
        ],
        headers: vec![
            ("Vary", Presence::Always),
            ("Retry-After", Presence::Sometimes),
            ("Link", Presence::Sometimes),
            ("Preference-Applied", Presence::Sometimes),
            ("Problem", Presence::Sometimes),
            ("Content-Digest", Presence::Sometimes),
            ("Content-Language", Presence::Sometimes),
        ],
        ..answer(200, "The job; one that ended badly also as its failure object.", "Job", queued())
    };
    let canceled = json!({"job_id": JOB, "state": "CANCELED", "updated_at": NOON});
    let retried = json!({"job_id": JOB, "state": "QUEUED", "updated_at": NOON, "attempt": 2});
    let of_job = || vec![path_parameter("job_id", "The job.")];
    let nothing = || Some(OperationBody { schema: "Nothing", required: false, examples: vec![] });
    let retrying = &[Kind::IllegalTransition, Kind::RetryLimitReached, Kind::Duplicate];
    vec![
        Operation {
            parameters: getting,
            answers: vec![found],
            refusals: refusals(&[ANY, KEYED, OF_JOB, &[Kind::WorkerUnavailable]]),
            ..of_jobs("get", "/v1/jobs/{job_id}", "getJob", "A job as it stands.")
        },
        Operation {
            access: Access::ClientOrOperator,
            parameters: of_job(),
            body: nothing(),
            answers: vec![answer(200, "It is gone.", "Deleted", json!({"deleted": true}))],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_JOB, &[Kind::IllegalTransition]]),
            ..of_jobs(
                "delete",
                "/v1/jobs/{job_id}",
                "deleteEndedJob",
                "Deletes an ended job with its events, report, result and deliveries.",
            )
        },
        Operation {
            parameters: of_job(),
            body: nothing(),
            answers: vec![answer(200, "Cancelled, or ended before.", "Canceled", canceled)],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_JOB]),
            ..of_jobs("post", "/v1/jobs/{job_id}/cancel", "cancelJob", "Cancels a job that has not ended.")
        },
        Operation {
            parameters: of_job(),
            body: Some(OperationBody {
                schema: "RetryRequest",
                required: false,
                examples: vec![("dead_letter", json!({"revive": true}))],
            }),
            answers: vec![answer(200, "Waiting for its next attempt.", "Retried", retried)],
            refusals: refusals(&[WRITING, ANY, KEYED, OF_JOB, retrying]),
            ..of_jobs("post", "/v1/jobs/{job_id}/retry", "retryJob", "Tries a failed job once more.")
        },
    ]
}

fn readings() -> Vec<Operation> {
    let of_job = || vec![path_parameter("job_id", "The job.")];
    let report = json!({
        "job_id": JOB, "outcome": "SUCCESS", "events": [super::events::example()], "started_at": NOON,
        "finished_at": "2026-05-28T12:00:01.500Z", "duration_ms": 1500, "attempts": 1,
    });
    vec![
        Operation {
            parameters: of_job(),
            answers: vec![answer(200, "The report.", "Report", report)],
            refusals: refusals(&[ANY, KEYED, OF_JOB, &[Kind::ReportNotFound]]),
            ..of_jobs("get", "/v1/jobs/{job_id}/report", "getReport", "What became of a job that has ended.")
        },
        Operation {
            parameters: of_job().into_iter().chain(parts()).collect(),
            answers: results(),
            refusals: refusals(&[ANY, KEYED, OF_JOB, OF_RESULT]),
            ..of_jobs("get", "/v1/jobs/{job_id}/result", "getResult", "What a job that succeeded left.")
        },
    ]
}

pub(super) const OF_RESULT: &[Kind] = &[
    Kind::ResultNotReady,
    Kind::ResultNotFound,
    Kind::ResultExpired,
    Kind::PreconditionFailed,
    Kind::RangeNotSatisfiable,
    Kind::QueueFull,
];

/// How a part of a result is asked for, or nothing of what is there already.
pub(super) fn parts() -> Vec<Value> {
    vec![
        header("Range", "One range of bytes; several at once are answered with the whole.", "bytes=1048576-"),
        header(
            "If-Range",
            "The `ETag` of the part that is there already; otherwise the whole is sent.",
            ETAG,
        ),
        header("If-None-Match", "The `ETag` of a copy that is there already.", ETAG),
    ]
}

/// The result whole, in part, or not again.
pub(super) fn results() -> Vec<OperationAnswer> {
    let always =
        |names: &[&'static str]| names.iter().map(|name| (*name, Presence::Always)).collect::<Vec<_>>();
    let any = |status, description, headers| OperationAnswer {
        content: vec![("*/*", None, None)],
        headers,
        ..answer(status, description, "Nothing", json!({}))
    };
    let mut whole = always(&["ETag", "Vary", "Accept-Ranges", "Repr-Digest"]);
    whole.push(("Content-Disposition", Presence::Sometimes));
    let mut part = whole.clone();
    part.push(("Content-Range", Presence::Always));
    whole.push(("Content-Digest", Presence::Sometimes));
    let same =
        OperationAnswer { content: vec![], ..any(304, "The copy is the result.", always(&["ETag", "Vary"])) };
    vec![
        any(200, "The result, in the type its worker gave it or as a file.", whole),
        any(206, "The part that was asked for.", part),
        same,
    ]
}

pub(super) fn of_jobs(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
) -> Operation {
    Operation {
        path: path.into(),
        method,
        id: id.into(),
        tag: "jobs",
        summary: summary.into(),
        access: Access::Client,
        parameters: vec![],
        body: None,
        answers: vec![],
        refusals: vec![],
    }
}

fn queued() -> Value {
    json!({
        "job_id": JOB, "type": "EXECUTE", "state": "QUEUED", "outcome": null, "created_at": NOON,
        "execution_at": null, "updated_at": NOON, "attempt": 1, "callback": null, "queue": "default",
        "simulated": true, "definition": {"work_kind": "SUCCESS_FAST", "duration_ms": 1500, "should_fail": false, "payload_size": 8},
        "jobId": JOB, "jobStatus": "ACCEPTED", "submittedAt": NOON,
    })
}

pub(super) fn answer(
    status: u16,
    description: &'static str,
    schema: &'static str,
    example: Value,
) -> OperationAnswer {
    let content = vec![("application/json", Some(schema), Some(example))];
    OperationAnswer { status, description, content, headers: vec![] }
}

pub(super) fn path_parameter(name: &str, description: &str) -> Value {
    // An id that is none is an id of nothing, so the type is all that is asked for.
    json!({"name": name, "in": "path", "required": true, "description": description, "schema": {"type": "string"}})
}

pub(super) fn query(name: &str, description: &str, schema: Value) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}

/// What lists of jobs of clients and of the operator have in common.
pub(super) fn narrowing() -> Vec<Value> {
    let tag = "Only jobs with this tag; given several times, or with commas, all must match.";
    let retrying = "Only jobs that failed and wait for their next attempt.";
    let end = "Only jobs whose id ends like this, at most 20, among the newest 10,000 of the list; \
               `next_cursor` goes on with older ones.";
    vec![
        query("tag", tag, json!({"type": "string"})),
        query("retrying", retrying, json!({"type": "boolean", "enum": [true]})),
        query("id_suffix", end, json!({"type": "string", "pattern": "^[0-9a-fA-F-]{6,35}$"})),
    ]
}

pub(super) fn limit() -> Value {
    let schema = json!({"type": "integer", "minimum": 1, "maximum": 200, "default": 50});
    query("limit", "Entries in a page.", schema)
}

pub(super) fn header(name: &str, description: &str, example: &str) -> Value {
    let schema = json!({"type": "string"});
    json!({"name": name, "in": "header", "description": description, "schema": schema, "example": example})
}

pub(super) fn tracing() -> Vec<Value> {
    vec![
        header("X-Correlation-ID", "What the client calls the request; sanitised.", "order-4711"),
        super::pages::accept_language(),
        header(
            "traceparent",
            "W3C Trace Context.",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ),
    ]
}
