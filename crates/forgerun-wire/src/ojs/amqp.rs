//! OJS over AMQP 0-9-1: what things are called on the broker, and what a message says beside its body. No client of a broker is
//! known here; whoever has one turns [`MessageHead`] into its own types.
//!
//! ```text
//!   producer ─► ojs.exchange.direct ─{name}─► ojs.queue.{name} ─► a job
//!                        ▲                            │ cannot be taken in
//!                        │ time is up                 ▼
//!   ojs.queue.retry.{name}.{ms} ◄─{name}.{ms}─ ojs.exchange.retry ◄─── an attempt failed, another follows
//!                     ojs.queue.dlx.{name} ◄─{name}─ ojs.exchange.dlx ◄─── the job failed for good
//!   ojs.queue.control.{name} ─► cancel
//! ```

use std::time::Duration;

use forgerun_core::id::{EventId, JobId};
use forgerun_core::job::{AttemptError, Input, Job};
use serde_json::{Value, json};

use super::envelope::is_v7;
use super::job::{FailedEnvelope, JobView, error_view, shown_type};
use super::{MEDIA_TYPE, members::Members};
use crate::problem::RefusedRequest;
use crate::time;

/// Where producers publish jobs, with the name of the queue as routing key.
pub const DIRECT: &str = "ojs.exchange.direct";
/// Where messages go that come back after a while.
pub const RETRY: &str = "ojs.exchange.retry";
/// Where messages go that nobody will work on any more.
pub const DEAD: &str = "ojs.exchange.dlx";

/// How long the delay queues hold a message, in milliseconds, rising: 1 s, 2 s, 4 s … and one hour. A broker lets messages go only
/// from the head of a queue, so a queue for all would hold a short wait up behind a long one; with steps it takes twice as long at most.
pub const DELAY_STEPS_MS: [u64; 13] = [
    1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 1_024_000, 2_048_000,
    3_600_000,
];

/// The longest name of a queue that can be bridged: the names made of it fit into the 255 bytes of AMQP.
pub const QUEUE_BYTES_MAX: usize = 200;

/// Bytes of an error's text or details in a header. Headers travel in one frame, of 128 KB by default.
const HEADER_BYTES_MAX: usize = 8 * 1024;

/// The names of headers.
pub mod header {
    pub const JOB_ID: &str = "x-ojs-job-id";
    pub const QUEUE: &str = "x-ojs-queue";
    pub const ATTEMPT: &str = "x-ojs-attempt";
    pub const MAX_ATTEMPTS: &str = "x-ojs-max-attempts";
    pub const CREATED_AT: &str = "x-ojs-created-at";
    pub const TAGS: &str = "x-ojs-tags";
    pub const TRACE_ID: &str = "x-ojs-trace-id";
    pub const IDEMPOTENCY_KEY: &str = "x-ojs-idempotency-key";
    pub const ERROR_CODE: &str = "x-ojs-error-code";
    pub const ERROR_MESSAGE: &str = "x-ojs-error-message";
    pub const ERROR_DETAILS: &str = "x-ojs-error-details";
    /// Ours: the event that the message tells of. Who has it was published by a server that knows the job.
    pub const EVENT_ID: &str = "x-forgerun-event-id";
}

/// The type of a control message that cancels a job.
pub const CANCEL: &str = "ojs.control.cancel";

/// The queue that jobs are published to.
pub fn job_queue(name: &str) -> String {
    format!("ojs.queue.{name}")
}

/// The queue of dead letters.
pub fn dead_queue(name: &str) -> String {
    format!("ojs.queue.dlx.{name}")
}

/// The queue of commands.
pub fn control_queue(name: &str) -> String {
    format!("ojs.queue.control.{name}")
}

/// The queue that holds messages for so long.
pub fn delay_queue(name: &str, step_ms: u64) -> String {
    format!("ojs.queue.retry.{name}.{step_ms}")
}

/// The routing key that leads there.
pub fn delay_key(name: &str, step_ms: u64) -> String {
    format!("{name}.{step_ms}")
}

/// Whether a queue of this name can be bridged: short enough, and not the name of one of the queues that belong to another.
pub fn can_be_bridged(name: &str) -> bool {
    name.len() <= QUEUE_BYTES_MAX && !["dlx.", "retry.", "control."].iter().any(|of| name.starts_with(of))
}

/// The shortest step that is long enough; the longest one for whatever is longer.
pub fn delay_step_ms(wait: Duration) -> u64 {
    let wait_ms = wait.as_millis();
    let step = DELAY_STEPS_MS.into_iter().find(|&step| u128::from(step) >= wait_ms);
    step.unwrap_or(DELAY_STEPS_MS[DELAY_STEPS_MS.len() - 1])
}

/// For how long a message is held back that waits this long: no longer than the longest step. RabbitMQ closes the channel over an
/// expiration of more than 49 days.
pub fn delay_ms(wait: Duration) -> u64 {
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    wait_ms.min(DELAY_STEPS_MS[DELAY_STEPS_MS.len() - 1])
}

/// A header's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderField {
    /// A text.
    Text(String),
    /// A number of 32 bits.
    Int(i32),
}

