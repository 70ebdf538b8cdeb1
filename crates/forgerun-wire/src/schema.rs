//! JSON Schemas of the views, for the documents of the API. They are derived from the views (feature `schema`): a member of a view is a
//! property, its comment is the description, and what is left out of an answer at times is not required.
//!
//! The views hold ids and times as text. Which of them a text is follows from the name of the member, as [`generator`] says; a
//! member that is one of a few words says so itself: `schemars(with = "schema::ForgeState")`.

use std::borrow::Cow;

use forgerun_core::catalog::ProcessingStage;
use forgerun_core::job::JobForm;
use forgerun_core::state::{Cause, State as JobState};
use forgerun_core::work::WorkKind as Scenario;
use forgerun_problem::ItemStatus as Ended;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::words;

/// Where the documents keep schemas.
const COMPONENTS: &str = "/components/schemas";

/// Makes the schemas of what the server says.
pub fn generator() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| settings.definitions_path = COMPONENTS.into());
    settings.with_transform(RecursiveTransform(refine)).into_generator()
}

/// Says of the members of an object what their names say, and drops what only Rust means.
fn refine(schema: &mut Schema) {
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if schema.get("format").and_then(Value::as_str).is_some_and(is_of_rust) {
        schema.remove("format");
        let of_type =
            |bound: &Value| bound.as_i64().is_some_and(|bound| bound < 0 || BOUNDS.contains(&bound));
        for name in ["minimum", "maximum"] {
            if schema.get(name).is_some_and(of_type) {
                schema.remove(name);
            }
        }
    }
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|all| all.iter().any(|one| one == name));
    for (name, member) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        if !is_required(name) {
            deny_null(member);
        }
        let member = if member["type"] == "array" { &mut member["items"] } else { member };
        if is(member, "string") && member.get("enum").is_none() && member.get("format").is_none() {
            if let Some(format) = format(name) {
                member["format"] = format.into();
            }
        } else if is(member, "integer") && name == "progress" {
            member["maximum"] = 100.into();
        }
    }
}

/// What may be left out is never null.
fn deny_null(schema: &mut Value) {
    if let Some([one, Value::String(null)]) = schema["type"].as_array().map(Vec::as_slice)
        && null == "null"
    {
        schema["type"] = one.clone();
        if let Some(Value::Array(words)) = schema.get_mut("enum") {
            words.retain(|word| !word.is_null());
        }
    }
    if let Some([one, null]) = schema["anyOf"].as_array().map(Vec::as_slice)
        && null["type"] == "null"
    {
        *schema = one.clone();
    }
}

fn is(schema: &Value, name: &str) -> bool {
    schema["type"] == name
        || schema["type"].as_array().is_some_and(|types| types.iter().any(|one| one == name))
}

/// The largest numbers of small types.
const BOUNDS: [i64; 4] = [i8::MAX as i64, u8::MAX as i64, i16::MAX as i64, u16::MAX as i64];

/// Formats of numbers that the derivation adds. Their bounds are those of the type, not of the value.
fn is_of_rust(format: &str) -> bool {
    format.starts_with("int") || format.starts_with("uint") || matches!(format, "double" | "float")
}

/// What a text of this name is: views keep to it, and tests hold the answers of a server against it.
fn format(name: &str) -> Option<&'static str> {
    match name {
        "job_id" | "jobId" | "last_job_id" | "client" | "client_id" | "delivery_id" | "event_id"
        | "execution" | "execution_id" | "key_id" | "retriedAs" | "webhook_id" | "workflow_id" => {
            Some("uuid")
        }
        "at"
        | "deadline"
        | "failing_since"
        | "first_seen"
        | "last_seen"
        | "lease_until"
        | "next_runs"
        | "previous_secret_until"
        | "since"
        | "tick"
        | "timestamp" => Some("date-time"),
        _ if name.ends_with("_at") || name.ends_with("At") => Some("date-time"),
        _ if name.ends_with("Url") || name == "doc_url" => Some("uri-reference"),
        _ => None,
    }
}

/// Texts that are one of a few words.
macro_rules! words {
    ($($(#[doc = $doc:literal])+ $name:ident = $words:expr;)+) => {$(
        $(#[doc = $doc])+
        pub struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "enum": Vec::from_iter($words)})
            }
        }
    )+};
}

