//! The checker: one broken requirement at a time.

use forgerun_problem::check::{
    Carrier, Level, Report, Strength, inspect, inspect_json, inspect_on, inspect_problem,
};
use forgerun_problem::read::ReadError;
use serde_json::{Map, Value, json};

const UUID: &str = "0198c0de-7e57-7000-8000-000000000001";

fn sound() -> Map<String, Value> {
    let Value::Object(object) = json!({
        "type": "https://example.com/p/failed", "title": "Failed", "status": 500, "detail": "It broke.",
        "instance": "/jobs/1", "jobId": UUID, "jobStatus": "FAILED",
        "submittedAt": "2026-02-26T10:00:00Z", "completedAt": "2026-02-26T10:00:03Z",
        "retryable": true, "retryAfter": 60, "processingStage": "storage", "correlationId": "abc-1",
        "balance": 30
    }) else {
        unreachable!()
    };
    object
}

/// A sound object with some members replaced, or taken away by `null`.
fn changed(changes: Value) -> Map<String, Value> {
    let mut object = sound();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(object.shift_remove(name)),
            value => drop(object.insert(name.clone(), value.clone())),
        }
    }
    object
}

fn found(report: &Report) -> Vec<(&'static str, Strength, String)> {
    let triple = |finding: &forgerun_problem::check::Finding| {
        (finding.requirement, finding.strength, finding.member.clone())
    };
    report.findings.iter().map(triple).collect()
}

