//! The document is held against the types it describes.

mod admin;
mod workflows;

use std::collections::BTreeSet;

use forgerun_core::catalog::Kind;
use forgerun_core::job::Dialect;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{DeclaredOperation, KeyPolicy, document, document_with};
use crate::forge::{
    CanceledView, ClientView, DefinitionView, EntryView, ErrorView, EventView, EventsView, FailedAttemptView,
    JobView, JobsView, KeyRequest, KeyView, NoticeView, ReportView, RequestView, RetriedView, RetryRequest,
    RevokeRequest, RevokedView, ScheduledRunView, SubmitRequest, SubmittedView, read_submit,
};
use crate::item::{ItemView, ItemsSummary, ItemsView};
use crate::members::UnknownMembers;
use crate::operations::{self, AcceptedView, CancelRequest, StatusView};
use crate::problem::{RefusedRequest, Violation};

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const NOON: &str = "2026-05-28T12:00:00.000Z";

/// What a component says of an instance.
fn complaints(document: &Value, schema: &Value, instance: &Value) -> Vec<String> {
    let root = json!({"components": document["components"], "allOf": [schema]});
    let validator = jsonschema::options().should_validate_formats(true).build(&root).unwrap();
    validator.iter_errors(instance).map(|error| format!("{error} at {}", error.instance_path())).collect()
}

fn names(object: &Value) -> BTreeSet<String> {
    object.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

/// The properties are the members of a view that has everything; the required ones those of a view that has nothing.
fn check(component: &str, full: &impl Serialize, bare: &impl Serialize) {
    let document = document("");
    let schema = &document["components"]["schemas"][component];
    let (full, bare) = (json!(full), json!(bare));
    assert_eq!(names(&schema["properties"]), names(&full), "{component}");
    let required: BTreeSet<String> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|name| name.as_str().unwrap().into())
        .collect();
    assert_eq!(required, names(&bare), "{component}");
    for instance in [full, bare] {
        assert_eq!(complaints(&document, schema, &instance), Vec::<String>::new(), "{component}");
    }
}

fn bare_job() -> JobView<'static> {
    JobView {
        job_id: ID.into(),
        form: "EXECUTE".into(),
        job_type: None,
        state: "QUEUED".into(),
        outcome: None,
        created_at: NOON.into(),
        execution_at: None,
        deadline: None,
        tags: vec![],
        updated_at: NOON.into(),
        attempt: 1,
        callback: None,
        queue: "default".into(),
        simulated: false,
        definition: None,
        items: None,
        progress: None,
        error: None,
        errors: vec![],
        dead_lettered_at: None,
        execution_id: ID.into(),
        job_status: "ACCEPTED".into(),
        submitted_at: NOON.into(),
        completed_at: None,
        retryable: None,
        retry_after: None,
        retries_left: None,
        processing_stage: None,
        schedule: None,
        correlation_id: None,
    }
}

fn definition() -> DefinitionView<'static> {
    DefinitionView {
        work_kind: "SUCCESS_FAST".into(),
        duration_ms: 1500,
        should_fail: false,
        payload_size: 8,
    }
}

fn error() -> ErrorView<'static> {
    ErrorView {
        kind: "HandlerError".into(),
        message: "It failed".into(),
        detail: "It went wrong.".into(),
        error_code: "handler_error".into(),
        retryable: true,
        timestamp: NOON.into(),
    }
}

fn failed_attempt() -> FailedAttemptView<'static> {
    FailedAttemptView { attempt: 1, execution: Some(ID.into()), error: error() }
}

fn full_job() -> JobView<'static> {
    JobView {
        state: "FAILED".into(),
        outcome: Some("FAILED".into()),
        execution_at: Some(NOON.into()),
        deadline: Some(NOON.into()),
        tags: vec!["eu".into()],
        callback: Some("https://client.example/".into()),
        definition: Some(definition()),
        items: Some(ItemsSummary { total: 2, completed: 1, failed: 1 }),
        progress: Some(100),
        error: Some(error()),
        errors: vec![failed_attempt()],
        dead_lettered_at: Some(NOON.into()),
        job_status: "TIMED_OUT".into(),
        completed_at: Some(NOON.into()),
        retryable: Some(true),
        retry_after: Some(3),
        retries_left: Some(2),
        processing_stage: Some("processing".into()),
        schedule: Some(ScheduledRunView { name: "nightly".into(), tick: NOON.into() }),
        correlation_id: Some("a-1".into()),
        job_type: Some("mail.send".into()),
        ..bare_job()
    }
}

