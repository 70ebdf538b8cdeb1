//! The operations of the async-operations dialect, `/api/v1`, and their bodies.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::events::{EVENT, told};
use super::operation::{Access, Operation, OperationAnswer, OperationBody, Presence};
use super::operations::{
    ANY, JOB, KEYED, NOON, OF_JOB, WRITING, answer, header, limit, path_parameter, query, refusals, tracing,
};
use super::schemas::{
    DEADLINE, QUEUE_NAME, count, id, maybe, object, reference, shown_tags, simulated, stages, tags, text,
    time, work_kind,
};
use crate::problem::RefusedRequest;

/// An operation of the configuration.
#[derive(Clone, Debug)]
pub struct DeclaredOperation<'a> {
    /// `reports/generate`.
    pub name: &'a str,
    /// How long it usually takes.
    pub expected: Option<Duration>,
}

/// All of them.
pub(super) fn all(declared: &[DeclaredOperation<'_>]) -> Vec<Operation> {
    let mut operations = vec![submission("/api/v1/jobs".into(), "beginJob".into(), "Begins a job.".into())];
    operations.push(batch());
    operations.extend(declared.iter().map(of_operation));
    operations.extend(steps());
    operations.extend(results());
    operations
}

const SUBMITTING: &[Kind] = &[
    Kind::Forbidden,
    Kind::UnknownJobType,
    Kind::JobTypeTooLong,
    Kind::InvalidArgs,
    Kind::InvalidCallbackUrl,
    Kind::InvalidQueue,
    Kind::QueueNameTooLong,
    Kind::JobPayloadTooLarge,
    Kind::IdempotencyConflict,
];

fn submission(path: String, id: String, summary: String) -> Operation {
    let mut parameters = tracing();
    parameters.push(header(
        "Idempotency-Key",
        "Makes a repetition harmless.",
        "a1b2c3d4-e5f6-7890-abcd-ef1234567890",
    ));
    parameters.push(header("Prefer", "`wait=N`: hold the answer until the job has ended.", "wait=5"));
    let accepted = json!({
        "jobId": JOB, "status": "Queued", "statusUrl": format!("/api/v1/jobs/{JOB}"), "submittedAt": NOON,
        "estimatedDuration": 5,
    });
    let headers = vec![
        ("Location", Presence::Always),
        ("Link", Presence::Always),
        ("Retry-After", Presence::Always),
        ("Preference-Applied", Presence::Sometimes),
        ("Idempotent-Replayed", Presence::Sometimes),
    ];
    Operation {
        parameters,
        body: Some(OperationBody { schema: "BeginRequest", required: true, examples: submissions() }),
        answers: vec![OperationAnswer {
            headers,
            ..answer(202, "Accepted, and written down.", "Accepted", accepted)
        }],
        refusals: refusals(&[WRITING, ANY, KEYED, SUBMITTING]),
        ..of_api("post", path, id, summary)
    }
}

fn batch() -> Operation {
    let items =
        [json!({"itemId": "ada", "parameters": {"to": "ada@client.example"}}), json!({"itemId": "bob"})];
    let examples = vec![
        ("real", json!({"type": "mail.send", "queue": "mail", "items": items})),
        ("simulated", json!({"type": "test", "work_kind": "SUCCESS_FAST", "items": [{}, {}]})),
    ];
    let summary = "Begins a batch: one job of many items. Either all items are simulated or none is.";
    Operation {
        body: Some(OperationBody { schema: "BeginBatchRequest", required: true, examples }),
        ..submission("/api/v1/jobs/batch".into(), "beginBatch".into(), summary.into())
    }
}

fn items() -> Operation {
    let mut parameters = of_job();
    parameters.extend(super::batches::paging());
    Operation {
        parameters,
        answers: vec![super::batches::page()],
        refusals: of_execution(&[&[Kind::MalformedRequest, Kind::InvalidArgs, Kind::ResultNotFound]]),
        ..of_api(
            "get",
            "/api/v1/jobs/{jobId}/items".into(),
            "listItemsOfExecution".into(),
            "The items of a batch, in order.".into(),
        )
    }
}

fn of_operation(declared: &DeclaredOperation<'_>) -> Operation {
    let id: String = declared.name.split(['/', '-']).rev().map(capital).collect();
    let usual = match declared.expected {
        Some(expected) => format!(" Usually takes {} seconds.", expected.as_secs()),
        None => String::new(),
    };
    let name = declared.name;
    let summary = format!("The operation {name}, as it is configured; `type` may be left out.{usual}");
    submission(format!("/api/v1/{name}"), format!("begin{id}"), summary)
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// Submissions that are accepted as they stand.
fn submissions() -> Vec<(&'static str, Value)> {
    vec![
        (
            "report",
            json!({"type": "market-analysis", "parameters": {"region": "EU", "year": 2025, "format": "PDF"}}),
        ),
        ("simulated", json!({"type": "test", "work_kind": "SUCCESS_FAST", "correlationId": "order-4711"})),
        ("real", json!({"type": "mail.send", "queue": "mail", "priority": 5, "maxRetries": 5})),
        (
            "told",
            json!({"type": "a", "callback": "https://client.example/hooks", "retry_mode": "manual", "parameters": {}}),
        ),
    ]
}

fn gone() -> Vec<RefusedRequest> {
    let detail = "This job is no longer available. It was kept for 30 days after its end.";
    vec![RefusedRequest::new(Kind::Expired, detail).execution(JOB).member("expiredAt", NOON)]
}

fn of_execution(more: &[&[Kind]]) -> Vec<RefusedRequest> {
    let all = [&[ANY, KEYED, OF_JOB][..], more].concat();
    refusals(&all).into_iter().chain(gone()).collect()
}

fn steps() -> Vec<Operation> {
    let running = json!({
        "jobId": JOB, "status": "Running", "type": "market-analysis", "simulated": false, "progress": 45,
        "message": "Processing data from external systems...", "submittedAt": NOON, "startedAt": NOON, "updatedAt": NOON,
        "estimatedCompletionAt": "2026-05-28T12:00:50.000Z", "retryCount": 0, "maxRetries": 3,
        "jobStatus": "PROCESSING", "job_id": JOB,
    });
    let completed = json!({
        "jobId": JOB, "status": "Completed", "type": "market-analysis", "simulated": false, "progress": 100, "submittedAt": NOON,
        "startedAt": NOON, "updatedAt": NOON, "completedAt": "2026-05-28T12:00:35.000Z", "duration": 35,
        "resultUrl": format!("/api/v1/reports/{JOB}"), "resultType": "JSON", "resultSize": 212, "retryCount": 0,
        "maxRetries": 3, "expiresAt": "2026-06-27T12:00:35.000Z", "jobStatus": "COMPLETED", "job_id": JOB,
    });
    let mut looking = of_job();
    looking.push(header("Prefer", "`wait=N`: hold the answer until the job has ended.", "wait=5"));
    let live = OperationAnswer {
        headers: vec![
            ("Vary", Presence::Always),
            ("Retry-After", Presence::Always),
            ("Preference-Applied", Presence::Sometimes),
        ],
        ..answer(202, "It waits or runs: look again.", "Status", running)
    };
    let ended = OperationAnswer {
        content: vec![
            ("application/json", Some("Status"), Some(completed.clone())),
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
        ..answer(
            200,
            "It has ended, and stays as it is; badly: its failure object, or JSON by name.",
            "Status",
            completed.clone(),
        )
    };
    let cancelled = || answer(200, "Cancelled, or ended before.", "Status", completed.clone());
    let cancelling = || {
        let examples = vec![("why", json!({"reason": "ordered twice"}))];
        Some(OperationBody { schema: "CancelRequest", required: false, examples })
    };
    vec![
        Operation {
            parameters: looking,
            answers: vec![live, ended],
            refusals: of_execution(&[&[Kind::WorkerUnavailable]]),
            ..of_api(
                "get",
                "/api/v1/jobs/{jobId}".into(),
                "getStatus".into(),
                "Where an execution stands: 202 while it lives, 200 once it has ended.".into(),
            )
        },
        Operation {
            parameters: of_job(),
            body: cancelling(),
            answers: vec![cancelled()],
            refusals: of_execution(&[WRITING, &[Kind::InvalidArgs]]),
            ..of_api("delete", "/api/v1/jobs/{jobId}".into(), "deleteJob".into(), "Cancels it.".into())
        },
        Operation {
            parameters: of_job(),
            body: cancelling(),
            answers: vec![cancelled()],
            refusals: of_execution(&[WRITING, &[Kind::InvalidArgs]]),
            ..of_api("post", "/api/v1/jobs/{jobId}/cancel".into(), "cancel".into(), "Cancels it.".into())
        },
        events(),
        items(),
    ]
}

fn events() -> Operation {
    let mut parameters = of_job();
    parameters.push(limit());
    parameters.push(query(
        "cursor",
        "The `next_cursor` of the page before: the id of an event.",
        json!({"type": "string"}),
    ));
    parameters.push(header(
        "Last-Event-ID",
        "The last event that a stream told: it goes on after it.",
        EVENT,
    ));
    let told = told("The execution's changes of state; as a stream, followed by what happens until it ends.");
    let nothing_more = OperationAnswer {
        status: 204,
        description: "It has ended and the stream has told everything.",
        content: vec![],
        headers: vec![("Vary", Presence::Always)],
    };
    Operation {
        parameters,
        answers: vec![told, nothing_more],
        refusals: of_execution(&[&[Kind::MalformedRequest]]),
        ..of_api(
            "get",
            "/api/v1/jobs/{jobId}/events".into(),
            "listExecutionEvents".into(),
            "What happened to an execution; with `Accept: text/event-stream` as it happens.".into(),
        )
    }
}

fn results() -> Vec<Operation> {
    let reading = |path: &str, id: &str, summary: &str| Operation {
        parameters: of_job().into_iter().chain(super::operations::parts()).collect(),
        answers: super::operations::results(),
        refusals: of_execution(&[super::operations::OF_RESULT]),
        ..of_api("get", path.to_owned(), id.to_owned(), summary.to_owned())
    };
    vec![
        reading("/api/v1/jobs/{jobId}/result", "getResultOfJob", "What a completed execution left."),
        reading("/api/v1/reports/{jobId}", "getReportOfJob", "The same, by the name that reports have."),
        reading("/api/v1/reports/{jobId}/download", "downloadReport", "The same, as a file."),
        reading("/api/v1/results/{jobId}", "getResultById", "The same."),
    ]
}

fn of_job() -> Vec<Value> {
    vec![path_parameter("jobId", "The execution, as its submission or a retry named it.")]
}

fn of_api(method: &'static str, path: String, id: String, summary: String) -> Operation {
    Operation {
        path: path.into(),
        method,
        id: id.into(),
        tag: "async operations",
        summary: summary.into(),
        access: Access::Client,
        parameters: vec![],
        body: None,
        answers: vec![],
        refusals: vec![],
    }
}

/// The bodies.
pub(super) fn schemas() -> Value {
    json!({
        "BeginRequest": begin_request(),
        "BeginBatchRequest": super::batches::begin_request(),
        "CancelRequest": object("Why it is cancelled.", &[], json!({"reason": maybe(text("In a line."))})),
        "Accepted": object(
            "A job that was accepted.",
            &["jobId", "status", "statusUrl", "submittedAt"],
            json!({
                "jobId": id("Which execution."),
                "status": status_word(),
                "statusUrl": {"type": "string", "format": "uri-reference", "description": "Where to look at it."},
                "submittedAt": reference("UtcTime"),
                "estimatedDuration": count("How long such work usually takes, in seconds."),
            }),
        ),
        "Status": status(),
        "OperationProblem": {
            "description": "Why a request of /api/v1 was refused.",
            "allOf": [reference("ProblemDetails"), reference("AsyncJob"), reference("Codes"), {
                "type": "object",
                "required": ["type", "title", "status", "detail", "instance", "retryable"],
                "properties": {
                    "traceId": text("Where the request stands in a trace, as a W3C traceparent."),
                    "errors": {
                        "type": "object",
                        "description": "What is wrong with the body, by the path of the member.",
                        "additionalProperties": {"type": "array", "items": {"type": "string"}},
                    },
                    "violations": {"type": "array", "items": reference("Violation")},
                    "expiredAt": time("When the job was forgotten."),
                },
            }],
        },
    })
}

fn begin_request() -> Value {
    json!({
        "type": "object",
        "description": "A job to be done in the background.",
        "required": ["type"],
        "properties": {
            "type": {"type": "string", "minLength": 1, "maxLength": 255, "description": "What kind of job it is."},
            "parameters": {"type": ["object", "null"], "description": "What it works on."},
            "queue": maybe(json!({
                "type": "string", "maxLength": 255, "pattern": QUEUE_NAME, "description": "Where to wait.",
            })),
            "work_kind":
                work_kind("What to simulate; without it the work is real and waits for a worker outside."),
            "priority": maybe(json!({
                "type": "integer", "minimum": -100, "maximum": 100, "default": 0, "description": "Higher goes first.",
            })),
            "callback": maybe(json!({
                "type": "string", "format": "uri", "maxLength": 2048, "description": "Whom to tell: http or https.",
            })),
            "retry_mode": maybe(json!({
                "type": "string", "enum": ["manual", "auto", null],
                "description": "Whether the server retries by itself.",
            })),
            "maxRetries": maybe(json!({
                "type": "integer", "minimum": 0, "maximum": 63, "description": "Attempts after the first.",
            })),
            "timeout": maybe(text("How long one attempt may run, such as `90s` or `1h30m`.")),
            "deadline": maybe(text(DEADLINE)),
            "tags": maybe(tags()),
            "correlationId": maybe(text("What the client calls the job; sanitised.")),
        },
    })
}

fn status_word() -> Value {
    let words = ["Queued", "Preparing", "Running", "Completed", "Failed", "Cancelled", "PartiallyCompleted"];
    json!({"enum": words, "description": "Where it stands; Preparing only with `asyncops.extended_statuses`."})
}

fn status() -> Value {
    let utc = || reference("UtcTime");
    let statuses =
        ["ACCEPTED", "PROCESSING", "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT", "COMPLETED_WITH_ERRORS"];
    object(
        "An execution. Once it has ended it stays as it is, but for where a retry led and when it expires.",
        &[
            "jobId",
            "status",
            "simulated",
            "submittedAt",
            "updatedAt",
            "retryCount",
            "maxRetries",
            "jobStatus",
            "job_id",
        ],
        json!({
            "jobId": id("Which execution."),
            "status": status_word(),
            "type": text("What kind of job it is."),
            "simulated": simulated(),
            "progress": {"type": "integer", "minimum": 0, "maximum": 100, "description": "Percent done."},
            "message": text("What the worker says about it."),
            "submittedAt": utc(),
            "startedAt": time("When work on it began."),
            "updatedAt": time("When it last changed."),
            "queuePosition": {
                "type": "integer", "minimum": 1,
                "description": "Its place among those that wait; beyond the first hundred an estimate.",
            },
            "estimatedCompletionAt": time("When it will probably be done."),
            "completedAt": utc(),
            "failedAt": time("When it failed."),
            "cancelledAt": time("When it was cancelled."),
            "cancelledBy": text("Who did that."),
            "reason": text("And why."),
            "duration": count("Seconds from its acceptance to its end."),
            "resultUrl": {"type": "string", "format": "uri-reference", "description": "Where its result is."},
            "resultType": text("What its result is: JSON, PDF, …"),
            "resultSize": count("Bytes of its result."),
            "items": reference("ItemsSummary"),
            "itemsUrl": {"type": "string", "format": "uri-reference", "description": "Where all items of a batch are."},
            "error": reference("JobError"),
            "retryCount": count("Attempts after the first."),
            "maxRetries": count("How many of them there may be."),
            "expiresAt": time("When it is forgotten."),
            "deadline": time("By when it must have ended, if it has a deadline that counts."),
            "tags": shown_tags(),
            "retriedAs": id("The execution that a retry by hand began after this one failed."),
            "jobStatus": {"enum": statuses, "description": "Its status in the words of the async-job members."},
            "retryable": {"type": "boolean", "description": "Whether submitting it again is worth it; of failures."},
            "retryAfter": count("Seconds to wait before that."),
            "retriesLeft": count("How many more attempts a retry of the job can have; of a failed job."),
            "processingStage": {"enum": stages(), "description": "How far it had come; of failures."},
            "correlationId": text("What the client calls it."),
            "job_id": id("The job it is an execution of."),
        }),
    )
}
