//! One row per kind of the catalogue, and what every status carries.

use super::*;
use crate::body::violation;

fn context() -> ErrorContext<'static> {
    ErrorContext { base: "https://forge.example", instance: "urn:uuid:x", request_id: "req_1", status: 400 }
}

fn read(refused: &RefusedRequest) -> (Status, ErrorDetails) {
    let status = status(refused, context());
    let details = ErrorDetails::read(status.details());
    (status, details)
}

macro_rules! rows {
    ($($test:ident: $kind:ident => $code:ident, $reason:literal;)+) => {
        $(#[test]
        fn $test() {
            let refused = RefusedRequest::new(Kind::$kind, "So it is.");
            let (status, details) = read(&refused);
            assert_eq!((status.code(), status.message()), (Code::$code, "So it is."));
            let info = details.info.expect("every error has it");
            assert_eq!((info.reason.as_str(), info.domain.as_str()), ($reason, "openjobspec.org"));
            assert_eq!(info.metadata["retryable"], Kind::$kind.entry().retryable.to_string());
            assert_eq!(info.metadata["rfa_code"], Kind::$kind.entry().rfa);
            let problem = details.problem.expect("the problem object has room");
            assert_eq!(problem.fields["rfa_code"], json::text(Kind::$kind.entry().rfa));
        })+

        const ROWS: &[Kind] = &[$(Kind::$kind),+];
    };
}

