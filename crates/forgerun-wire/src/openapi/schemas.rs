//! The bodies, as JSON Schema (2020-12).

use forgerun_core::catalog::{Kind, ProcessingStage};
use forgerun_core::job::JobForm;
use forgerun_core::state::{Cause, State};
use forgerun_core::work::WorkKind;
use serde_json::{Map, Value, json};

use crate::body::{TAG_BYTES_MAX, TAGS_MAX};
use crate::words::{WEBHOOK_DISABLED, cause, forge_outcome, forge_state, forge_type};

/// What the name of a queue looks like (C-107).
pub(super) const QUEUE_NAME: &str = r"^[a-z0-9][a-z0-9.\-]*$";

/// What a deadline is.
pub(super) const DEADLINE: &str = "By when the whole job must have ended: so long after its submission, such as `90s` or `1h30m`, or a time. Then a running attempt fails as timed out, and a waiting job is cancelled with reason `deadline`.";

/// Every schema by its name.
pub(super) fn all() -> Value {
    let mut schemas = Map::new();
    schemas.extend(of_problems());
    for part in [
        requests(),
        clients(),
        jobs(),
        super::batches::schemas(),
        super::schedules::schemas(),
        super::workflows::schemas(),
        super::webhooks::schemas(),
        events(),
        pages(),
        super::api::schemas(),
        super::admin::schemas(),
    ] {
        let Value::Object(part) = part else { unreachable!("each part is an object of schemas") };
        schemas.extend(part);
    }
    Value::Object(schemas)
}

/// A reference to a schema.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The definitions of `forgerun-problem`, and what is made of them: `Problem` for a refused request, `FailedJob` for a job that
/// ended badly.
fn of_problems() -> Map<String, Value> {
    let document: Value =
        serde_json::from_str(forgerun_problem::schema::DOCUMENT).expect("the embedded schema is JSON");
    let Value::Object(definitions) = document["$defs"].clone() else { unreachable!("it has definitions") };
    let mut schemas: Map<String, Value> =
        definitions.into_iter().map(|(name, schema)| (component(&name), relocated(schema))).collect();
    let composed = |description: &str, own: Value| {
        json!({
            "description": description,
            "allOf": [reference("ProblemDetails"), reference("AsyncJob"), reference("Codes"), own],
        })
    };
    schemas.insert("Codes".into(), codes());
    let refused = json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "instance", "retryable"],
        "properties": {"errors": {"type": "array", "items": reference("Violation")}},
    });
    schemas.insert("Problem".into(), composed("Why a request was refused.", refused));
    let failed = json!({
        "type": "object",
        "required": ["type", "title", "detail", "instance", "jobId", "jobStatus", "submittedAt", "completedAt"],
        "properties": {"job_id": id("The job.")},
    });
    schemas.insert("FailedJob".into(), composed("The last word on a job that ended badly.", failed));
    schemas.insert(
        "Violation".into(),
        object(
            "One thing wrong with a body.",
            &["detail", "pointer"],
            json!({
                "detail": text("What is wrong there."),
                "pointer": text("A JSON pointer into the body, as a URI fragment."),
            }),
        ),
    );
    schemas
}

/// The members that both code systems add to a problem.
fn codes() -> Value {
    let mut names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.entry().rfa).collect();
    names.sort_unstable();
    names.dedup();
    object(
        "The codes of a problem, and its OJS members.",
        &["code", "rfa_code", "ojs_code", "message", "details", "doc_url"],
        json!({
            "code": text("The code of the dialect that was called: here the same as `rfa_code`."),
            "rfa_code": {"enum": names, "description": "ForgeRun's code."},
            "ojs_code": text("The canonical OJS code."),
            "message": text("In English, never empty."),
            "details": {"type": "object", "description": "Facts, by name."},
            "doc_url": {"type": "string", "format": "uri-reference", "description": "A page about the code."},
            "processingStage": {"enum": stages(), "description": "How far the request or the job had come."},
        }),
    )
}

/// `$defs` of the published schema become components. `Problem` is the name of the composed one, so the plain one has another.
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
                    let definition = target.trim_start_matches("#/$defs/");
                    (name, format!("#/components/schemas/{}", component(definition)).into())
                }
                _ => (name, relocated(value)),
            };
            Value::Object(members.into_iter().map(moved).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(relocated).collect()),
        other => other,
    }
}

