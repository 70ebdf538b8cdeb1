//! What a route may be refused for: what follows from who may ask, how it is counted, its verb, its
//! body and its parameters, and what it names itself.

use forgerun_core::catalog::Kind;
use forgerun_core::scope::KeyScope;

use super::rows::{Row, path_parameters};
use crate::http::routing::{Callers, RateCount, Verb};

/// What any page may meet.
const OF_PAGE: &[Kind] = &[Kind::Internal, Kind::OperationTimeout];

/// What any request of an API may meet.
const ANY: &[Kind] = &[
    Kind::NotAcceptable,
    Kind::RateLimited,
    Kind::Internal,
    Kind::StorageUnavailable,
    Kind::StorageError,
    Kind::StorageTimeout,
    Kind::OperationTimeout,
    Kind::DependencyTimeout,
];

/// What a request with credentials may meet.
const WITH_CREDENTIALS: &[Kind] = &[Kind::Unauthenticated, Kind::KeyExpired, Kind::KeyRevoked];

/// What a request with a body may meet, and one that writes.
const WRITING: &[Kind] = &[
    Kind::MalformedRequest,
    Kind::InvalidArgs,
    Kind::BodyTooLarge,
    Kind::UnsupportedMediaType,
    Kind::UnsupportedCompression,
    Kind::PreconditionFailed,
    Kind::QueueFull,
];

/// All of a row, each once.
pub(super) fn of(row: &Row) -> Vec<Kind> {
    if row.api.is_none() {
        return [OF_PAGE, row.operation.refusals].concat();
    }
    let mut all = ANY.to_vec();
    all.extend(of_callers(row));
    if row.verb != Verb::Get {
        all.extend(WRITING);
    }
    if row.verb == Verb::Post && row.scopes.contains(KeyScope::Submit) {
        all.push(Kind::StorageQuotaExceeded);
    }
    if !row.operation.query.is_empty() || row.callers == Callers::Operator {
        all.push(Kind::MalformedRequest);
    }
    if row.operation.query.iter().any(|parameter| !matches!(parameter.name, "limit" | "cursor")) {
        all.push(Kind::InvalidArgs);
    }
    if row.is_of_ojs() && row.callers != Callers::Anyone {
        // Another version of Open Job Spec.
        all.push(Kind::UnsupportedFeature);
    }
    all.extend(path_parameters(&row.path).flat_map(|name| of_parameter(row, name)));
    all.extend(row.operation.refusals);
    let mut once = Vec::new();
    for kind in all {
        if !once.contains(&kind) {
            once.push(kind);
        }
    }
    once
}

fn of_callers(row: &Row) -> Vec<Kind> {
    let quota = (row.rate != RateCount::Uncounted).then_some(Kind::QuotaExceeded);
    let own: &[Kind] = match row.callers {
        Callers::Anyone => return Vec::new(),
        Callers::AnyoneOrOperator => return WITH_CREDENTIALS.to_vec(),
        Callers::FirstKey | Callers::ClientOrOperator | Callers::Client => &[Kind::Forbidden],
        Callers::Operator => return [WITH_CREDENTIALS, &[Kind::Forbidden]].concat(),
    };
    WITH_CREDENTIALS.iter().chain(own).copied().chain(quota).collect()
}

/// What the value of a parameter of the path may be refused for.
fn of_parameter(row: &Row, name: &str) -> Vec<Kind> {
    let missing: &[Kind] = match name {
        // What stores what it brings does not need to find it.
        _ if row.verb == Verb::Put && name != "queue" && name != "job_id" => &[],
        "job_id" | "workflow_id" | "group" | "token" => &[Kind::JobNotFound],
        "jobId" => &[Kind::JobNotFound, Kind::Expired],
        "webhook_id" => &[Kind::WebhookNotFound],
        "delivery_id" => &[Kind::DeliveryNotFound],
        "client_id" => &[Kind::ClientNotFound],
        "key_id" => &[Kind::KeyNotFound],
        "worker_id" => &[Kind::WorkerNotFound],
        "name" if row.path.contains("/schedules/") || row.path.contains("/cron") => &[Kind::ScheduleNotFound],
        // Without a name there is nothing at the address.
        "queue" => &[Kind::InvalidQueue, Kind::QueueNameTooLong, Kind::RouteNotFound],
        _ => &[],
    };
    let is_owned = matches!(name, "job_id" | "jobId" | "workflow_id" | "webhook_id" | "client_id");
    let foreign = (is_owned && row.callers != Callers::Operator).then_some(Kind::ForeignResource);
    missing.iter().copied().chain(foreign).collect()
}