rows! {
    malformed_request: MalformedRequest => InvalidArgument, "OJS_INVALID_PAYLOAD";
    unsupported_media_type: UnsupportedMediaType => InvalidArgument, "OJS_INVALID_PAYLOAD";
    unsupported_compression: UnsupportedCompression => Unimplemented, "OJS_UNSUPPORTED_COMPRESSION";
    method_not_allowed: MethodNotAllowed => Unimplemented, "OJS_UNSUPPORTED_FEATURE";
    not_acceptable: NotAcceptable => InvalidArgument, "RFA_REQUEST_NOT_ACCEPTABLE";
    range_not_satisfiable: RangeNotSatisfiable => InvalidArgument, "OJS_INVALID_PAYLOAD";
    body_too_large: BodyTooLarge => ResourceExhausted, "OJS_PAYLOAD_TOO_LARGE";
    job_payload_too_large: JobPayloadTooLarge => ResourceExhausted, "OJS_PAYLOAD_TOO_LARGE";
    metadata_too_large: MetadataTooLarge => ResourceExhausted, "OJS_METADATA_TOO_LARGE";
    unknown_job_type: UnknownJobType => InvalidArgument, "OJS_INVALID_JOB_TYPE";
    job_type_too_long: JobTypeTooLong => InvalidArgument, "OJS_JOB_TYPE_TOO_LONG";
    invalid_args: InvalidArgs => InvalidArgument, "OJS_INVALID_ARGS";
    schedule_in_past: ScheduleInPast => InvalidArgument, "OJS_INVALID_ARGS";
    invalid_callback_url: InvalidCallbackUrl => InvalidArgument, "OJS_INVALID_ARGS";
    invalid_queue: InvalidQueue => InvalidArgument, "OJS_INVALID_QUEUE";
    queue_name_too_long: QueueNameTooLong => InvalidArgument, "OJS_QUEUE_NAME_TOO_LONG";
    invalid_metadata: InvalidMetadata => InvalidArgument, "OJS_INVALID_METADATA";
    invalid_retry_policy: InvalidRetryPolicy => InvalidArgument, "OJS_INVALID_RETRY_POLICY";
    invalid_cron: InvalidCron => InvalidArgument, "OJS_INVALID_CRON_EXPRESSION";
    schema_mismatch: SchemaMismatch => InvalidArgument, "OJS_SCHEMA_VALIDATION_FAILED";
    checksum_mismatch: ChecksumMismatch => InvalidArgument, "OJS_CHECKSUM_MISMATCH";
    unsupported_feature: UnsupportedFeature => Unimplemented, "OJS_UNSUPPORTED_FEATURE";
    illegal_transition: IllegalTransition => FailedPrecondition, "OJS_INVALID_STATE_TRANSITION";
    retry_limit_reached: RetryLimitReached => FailedPrecondition, "OJS_INVALID_STATE_TRANSITION";
    result_not_ready: ResultNotReady => FailedPrecondition, "OJS_INVALID_STATE_TRANSITION";
    precondition_failed: PreconditionFailed => FailedPrecondition, "RFA_REQUEST_PRECONDITION_FAILED";
    already_completed: AlreadyCompleted => FailedPrecondition, "OJS_JOB_ALREADY_COMPLETED";
    already_cancelled: AlreadyCancelled => FailedPrecondition, "OJS_JOB_ALREADY_CANCELLED";
    idempotency_conflict: IdempotencyConflict => AlreadyExists, "OJS_DUPLICATE_JOB";
    duplicate: Duplicate => AlreadyExists, "OJS_DUPLICATE_JOB";
    unauthenticated: Unauthenticated => Unauthenticated, "OJS_UNAUTHENTICATED";
    key_expired: KeyExpired => Unauthenticated, "OJS_TOKEN_EXPIRED";
    key_revoked: KeyRevoked => PermissionDenied, "OJS_PERMISSION_DENIED";
    forbidden: Forbidden => PermissionDenied, "OJS_PERMISSION_DENIED";
    foreign_resource: ForeignResource => PermissionDenied, "OJS_TENANT_ACCESS_DENIED";
    route_not_found: RouteNotFound => NotFound, "OJS_NOT_FOUND";
    job_not_found: JobNotFound => NotFound, "OJS_NOT_FOUND";
    client_not_found: ClientNotFound => NotFound, "OJS_NOT_FOUND";
    key_not_found: KeyNotFound => NotFound, "OJS_NOT_FOUND";
    webhook_not_found: WebhookNotFound => NotFound, "OJS_NOT_FOUND";
    schedule_not_found: ScheduleNotFound => NotFound, "OJS_NOT_FOUND";
    worker_not_found: WorkerNotFound => NotFound, "OJS_NOT_FOUND";
    delivery_not_found: DeliveryNotFound => NotFound, "OJS_NOT_FOUND";
    report_not_found: ReportNotFound => NotFound, "OJS_NOT_FOUND";
    result_not_found: ResultNotFound => NotFound, "OJS_NOT_FOUND";
    expired: Expired => NotFound, "OJS_NOT_FOUND";
    result_expired: ResultExpired => NotFound, "OJS_NOT_FOUND";
    rate_limited: RateLimited => ResourceExhausted, "OJS_RATE_LIMITED";
    quota_exceeded: QuotaExceeded => ResourceExhausted, "OJS_RATE_LIMITED";
    storage_quota_exceeded: StorageQuotaExceeded => ResourceExhausted, "OJS_RATE_LIMITED";
    queue_full: QueueFull => ResourceExhausted, "OJS_QUEUE_FULL";
    queue_paused: QueuePaused => FailedPrecondition, "OJS_QUEUE_PAUSED";
    worker_unavailable: WorkerUnavailable => Unavailable, "OJS_BACKEND_UNAVAILABLE";
    operation_timeout: OperationTimeout => DeadlineExceeded, "OJS_BACKEND_TIMEOUT";
    dependency_timeout: DependencyTimeout => DeadlineExceeded, "OJS_BACKEND_TIMEOUT";
    storage_error: StorageError => Internal, "OJS_BACKEND_ERROR";
    content_unreadable: ContentUnreadable => DataLoss, "RFA_STORAGE_CONTENT_UNREADABLE";
    storage_timeout: StorageTimeout => DeadlineExceeded, "OJS_BACKEND_TIMEOUT";
    storage_unavailable: StorageUnavailable => Unavailable, "OJS_BACKEND_UNAVAILABLE";
    replication_lag: ReplicationLag => Unavailable, "OJS_REPLICATION_LAG";
    config_invalid: ConfigInvalid => Unavailable, "OJS_BACKEND_UNAVAILABLE";
    internal: Internal => Internal, "OJS_BACKEND_ERROR";
    handler_error: HandlerError => Unknown, "OJS_HANDLER_ERROR";
    handler_transient: HandlerTransient => Unavailable, "OJS_HANDLER_ERROR";
    handler_timeout: HandlerTimeout => DeadlineExceeded, "OJS_HANDLER_TIMEOUT";
    runner_lost: RunnerLost => Internal, "OJS_HANDLER_PANIC";
    non_retryable: NonRetryable => FailedPrecondition, "OJS_NON_RETRYABLE_ERROR";
    definition_missing: DefinitionMissing => FailedPrecondition, "OJS_NON_RETRYABLE_ERROR";
    report_failed: ReportFailed => Internal, "OJS_BACKEND_ERROR";
    cancelled: Cancelled => Cancelled, "OJS_JOB_CANCELLED";
    batch_partial: BatchPartial => Ok, "RFA_EXEC_BATCH_PARTIAL";
}