fn requests() -> Value {
    json!({
        "SubmitRequest": {
            "type": "object",
            "description": "A job to be done.",
            "properties": {
                "type": {"enum": forms(), "description": "What to do: run at once, run later, tell at once. May be left out beside `job_type`."},
                "execution_at": maybe(time("When to run it; mandatory for DEFERRED, not for EXECUTE.")),
                "callback": maybe(json!({
                    "type": "string", "format": "uri", "maxLength": 2048, "description": "Whom to tell: http or https.",
                })),
                "idempotency_key": maybe(json!({
                    "type": "string", "maxLength": 255, "description": "Makes a repetition harmless; as the header.",
                })),
                "work_kind": work_kind("What to simulate. Without it and `job_type` the server chooses, unless simulation is off."),
                "job_type": maybe(json!({
                    "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^\\s\\p{C}]+$",
                    "description": "What kind of work it is: real work, for workers outside. Not beside `work_kind`.",
                })),
                "queue": maybe(json!({
                    "type": "string", "maxLength": 255, "pattern": QUEUE_NAME, "default": "default",
                    "description": "Where to wait.",
                })),
                "priority": maybe(json!({
                    "type": "integer", "minimum": -100, "maximum": 100, "default": 0,
                    "description": "Higher goes first.",
                })),
                "retry_mode": maybe(json!({
                    "type": "string", "enum": ["manual", "auto", null],
                    "description": "Whether the server retries by itself.",
                })),
                "max_retries": maybe(json!({
                    "type": "integer", "minimum": 0, "maximum": 63,
                    "description": "How often the server retries by itself; only beside `job_type`, where it is 0 if absent.",
                })),
                "timeout": maybe(text("How long one attempt may run, such as `90s` or `1h30m`.")),
                "deadline": maybe(text(DEADLINE)),
                "tags": maybe(tags()),
                "unique_key": maybe(json!({
                    "type": "string", "minLength": 1, "maxLength": 255,
                    "description": "A second job with this key is refused (409) until the first has ended.",
                })),
                "correlation_id": maybe(text("What the client calls the job; sanitised.")),
                "payload": {"description": "Any JSON, up to `limits.max_job_payload_kb`."},
            },
            "if": {"properties": {"type": {"const": "DEFERRED"}}},
            "then": {"required": ["execution_at"]},
        },
        "KeyRequest": object("What may be asked of a new key.", &[], json!({
            "rotate": {"type": "boolean", "default": false, "description": "Make one even if there is a good one."},
        })),
        "RetryRequest": object("What may be asked of a retry.", &[], json!({
            "revive": {
                "type": "boolean", "default": false,
                "description": "Of a dead letter: begin again with all attempts, at once.",
            },
        })),
        "RevokeRequest": object("Which key to revoke.", &["key_id"], json!({"key_id": text("The key.")})),
        "Nothing": {"type": "object", "description": "An object whose members do not matter."},
    })
}

fn client_name() -> Value {
    json!({
        "type": ["string", "null"], "minLength": 1, "maxLength": 100,
        "description": "1 to 100 printable characters, without space around them; null for none.",
    })
}

fn clients() -> Value {
    json!({
        "Client": object("A client that was registered.", &["client_id"], json!({
            "client_id": id("Who it is. Whoever knows it may make the first key."),
            "name": text("What people call it, if it has a name."),
        })),
        "ClientRequest": object("What people call a client.", &[], json!({"name": client_name()})),
        "Key": object(
            "A key. The secret is shown once, when the key is made.",
            &["api_key", "key_id", "key_prefix", "created_at", "expires_at"],
            json!({
                "api_key": maybe(text("The secret; null for a key that was there before.")),
                "key_id": id("Which key."),
                "key_prefix": text("How the secret begins."),
                "created_at": time("When it was made."),
                "expires_at": maybe(time("When it stops working.")),
            }),
        ),
        "Revoked": object("A key was revoked.", &["revoked"], json!({"revoked": {"type": "boolean", "description": "Always true."}})),
    })
}

