//! Schemas of problems: those that `forgerun-problem` publishes, and what is composed of them.
//! `Problem` is a refused request, `FailedJob` a job that ended badly.

use forgerun_core::catalog::{Kind, ProcessingStage};
use serde_json::{Map, Value, json};

use super::headers;

/// All of them, by name.
pub(super) fn schemas() -> Map<String, Value> {
    let document: Value =
        serde_json::from_str(forgerun_problem::schema::DOCUMENT).expect("the embedded schema is JSON");
    let Value::Object(definitions) = document["$defs"].clone() else { unreachable!("it has definitions") };
    let mut schemas: Map<String, Value> =
        definitions.into_iter().map(|(name, schema)| (component(&name), relocated(schema))).collect();
    let required = ["type", "title", "status", "detail", "instance", "retryable"];
    let errors = json!({"type": "array", "items": reference("Violation")});
    let by_member = json!({
        "type": "object",
        "description": "What is wrong with the body, by the path of the member.",
        "additionalProperties": {"type": "array", "items": {"type": "string"}},
    });
    for (name, about, own) in [
        ("Codes", "", codes()),
        ("Violation", "", violation()),
        (
            "Problem",
            "Why a request was refused.",
            json!({"type": "object", "required": required, "properties": {"errors": errors}}),
        ),
        (
            "OperationProblem",
            "Why a request of /api/v1 was refused.",
            json!({"type": "object", "required": required, "properties": {
                "traceId": text("Where the request stands in a trace, as a W3C traceparent."),
                "errors": by_member,
                "violations": {"type": "array", "items": reference("Violation")},
                "expiredAt": {"type": "string", "format": "date-time", "description": "When the job was forgotten."},
            }}),
        ),
        (
            "OjsError",
            "Why a request of /ojs/v1 was refused: the error of Open Job Spec, with the members of a problem.",
            json!({"type": "object", "required": required, "properties": {
                "error": ojs_error(),
                "errors": errors,
            }}),
        ),
        (
            "FailedJob",
            "The failure object of a job that ended badly.",
            json!({
                "type": "object",
                "required": ["type", "title", "detail", "instance", "jobId", "jobStatus", "submittedAt", "completedAt"],
                "properties": {"job_id": {"type": "string", "format": "uuid", "description": "The job."}},
            }),
        ),
    ] {
        let parts = [reference("ProblemDetails"), reference("AsyncJob"), reference("Codes"), own.clone()];
        let composed = json!({"description": about, "allOf": parts});
        schemas.insert(name.into(), if about.is_empty() { own } else { composed });
    }
    schemas
}

fn violation() -> Value {
    json!({
        "type": "object", "description": "One thing wrong with a body.", "required": ["detail", "pointer"],
        "properties": {
            "detail": text("What is wrong there."),
            "pointer": text("A JSON pointer into the body, as a URI fragment."),
        },
    })
}

/// The members that both code systems add to a problem.
fn codes() -> Value {
    let mut names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.entry().rfa).collect();
    names.sort_unstable();
    names.dedup();
    let stages: Vec<&str> = ProcessingStage::ALL.iter().map(|stage| stage.as_str()).collect();
    json!({
        "type": "object",
        "description": "The codes of a problem, and its OJS members.",
        "required": ["code", "rfa_code", "ojs_code", "message", "details", "doc_url"],
        "properties": {
            "code": text("The code of the dialect that was called: under `/v1` the same as `rfa_code`."),
            "rfa_code": {"enum": names, "description": "ForgeRun's code."},
            "ojs_code": text("The canonical OJS code."),
            "message": text("In English, never empty."),
            "details": {"type": "object", "description": "Facts, by name."},
            "doc_url": {"type": "string", "format": "uri-reference", "description": "A page about the code."},
            "processingStage": {"enum": stages, "description": "How far the request or the job had come."},
        },
    })
}

/// The `error` of Open Job Spec's HTTP binding.
fn ojs_error() -> Value {
    json!({
        "type": "object",
        "description": "The error as the HTTP binding has it.",
        "required": ["code", "type", "message", "retryable", "details", "request_id", "canonical_code", "hint", "docs_url", "doc_url"],
        "properties": {
            "code": text("The code of the HTTP binding."),
            "type": text("The same in lower case."),
            "message": text("In English, never empty."),
            "retryable": {"type": "boolean", "description": "Whether to try again."},
            "details": {"type": "object", "description": "Facts, by name."},
            "request_id": text("The id of the request."),
            "canonical_code": text("The code of the catalogue."),
            "hint": text("What to do about it."),
            "docs_url": text("A page about the code."),
            "doc_url": text("The same."),
        },
    })
}

/// `$defs` of the published schema become components. `Problem` is the name of the composed one, so
/// the plain one has another.
fn component(definition: &str) -> String {
    let mut letters = definition.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let name: String = first.into_iter().chain(letters).collect();
    if name == "Problem" { "ProblemDetails".into() } else { name }
}

fn relocated(schema: Value) -> Value {
    match schema {
        Value::Object(members) => {
            let moved = |(name, value): (String, Value)| match value.as_str() {
                Some(target) if name == "$ref" => {
                    let target = component(target.trim_start_matches("#/$defs/"));
                    (name, format!("#/components/schemas/{target}").into())
                }
                _ => (name, relocated(value)),
            };
            Value::Object(members.into_iter().map(moved).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(relocated).collect()),
        other => other,
    }
}

fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

fn reference(name: &str) -> Value {
    headers::reference("schemas", name)
}
