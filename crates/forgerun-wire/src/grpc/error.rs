//! A refusal as gRPC has it: a status and its details. One table says which status each kind of the catalogue has; details carry the
//! rest: the code, what is wrong where, when to ask again, and the whole problem object.
//!
//! | detail | what it has |
//! |---|---|
//! | `google.rpc.ErrorInfo` | `reason` `OJS_…`, `domain`, and facts as text |
//! | `google.rpc.RetryInfo` | when to ask again, where that helps |
//! | `google.rpc.BadRequest` | what is wrong with which field |
//! | `google.protobuf.Struct` | the problem object of `/ojs/v1` (AJ-GRP-01) |
//! | `google.protobuf.BytesValue` | the stored failure object of a job, byte for byte |

use std::collections::BTreeMap;
use std::time::Duration;

use forgerun_core::catalog::{ErrorLevel, Kind};
use prost::Message;
use prost_types::{Any, Struct};
use serde_json::{Map, Value};
use tonic::{Code, Status};

use super::{json, moment};
use crate::ojs::error::{self, ErrorContext, binding_code};
use crate::problem::RefusedRequest;

/// Who defined the codes (ERR-007).
pub const DOMAIN: &str = "openjobspec.org";

/// Bytes of details at most. They travel in a header field, and common clients take 8 KiB of header fields in all, of which base64
/// takes a third.
const DETAILS_BYTES_MAX: usize = 5 * 1024;

/// Bytes of a message at most, for the same reason.
const MESSAGE_BYTES_MAX: usize = 512;

/// Fields that are named at most.
const FIELDS_MAX: usize = 16;

/// The status of a kind. Exhaustive: a new kind does not compile until it has one. The reason of a kind is not decided here: it is `OJS_`
/// and the canonical code, which is finer than any status.
pub const fn code(kind: Kind) -> Code {
    match kind {
        Kind::MalformedRequest
        | Kind::UnsupportedMediaType
        | Kind::NotAcceptable
        | Kind::RangeNotSatisfiable
        | Kind::UnknownJobType
        | Kind::JobTypeTooLong
        | Kind::InvalidArgs
        | Kind::ScheduleInPast
        | Kind::InvalidCallbackUrl
        | Kind::InvalidQueue
        | Kind::QueueNameTooLong
        | Kind::InvalidMetadata
        | Kind::InvalidRetryPolicy
        | Kind::InvalidCron
        | Kind::SchemaMismatch
        | Kind::ChecksumMismatch => Code::InvalidArgument,
        Kind::UnsupportedCompression | Kind::MethodNotAllowed | Kind::UnsupportedFeature => {
            Code::Unimplemented
        }
        Kind::BodyTooLarge
        | Kind::JobPayloadTooLarge
        | Kind::MetadataTooLarge
        | Kind::RateLimited
        | Kind::QuotaExceeded
        | Kind::StorageQuotaExceeded
        | Kind::QueueFull => Code::ResourceExhausted,
        Kind::IllegalTransition
        | Kind::RetryLimitReached
        | Kind::ResultNotReady
        | Kind::AlreadyCompleted
        | Kind::AlreadyCancelled
        | Kind::PreconditionFailed
        | Kind::QueuePaused => Code::FailedPrecondition,
        Kind::IdempotencyConflict | Kind::Duplicate => Code::AlreadyExists,
        Kind::Unauthenticated | Kind::KeyExpired => Code::Unauthenticated,
        Kind::KeyRevoked | Kind::Forbidden | Kind::ForeignResource => Code::PermissionDenied,
        Kind::RouteNotFound
        | Kind::JobNotFound
        | Kind::ClientNotFound
        | Kind::KeyNotFound
        | Kind::WebhookNotFound
        | Kind::WorkerNotFound
        | Kind::ScheduleNotFound
        | Kind::DeliveryNotFound
        | Kind::ReportNotFound
        | Kind::ResultNotFound
        | Kind::Expired
        | Kind::ResultExpired => Code::NotFound,
        Kind::WorkerUnavailable | Kind::StorageUnavailable | Kind::ReplicationLag | Kind::ConfigInvalid => {
            Code::Unavailable
        }
        Kind::OperationTimeout | Kind::DependencyTimeout | Kind::StorageTimeout => Code::DeadlineExceeded,
        Kind::StorageError | Kind::Internal => Code::Internal,
        Kind::ContentUnreadable => Code::DataLoss,
        // How a job ended.
        Kind::HandlerError => Code::Unknown,
        Kind::HandlerTransient => Code::Unavailable,
        Kind::HandlerTimeout => Code::DeadlineExceeded,
        Kind::RunnerLost | Kind::ReportFailed => Code::Internal,
        Kind::NonRetryable | Kind::DefinitionMissing => Code::FailedPrecondition,
        Kind::Cancelled => Code::Cancelled,
        Kind::BatchPartial => Code::Ok,
    }
}