fn jobs() -> Value {
    let job_id = || id("Which job.");
    let updated_at = || time("When it last changed.");
    json!({
        "State": {"enum": states(), "description": "Where a job stands."},
        "Submitted": object("A job that was accepted.", &["job_id", "state", "created_at", "simulated"], json!({
            "job_id": job_id(), "state": reference("State"), "created_at": time("When it was accepted."),
            "simulated": simulated(),
        })),
        "Canceled": object("The job after the call.", &["job_id", "state", "updated_at"], json!({
            "job_id": job_id(), "state": reference("State"), "updated_at": updated_at(),
        })),
        "Retried": object("The job after the call.", &["job_id", "state", "updated_at", "attempt"], json!({
            "job_id": job_id(), "state": reference("State"), "updated_at": updated_at(),
            "attempt": count("The attempt under way or about to begin."),
        })),
        "Job": job(),
        "Definition": object(
            "What the built-in worker simulates.",
            &["work_kind", "duration_ms", "should_fail", "payload_size"],
            json!({
                "work_kind": {"enum": work_kinds(), "description": "The scenario."},
                "duration_ms": count("How long it runs, before `sim.time_scale`."),
                "should_fail": {"type": "boolean", "description": "Whether its first attempt fails."},
                "payload_size": count("The size of its result, in KB."),
            }),
        ),
        "JobError": object(
            "Why a job ended badly.",
            &["type", "message", "detail", "errorCode", "retryable", "timestamp"],
            json!({
                "type": text("The kind of failure."),
                "message": text("In English."),
                "detail": text("More about it."),
                "errorCode": text("The canonical code."),
                "retryable": {"type": "boolean", "description": "Whether submitting it again is worth it."},
                "timestamp": time("When it happened."),
            }),
        ),
        "FailedAttempt": object(
            "Why an attempt failed.",
            &["attempt", "type", "message", "detail", "errorCode", "retryable", "timestamp"],
            json!({
                "attempt": {"type": "integer", "minimum": 1, "description": "Which attempt."},
                "execution": id("Which execution it was part of: attempts are counted anew when a job is begun anew."),
                "type": text("The kind of failure."),
                "message": text("In English."),
                "detail": text("More about it."),
                "errorCode": text("The canonical code."),
                "retryable": {"type": "boolean", "description": "Whether another try is worth it."},
                "timestamp": time("When it happened."),
            }),
        ),
        "Jobs": object("A page of jobs, newest first.", &["jobs", "next_cursor"], json!({
            "jobs": {"type": "array", "items": reference("Job"), "maxItems": 200},
            "next_cursor": maybe(text("Where to go on; null at the end. A page may be short, or empty, while there is more: a request looks at so many jobs only.")),
        })),
    })
}

fn job() -> Value {
    let required = [
        "job_id",
        "type",
        "state",
        "outcome",
        "created_at",
        "execution_at",
        "updated_at",
        "attempt",
        "callback",
        "queue",
        "simulated",
        "definition",
        "jobId",
        "jobStatus",
        "submittedAt",
    ];
    let statuses =
        ["ACCEPTED", "PROCESSING", "COMPLETED", "COMPLETED_WITH_ERRORS", "FAILED", "CANCELLED", "TIMED_OUT"];
    object(
        "A job in full.",
        &required,
        json!({
            "job_id": id("Which job."),
            "type": {"enum": forms(), "description": "What it does."},
            "job_type": text("What kind of work it is, for workers outside."),
            "simulated": simulated(),
            "state": reference("State"),
            "outcome": {"enum": outcomes_or_null(), "description": "How it ended; null before."},
            "created_at": time("When it was accepted."),
            "execution_at": maybe(time("When it is to run, if that was given.")),
            "deadline": time("By when it must have ended, if it has a deadline that counts."),
            "tags": shown_tags(),
            "updated_at": time("When it last changed."),
            "attempt": {"type": "integer", "minimum": 1, "description": "The attempt under way or about to begin."},
            "callback": maybe(text("Who is told of its changes.")),
            "queue": text("Where it waits."),
            "definition": {"anyOf": [reference("Definition"), {"type": "null"}]},
            "items": reference("ItemsSummary"),
            "progress": {"type": "integer", "minimum": 0, "maximum": 100, "description": "Percent done."},
            "error": reference("JobError"),
            "errors": {
                "type": "array", "items": reference("FailedAttempt"),
                "description": "Why its attempts failed, oldest first; the newest ones, if there were very many.",
            },
            "dead_lettered_at": time("When it became a dead letter: all attempts are used up, and somebody has to look."),
            "schedule": {
                "type": "object", "description": "The schedule that made it.", "required": ["name", "tick"],
                "properties": {"name": text("What it is called."), "tick": time("Which tick it belongs to; for one that somebody asked for, when that was.")},
            },
            "jobId": id("The execution under way."),
            "jobStatus": {"enum": statuses, "description": "Its status in the words of the async-job members."},
            "submittedAt": reference("UtcTime"),
            "completedAt": reference("UtcTime"),
            "retryable": {"type": "boolean", "description": "Whether submitting it again is worth it; of failures."},
            "retryAfter": count("Seconds to wait before that."),
            "retries_left": count("How many more attempts a retry of the job can have; of a failed job."),
            "processingStage": {"enum": stages(), "description": "How far it had come; of failures."},
            "correlationId": text("What the client calls it."),
        }),
    )
}