#[test]
fn every_kind_has_its_row() {
    let missing: Vec<&Kind> = Kind::ALL.iter().filter(|kind| !ROWS.contains(kind)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(ROWS.len(), Kind::ALL.len());
}

#[test]
fn every_canonical_code_goes_where_the_catalogue_sends_it() {
    let table = [
        (
            Code::InvalidArgument,
            &["INVALID_PAYLOAD", "INVALID_JOB_TYPE", "INVALID_ARGS", "SCHEMA_VALIDATION_FAILED"][..],
        ),
        (Code::AlreadyExists, &["DUPLICATE_JOB"]),
        (Code::FailedPrecondition, &["INVALID_STATE_TRANSITION", "JOB_ALREADY_COMPLETED", "QUEUE_PAUSED"]),
        (Code::Unauthenticated, &["UNAUTHENTICATED"]),
        (Code::PermissionDenied, &["PERMISSION_DENIED"]),
        (Code::NotFound, &["NOT_FOUND"]),
        (Code::ResourceExhausted, &["QUEUE_FULL", "RATE_LIMITED", "PAYLOAD_TOO_LARGE"]),
        (Code::Unimplemented, &["UNSUPPORTED_FEATURE"]),
        (Code::DeadlineExceeded, &["HANDLER_TIMEOUT"]),
        (Code::Cancelled, &["JOB_CANCELLED"]),
        (Code::Unavailable, &["BACKEND_UNAVAILABLE"]),
    ];
    for (expected, codes) in table {
        for kind in Kind::ALL.iter().filter(|kind| kind.entry().ojs.is_some_and(|ojs| codes.contains(&ojs))) {
            assert_eq!(code(*kind), expected, "{kind:?}");
        }
    }
}

#[test]
fn fields_waits_and_facts_travel_in_details() {
    let refused =
        RefusedRequest::new(Kind::QueueFull, "Full.").fact("queue", "q").fact("waiting", 7).retry_after(3);
    let (_, details) = read(&refused);
    assert_eq!(details.retry_delay, Some(Duration::from_secs(3)));
    let facts = details.info.unwrap().metadata;
    let expected = [
        ("code", "QUEUE_FULL"),
        ("queue", "q"),
        ("request_id", "req_1"),
        ("retry_after", "3"),
        ("waiting", "7"),
    ];
    for (name, value) in expected {
        assert_eq!(facts[name], value, "{name}");
    }
    let wrong = vec![violation("options/queue", "is no name", "format")];
    let (_, details) = read(&RefusedRequest::new(Kind::InvalidQueue, "No.").violations(wrong));
    let field = FieldViolation { field: "options.queue".into(), description: "is no name".into() };
    assert_eq!((details.violations, details.retry_delay), (vec![field], None));
    let problem = details.problem.unwrap();
    assert_eq!(problem.fields["code"], json::text("INVALID_QUEUE"));
    assert_eq!(problem.fields["retryable"], json::read(b"false").unwrap(), "hints travel inside the object");
}

#[test]
fn details_fit_into_the_header_fields_that_clients_take() {
    let many = (0..500).map(|n| violation(&format!("jobs/{n}/type"), &"x".repeat(300), "type")).collect();
    let refused = RefusedRequest::new(Kind::MalformedRequest, "ü".repeat(5000)).violations(many);
    let (status, details) = read(&refused);
    assert!(status.message().len() <= MESSAGE_BYTES_MAX && status.details().len() <= DETAILS_BYTES_MAX);
    assert_eq!(details.info.unwrap().reason, "OJS_INVALID_PAYLOAD", "the code goes first");
}

#[test]
fn a_failure_object_arrives_byte_for_byte() {
    let stored = br#"{"type":"https://x/problems/job-timed-out","title":"T","detail":"Too long.","retryable":true,"jobId":"j"}"#;
    let status = of_failure(failure_kind(stored), stored);
    assert_eq!((status.code(), status.message()), (Code::DeadlineExceeded, "Too long."));
    let details = ErrorDetails::read(status.details());
    assert_eq!(details.failure.as_deref(), Some(&stored[..]));
    let info = details.info.unwrap();
    assert_eq!((info.reason.as_str(), info.metadata["job_id"].as_str()), ("OJS_HANDLER_TIMEOUT", "j"));
    assert_eq!(details.problem.unwrap().fields["title"], json::text("T"));
}

#[test]
fn nonsense_in_details_counts_as_absent() {
    assert_eq!(ErrorDetails::read(b"\xff\xff"), ErrorDetails::default());
    assert_eq!(ErrorDetails::read(b""), ErrorDetails::default());
}
