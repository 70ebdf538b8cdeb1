//! The rows of the catalog. One row makes the variant of [`Kind`], its name and its
//! [`CatalogEntry`], so that they cannot drift apart; the doc comment of a row is also the
//! `meaning` shown to users.

use super::ProcessingStage::{Authorization, Processing, Queuing, Storage, Validation};
use super::{CatalogEntry, ErrorLevel};

macro_rules! catalog {
    ($($level:ident {
        $($(#[doc = $meaning:literal])+ $kind:ident {
            rfa: $rfa:literal, ojs: $ojs:expr,
            slug: $slug:literal, title: $title:literal,
            stage: $stage:expr, retryable: $retryable:literal,
            remedy: $remedy:literal,
        })+
    })+) => {
        /// One way in which a request or a job can go wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($($(#[doc = $meaning])+ $kind,)+)+
        }

        impl Kind {
            /// Every kind, in the order of the catalog.
            pub const ALL: &'static [Kind] = &[$($(Kind::$kind,)+)+];

            /// What is known about this kind in every dialect.
            pub fn entry(self) -> &'static CatalogEntry {
                &TABLE[self as usize]
            }

            /// The name of the variant, the `error.type` of a job.
            pub fn name(self) -> &'static str {
                match self {
                    $($(Kind::$kind => stringify!($kind),)+)+
                }
            }
        }

        // In the order of the enum by construction, so that a kind is its own index.
        static TABLE: [CatalogEntry; Kind::ALL.len()] = [
            $($(CatalogEntry {
                kind: Kind::$kind,
                level: ErrorLevel::$level,
                rfa: $rfa,
                ojs: $ojs,
                slug: $slug,
                title: $title,
                retryable: $retryable,
                stage: $stage,
                // Each line of a doc comment starts with the space that joins it to the line
                // before.
                meaning: concat!($($meaning),+).trim_ascii(),
                remedy: $remedy,
            },)+)+
        ];
    };
}

