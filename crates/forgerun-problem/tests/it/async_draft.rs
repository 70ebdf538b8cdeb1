//! Every example of draft-ratnawat-httpapi-async-problem-details-00, read, judged and written
//! again.

use forgerun_problem::check::{Level, inspect_json};
use forgerun_problem::read::Reader;
use forgerun_problem::{ItemStatus, JobStatus, Problem};
use serde_json::{Value, json};

/// Section 11.1: an HTTP response about a document that could not be rendered.
const RENDERING: &str = r#"{
  "type": "https://api.example.com/problems/rendering-failed",
  "title": "Document Rendering Failed",
  "status": 500,
  "detail": "Template 'invoice-v2' contains an unclosed element at line 87",
  "instance": "/api/v1/documents/jobs/550e8400-e29b-41d4-a716-446655440000",
  "jobId": "550e8400-e29b-41d4-a716-446655440000",
  "jobStatus": "FAILED",
  "submittedAt": "2026-02-26T10:00:00Z",
  "completedAt": "2026-02-26T10:00:03Z",
  "retryable": false,
  "processingStage": "rendering",
  "correlationId": "4bf92f3577b34da6a3ce929d0e0e4736"
}"#;

/// Section 11.2: a job that took too long and may be tried again.
const TIMEOUT: &str = r#"{
  "type": "https://api.example.com/problems/job-timed-out",
  "title": "Job Processing Timed Out",
  "status": 504,
  "detail": "Job exceeded maximum processing time of 300s",
  "jobId": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
  "jobStatus": "TIMED_OUT",
  "submittedAt": "2026-02-26T09:00:00Z",
  "completedAt": "2026-02-26T09:05:00Z",
  "retryable": true,
  "retryAfter": 60,
  "processingStage": "processing"
}"#;

/// Section 11.3: a message on a topic.
const CONVERSION: &str = r#"{
  "type": "https://api.example.com/problems/conversion-failed",
  "title": "PDF Conversion Failed",
  "status": 502,
  "detail": "iText HTML-to-PDF conversion failed: malformed CSS at line 15",
  "jobId": "d4735e3a-265e-16d0-8f24-2de10e933e80",
  "jobStatus": "FAILED",
  "submittedAt": "2026-02-26T16:30:00Z",
  "completedAt": "2026-02-26T16:30:02Z",
  "retryable": false,
  "processingStage": "conversion",
  "correlationId": "monthly-report-2026-02"
}"#;

/// Section 11.4: a webhook about a batch, listing only what failed.
const EXPORT: &str = r#"{
  "type": "https://api.example.com/problems/batch-partial",
  "title": "Data Export Partially Failed",
  "status": 207,
  "detail": "8 of 10 records exported successfully",
  "jobId": "export-batch-20260226",
  "jobStatus": "COMPLETED_WITH_ERRORS",
  "submittedAt": "2026-02-26T12:00:00Z",
  "completedAt": "2026-02-26T12:15:00Z",
  "results": [
    {"itemId": "rec-007", "status": "FAILED", "detail": "Record exceeds maximum size (10MB)", "retryable": false},
    {"itemId": "rec-009", "status": "FAILED", "detail": "Downstream storage timeout", "retryable": true,
     "processingStage": "storage"}
  ]
}"#;

/// Section 11.5: an event whose data is spread over lines. Section 5.4 shows the same without the
/// times.
const EVENT: &str = r#"event: job-failed
id: 550e8400-e29b-41d4-a716-446655440000
data: {"type":"https://api.example.com/problems/rendering-failed",
data:  "title":"Document Rendering Failed","status":500,
data:  "jobId":"550e8400","jobStatus":"FAILED",
data:  "submittedAt":"2026-02-26T10:00:00Z",
data:  "completedAt":"2026-02-26T10:00:03Z",
data:  "retryable":false,"processingStage":"rendering"}"#;

const SHORT_EVENT: &str = r#"event: job-failed
data: {"type":"https://api.example.com/problems/rendering-failed",
data:  "title":"Document Rendering Failed","status":500,
data:  "jobId":"550e8400","jobStatus":"FAILED",
data:  "processingStage":"rendering"}"#;