fn event() -> EventView {
    EventView {
        event_id: ID.into(),
        job_id: ID.into(),
        event_name: "job_created".into(),
        prev_state: None,
        next_state: "CREATED".into(),
        timestamp: "2026-05-28T12:00:00.000000Z".into(),
        attempt: 1,
        cause: None,
        reason: None,
        partial: false,
        progress: None,
        scenario: None,
        will_retry: false,
        is_final: false,
    }
}

#[test]
fn every_view_of_a_batch_has_exactly_the_documented_members() {
    let summary = ItemsSummary { total: 2, completed: 1, failed: 1 };
    check("ItemsSummary", &summary, &summary);
    let item = ItemView {
        item_id: "a".into(),
        status: "FAILED".into(),
        detail: Some("It went wrong.".into()),
        retryable: Some(true),
        processing_stage: Some("processing".into()),
    };
    let bare = ItemView::open("a", &forgerun_problem::JobStatus::Processing);
    check("Item", &item, &bare);
    let page = ItemsView {
        execution_id: ID.into(),
        total: 1,
        completed: 0,
        failed: 1,
        items: vec![item, bare],
        next_cursor: Some("1".into()),
    };
    check("Items", &page, &ItemsView { next_cursor: None, ..page.clone() });
}

#[test]
fn every_view_of_a_job_has_exactly_the_documented_members() {
    check("Job", &full_job(), &bare_job());
    check("Definition", &definition(), &definition());
    check("JobError", &error(), &error());
    check("FailedAttempt", &failed_attempt(), &FailedAttemptView { execution: None, ..failed_attempt() });
    let jobs = JobsView { jobs: vec![full_job(), bare_job()], next_cursor: Some(ID.into()) };
    check("Jobs", &jobs, &JobsView { jobs: vec![], next_cursor: None });
    let submitted =
        SubmittedView { job_id: ID.into(), state: "QUEUED".into(), created_at: NOON.into(), simulated: true };
    check("Submitted", &submitted, &submitted);
    let canceled = CanceledView { job_id: ID.into(), state: "CANCELED".into(), updated_at: NOON.into() };
    check("Canceled", &canceled, &canceled);
    let retried =
        RetriedView { job_id: ID.into(), state: "QUEUED".into(), updated_at: NOON.into(), attempt: 2 };
    check("Retried", &retried, &retried);
}

#[test]
fn what_a_delivery_sends_has_exactly_the_documented_members() {
    let bare = RequestView { method: "POST", url: None, headers: None, body: None };
    let full = RequestView {
        url: Some("https://client.example/".into()),
        headers: Some([("webhook-id".into(), ID.into())].into()),
        body: RawValue::from_string("{}".into()).ok(),
        ..bare.clone()
    };
    check("DeliveryRequest", &full, &bare);
}

#[test]
fn every_view_of_events_has_exactly_the_documented_members() {
    let full = EventView {
        prev_state: Some("RUNNING".into()),
        cause: Some("finish".into()),
        reason: Some("runner_lost".into()),
        partial: true,
        progress: Some(100),
        scenario: Some("SUCCESS_FAST".into()),
        will_retry: true,
        is_final: true,
        ..event()
    };
    check("Event", &full, &event());
    let events = EventsView { events: vec![full.clone(), event()], next_cursor: Some(ID.into()) };
    check("Events", &events, &EventsView::<EventView> { events: vec![], next_cursor: None });
    let notice = NoticeView {
        event_id: ID.into(),
        event_name: "webhook_disabled".into(),
        reason: "gone".into(),
        timestamp: NOON.into(),
        webhook_id: ID.into(),
    };
    check("WebhookEvent", &notice, &notice);
    let all = vec![EntryView::Job(full.clone()), EntryView::Webhook(notice)];
    let all = EventsView { events: all, next_cursor: Some(ID.into()) };
    check("AllEvents", &all, &EventsView { next_cursor: None, ..all.clone() });
    let report = ReportView {
        job_id: ID.into(),
        outcome: "SUCCESS".into(),
        events: vec![event(), full],
        started_at: NOON.into(),
        finished_at: NOON.into(),
        duration_ms: 0,
        attempts: 1,
    };
    check("Report", &report, &report);
}