/// The reason of a kind: `OJS_` and the canonical code (ERR-007). What OJS has no code for keeps its own, which must not begin with
/// `OJS_` (C-77); a method that is not there is a feature that is not.
pub fn reason(kind: Kind) -> String {
    let entry = kind.entry();
    match (kind, entry.ojs) {
        (Kind::MethodNotAllowed, _) => "OJS_UNSUPPORTED_FEATURE".to_owned(),
        (_, Some(code)) => format!("OJS_{code}"),
        (_, None) => entry.rfa.to_owned(),
    }
}

/// The status of a refused request.
pub fn status(refused: &RefusedRequest, context: ErrorContext<'_>) -> Status {
    let code = code(refused.kind);
    let waits = matches!(code, Code::ResourceExhausted | Code::Unavailable | Code::DeadlineExceeded);
    let retry_after_s = refused.retry_after_s.filter(|_| waits || refused.is_early);
    let mut problem = error::body(refused, context);
    // The binding's object says it a second time.
    if let Some(members) = problem.as_object_mut() {
        members.remove("error");
    }
    let details = ErrorDetails {
        info: Some(info(refused, context)),
        retry_delay: retry_after_s.map(Duration::from_secs),
        violations: violations(refused),
        problem: json::of_object(&problem),
        failure: None,
    };
    details.status(code, &refused.told())
}

/// The kind of a stored failure object, by the type of its problem.
pub fn failure_kind(failure: &[u8]) -> Kind {
    let problem: Map<String, Value> = serde_json::from_slice(failure).unwrap_or_default();
    let slug = problem.get("type").and_then(Value::as_str).and_then(|uri| uri.rsplit('/').next());
    let of_job = |kind: &&Kind| {
        let entry = kind.entry();
        entry.level == ErrorLevel::Job && Some(entry.slug) == slug
    };
    Kind::ALL.iter().find(of_job).copied().unwrap_or(Kind::HandlerError)
}

/// The status of a job that did not end well, as a call that asks for its result gets it. `failure` is the stored object.
pub fn of_failure(kind: Kind, failure: &[u8]) -> Status {
    let problem: Map<String, Value> = serde_json::from_slice(failure).unwrap_or_default();
    let text = |name: &str| problem.get(name).and_then(Value::as_str);
    let retryable = problem.get("retryable").and_then(Value::as_bool).unwrap_or(kind.entry().retryable);
    let mut metadata = facts(kind, retryable);
    metadata.extend(text("jobId").map(|id| ("job_id".to_owned(), id.to_owned())));
    let details = ErrorDetails {
        info: Some(ErrorInfo { reason: reason(kind), domain: DOMAIN.to_owned(), metadata }),
        problem: json::read_struct(failure),
        failure: Some(failure.to_vec()),
        ..ErrorDetails::default()
    };
    details.status(code(kind), text("detail").or(text("title")).unwrap_or(kind.entry().meaning))
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MESSAGE_BYTES_MAX)]
}