catalog! {
    Request {
        /// The request cannot be read: its JSON is broken, a required member is missing, or a value
        /// has the wrong type or format.
        MalformedRequest {
            rfa: "RFA_REQUEST_MALFORMED", ojs: Some("INVALID_PAYLOAD"),
            slug: "malformed-request", title: "Malformed Request",
            stage: Some(Validation), retryable: false,
            remedy: "Compare the request with the documented schema, correct it and send it again.",
        }
        /// The body is declared in a format this operation does not read.
        UnsupportedMediaType {
            rfa: "RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE", ojs: Some("INVALID_PAYLOAD"),
            slug: "unsupported-media-type", title: "Unsupported Media Type",
            stage: Some(Validation), retryable: false,
            remedy: "Send the body as JSON and say so in its content type.",
        }
        /// The body or payload is compressed with a codec the server does not know.
        UnsupportedCompression {
            rfa: "RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE", ojs: Some("UNSUPPORTED_COMPRESSION"),
            slug: "unsupported-compression", title: "Unsupported Compression",
            stage: Some(Validation), retryable: false,
            remedy: "Send it uncompressed or with a supported codec.",
        }
        /// The address exists but does not answer to this method.
        MethodNotAllowed {
            rfa: "RFA_REQUEST_METHOD_NOT_ALLOWED", ojs: None,
            slug: "method-not-allowed", title: "Method Not Allowed",
            stage: None, retryable: false,
            remedy: "Use one of the methods the answer names as allowed.",
        }
        /// None of the formats the caller accepts can be produced here.
        NotAcceptable {
            rfa: "RFA_REQUEST_NOT_ACCEPTABLE", ojs: None,
            slug: "not-acceptable", title: "Not Acceptable",
            stage: None, retryable: false,
            remedy: "Accept JSON, or leave the choice of format to the server.",
        }
        /// The part of the result that is asked for lies beyond its end.
        RangeNotSatisfiable {
            rfa: "RFA_REQUEST_MALFORMED", ojs: Some("INVALID_PAYLOAD"),
            slug: "range-not-satisfiable", title: "Range Not Satisfiable",
            stage: None, retryable: false,
            remedy: "Ask for a range within the size that Content-Range tells, or for the whole.",
        }
        /// The request names a version with If-Match, and what it would change has another one or
        /// none.
        PreconditionFailed {
            rfa: "RFA_REQUEST_PRECONDITION_FAILED", ojs: None,
            slug: "precondition-failed", title: "Precondition Failed",
            stage: None, retryable: false,
            remedy: "Read the resource again, decide anew and send its present ETag, or leave If-Match out.",
        }
        /// The body of the request is larger than the server reads.
        BodyTooLarge {
            rfa: "RFA_REQUEST_PAYLOAD_TOO_LARGE", ojs: Some("PAYLOAD_TOO_LARGE"),
            slug: "payload-too-large", title: "Payload Too Large",
            stage: Some(Validation), retryable: false,
            remedy: "Make the body smaller or split it into several requests.",
        }
        /// The request as a whole is small enough, but the payload of the job exceeds its own
        /// limit.
        JobPayloadTooLarge {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("PAYLOAD_TOO_LARGE"),
            slug: "job-payload-too-large", title: "Job Payload Too Large",
            stage: Some(Validation), retryable: false,
            remedy: "Make the payload smaller, or keep it elsewhere and pass a reference.",
        }
        /// The metadata of the job exceeds its size limit.
        MetadataTooLarge {
            rfa: "RFA_REQUEST_PAYLOAD_TOO_LARGE", ojs: Some("METADATA_TOO_LARGE"),
            slug: "metadata-too-large", title: "Metadata Too Large",
            stage: Some(Validation), retryable: false,
            remedy: "Keep only what is needed to find the job and move the rest into its arguments.",
        }
        /// The type of the job is not in the catalog or is switched off on this server.
        UnknownJobType {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("INVALID_JOB_TYPE"),
            slug: "invalid-job-type", title: "Invalid Job Type",
            stage: Some(Validation), retryable: false,
            remedy: "Write the type of the job as the message says.",
        }
        /// The name of the job type is longer than permitted.
        JobTypeTooLong {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("JOB_TYPE_TOO_LONG"),
            slug: "invalid-job-type", title: "Invalid Job Type",
            stage: Some(Validation), retryable: false,
            remedy: "Use a shorter name for the job type.",
        }
        /// The request is well formed, but a value in it breaks a rule for jobs.
        InvalidArgs {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("INVALID_ARGS"),
            slug: "validation-failed", title: "Job Validation Failed",
            stage: Some(Validation), retryable: false,
            remedy: "Correct the named value and send the request again.",
        }
        /// The time at which the job should run has passed already, or contradicts its type.
        ScheduleInPast {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("INVALID_ARGS"),
            slug: "schedule-in-past", title: "Job Validation Failed",
            stage: Some(Validation), retryable: false,
            remedy: "Give a time in the future, or submit the job to run at once.",
        }
        /// The callback address is not one this server may call.
        InvalidCallbackUrl {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("INVALID_ARGS"),
            slug: "invalid-callback-url", title: "Job Validation Failed",
            stage: Some(Validation), retryable: false,
            remedy: "Give an absolute web address that is reachable from the server and permitted by it.",
        }
        /// The queue name contains forbidden characters or names no queue.
        InvalidQueue {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("INVALID_QUEUE"),
            slug: "invalid-queue", title: "Invalid Queue",
            stage: Some(Validation), retryable: false,
            remedy: "Use a queue name of lower-case letters, digits, hyphens and dots.",
        }
        /// The queue name is longer than permitted.
        QueueNameTooLong {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("QUEUE_NAME_TOO_LONG"),
            slug: "invalid-queue", title: "Invalid Queue",
            stage: Some(Validation), retryable: false,
            remedy: "Use a shorter queue name.",
        }
        /// The metadata of the job is malformed.
        InvalidMetadata {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("INVALID_METADATA"),
            slug: "invalid-metadata", title: "Invalid Metadata",
            stage: Some(Validation), retryable: false,
            remedy: "Send the metadata as an object with permitted keys.",
        }
        /// The retry policy contains a value that is out of range or contradicts another.
        InvalidRetryPolicy {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("INVALID_RETRY_POLICY"),
            slug: "invalid-retry-policy", title: "Invalid Retry Policy",
            stage: Some(Validation), retryable: false,
            remedy: "Correct the named member of the policy, or leave the policy out to get the default.",
        }
        /// The cron expression cannot be understood.
        InvalidCron {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("INVALID_CRON_EXPRESSION"),
            slug: "invalid-cron-expression", title: "Invalid Cron Expression",
            stage: Some(Validation), retryable: false,
            remedy: "Check the number of fields, their ranges and the time zone.",
        }
        /// The arguments do not fit the schema registered for this job type and version.
        SchemaMismatch {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("SCHEMA_VALIDATION_FAILED"),
            slug: "schema-validation-failed", title: "Schema Validation Failed",
            stage: Some(Validation), retryable: false,
            remedy: "Change the arguments to fit the schema, or name the version they were written for.",
        }
        /// The content that was sent or referred to does not have the stated checksum.
        ChecksumMismatch {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("CHECKSUM_MISMATCH"),
            slug: "checksum-mismatch", title: "Checksum Mismatch",
            stage: Some(Validation), retryable: false,
            remedy: "Compute the checksum again from the bytes as sent, or upload the content again.",
        }
        /// The request asks for something this server does not offer.
        UnsupportedFeature {
            rfa: "RFA_JOB_VALIDATION_FAILED", ojs: Some("UNSUPPORTED_FEATURE"),
            slug: "unsupported-feature", title: "Unsupported Feature",
            stage: Some(Validation), retryable: false,
            remedy: "Look up in the manifest what the server offers and do without the rest.",
        }
        /// The operation is not possible in the state the job is in now.
        IllegalTransition {
            rfa: "RFA_JOB_CONFLICT", ojs: Some("INVALID_STATE_TRANSITION"),
            slug: "invalid-state-transition", title: "Invalid State Transition",
            stage: None, retryable: false,
            remedy: "Read the job again and choose an operation its state permits.",
        }
        /// The job has used up all its retries.
        RetryLimitReached {
            rfa: "RFA_JOB_CONFLICT", ojs: Some("INVALID_STATE_TRANSITION"),
            slug: "retry-limit-reached", title: "Retry Limit Reached",
            stage: None, retryable: false,
            remedy: "Find out why it fails, then submit a new job.",
        }
        /// The job has no result, because it has not ended yet or did not succeed.
        ResultNotReady {
            rfa: "RFA_JOB_CONFLICT", ojs: Some("INVALID_STATE_TRANSITION"),
            slug: "result-not-ready", title: "Result Not Ready",
            stage: None, retryable: false,
            remedy: "Watch the status of the job and ask for the result once it has succeeded.",
        }
        /// The job has ended, so its outcome can no longer be reported or changed.
        AlreadyCompleted {
            rfa: "RFA_JOB_CONFLICT", ojs: Some("JOB_ALREADY_COMPLETED"),
            slug: "job-already-completed", title: "Job Already Completed",
            stage: None, retryable: false,
            remedy: "Keep the recorded outcome and drop this one.",
        }
        /// The job was cancelled before its outcome was reported.
        AlreadyCancelled {
            rfa: "RFA_JOB_CONFLICT", ojs: Some("JOB_ALREADY_CANCELLED"),
            slug: "job-already-cancelled", title: "Job Already Cancelled",
            stage: None, retryable: false,
            remedy: "Drop the outcome and stop working on the job.",
        }
        /// The idempotency key was used before with a different request.
        IdempotencyConflict {
            rfa: "RFA_EXEC_IDEMPOTENCY_CONFLICT", ojs: Some("DUPLICATE_JOB"),
            slug: "idempotency-conflict", title: "Idempotency Key Reused",
            stage: Some(Validation), retryable: false,
            remedy: "Repeat the first request unchanged, or choose a new key for the new one.",
        }
        /// What exists already does not allow this to be created or renewed.
        Duplicate {
            rfa: "RFA_JOB_CONFLICT", ojs: Some("DUPLICATE_JOB"),
            slug: "conflict", title: "Conflict",
            stage: None, retryable: false,
            remedy: "Use what exists, or remove it or make the new one differ from it.",
        }
        /// The request has no credentials, or they are not valid.
        Unauthenticated {
            rfa: "RFA_AUTH_INVALID_CREDENTIALS", ojs: Some("UNAUTHENTICATED"),
            slug: "unauthorized", title: "Unauthorized",
            stage: Some(Authorization), retryable: false,
            remedy: "Send a valid API key.",
        }
        /// The API key was valid once, but its time is over.
        KeyExpired {
            rfa: "RFA_AUTH_TOKEN_EXPIRED", ojs: Some("TOKEN_EXPIRED"),
            slug: "api-key-expired", title: "API Key Expired",
            stage: Some(Authorization), retryable: false,
            remedy: "Renew the key and use the new one.",
        }
        /// The API key has been revoked or switched off.
        KeyRevoked {
            rfa: "RFA_AUTH_API_KEY_DISABLED", ojs: Some("PERMISSION_DENIED"),
            slug: "api-key-disabled", title: "API Key Disabled",
            stage: Some(Authorization), retryable: false,
            remedy: "Use another key, or ask for a new one.",
        }
        /// The caller is known but has no right to do this.
        Forbidden {
            rfa: "RFA_AUTH_FORBIDDEN", ojs: Some("PERMISSION_DENIED"),
            slug: "forbidden", title: "Forbidden",
            stage: Some(Authorization), retryable: false,
            remedy: "Ask for the right, or use credentials that have it.",
        }
        /// What was asked for belongs to another client.
        ForeignResource {
            rfa: "RFA_AUTH_FORBIDDEN", ojs: Some("TENANT_ACCESS_DENIED"),
            slug: "forbidden", title: "Forbidden",
            stage: Some(Authorization), retryable: false,
            remedy: "Check the id, or use the credentials of its owner.",
        }
        /// There is nothing at this address, whatever the method.
        RouteNotFound {
            rfa: "RFA_REQUEST_ROUTE_NOT_FOUND", ojs: Some("NOT_FOUND"),
            slug: "route-not-found", title: "Route not found",
            stage: None, retryable: false,
            remedy: "Compare the address with those in the API document, a slash at its end included.",
        }
        /// There is no job with this id.
        JobNotFound {
            rfa: "RFA_JOB_NOT_FOUND", ojs: Some("NOT_FOUND"),
            slug: "job-not-found", title: "Job not found",
            stage: None, retryable: false,
            remedy: "Check the id against the answer to the submission.",
        }
        /// There is no client with this id.
        ClientNotFound {
            rfa: "RFA_JOB_NOT_FOUND", ojs: Some("NOT_FOUND"),
            slug: "client-not-found", title: "Client not found",
            stage: None, retryable: false,
            remedy: "Check the id against the answer to the registration.",
        }
        /// The client has no API key with this id.
        KeyNotFound {
            rfa: "RFA_JOB_NOT_FOUND", ojs: Some("NOT_FOUND"),
            slug: "key-not-found", title: "API key not found",
            stage: None, retryable: false,
            remedy: "List the keys of the client and choose one of them.",
        }
        /// There is no webhook with this id.
        WebhookNotFound {
            rfa: "RFA_JOB_NOT_FOUND", ojs: Some("NOT_FOUND"),
            slug: "webhook-not-found", title: "Webhook not found",
            stage: None, retryable: false,
            remedy: "List the registered webhooks and choose one of them.",
        }
        /// There is no schedule with this name.
        ScheduleNotFound {
            rfa: "RFA_JOB_NOT_FOUND", ojs: Some("NOT_FOUND"),
            slug: "schedule-not-found", title: "Schedule not found",
            stage: None, retryable: false,
            remedy: "List the schedules and choose one of them.",
        }
        /// There is no worker with this id: it never gave a sign of life, or has been silent for
        /// too long.
        WorkerNotFound {
            rfa: "RFA_JOB_NOT_FOUND", ojs: Some("NOT_FOUND"),
            slug: "worker-not-found", title: "Worker not found",
            stage: None, retryable: false,
            remedy: "List the workers and choose one of them.",
        }
        /// There is no delivery with this id.
        DeliveryNotFound {
            rfa: "RFA_JOB_NOT_FOUND", ojs: Some("NOT_FOUND"),
            slug: "delivery-not-found", title: "Delivery not found",
            stage: None, retryable: false,
            remedy: "List the deliveries of the webhook; settled ones are kept for a while only.",
        }
        /// There is no report with this id, or its job has not written one yet.
        ReportNotFound {
            rfa: "RFA_JOB_NOT_FOUND", ojs: Some("NOT_FOUND"),
            slug: "report-not-found", title: "Report not found",
            stage: None, retryable: false,
            remedy: "Check the id, and wait for the job to end before asking for its report.",
        }
        /// There is no result with this id, or the job left none behind.
        ResultNotFound {
            rfa: "RFA_JOB_NOT_FOUND", ojs: Some("NOT_FOUND"),
            slug: "result-not-found", title: "Result not found",
            stage: None, retryable: false,
            remedy: "Check the id against the answer that announced the result.",
        }
        /// The job existed, but the time for which it and its result are kept is over.
        Expired {
            rfa: "RFA_JOB_NOT_FOUND", ojs: Some("NOT_FOUND"),
            slug: "job-expired", title: "Job Expired",
            stage: None, retryable: false,
            remedy: "Submit the job again if the result is still needed.",
        }
        /// The job has a result no more: the time for which its content is kept is over.
        ResultExpired {
            rfa: "RFA_JOB_NOT_FOUND", ojs: Some("NOT_FOUND"),
            slug: "result-expired", title: "Result Expired",
            stage: None, retryable: false,
            remedy: "Submit the job again if its result is still needed.",
        }
        /// The client sends requests faster than it is allowed to.
        RateLimited {
            rfa: "RFA_REQUEST_RATE_LIMITED", ojs: Some("RATE_LIMITED"),
            slug: "rate-limited", title: "Too Many Requests",
            stage: None, retryable: true,
            remedy: "Wait as long as the answer says and send fewer requests at a time.",
        }
        /// The client has spent its allowance of requests or of active jobs.
        QuotaExceeded {
            rfa: "RFA_REQUEST_RATE_LIMITED", ojs: Some("RATE_LIMITED"),
            slug: "quota-exceeded", title: "Too Many Requests",
            stage: None, retryable: true,
            remedy: "Wait until the allowance is renewed or some jobs have ended, or ask for a larger one.",
        }
        /// The client has stored as many bytes as it may.
        StorageQuotaExceeded {
            rfa: "RFA_REQUEST_RATE_LIMITED", ojs: Some("RATE_LIMITED"),
            slug: "storage-quota-exceeded", title: "Storage Quota Exceeded",
            stage: None, retryable: true,
            remedy: "Delete jobs that are no longer needed, or ask for more storage.",
        }
        /// The queue holds as many jobs as it may.
        QueueFull {
            rfa: "RFA_EXEC_QUEUE_FULL", ojs: Some("QUEUE_FULL"),
            slug: "queue-full", title: "Queue Full",
            stage: Some(Queuing), retryable: true,
            remedy: "Submit the job again later, and lower the load if this happens often.",
        }
        /// The queue is paused and takes no jobs for now.
        QueuePaused {
            rfa: "RFA_EXEC_QUEUE_FULL", ojs: Some("QUEUE_PAUSED"),
            slug: "queue-paused", title: "Queue Paused",
            stage: Some(Queuing), retryable: true,
            remedy: "Submit the job again once the queue has been resumed, or use another queue.",
        }
        /// There is no worker that could take the job.
        WorkerUnavailable {
            rfa: "RFA_EXEC_WORKER_UNAVAILABLE", ojs: Some("BACKEND_UNAVAILABLE"),
            slug: "worker-unavailable", title: "No Worker Available",
            stage: Some(Queuing), retryable: true,
            remedy: "Try again later, or start more workers.",
        }
        /// The server did not finish the request in the time set for it.
        OperationTimeout {
            rfa: "RFA_EXEC_TIMEOUT", ojs: Some("BACKEND_TIMEOUT"),
            slug: "operation-timeout", title: "Operation Timed Out",
            stage: Some(Processing), retryable: true,
            remedy: "Try again later, with an idempotency key if the request creates something.",
        }
        /// A service the server depends on did not answer in time.
        DependencyTimeout {
            rfa: "RFA_DEPENDENCY_TIMEOUT", ojs: Some("BACKEND_TIMEOUT"),
            slug: "dependency-timeout", title: "Dependency Timed Out",
            stage: Some(Processing), retryable: true,
            remedy: "Try again later.",
        }
        /// The store refused or failed an operation.
        StorageError {
            rfa: "RFA_STORAGE_DB_ERROR", ojs: Some("BACKEND_ERROR"),
            slug: "storage-error", title: "Storage Error",
            stage: Some(Storage), retryable: true,
            remedy: "Try again later, and give the request id to the operator if it persists.",
        }
        /// The stored content is encrypted, and no key of the server opens it.
        ContentUnreadable {
            rfa: "RFA_STORAGE_CONTENT_UNREADABLE", ojs: None,
            slug: "content-unreadable", title: "Content Unreadable",
            stage: Some(Storage), retryable: false,
            remedy: "Give the request id to the operator: the encryption key of this content is missing, or the content was changed.",
        }
        /// The store did not answer in time.
        StorageTimeout {
            rfa: "RFA_STORAGE_DB_ERROR", ojs: Some("BACKEND_TIMEOUT"),
            slug: "storage-timeout", title: "Storage Timed Out",
            stage: Some(Storage), retryable: true,
            remedy: "Try again later, with an idempotency key if the request creates something.",
        }
        /// The store cannot be reached.
        StorageUnavailable {
            rfa: "RFA_STORAGE_UNAVAILABLE", ojs: Some("BACKEND_UNAVAILABLE"),
            slug: "storage-unavailable", title: "Storage Unavailable",
            stage: Some(Storage), retryable: true,
            remedy: "Try again later.",
        }
        /// The copy of the data that was asked is not yet up to date.
        ReplicationLag {
            rfa: "RFA_STORAGE_DB_ERROR", ojs: Some("REPLICATION_LAG"),
            slug: "replication-lag", title: "Replication Lag",
            stage: Some(Storage), retryable: true,
            remedy: "Try again in a moment.",
        }
        /// A setting of the server is invalid, so it cannot serve this request.
        ConfigInvalid {
            rfa: "RFA_CONFIG_INVALID", ojs: Some("BACKEND_UNAVAILABLE"),
            slug: "config-invalid", title: "Server Misconfigured",
            stage: None, retryable: true,
            remedy: "Tell the operator, who has to correct the configuration, and try again afterwards.",
        }
        /// Something happened that the server did not foresee.
        Internal {
            rfa: "RFA_INTERNAL", ojs: Some("BACKEND_ERROR"),
            slug: "internal-error", title: "Internal Server Error",
            stage: Some(Processing), retryable: true,
            remedy: "Try again later, and give the request id to the operator if it persists.",
        }
    }

    // `Cancelled` has the stage the job had reached, every item of `BatchPartial` its own stage and
    // advice: only the occurrence knows them.
    Job {
        /// The job ran and failed, and would most likely fail again.
        HandlerError {
            rfa: "RFA_EXEC_JOB_FAILED", ojs: Some("HANDLER_ERROR"),
            slug: "job-failed", title: "Job Failed",
            stage: Some(Processing), retryable: false,
            remedy: "Look at the report for the reason and change the job before submitting it again.",
        }
        /// The job ran and failed for a reason that may pass.
        HandlerTransient {
            rfa: "RFA_EXEC_JOB_FAILED", ojs: Some("HANDLER_ERROR"),
            slug: "job-failed-transient", title: "Job Failed Temporarily",
            stage: Some(Processing), retryable: true,
            remedy: "Retry the job after the stated time, unless it is retried by itself.",
        }
        /// The job ran longer than its runtime limit and was stopped.
        HandlerTimeout {
            rfa: "RFA_EXEC_TIMEOUT", ojs: Some("HANDLER_TIMEOUT"),
            slug: "job-timed-out", title: "Job Processing Timed Out",
            stage: Some(Processing), retryable: true,
            remedy: "Retry the job, give it less to do, or ask for a higher limit.",
        }
        /// The worker that ran the job crashed or stopped giving signs of life.
        RunnerLost {
            rfa: "RFA_INTERNAL", ojs: Some("HANDLER_PANIC"),
            slug: "runner-lost", title: "Job Runner Lost",
            stage: Some(Processing), retryable: true,
            remedy: "Retry the job, and look at the worker if this happens again.",
        }
        /// The job failed with an error that its retry policy or its worker declared final.
        NonRetryable {
            rfa: "RFA_EXEC_JOB_FAILED", ojs: Some("NON_RETRYABLE_ERROR"),
            slug: "job-failed-permanently", title: "Job Failed Permanently",
            stage: Some(Processing), retryable: false,
            remedy: "Look at the report for the reason and change the job before submitting it again.",
        }
        /// The job cannot run because the description of its work is missing or unreadable.
        DefinitionMissing {
            rfa: "RFA_INTERNAL", ojs: Some("NON_RETRYABLE_ERROR"),
            slug: "definition-missing", title: "Job Definition Missing",
            stage: Some(Processing), retryable: false,
            remedy: "Submit the job anew, and give its id to the operator.",
        }
        /// The job ran, but its result or report could not be written to the store.
        ReportFailed {
            rfa: "RFA_STORAGE_DB_ERROR", ojs: Some("BACKEND_ERROR"),
            slug: "result-not-stored", title: "Result Could Not Be Stored",
            stage: Some(Storage), retryable: true,
            remedy: "Retry the job once the store is well again.",
        }
        /// The job was cancelled, or its time to live ended before it could run.
        Cancelled {
            rfa: "RFA_JOB_CONFLICT", ojs: Some("JOB_CANCELLED"),
            slug: "job-cancelled", title: "Job Cancelled",
            stage: None, retryable: false,
            remedy: "Submit the job again if it is still wanted.",
        }
        /// Some items of the batch succeeded and some failed.
        BatchPartial {
            rfa: "RFA_EXEC_BATCH_PARTIAL", ojs: None,
            slug: "batch-partial", title: "Batch Partially Failed",
            stage: None, retryable: false,
            remedy: "Look at the outcome of each item and submit again only those worth another try.",
        }
    }
}