/// Section 11.6: a batch of three.
const CERTIFICATES: &str = r#"{
  "type": "https://api.example.com/problems/batch-partial",
  "title": "Batch Processing Partially Failed",
  "status": 207,
  "detail": "2 of 3 certificates generated successfully",
  "jobId": "batch-a1b2c3d4",
  "jobStatus": "COMPLETED_WITH_ERRORS",
  "submittedAt": "2026-02-26T14:00:00Z",
  "completedAt": "2026-02-26T14:00:12Z",
  "results": [
    {"itemId": "cert-001", "status": "COMPLETED"},
    {"itemId": "cert-002", "status": "FAILED", "detail": "Required field 'recipientName' missing",
     "retryable": false, "processingStage": "validation"},
    {"itemId": "cert-003", "status": "COMPLETED"}
  ]
}"#;

/// Section 11.7: a job that went well, as plain JSON.
const SUCCESS: &str = r#"{
  "jobId": "a1b2c3d4-5678-90ab-cdef-1234567890ab",
  "jobStatus": "COMPLETED",
  "submittedAt": "2026-02-26T10:00:00Z",
  "completedAt": "2026-02-26T10:00:04Z",
  "correlationId": "invoice-batch-2026-02-26"
}"#;

/// Section 11.8: a message with advice on when to try again.
const TRANSIENT: &str = r#"{
  "type": "https://api.example.com/problems/downstream-unavailable",
  "title": "Downstream Service Temporarily Unavailable",
  "status": 503,
  "detail": "Data warehouse connection pool exhausted; service is expected to recover within 60 seconds",
  "jobId": "e5f6a7b8-9012-3456-7890-abcdef123456",
  "jobStatus": "FAILED",
  "submittedAt": "2026-02-26T18:00:00Z",
  "completedAt": "2026-02-26T18:00:01Z",
  "retryable": true,
  "retryAfter": 60,
  "processingStage": "processing",
  "correlationId": "weekly-report-2026-w09"
}"#;

/// Appendix D: the same kind of object as the data of a CloudEvent.
const CLOUD_EVENT: &str = r#"{
  "specversion": "1.0",
  "id": "evt-550e8400",
  "source": "/api/v1/documents/generate",
  "type": "com.example.job.failed",
  "datacontenttype": "application/problem+json",
  "data": {
    "type": "https://api.example.com/problems/rendering-failed",
    "title": "Document Rendering Failed",
    "status": 500,
    "jobId": "550e8400-e29b-41d4-a716-446655440000",
    "jobStatus": "FAILED",
    "processingStage": "rendering",
    "retryable": false
  }
}"#;

pub(crate) const EXAMPLES: [&str; 7] =
    [RENDERING, TIMEOUT, CONVERSION, EXPORT, CERTIFICATES, SUCCESS, TRANSIENT];

fn read(document: &str) -> Problem {
    let reading = Reader::new().json(document.as_bytes()).unwrap();
    assert_eq!(reading.warnings, [], "{document}");
    reading.problem
}