fn facts(kind: Kind, retryable: bool) -> BTreeMap<String, String> {
    [("rfa_code", kind.entry().rfa.to_owned()), ("retryable", retryable.to_string())]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn info(refused: &RefusedRequest, context: ErrorContext<'_>) -> ErrorInfo {
    let mut metadata: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &refused.details {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        metadata.insert(name.clone(), cut(&text).to_owned());
    }
    metadata.extend(facts(refused.kind, refused.kind.entry().retryable || refused.is_early));
    metadata.insert("code".into(), binding_code(refused));
    metadata.insert("request_id".into(), context.request_id.to_owned());
    if let Some(seconds) = refused.retry_after_s {
        metadata.insert("retry_after".into(), seconds.to_string());
    }
    ErrorInfo { reason: reason(refused.kind), domain: DOMAIN.to_owned(), metadata }
}

fn violations(refused: &RefusedRequest) -> Vec<FieldViolation> {
    let violation = |violation: &crate::problem::Violation| FieldViolation {
        field: violation.pointer.trim_start_matches("#/").replace('/', "."),
        description: cut(&violation.detail).to_owned(),
    };
    refused.violations.iter().take(FIELDS_MAX).map(violation).collect()
}

/// Where the types of details are found, by convention, and their names.
const GOOGLE: &str = "type.googleapis.com/";
const ERROR_INFO: &str = "google.rpc.ErrorInfo";
const RETRY_INFO: &str = "google.rpc.RetryInfo";
const BAD_REQUEST: &str = "google.rpc.BadRequest";
const STRUCT: &str = "google.protobuf.Struct";
const BYTES: &str = "google.protobuf.BytesValue";

/// The details of a status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorDetails {
    /// The code, and facts.
    pub info: Option<ErrorInfo>,
    /// When to ask again.
    pub retry_delay: Option<Duration>,
    /// What is wrong with which field.
    pub violations: Vec<FieldViolation>,
    /// The problem object.
    pub problem: Option<Struct>,
    /// The stored failure object of a job.
    pub failure: Option<Vec<u8>>,
}

impl ErrorDetails {
    /// A status with these details: the code first, and what has no room is left out.
    pub fn status(&self, code: Code, message: &str) -> Status {
        let message = cut(message);
        let mut status = RpcStatus { code: code.into(), message: message.to_owned(), details: Vec::new() };
        if let Some(info) = &self.info {
            status.put(ERROR_INFO, info);
        }
        if let Some(delay) = self.retry_delay {
            status.put(RETRY_INFO, &RetryInfo { retry_delay: Some(moment::duration(delay)) });
        }
        if !self.violations.is_empty() {
            status.put(BAD_REQUEST, &BadRequest { field_violations: self.violations.clone() });
        }
        if let Some(failure) = &self.failure {
            status.put(BYTES, failure);
        }
        if let Some(problem) = &self.problem {
            status.put(STRUCT, problem);
        }
        Status::with_details(code, message, status.encode_to_vec().into())
    }

    /// Reads the details of a status; what cannot be read counts as absent.
    pub fn read(details: &[u8]) -> ErrorDetails {
        let mut found = ErrorDetails::default();
        let status = RpcStatus::decode(details).unwrap_or_default();
        for any in &status.details {
            let bytes = any.value.as_slice();
            match any.type_url.rsplit('/').next().unwrap_or_default() {
                ERROR_INFO => found.info = ErrorInfo::decode(bytes).ok(),
                RETRY_INFO => {
                    let delay = RetryInfo::decode(bytes).ok().and_then(|info| info.retry_delay);
                    found.retry_delay = delay.and_then(|delay| delay.try_into().ok());
                }
                BAD_REQUEST => {
                    found.violations = BadRequest::decode(bytes).unwrap_or_default().field_violations;
                }
                STRUCT => found.problem = Struct::decode(bytes).ok(),
                BYTES => found.failure = Vec::<u8>::decode(bytes).ok(),
                _ => {}
            }
        }
        found
    }
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub struct RpcStatus {
    /// The code of the status.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Its message.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Messages of any type.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

impl RpcStatus {
    /// Adds a detail, if there is room for it.
    fn put(&mut self, name: &str, detail: &impl Message) {
        let any = Any { type_url: format!("{GOOGLE}{name}"), value: detail.encode_to_vec() };
        if self.encoded_len() + any.encoded_len() < DETAILS_BYTES_MAX {
            self.details.push(any);
        }
    }
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, Message)]
pub struct ErrorInfo {
    /// The code.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// Who defined it.
    #[prost(string, tag = "2")]
    pub domain: String,
    /// Facts.
    #[prost(btree_map = "string, string", tag = "3")]
    pub metadata: BTreeMap<String, String>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
pub struct RetryInfo {
    /// When to ask again, from now.
    #[prost(message, optional, tag = "1")]
    pub retry_delay: Option<prost_types::Duration>,
}

/// `google.rpc.BadRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct BadRequest {
    /// What is wrong.
    #[prost(message, repeated, tag = "1")]
    pub field_violations: Vec<FieldViolation>,
}

/// `google.rpc.BadRequest.FieldViolation`.
#[derive(Clone, PartialEq, Message)]
pub struct FieldViolation {
    /// Which field.
    #[prost(string, tag = "1")]
    pub field: String,
    /// What is wrong with it.
    #[prost(string, tag = "2")]
    pub description: String,
}

#[cfg(test)]
mod tests;