#[track_caller]
fn check(changes: Value, expected: &[(&'static str, Strength, &str)]) {
    let report = inspect(&changed(changes));
    let expected: Vec<_> =
        expected.iter().map(|(id, strength, member)| (*id, *strength, (*member).to_owned())).collect();
    assert_eq!(found(&report), expected);
    assert!(report.findings.iter().all(|finding| finding.mend.len() > 10));
}

use Strength::{Must, Should};

#[test]
fn a_sound_object_breaks_nothing_and_conforms_fully() {
    let report = inspect(&sound());
    assert_eq!((report.level, found(&report)), (Level::Full, vec![]));
}

#[test]
fn levels_are_none_basic_and_full() {
    let level = |document: &str| inspect_json(document.as_bytes()).unwrap().level;
    assert_eq!(level(r#"{"title": "x"}"#), Level::None);
    assert_eq!(level(r#"{"processingStage": "storage"}"#), Level::Basic);
    assert_eq!(level(r#"{"jobId": "1", "jobStatus": "FAILED"}"#), Level::Basic);
    assert_eq!(
        level(r#"{"jobId": "1", "jobStatus": "X", "submittedAt": "2026-02-26T10:00:00Z"}"#),
        Level::Full
    );
    assert_eq!(level(r#"{"jobId": 1}"#), Level::None);
    assert!(Level::None < Level::Basic && Level::Basic < Level::Full);
}

#[test]
fn standard_members_have_their_types() {
    check(json!({"title": 1}), &[("PD-ERR-02", Must, "title")]);
    check(json!({"status": "500"}), &[("PD-ERR-02", Must, "status")]);
    check(json!({"type": "not a uri"}), &[("PD-ERR-02", Must, "type")]);
    check(json!({"instance": "a b"}), &[("PD-ERR-02", Must, "instance")]);
    check(json!({"status": 600}), &[("PD-ERR-20", Must, "status")]);
    check(json!({"status": 500.5}), &[("PD-ERR-20", Must, "status")]);
}

#[test]
fn the_status_is_that_of_the_response() {
    let report = inspect_on(&sound(), Carrier::Response(503));
    assert_eq!(found(&report), [("PD-ERR-03", Must, "status".into())]);
    assert!(inspect_on(&sound(), Carrier::Response(500)).conforms());
}

#[test]
fn references_carry_their_full_path() {
    check(json!({"type": "relative"}), &[("PD-ERR-04", Should, "type")]);
    check(json!({"instance": "relative"}), &[("PD-ERR-10", Should, "instance")]);
    check(json!({"type": "/full/path", "instance": "urn:uuid:1"}), &[]);
}

#[test]
fn a_blank_problem_is_titled_by_its_code() {
    let report = inspect_json(br#"{"title": "Oh no", "status": 404}"#).unwrap();
    assert_eq!(found(&report), [("PD-ERR-07", Should, "title".into())]);
    assert!(inspect_json(br#"{"title": "Not Found", "status": 404}"#).unwrap().findings.is_empty());
}

#[test]
fn extension_names_are_plain() {
    check(json!({"*later": 1}), &[("PD-ERR-12", Should, "*later"), ("PD-XML-05", Should, "*later")]);
    check(json!({"ab": 1}), &[("PD-ERR-13", Should, "ab")]);
    check(json!({"1st": 1}), &[("PD-ERR-13", Should, "1st"), ("PD-XML-05", Should, "1st")]);
    check(json!({"JobID": 1}), &[("AJ-AJM-22", Should, "JobID")]);
}

#[test]
fn job_members_have_their_types() {
    for (name, value, requirement) in [
        ("retryable", json!("true"), "AJ-AJM-10"),
        ("retryAfter", json!(-1), "AJ-AJM-20"),
        ("processingStage", json!(1), "AJ-AJM-20"),
        ("correlationId", json!(1), "AJ-AJM-20"),
        ("results", json!({}), "AJ-BAT-01"),
        ("jobId", json!(7), "AJ-AJM-04"),
        ("submittedAt", json!(7), "AJ-AJM-07"),
        ("completedAt", json!(7), "AJ-AJM-08"),
    ] {
        let report = inspect(&changed(json!({ name: value })));
        let first = report.musts().next().unwrap();
        assert_eq!((first.requirement, first.member.as_str()), (requirement, name));
    }
}

#[test]
fn the_job_members_stand_at_the_top_level() {
    let report = inspect_json(br#"{"error": {"jobId": "1", "jobStatus": "FAILED"}}"#).unwrap();
    assert_eq!(found(&report), [("AJ-AJM-01", Must, "error".into())]);
}

#[test]
fn full_conformance_needs_three_members() {
    check(json!({"jobId": null}), &[("AJ-AJM-03", Should, "jobId")]);
    check(json!({"submittedAt": null}), &[("AJ-AJM-03", Should, "submittedAt")]);
}

#[test]
fn ids_states_and_stages_are_spelled_as_defined() {
    check(json!({"jobId": "42"}), &[("AJ-AJM-05", Should, "jobId")]);
    check(json!({"jobStatus": "failed"}), &[("AJ-STM-02", Must, "jobStatus")]);
    check(json!({"jobStatus": "Cancelled"}), &[("AJ-STM-02", Must, "jobStatus")]);
    check(json!({"jobStatus": "awaiting-approval"}), &[("AJ-STM-03", Should, "jobStatus")]);
    check(json!({"jobStatus": "AWAITING_APPROVAL"}), &[]);
}

#[test]
fn times_are_utc_and_fit_the_state() {
    check(json!({"submittedAt": "2026-02-26T10:00:00+00:00"}), &[("AJ-AJM-07", Must, "submittedAt")]);
    check(json!({"completedAt": "26.2.2026"}), &[("AJ-AJM-08", Must, "completedAt")]);
    check(json!({"completedAt": null}), &[("AJ-AJM-08", Should, "completedAt")]);
    check(json!({"jobStatus": "PROCESSING"}), &[("AJ-AJM-09", Must, "completedAt")]);
}

#[test]
fn retry_hints_go_together() {
    check(json!({"retryAfter": null}), &[("AJ-AJM-11", Should, "retryAfter")]);
    check(json!({"retryable": false}), &[("AJ-AJM-12", Should, "retryAfter")]);
    check(json!({"retryable": null}), &[("AJ-AJM-12", Should, "retryAfter")]);
}

#[test]
fn correlation_ids_are_short_and_harmless() {
    check(json!({"correlationId": "x".repeat(257)}), &[("AJ-AJM-15", Should, "correlationId")]);
    check(json!({"correlationId": "<script>"}), &[("AJ-AJM-15", Should, "correlationId")]);
    check(json!({"correlationId": "a\r\nb"}), &[("AJ-SEC-05", Must, "correlationId")]);
}

#[test]
fn a_job_report_names_type_instance_and_reason() {
    check(json!({"type": "about:blank", "title": null}), &[("AJ-AJM-16", Should, "type")]);
    check(json!({"instance": null}), &[("AJ-AJM-17", Should, "instance")]);
    check(json!({"detail": null}), &[("AJ-AJM-21", Should, "detail")]);
}

#[test]
fn a_stack_trace_has_no_place_in_detail() {
    check(json!({"detail": "thread 'main' panicked at src/main.rs:1"}), &[("AJ-SEC-01", Must, "detail")]);
}

#[test]
fn off_http_the_status_is_the_one_a_synchronous_answer_would_have_had() {
    let report = inspect_on(&changed(json!({"status": 200})), Carrier::Report);
    assert_eq!(found(&report), [("AJ-AJM-18", Must, "status".into())]);
    assert!(inspect_on(&sound(), Carrier::Report).conforms());
}

#[test]
fn items_of_a_batch_have_an_id_and_end_in_a_terminal_state() {
    let batch = |items: Value| json!({"jobStatus": "COMPLETED_WITH_ERRORS", "status": 207, "results": items});
    check(batch(json!([{"itemId": "a", "status": "FAILED"}])), &[]);
    check(batch(json!([{"status": "FAILED"}])), &[("AJ-BAT-01", Must, "results[0].itemId")]);
    check(batch(json!([{"itemId": "a"}])), &[("AJ-BAT-01", Must, "results[0].status")]);
    check(
        batch(json!([{"itemId": "a", "status": "COMPLETED_WITH_ERRORS"}])),
        &[("AJ-BAT-02", Must, "results[0].status")],
    );
    check(
        batch(json!([{"itemId": "a", "status": "FAILED", "retryable": "no"}])),
        &[("AJ-AJM-20", Must, "results[0].retryable")],
    );
}

#[test]
fn a_mixed_batch_is_completed_with_errors_and_207_and_sums_up() {
    let mixed = json!([{"itemId": "a", "status": "FAILED"}, {"itemId": "b", "status": "COMPLETED"}]);
    check(json!({"results": mixed}), &[("AJ-BAT-05", Should, "jobStatus")]);
    check(
        json!({"jobStatus": "COMPLETED_WITH_ERRORS", "detail": null}),
        &[("AJ-BAT-05", Should, "status"), ("AJ-BAT-05", Should, "detail")],
    );
}

#[test]
fn findings_are_sentences_and_bounded() {
    let report = inspect(&changed(json!({"jobId": "42"})));
    assert_eq!(report.findings[0].to_string(), "SHOULD AJ-AJM-05 jobId: use a UUID, best of version 7");
    let many = inspect(&changed(json!({"results": vec![1; 10_000]})));
    assert_eq!(many.findings.len(), forgerun_problem::limits::FINDINGS_MAX);
    assert_eq!(inspect_json(b"[]"), Err(ReadError::NotAProblem));
    assert!(matches!(inspect_json(b"{"), Err(ReadError::Malformed { .. })));
}

#[test]
fn our_own_full_failure_breaks_nothing() {
    let report = inspect_problem(&crate::samples::full_failure());
    assert_eq!((report.level, found(&report)), (Level::Full, vec![]));
}
