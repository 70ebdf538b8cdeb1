//! Which HTTP status and which `code` each kind of the catalog has in each dialect. Exhaustive: a new kind does not
//! compile until every dialect has a status for it.

use forgerun_core::catalog::{Kind, ProcessingStage};
use forgerun_core::job::Dialect;

/// The HTTP status of a request-level kind, and the status a synchronous answer would have had for a job-level one.
pub const fn http(kind: Kind, dialect: Dialect) -> u16 {
    let ojs = matches!(dialect, Dialect::Ojs);
    match kind {
        Kind::MalformedRequest
        | Kind::UnknownJobType
        | Kind::JobTypeTooLong
        | Kind::InvalidArgs
        | Kind::ScheduleInPast
        | Kind::InvalidCallbackUrl
        | Kind::InvalidQueue
        | Kind::QueueNameTooLong
        | Kind::InvalidMetadata
        | Kind::InvalidCron => 400,
        // The published cases of OJS say 422; `ojs.strict_catalog` says 400 there too.
        Kind::InvalidRetryPolicy => {
            if ojs {
                422
            } else {
                400
            }
        }
        Kind::UnsupportedMediaType => {
            if ojs {
                400
            } else {
                415
            }
        }
        Kind::UnsupportedCompression => 415,
        Kind::MethodNotAllowed => 405,
        Kind::NotAcceptable => 406,
        Kind::RangeNotSatisfiable => 416,
        Kind::PreconditionFailed => 412,
        Kind::BodyTooLarge | Kind::MetadataTooLarge => 413,
        Kind::JobPayloadTooLarge => {
            if ojs {
                413
            } else {
                400
            }
        }
        Kind::SchemaMismatch | Kind::ChecksumMismatch | Kind::UnsupportedFeature => {
            if ojs {
                422
            } else {
                400
            }
        }
        Kind::IllegalTransition
        | Kind::RetryLimitReached
        | Kind::ResultNotReady
        | Kind::AlreadyCompleted
        | Kind::AlreadyCancelled
        | Kind::IdempotencyConflict
        | Kind::Duplicate => 409,
        Kind::Unauthenticated | Kind::KeyExpired => 401,
        Kind::KeyRevoked | Kind::Forbidden | Kind::ForeignResource => 403,
        Kind::RouteNotFound
        | Kind::JobNotFound
        | Kind::ClientNotFound
        | Kind::KeyNotFound
        | Kind::WebhookNotFound
        | Kind::WorkerNotFound
        | Kind::ScheduleNotFound
        | Kind::DeliveryNotFound
        | Kind::ReportNotFound
        | Kind::ResultNotFound => 404,
        Kind::Expired | Kind::ResultExpired => {
            if matches!(dialect, Dialect::Operations) {
                410
            } else {
                404
            }
        }
        Kind::RateLimited | Kind::QuotaExceeded => 429,
        Kind::StorageQuotaExceeded => 507,
        Kind::QueueFull => {
            if ojs {
                429
            } else {
                503
            }
        }
        Kind::QueuePaused => {
            if ojs {
                422
            } else {
                503
            }
        }
        Kind::WorkerUnavailable | Kind::StorageUnavailable | Kind::ReplicationLag | Kind::ConfigInvalid => {
            503
        }
        Kind::OperationTimeout | Kind::DependencyTimeout => 504,
        Kind::StorageError => {
            if ojs {
                500
            } else {
                503
            }
        }
        Kind::StorageTimeout => {
            if ojs {
                504
            } else {
                503
            }
        }
        Kind::Internal | Kind::ContentUnreadable => 500,
        Kind::HandlerError | Kind::RunnerLost | Kind::NonRetryable | Kind::DefinitionMissing => 500,
        Kind::HandlerTransient | Kind::ReportFailed => 503,
        Kind::HandlerTimeout => 504,
        Kind::Cancelled => 409,
        Kind::BatchPartial => 207,
    }
}

/// The `code` a dialect names: ForgeRun its own, the others the canonical OJS code.
pub fn code(kind: Kind, dialect: Dialect) -> &'static str {
    let entry = kind.entry();
    match dialect {
        Dialect::Forge => entry.rfa,
        Dialect::Operations | Dialect::Ojs => entry.ojs_or_custom(),
    }
}

/// Whether a refused submission may name the stage it was refused at. Answers about credentials never do (C-87).
pub fn stage(kind: Kind) -> Option<&'static str> {
    kind.entry().stage.filter(|stage| *stage != ProcessingStage::Authorization).map(ProcessingStage::as_str)
}