fn events() -> Value {
    let names = [
        "job_created",
        "job_queued",
        "job_assigned",
        "job_requeued",
        "job_started",
        "job_progress",
        "job_event_emitted",
        "job_succeeded",
        "job_failed",
        "job_timed_out",
        "job_canceled",
    ];
    json!({
        "Event": object(
            "What happened to a job: a change of state, its progress, or the notification it was submitted for.",
            &["event_id", "job_id", "event_name", "prev_state", "next_state", "timestamp", "attempt"],
            json!({
                "event_id": id("Which event."),
                "job_id": id("Of which job."),
                "event_name": {"enum": names, "description": "What happened."},
                "prev_state": {"anyOf": [reference("State"), {"type": "null"}]},
                "next_state": reference("State"),
                "timestamp": time("When, to the microsecond; no two events of a job have the same."),
                "attempt": count("The attempt it belongs to."),
                "cause": {"enum": Cause::ALL.map(cause), "description": "Why the state changed."},
                "reason": text("More about why: `lease_expired`, `runner_lost`, `handed_back`, or what was said when the job was cancelled."),
                "partial": {"type": "boolean", "description": "True where some items of a batch went well and some did not, absent otherwise."},
                "progress": {"type": "integer", "minimum": 0, "maximum": 100, "description": "Percent done."},
                "scenario": {"enum": work_kinds(), "description": "What the built-in worker simulates."},
                "will_retry": {"type": "boolean", "description": "True where the server will try again by itself, absent otherwise."},
                "final": {"type": "boolean", "description": "True where no retry is left, absent otherwise."},
            }),
        ),
        "EventStream": super::events::schema(),
        "Events": object("A page of events, oldest first.", &["events", "next_cursor"], json!({
            "events": {"type": "array", "items": reference("Event"), "maxItems": 200},
            "next_cursor": maybe(text("Where to go on; null at the end.")),
        })),
        "WebhookEvent": object(
            "A webhook was disabled, and not by its owner.",
            &["event_id", "event_name", "reason", "timestamp", "webhook_id"],
            json!({
                "event_id": id("Which event."),
                "event_name": {"const": WEBHOOK_DISABLED, "description": "What happened."},
                "reason": {"enum": ["gone", "failing"], "description": "It answered 410; or it failed for too long."},
                "timestamp": time("When, to the microsecond."),
                "webhook_id": id("To which webhook."),
            }),
        ),
        "AllEvents": object("A page of events of jobs and webhooks, oldest first.", &["events", "next_cursor"], json!({
            "events": {"type": "array", "items": {"anyOf": [reference("Event"), reference("WebhookEvent")]}, "maxItems": 200},
            "next_cursor": maybe(text("Where to go on; null at the end.")),
        })),
        "Report": object(
            "The report of a job that has ended.",
            &["job_id", "outcome", "events", "started_at", "finished_at", "duration_ms", "attempts"],
            json!({
                "job_id": id("Which job."),
                "outcome": {"enum": outcomes(), "description": "How it ended."},
                "events": {"type": "array", "items": reference("Event")},
                "started_at": time("When the work began; the end, if it never did."),
                "finished_at": time("When it ended."),
                "duration_ms": count("The time between the two."),
                "attempts": count("Attempts made."),
            }),
        ),
    })
}

fn pages() -> Value {
    json!({
        "Health": object("The process answers.", &["status"], json!({"status": {"const": "ok"}})),
        "Ready": object("The server can do its work.", &["status"], json!({"status": {"const": "ready"}})),
        "NotReady": object("The server cannot do its work now.", &["status", "reason", "code"], json!({
            "status": {"const": "not ready"},
            "reason": {"enum": ["stopping", "store", "workers", "damaged"], "description": "What it waits for."},
            "code": text("ForgeRun's code."),
        })),
        "ProblemTypes": object("Every problem type.", &["language", "problems"], json!({
            "language": text("The language of titles and sentences."),
            "problems": {"type": "array", "items": reference("ProblemType")},
        })),
        "ProblemType": problem_type(),
    })
}