words! {
    /// What a job does.
    Form = [JobForm::Execute, JobForm::Deferred, JobForm::EmitEvent].map(words::forge_type);
    /// How a job ended.
    Outcome = JobState::ALL.into_iter().filter_map(words::forge_outcome);
    /// What the built-in worker simulates.
    WorkKind = Scenario::ALL.iter().map(|kind| kind.as_str());
    /// How far a failure had come.
    Stage = ProcessingStage::ALL.iter().map(|stage| stage.as_str());
    /// A status in the words of the async-job members.
    JobStatus =
        ["ACCEPTED", "PROCESSING", "COMPLETED", "COMPLETED_WITH_ERRORS", "FAILED", "CANCELLED", "TIMED_OUT"];
    /// A status in the words of `/api/v1`.
    OperationStatus =
        ["Queued", "Preparing", "Running", "Completed", "Failed", "Cancelled", "PartiallyCompleted"];
    /// How an item ended; like its batch before.
    ItemStatus = Ended::ALL.map(Ended::as_str).into_iter().chain(["ACCEPTED", "PROCESSING"]);
    /// What happened to a job.
    EventName = crate::forge::event_names().filter(|name| name.starts_with("job_") && *name != "job_retries_exhausted");
    /// What a webhook hears of.
    WebhookEventName = crate::forge::event_names().chain(["*"]);
    /// What happened to a webhook.
    NoticeName = [words::WEBHOOK_DISABLED];
    /// Why the server disabled a webhook.
    NoticeReason = ["gone", "failing"];
    /// Why a webhook is disabled.
    DisabledReason = ["owner", "gone", "failing"];
    /// How deliveries are wrapped.
    Envelope = ["none", "cloudevents", "cloudevents-binary", "ojs"];
    /// How far a delivery is.
    DeliveryStatus = ["pending", "delivered", "failed"];
    /// Why a delivery waits without a moment of its own, or why it was given up.
    DeliveryReason = ["in_order", "under_way", "exhausted", "gone", "disabled", "deleted"];
    /// Why a state changed.
    StateCause = Cause::ALL.map(words::cause);
    /// What happens while the job of an earlier tick has not ended.
    Overlap = ["skip", "allow", "cancel_previous", "enqueue"];
    /// What happens about missed ticks.
    CatchUp = ["none", "one", "all"];
    /// Why a tick made no job.
    SkipReason = ["overlap_skip", "duplicate", "refused"];
    /// How a workflow was described.
    WorkflowForm = ["chain", "group", "batch", "graph"];
    /// What the failure of a step means for the others.
    FailurePolicy = ["continue", "stop", "compensate"];
    /// When a step has its turn.
    StepCondition = ["all_succeeded", "all_ended", "any_failed"];
    /// Where a step stands.
    StepState = ["WAITING"].into_iter().chain(JobState::ALL.map(words::forge_state)).chain(["SKIPPED"]);
    /// Where the undoing of a step stands.
    CompensationState = ["NOT_RUN", "WAITING"].into_iter().chain(JobState::ALL.map(words::forge_state));
    /// By which API a job came.
    DialectName = ["v1", "api", "ojs"];
    /// What a worker does, or is told to do.
    Directive = ["running", "quiet", "terminate"];
    /// How a sink is.
    SinkState = ["ok", "behind", "down"];
    /// What an operator should look at.
    ProblemKind = ["queue_unattended", "webhook_failing", "sink_behind", "schedule_missed", "node_versions"];
}

/// Where a job stands.
pub struct ForgeState;

impl JsonSchema for ForgeState {
    fn schema_name() -> Cow<'static, str> {
        "State".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = JobState::ALL.map(words::forge_state);
        json_schema!({"type": "string", "description": "Where a job stands.", "enum": words})
    }
}

/// Schemas that the documents take from [`forgerun_problem::schema`].
macro_rules! published {
    ($($(#[doc = $doc:literal])+ $name:ident;)+) => {$(
        $(#[doc = $doc])+
        pub struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"$ref": concat!("#/components/schemas/", stringify!($name))})
            }
        }
    )+};
}

published! {
    /// The failure object of an execution.
    FailedJob;
    /// A time in UTC.
    UtcTime;
}
