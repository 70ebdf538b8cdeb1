//! The operations that tell what happened: as a page, or as a stream of server-sent events.

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::operation::{Operation, OperationAnswer, Presence};
use super::operations::{
    ANY, JOB, KEYED, OF_JOB, answer, header, limit, of_jobs, path_parameter, query, refusals,
};
use crate::event::Word;
use crate::words::WEBHOOK_DISABLED;

/// All of them.
pub(super) fn all() -> Vec<Operation> {
    let cursor = |description| query("cursor", description, json!({"type": "string"}));
    let last = || header("Last-Event-ID", "The last event that a stream told: it goes on after it.", EVENT);
    vec![
        Operation {
            parameters: vec![
                path_parameter("job_id", "The job."),
                limit(),
                cursor("The `next_cursor` of the page before: the id of an event."),
                last(),
            ],
            answers: vec![
                told("The job's changes of state; as a stream, followed by what happens until the job ends."),
                OperationAnswer {
                    status: 204,
                    description: "The job has ended and the stream has told everything.",
                    content: vec![],
                    headers: vec![("Vary", Presence::Always)],
                },
            ],
            refusals: refusals(&[ANY, KEYED, OF_JOB, &[Kind::MalformedRequest]]),
            ..of_jobs(
                "get",
                "/v1/jobs/{job_id}/events",
                "listEvents",
                "What happened to a job, oldest first; with `Accept: text/event-stream` as it happens.",
            )
        },
        Operation {
            parameters: vec![
                limit(),
                cursor("The `next_cursor` of the page before, or the id of an event of the caller."),
                last(),
            ],
            answers: vec![all_told(
                "What happened to the caller's jobs and webhooks; as a stream, from now on.",
            )],
            refusals: refusals(&[ANY, KEYED, &[Kind::Forbidden, Kind::MalformedRequest]]),
            ..of_jobs(
                "get",
                "/v1/events",
                "listAllEvents",
                "What happened to all jobs and webhooks of the caller, oldest first; with `Accept: text/event-stream` as it happens.",
            )
        },
    ]
}

pub(super) const EVENT: &str = "01890a5d-ac96-7001-bcce-b302099a8057";

/// An event as pages show it.
pub(super) fn example() -> Value {
    json!({
        "event_id": EVENT, "job_id": JOB, "event_name": "job_created", "prev_state": null, "next_state": "CREATED",
        "timestamp": "2026-05-28T12:00:00.000000Z", "attempt": 1, "cause": "submit", "scenario": "SUCCESS_FAST",
    })
}

pub(super) fn told(description: &'static str) -> OperationAnswer {
    page_or_stream(description, "Events", json!([example()]))
}

/// The same of jobs and webhooks.
pub(super) fn all_told(description: &'static str) -> OperationAnswer {
    let disabled = json!({
        "event_id": "01890a5d-b000-7000-bcce-b302099a8057", "event_name": WEBHOOK_DISABLED, "reason": "gone",
        "timestamp": "2026-05-28T12:00:01.000000Z", "webhook_id": JOB,
    });
    page_or_stream(description, "AllEvents", json!([example(), disabled]))
}

fn page_or_stream(description: &'static str, schema: &'static str, events: Value) -> OperationAnswer {
    let page = json!({"events": events, "next_cursor": null});
    OperationAnswer {
        content: vec![
            ("application/json", Some(schema), Some(page)),
            ("text/event-stream", Some("EventStream"), Some(stream().into())),
        ],
        headers: vec![("Vary", Presence::Sometimes), ("X-Accel-Buffering", Presence::Sometimes)],
        ..answer(200, description, schema, json!({}))
    }
}

/// The schema of a stream: what there is to say of a text.
pub(super) fn schema() -> Value {
    let names: Vec<&str> = Word::ALL.into_iter().filter(|word| word.is_of_job()).map(Word::sse).collect();
    json!({
        "type": "string",
        "description": format!(
            "Server-sent events as the HTML standard has them. `event` is one of {}; on the stream of a client also `{}`, or \
             `reset` when events after `Last-Event-ID` are not kept any more; `id` is the `event_id`; `data` is one JSON object: \
             for an execution that ended badly its failure object (FailedJob), for a webhook that was disabled a WebhookEvent, \
             otherwise the members for asynchronous jobs and those of Event. Lines that begin with a colon are signs of life.",
            names.join(", "),
            Word::WebhookDisabled.sse()
        ),
    })
}

fn stream() -> String {
    let data = json!({
        "attempt": 1, "cause": "due", "event_id": EVENT, "event_name": "job_queued", "jobId": JOB,
        "jobStatus": "ACCEPTED", "job_id": JOB, "next_state": "QUEUED", "prev_state": "CREATED",
        "processingStage": "queuing", "submittedAt": "2026-05-28T12:00:00.000Z",
        "timestamp": "2026-05-28T12:00:00.000001Z",
    });
    format!("retry: 3000\n\nevent: job-queued\nid: {EVENT}\ndata: {data}\n\n")
}