#[test]
fn every_view_and_request_of_clients_has_exactly_the_documented_members() {
    let bare = ClientView { client_id: ID.into(), name: None };
    check("Client", &ClientView { name: Some("Billing".into()), ..bare.clone() }, &bare);
    let bare = KeyView {
        api_key: None,
        key_id: ID.into(),
        key_prefix: "frk_abcdefgh".into(),
        created_at: NOON.into(),
        expires_at: None,
    };
    let full = KeyView { api_key: Some("frk_".into()), expires_at: Some(NOON.into()), ..bare.clone() };
    check("Key", &full, &bare);
    check("Revoked", &RevokedView { revoked: true }, &RevokedView { revoked: true });
    check("KeyRequest", &KeyRequest { rotate: true }, &json!({}));
    check("RetryRequest", &RetryRequest { revive: true }, &json!({}));
    let revoke = RevokeRequest { key_id: ID.into() };
    check("RevokeRequest", &revoke, &revoke);
}

#[test]
fn a_submission_is_read_by_exactly_the_documented_members() {
    // A new member does not compile until it is here and in the document.
    let SubmitRequest {
        form: _,
        execution_at: _,
        callback: _,
        idempotency_key: _,
        work_kind: _,
        job_type: _,
        queue: _,
        priority: _,
        retry_mode: _,
        max_retries: _,
        timeout: _,
        deadline: _,
        tags: _,
        unique_key: _,
        correlation_id: _,
        payload: _,
    } = read_submit(br#"{"type":"EXECUTE"}"#, UnknownMembers::Refuse).unwrap();
    let members = [
        "type",
        "execution_at",
        "callback",
        "idempotency_key",
        "work_kind",
        "job_type",
        "queue",
        "priority",
        "retry_mode",
        "max_retries",
        "timeout",
        "deadline",
        "tags",
        "unique_key",
        "correlation_id",
        "payload",
    ];
    let document = document("");
    let schema = &document["components"]["schemas"]["SubmitRequest"];
    assert_eq!(names(&schema["properties"]), BTreeSet::from(members.map(String::from)));
    for member in members.into_iter().filter(|member| *member != "payload") {
        let mut body = json!({"type": "EXECUTE"});
        body[member] = json!(true);
        assert_ne!(complaints(&document, schema, &body), Vec::<String>::new(), "{member}");
        let refused = read_submit(body.to_string().as_bytes(), UnknownMembers::Refuse).unwrap_err();
        assert!(
            refused.violations.iter().any(|violation| violation.pointer == format!("#/{member}")),
            "{member}"
        );
    }
    let examples =
        document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["examples"]
            .as_object()
            .unwrap();
    for (name, example) in examples {
        assert!(
            read_submit(example["value"].to_string().as_bytes(), UnknownMembers::Refuse).is_ok(),
            "{name}"
        );
    }
}

#[test]
fn a_problem_is_composed_of_problem_details_and_async_job_members() {
    let document = document("");
    let schemas = &document["components"]["schemas"];
    for composed in ["Problem", "OperationProblem", "FailedJob"] {
        for part in ["ProblemDetails", "AsyncJob"] {
            let part = json!({"$ref": format!("#/components/schemas/{part}")});
            assert!(schemas[composed]["allOf"].as_array().unwrap().contains(&part), "{composed}");
        }
    }
    let schema = json!({"$ref": "#/components/schemas/Problem"});
    let violation =
        Violation { pointer: "#/type".into(), detail: "is missing".into(), constraint: "required" };
    for &kind in Kind::ALL {
        let refused =
            RefusedRequest::new(kind, "it went wrong").retry_after(3).violations(vec![violation.clone()]);
        let problem = refused.problem(Dialect::Forge, "", &format!("urn:uuid:{ID}"));
        let mut problem: Value = serde_json::from_str(&problem.to_json()).unwrap();
        assert_eq!(complaints(&document, &schema, &problem), Vec::<String>::new(), "{kind:?}");
        // It can say no: to members of the problem, of the job, and of ours.
        for (member, wrong) in
            [("status", json!("no")), ("retryable", json!("yes")), ("rfa_code", json!("RFA_NOTHING"))]
        {
            let right = std::mem::replace(&mut problem[member], wrong);
            assert_ne!(complaints(&document, &schema, &problem), Vec::<String>::new(), "{kind:?} {member}");
            problem[member] = right;
        }
    }
}

fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, item)| {
        item.as_object()
            .unwrap()
            .iter()
            .map(move |(method, operation)| (format!("{method} {path}"), operation))
    });
    all.collect()
}