fn problem_type() -> Value {
    let of_dialect = |path: &str| {
        let item = json!({"type": "integer", "minimum": 200, "maximum": 599});
        json!({"type": "array", "items": item, "description": format!("Under `{path}`.")})
    };
    let statuses =
        json!({"v1": of_dialect("/v1"), "api": of_dialect("/api/v1"), "ojs": of_dialect("/ojs/v1")});
    let code = json!({
        "rfa_code": text("ForgeRun's code."),
        "ojs_code": text("The code of Open Job Spec."),
        "meaning": text("What happened."),
        "remedy": text("What to do about it."),
        "doc_url": text("Where the code is explained."),
    });
    let properties = json!({
        "type": {"type": "string", "format": "uri-reference", "description": "What `type` says."},
        "slug": text("Its name."),
        "title": text("What `title` says."),
        "language": text("The language of titles and sentences."),
        "level": {"enum": ["request", "job"], "description": "What it is about."},
        "status": object("The HTTP status codes, by dialect.", &["v1", "api", "ojs"], statuses),
        "retryable": {"type": "boolean", "description": "Whether to try again."},
        "retry": text("Whether and how to try again, in words."),
        "stage": maybe(text("What `processingStage` says.")),
        "codes": {
            "type": "array",
            "items": object("One way to meet it.", &["rfa_code", "ojs_code", "meaning", "remedy", "doc_url"], code),
        },
        "extensions": {"type": "object", "description": "What such a problem has beside, and of which type."},
        "example": reference("ProblemDetails"),
        "index": {"type": "string", "format": "uri-reference", "description": "Where all types are listed."},
    });
    let Value::Object(members) = &properties else { unreachable!("it is an object") };
    let required: Vec<&str> = members.keys().map(String::as_str).collect();
    object("A problem type.", &required, properties.clone())
}

pub(super) fn object(description: &str, required: &[&str], properties: Value) -> Value {
    let mut schema = json!({"type": "object", "description": description, "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

pub(super) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

pub(super) fn id(description: &str) -> Value {
    json!({"type": "string", "format": "uuid", "description": description})
}

pub(super) fn time(description: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": description})
}

pub(super) fn count(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": description})
}

/// The same, or null.
pub(super) fn maybe(mut schema: Value) -> Value {
    schema["type"] = json!([schema["type"], "null"]);
    schema
}

fn states() -> Vec<&'static str> {
    State::ALL.into_iter().map(forge_state).collect()
}

fn outcomes() -> Vec<&'static str> {
    State::ALL.into_iter().filter_map(forge_outcome).collect()
}

fn outcomes_or_null() -> Vec<Option<&'static str>> {
    outcomes().into_iter().map(Some).chain([None]).collect()
}

fn forms() -> [&'static str; 3] {
    [JobForm::Execute, JobForm::Deferred, JobForm::EmitEvent].map(forge_type)
}

/// A member that names a kind of work.
/// Whether a job is simulated.
pub(super) fn tags() -> Value {
    json!({
        "type": "array", "maxItems": TAGS_MAX, "uniqueItems": true,
        "items": {"type": "string", "pattern": format!("^[a-z0-9._:-]{{1,{TAG_BYTES_MAX}}}$")},
        "description": "Labels; lists are narrowed by them with `tag`.",
    })
}

/// The labels of a job of any dialect; OJS has looser bounds.
pub(super) fn shown_tags() -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": "Its labels."})
}

pub(super) fn simulated() -> Value {
    json!({
        "type": "boolean",
        "description": "Whether the built-in worker simulates it; false for work of workers outside.",
    })
}

pub(super) fn work_kind(description: &str) -> Value {
    json!({"type": "string", "enum": work_kinds(), "description": description})
}

pub(super) fn work_kinds() -> Vec<&'static str> {
    WorkKind::ALL.iter().map(|kind| kind.as_str()).collect()
}

pub(super) fn stages() -> Vec<&'static str> {
    ProcessingStage::ALL.iter().map(|stage| stage.as_str()).collect()
}