fn data_of_event(event: &str) -> String {
    let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
    lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_example_survives_reading_and_writing() {
    for document in EXAMPLES {
        let (written, expected): (Value, Value) = (
            serde_json::from_str(&read(document).to_json()).unwrap(),
            serde_json::from_str(document).unwrap(),
        );
        assert_eq!(written, expected);
    }
}

#[test]
fn every_complete_example_conforms_fully() {
    for document in EXAMPLES {
        let report = inspect_json(document.as_bytes()).unwrap();
        assert_eq!((report.level, report.conforms()), (Level::Full, true), "{:?}", report.findings);
    }
}

#[test]
fn a_rendering_failure_is_understood() {
    let problem = read(RENDERING);
    let job = problem.job();
    assert_eq!(job.id(), Some("550e8400-e29b-41d4-a716-446655440000"));
    assert_eq!(job.status(), Some(&JobStatus::Failed));
    assert_eq!(job.submitted_at().unwrap().until(job.completed_at().unwrap()).as_secs(), 3);
    assert_eq!((job.retryable(), job.retry_after_s()), (Some(false), None));
    assert_eq!(job.processing_stage(), Some("rendering"));
    assert_eq!(job.correlation_id().unwrap().as_str(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert!(problem.extensions().is_empty());
}

#[test]
fn a_timeout_that_may_be_tried_again_is_understood() {
    let problem = read(TIMEOUT);
    assert_eq!(problem.job().status(), Some(&JobStatus::TimedOut));
    assert_eq!((problem.job().retryable(), problem.job().retry_after_s()), (Some(true), Some(60)));
}

#[test]
fn messages_are_understood_without_headers() {
    assert_eq!(read(CONVERSION).status().unwrap().code(), 502);
    assert_eq!(read(TRANSIENT).job().retry_after_s(), Some(60));
}

#[test]
fn batches_are_understood_item_by_item() {
    let problem = read(EXPORT);
    let items = problem.job().results().unwrap();
    assert_eq!(items.iter().map(|item| item.item_id()).collect::<Vec<_>>(), ["rec-007", "rec-009"]);
    assert_eq!(items[1].processing_stage(), Some("storage"));
    let problem = read(CERTIFICATES);
    let items = problem.job().results().unwrap();
    let statuses: Vec<_> = items.iter().map(|item| item.status()).collect();
    assert_eq!(statuses, [ItemStatus::Completed, ItemStatus::Failed, ItemStatus::Completed]);
    assert_eq!(JobStatus::of_batch(items), JobStatus::CompletedWithErrors);
}

#[test]
fn a_job_that_went_well_needs_no_standard_members() {
    let problem = read(SUCCESS);
    assert_eq!(problem.job().status(), Some(&JobStatus::Completed));
    assert_eq!((problem.title(), problem.status()), (None, None));
}

#[test]
fn the_lines_of_an_event_join_to_one_object() {
    let problem = read(&data_of_event(EVENT));
    assert_eq!((problem.job().id(), problem.status().unwrap().code()), (Some("550e8400"), 500));
    let short = read(&data_of_event(SHORT_EVENT));
    assert_eq!((short.job().processing_stage(), short.job().submitted_at()), (Some("rendering"), None));
}

#[test]
fn the_data_of_a_cloud_event_is_a_problem() {
    #[derive(serde::Deserialize)]
    struct CloudEvent {
        datacontenttype: String,
        data: Problem,
    }
    let event: CloudEvent = serde_json::from_str(CLOUD_EVENT).unwrap();
    assert_eq!(event.datacontenttype, forgerun_problem::MEDIA_TYPE_JSON);
    assert_eq!(event.data.job().status(), Some(&JobStatus::Failed));
    assert_eq!(
        serde_json::to_value(&event.data).unwrap(),
        serde_json::from_str::<Value>(CLOUD_EVENT).unwrap()["data"]
    );
}

#[test]
fn each_member_is_understood_alone() {
    for (name, value) in [
        ("jobId", json!("550e8400-e29b-41d4-a716-446655440000")),
        ("jobStatus", json!("FAILED")),
        ("submittedAt", json!("2026-02-26T10:00:00Z")),
        ("completedAt", json!("2026-02-26T10:00:05Z")),
        ("retryable", json!(true)),
        ("retryAfter", json!(30)),
        ("processingStage", json!("rendering")),
        ("correlationId", json!("4bf92f3577b34da6a3ce929d0e0e4736")),
        ("results", json!([])),
    ] {
        let document = json!({name: value}).to_string();
        let problem = read(&document);
        assert!(!problem.job().is_empty());
        assert_eq!(problem.to_canonical_json(), document);
        assert_ne!(inspect_json(document.as_bytes()).unwrap().level, Level::None);
    }
}

/// Appendix A shows what others send today. It is no problem object, but reading it must not fail
/// either.
#[test]
fn foreign_job_objects_are_read_as_problems_without_a_job() {
    for document in [
        r#"{"executionArn": "arn:aws:states:...", "status": "FAILED", "error": "States.TaskFailed",
            "cause": "Lambda function threw an exception", "startDate": "2026-02-26T10:00:00.000Z"}"#,
        r#"{"name": "operations/abc123", "done": true,
            "error": {"code": 3, "message": "Invalid template", "details": []}}"#,
        r#"{"id": "job-xyz", "status": "Failed",
            "error": {"code": "RenderingFailed", "message": "Template syntax error at line 42"}}"#,
        r#"{"id": "pi_abc123", "status": "failed", "created": 1740567600,
            "last_payment_error": {"type": "card_error", "message": "Your card was declined"}}"#,
    ] {
        let problem = Reader::new().json(document.as_bytes()).unwrap().problem;
        assert_eq!((problem.status(), problem.job().is_empty()), (None, true));
        assert!(!problem.extensions().is_empty());
    }
}