/// Every example below `value`, with the schema beside it.
fn examples(value: &Value) -> Vec<(&Value, &Value)> {
    let mut found = Vec::new();
    for (media_type, media) in value["content"].as_object().into_iter().flatten() {
        if media_type.ends_with("json") {
            found.extend(media.get("example").map(|example| (&media["schema"], example)));
            let several = media["examples"].as_object().into_iter().flatten();
            found.extend(several.map(|(_, example)| (&media["schema"], &example["value"])));
        }
    }
    found
}

#[test]
fn every_example_is_what_its_schema_says() {
    let document = document("https://forge.example");
    let mut n_examples = 0;
    for (name, operation) in operations(&document) {
        let answers = operation["responses"].as_object().unwrap().values();
        for part in answers.chain(operation.get("requestBody")) {
            for (schema, example) in examples(part) {
                assert_eq!(complaints(&document, schema, example), Vec::<String>::new(), "{name}: {example}");
                n_examples += 1;
            }
        }
    }
    assert!(n_examples > 100, "{n_examples} examples");
}

#[test]
fn every_operation_is_whole() {
    let document = document("https://forge.example");
    assert_eq!(document["openapi"], "3.1.0");
    let tags: Vec<&Value> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    let mut ids = BTreeSet::new();
    for (name, operation) in operations(&document) {
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{name}: its id is taken");
        assert!(tags.contains(&&operation["tags"][0]), "{name}");
        assert!(operation["summary"].as_str().is_some_and(|summary| summary.ends_with('.')), "{name}");
        let in_path: BTreeSet<&str> =
            name.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
        let parameters = operation["parameters"].as_array().unwrap().iter();
        let described: BTreeSet<&str> = parameters
            .filter(|parameter| parameter["in"] == "path" && parameter["required"] == true)
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        assert_eq!(in_path, described, "{name}");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{name}");
        for (status, response) in responses {
            assert!(!response["description"].as_str().unwrap().is_empty(), "{name} {status}");
            let is_empty = response["content"].as_object().unwrap().is_empty();
            assert_eq!(is_empty, status == "204" || status == "304", "{name} {status}");
            for problem_type in response["x-problem-types"].as_array().into_iter().flatten() {
                let linked = problem_type.as_str().unwrap();
                let known = Kind::ALL
                    .iter()
                    .any(|kind| linked == format!("https://forge.example/problems/{}", kind.entry().slug));
                assert!(known || linked == "about:blank", "{linked}");
            }
        }
        for scheme in operation["security"].as_array().unwrap().iter().flat_map(names) {
            assert!(document["components"]["securitySchemes"][&scheme].is_object(), "{name}");
        }
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(String::from));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    let document = document("");
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for target in &found {
        let pointer = target.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{target}");
    }
    for name in names(&document["components"]["schemas"]) {
        assert!(found.contains(&format!("#/components/schemas/{name}")), "{name} is not used");
    }
}

fn bare_status() -> StatusView {
    serde_json::from_value(json!({
        "jobId": ID, "status": "Queued", "submittedAt": NOON, "updatedAt": NOON, "retryCount": 0, "maxRetries": 3,
        "jobStatus": "ACCEPTED", "job_id": ID,
    }))
    .unwrap()
}