/// What a message says beside its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageHead {
    /// The job.
    pub message_id: Option<String>,
    /// The type of the job.
    pub kind: Option<String>,
    /// 0 to 9, higher first.
    pub priority: Option<u8>,
    /// When the job was made, in seconds since the epoch.
    pub timestamp_s: Option<u64>,
    /// For how long the broker holds the message back.
    pub expiration_ms: Option<u64>,
    /// Headers, in order.
    pub headers: Vec<(&'static str, HeaderField)>,
}

/// What follows the failure that a message tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// Another attempt, after this long.
    Retry(Duration),
    /// Nothing.
    Dead,
}

impl MessageHead {
    /// The message of a job whose attempt failed.
    pub fn of_failure(job: &Job, error: &AttemptError, after: AfterFailure, event: EventId) -> MessageHead {
        let head = &job.head;
        // Raised on the way to the next attempt: the header names the attempt that the message is for.
        let attempt = match after {
            AfterFailure::Retry(_) => error.attempt.saturating_add(1),
            AfterFailure::Dead => error.attempt,
        };
        let mut headers = vec![
            (header::JOB_ID, text(job.id.to_string())),
            (header::QUEUE, text(head.queue.as_str())),
            (header::ATTEMPT, number(attempt)),
            (header::MAX_ATTEMPTS, number(head.retry.attempts_max)),
            (header::CREATED_AT, text(time::millis(head.created_at))),
        ];
        if !head.tags.is_empty() {
            headers.push((header::TAGS, text(head.tags.join(","))));
        }
        headers.extend(head.traceparent.as_ref().map(|trace| (header::TRACE_ID, text(trace.as_str()))));
        let view = error_view(error);
        let mut details =
            json!({"type": view["type"], "attempt": error.attempt, "occurred_at": view["occurred_at"]});
        if let Some(said) = view.get("details").filter(|said| said.to_string().len() <= HEADER_BYTES_MAX / 2)
        {
            details["details"] = said.clone();
        }
        let message = view["message"].as_str().unwrap_or_default();
        headers.extend(error_headers(error.kind.entry().ojs_or_custom(), message, &details));
        headers.push((header::EVENT_ID, text(event.to_string())));
        MessageHead {
            message_id: Some(job.id.to_string()),
            kind: Some(shown_type(head).to_owned()),
            priority: Some(amqp_priority(head.priority)),
            timestamp_s: Some(head.created_at.unix_ms() / 1000),
            expiration_ms: match after {
                AfterFailure::Retry(wait) => Some(delay_ms(wait)),
                AfterFailure::Dead => None,
            },
            headers,
        }
    }
}

/// The body of the message of a job whose attempt failed: an envelope that could be submitted again.
pub fn failure_body(job: &Job, input: &Input, error: &AttemptError) -> Vec<u8> {
    let envelope = FailedEnvelope { job: JobView::new(job, input), error };
    serde_json::to_vec(&envelope).expect("our views have text keys")
}

/// The media type of bodies.
pub const CONTENT_TYPE: &str = MEDIA_TYPE;

/// The headers that say what is wrong with a message that could not become a job. Whatever headers it has stay beside them.
pub fn refusal_headers(refused: &RefusedRequest, occurred_at: &str) -> Vec<(&'static str, HeaderField)> {
    let mut details = Value::Object(refused.details.clone());
    details["occurred_at"] = occurred_at.into();
    if details.to_string().len() > HEADER_BYTES_MAX {
        details = json!({"occurred_at": occurred_at});
    }
    error_headers(refused.kind.entry().ojs_or_custom(), &refused.detail, &details)
}

fn error_headers(code: &str, message: &str, details: &Value) -> Vec<(&'static str, HeaderField)> {
    vec![
        (header::ERROR_CODE, text(code)),
        (header::ERROR_MESSAGE, text(cut(message, HEADER_BYTES_MAX))),
        (header::ERROR_DETAILS, text(details.to_string())),
    ]
}

/// The beginning of a text, at most so many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

fn text(text: impl Into<String>) -> HeaderField {
    HeaderField::Text(text.into())
}

fn number(number: u32) -> HeaderField {
    HeaderField::Int(i32::try_from(number).unwrap_or(i32::MAX))
}

/// OJS has −100 to 100, AMQP 0 to 9.
fn amqp_priority(priority: i16) -> u8 {
    let raised = (i32::from(priority) + 100).clamp(0, 200);
    u8::try_from(raised * 9 / 200).expect("at most nine")
}

/// The id that a property or header names, if it is one that a job can have.
pub fn job_id(text: &str) -> Option<JobId> {
    text.parse().ok().filter(|_| is_v7(text))
}

/// Reads the body of a control message that names a job.
pub fn read_control(body: &[u8]) -> Result<JobId, Box<RefusedRequest>> {
    use forgerun_core::catalog::Kind;
    let members = Members::of_body(body)?;
    let id: Option<String> = members.get("job_id").and_then(|value| serde_json::from_str(value.get()).ok());
    let refused = || {
        Box::new(
            RefusedRequest::new(Kind::MalformedRequest, "`job_id` must be the id of a job.")
                .fact("field", "job_id"),
        )
    };
    id.and_then(|id| id.parse().ok()).ok_or_else(refused)
}

#[cfg(test)]
mod tests;
