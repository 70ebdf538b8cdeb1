//! Header fields of answers, as components of the OpenAPI document. Each is there twice: required,
//! and with the suffix `o` as optional.

use serde_json::{Map, Value, json};

/// What each header field says.
const HEADERS: &[(&str, &str)] = &[
    ("X-Request-ID", "The id that the server gave the request."),
    ("X-Correlation-ID", "The id that the client gave the request, sanitised; otherwise the server's."),
    ("Retry-After", "Seconds to wait before asking again."),
    ("WWW-Authenticate", "`Bearer`."),
    ("Location", "The address of what was made."),
    ("Link", "`rel=\"status\"`: the address of the job; `rel=\"related\"`: that of its result."),
    ("Preference-Applied", "Which preferences were honoured."),
    ("Idempotent-Replayed", "`true` if the answer repeats that of an earlier request."),
    ("Vary", "What the form of the answer depends on."),
    ("Content-Language", "The language that titles and details are in."),
    ("ETag", "The version of a document, of the settings of a webhook, or of a result, which never changes."),
    ("Content-Digest", "The SHA-256 of the body (RFC 9530)."),
    ("Repr-Digest", "The SHA-256 of the whole result, also where only a part is sent (RFC 9530)."),
    ("Accept-Ranges", "`bytes`: a download that was cut off can go on."),
    ("Content-Range", "Which bytes these are, and of how many."),
    ("Content-Disposition", "The name to save it under; not for JSON without a name."),
    ("Problem", "What went wrong, as a structured field."),
    ("X-Accel-Buffering", "`no`: proxies pass events on as they come."),
    ("RateLimit", "What is left of the limit."),
    ("RateLimit-Policy", "The limit."),
    ("X-RateLimit-Limit", "Requests per minute."),
    ("X-RateLimit-Remaining", "Requests left."),
    ("X-RateLimit-Reset", "When all of them are there again, in seconds since the epoch."),
    ("OJS-Version", "The version of Open Job Spec."),
    ("X-OJS-Queue-Depth", "Jobs that wait in the queue."),
    ("X-OJS-Queue-Bound", "How many may wait there."),
    ("X-OJS-Queue-Pressure", "`normal`, `warning` or `critical`."),
];

/// Of every answer. So is `Cache-Control`, which is listed nowhere: the document is large enough.
const ALWAYS: [&str; 2] = ["X-Request-ID", "X-Correlation-ID"];

/// Of answers to clients whose requests are counted. Without a limit nothing is counted. All
/// counted answers have them, but only 429 lists them, for the size of the document.
const COUNTED: [&str; 5] =
    ["RateLimit?", "RateLimit-Policy?", "X-RateLimit-Limit?", "X-RateLimit-Remaining?", "X-RateLimit-Reset?"];

/// Of answers that may be the failure object of a job.
pub(super) const OF_FAILURE: [&str; 7] = [
    "Vary",
    "Retry-After?",
    "Link?",
    "Preference-Applied?",
    "Problem?",
    "Content-Digest?",
    "Content-Language?",
];

/// Of answers that may be a stream.
pub(super) const OF_STREAM: [&str; 2] = ["Vary?", "X-Accel-Buffering?"];

/// Of a refusal with this status. The error object of Open Job Spec says no language.
pub(super) fn of_refusal(status: u16, is_of_ojs: bool) -> Vec<&'static str> {
    let language = if is_of_ojs { "Content-Language?" } else { "Content-Language" };
    let mut own = vec!["Vary?", language];
    match status {
        401 => own.push("WWW-Authenticate"),
        416 => own.push("Content-Range"),
        429 | 503 | 504 => own.push("Retry-After"),
        _ => {}
    }
    own
}

/// Those of an answer: of every one, its own, and those of what it is. A question mark says that a
/// field is not always there.
pub(super) fn of(own: &[&str], status: u16, is_counted: bool, is_of_ojs: bool) -> Value {
    let counted = COUNTED.iter().filter(|_| is_counted && status == 429);
    let ojs = ["OJS-Version"].iter().filter(|_| is_of_ojs);
    let all = ALWAYS.iter().chain(own).chain(ojs).chain(counted);
    let described: Map<String, Value> = all
        .map(|field| match field.strip_suffix('?') {
            Some(name) => (name.to_owned(), reference("headers", &optional(name))),
            None => ((*field).to_owned(), reference("headers", &component_of(field))),
        })
        .collect();
    Value::Object(described)
}

/// All of them.
pub(super) fn components() -> Value {
    let component = |about: &str, required: bool| json!({"description": about, "required": required, "schema": {"type": "string"}});
    let both = HEADERS.iter().flat_map(|(name, about)| {
        [(component_of(name), component(about, true)), (optional(name), component(about, false))]
    });
    Value::Object(both.collect())
}

/// The name of a field's component: its place in the table, because answers name it a thousand
/// times.
fn component_of(name: &str) -> String {
    let place = HEADERS.iter().position(|(field, _)| *field == name);
    format!("h{}", place.expect("every header field is in the table"))
}

/// The component of a field that is not always there.
fn optional(name: &str) -> String {
    format!("{}o", component_of(name))
}

/// A reference to a component.
pub(super) fn reference(kind: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{kind}/{name}")})
}