#[test]
fn every_view_of_the_async_operations_dialect_has_exactly_the_documented_members() {
    let full = StatusView {
        job_type: Some("a".into()),
        progress: Some(45),
        message: Some("at work".into()),
        started_at: Some(NOON.into()),
        queue_position: Some(1),
        estimated_completion_at: Some(NOON.into()),
        completed_at: Some(NOON.into()),
        failed_at: Some(NOON.into()),
        cancelled_at: Some(NOON.into()),
        cancelled_by: Some("user".into()),
        reason: Some("none".into()),
        duration: Some(35),
        result_url: Some("/api/v1/reports/x".into()),
        result_type: Some("PDF".into()),
        result_size: Some(7),
        items: Some(ItemsSummary { total: 2, completed: 1, failed: 1 }),
        items_url: Some("/api/v1/jobs/x/items".into()),
        error: Some(error()),
        expires_at: Some(NOON.into()),
        deadline: Some(NOON.into()),
        tags: vec!["eu".into()],
        retried_as: Some(ID.into()),
        retryable: Some(true),
        retry_after: Some(3),
        retries_left: Some(2),
        processing_stage: Some("processing".into()),
        correlation_id: Some("a-1".into()),
        ..bare_status()
    };
    check("Status", &full, &bare_status());
    let bare = AcceptedView {
        job_id: ID.into(),
        status: "Queued".into(),
        status_url: "/api/v1/jobs/x".into(),
        submitted_at: NOON.into(),
        estimated_duration: None,
    };
    check("Accepted", &AcceptedView { estimated_duration: Some(5), ..bare.clone() }, &bare);
    check("CancelRequest", &CancelRequest { reason: Some("none".into()) }, &json!({}));
}

#[test]
fn a_submission_of_the_async_operations_dialect_is_read_by_exactly_the_documented_members() {
    let document = document("");
    let schema = &document["components"]["schemas"]["BeginRequest"];
    for member in names(&schema["properties"]) {
        let mut body = json!({"type": "a"});
        body[&member] = json!(true);
        assert_ne!(complaints(&document, schema, &body), Vec::<String>::new(), "{member}");
        let refused =
            operations::read_submit(body.to_string().as_bytes(), UnknownMembers::Refuse, true).unwrap_err();
        assert!(
            refused.violations.iter().any(|violation| violation.pointer == format!("#/{member}")),
            "{member}"
        );
    }
}

#[test]
fn a_refusal_of_every_dialect_fits_its_schema_and_its_errors_are_of_its_own_shape() {
    let document = document("");
    let violation =
        Violation { pointer: "#/type".into(), detail: "is missing".into(), constraint: "required" };
    let mut refused = RefusedRequest::new(Kind::MalformedRequest, "bad").violations(vec![violation]);
    refused.traceparent = Some("00-1-2-01".into());
    let problem = |dialect| -> Value {
        serde_json::from_str(&refused.problem(dialect, "", "urn:uuid:x").to_json()).unwrap()
    };
    let schema = |name: &str| document["components"]["schemas"][name].clone();
    let fits = |name: &str, dialect| complaints(&document, &schema(name), &problem(dialect)).is_empty();
    assert!(fits("OperationProblem", Dialect::Operations) && fits("Problem", Dialect::Forge));
    assert!(!fits("OperationProblem", Dialect::Forge) && !fits("Problem", Dialect::Operations));
}

#[test]
fn operations_of_the_configuration_are_documented_with_their_durations() {
    let declared = [
        DeclaredOperation { name: "reports/generate", expected: Some(std::time::Duration::from_secs(5)) },
        DeclaredOperation { name: "mail/send-all", expected: None },
    ];
    let document = document_with("", &declared, KeyPolicy::Needed);
    let post = |path: &str| document["paths"][path]["post"].clone();
    let report = post("/api/v1/reports/generate");
    assert_eq!(report["operationId"], "beginGenerateReports");
    assert!(report["summary"].as_str().unwrap().contains("5 seconds"), "{}", report["summary"]);
    assert_eq!(post("/api/v1/mail/send-all")["operationId"], "beginAllSendMail");
}
