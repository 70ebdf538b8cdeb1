//! The scope of a request: client or operator, tenant, SDK; and the jobs within it.

use std::pin::Pin;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::job::{Job, Name};
use forgerun_core::queue::Owner;
use forgerun_wire::problem::RefusedRequest;

use super::refusals;
use super::reply::OJS_VERSION;
use crate::app::App;
use crate::auth::{Who, caller as auth};
use crate::http::{
    ApiError, Exchange,
    routing::{
        Call, Callers, RouteAccess,
        operation::{CURSOR, LIMIT, Parameter},
    },
};
use forgerun_wire::request::{at_least, integer};

const TENANT: HeaderName = HeaderName::from_static("x-ojs-tenant");

/// Bytes of a tenant's name: it is part of every key of its queues.
const TENANT_BYTES_MAX: usize = 128;

/// For clients.
pub(in crate::dialects) const CLIENT: RouteAccess = RouteAccess::Own(client, Callers::Client);

/// For clients, and for the operator on behalf of any of them.
pub(in crate::dialects) const CLIENT_OR_OPERATOR: RouteAccess =
    RouteAccess::Own(client_or_operator, Callers::ClientOrOperator);

/// Where a page begins, in the ways that clients say it.
pub(super) const PAGE: &[Parameter] = &[
    LIMIT,
    Parameter::new("offset", "How many entries to pass over.").schema(|| at_least(0)),
    CURSOR,
    Parameter::new("page", "The page, from 1.").schema(|| at_least(1)),
    Parameter::new("per_page", "Entries in a page.").schema(|| integer(1, 200)),
];

/// What a job that has ended, or is on its way there, is refused for.
pub(super) const ENDED: &[Kind] = &[Kind::IllegalTransition, Kind::AlreadyCompleted, Kind::AlreadyCancelled];

/// What a worker is refused for that does not hold the job.
pub(super) const OF_LEASE: &[Kind] = &[
    Kind::JobNotFound,
    Kind::ForeignResource,
    Kind::IllegalTransition,
    Kind::AlreadyCompleted,
    Kind::AlreadyCancelled,
    Kind::JobPayloadTooLarge,
];

/// What an envelope is refused for.
pub(super) const REFUSALS: &[Kind] = &[
    Kind::UnknownJobType,
    Kind::JobTypeTooLong,
    Kind::InvalidQueue,
    Kind::QueueNameTooLong,
    Kind::InvalidMetadata,
    Kind::MetadataTooLarge,
    Kind::InvalidRetryPolicy,
    Kind::InvalidCron,
    Kind::SchemaMismatch,
    Kind::JobPayloadTooLarge,
    Kind::IdempotencyConflict,
    Kind::Duplicate,
];

type Admitting<'a> = Pin<Box<dyn Future<Output = Result<Who, ApiError>> + Send + 'a>>;

fn client<'a>(app: &'a App, exchange: &'a mut Exchange) -> Admitting<'a> {
    Box::pin(async move {
        let caller = auth::client(app, exchange).await?;
        understood(&exchange.headers)?;
        Ok(Who::Client(caller))
    })
}

fn client_or_operator<'a>(app: &'a App, exchange: &'a mut Exchange) -> Admitting<'a> {
    Box::pin(async move {
        let who = auth::client_or_operator(app, exchange).await?;
        understood(&exchange.headers)?;
        Ok(who)
    })
}

/// Refuses other major versions of OJS.
fn understood(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(value) = headers.get(OJS_VERSION) else { return Ok(()) };
    let version = value.to_str().unwrap_or_default().trim();
    if version == "1" || version.starts_with("1.") {
        return Ok(());
    }
    let detail = "The OJS-Version of the request is not supported; this server speaks 1.x.";
    Err(RefusedRequest::new(Kind::UnsupportedFeature, detail).fact("supported", "1.0").into())
}

/// The scope of a request.
pub(in crate::dialects) struct Scope {
    /// `None` for the operator.
    pub(in crate::dialects) client: Option<ClientId>,
    /// A tenant of the client.
    pub(in crate::dialects) tenant: Option<Name>,
    /// Whether an SDK sent it; some answers then have another form (D5).
    pub(super) of_sdk: bool,
}

impl Scope {
    pub(in crate::dialects) fn of(call: &Call<'_>) -> Result<Scope, ApiError> {
        Ok(Scope {
            client: call.client().map(|caller| caller.client),
            tenant: tenant(&call.exchange.headers)?,
            of_sdk: call.exchange.headers.contains_key(OJS_VERSION),
        })
    }

    /// Owner of the queues. The operator has none.
    pub(in crate::dialects) fn owner(&self) -> Result<Owner, ApiError> {
        match self.client {
            Some(client) => Ok(Owner { client, tenant: self.tenant.clone() }),
            None => Err(ApiError::new(Kind::Forbidden, "The admin token owns no queues; use an API key.")),
        }
    }

    /// Whether a job is within the scope: of the client, and of the tenant if one is named.
    pub(super) fn sees(&self, job: &Job) -> bool {
        self.client.is_none_or(|client| client == job.head.client)
            && (self.tenant.is_none() || self.tenant == job.head.tenant)
    }

    /// The job, if it is within the scope. A malformed id is an unknown one (C-52).
    pub(in crate::dialects) async fn job(&self, app: &App, id: Option<JobId>) -> Result<Arc<Job>, ApiError> {
        let refused = |refusal| refusals::of_engine(app, forgerun_engine::Error::Refused(refusal));
        let id = id.ok_or_else(|| refused(Refusal::NotFound))?;
        match app.engine.store().job(id).await? {
            Some(job) if self.sees(&job) => Ok(job),
            Some(_) => Err(refused(Refusal::Foreign)),
            None => Err(refused(Refusal::NotFound)),
        }
    }

    /// Refuses a job of another tenant. Without a tenant this costs no query.
    pub(super) async fn check_tenant(&self, app: &App, id: JobId) -> Result<(), ApiError> {
        if self.tenant.is_some() {
            self.job(app, Some(id)).await?;
        }
        Ok(())
    }
}

fn tenant(headers: &HeaderMap) -> Result<Option<Name>, ApiError> {
    let Some(value) = headers.get(TENANT) else { return Ok(None) };
    let text = value.to_str().map(str::trim).unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let name = Name::new(text).filter(|_| text.len() <= TENANT_BYTES_MAX && text.bytes().all(plain));
    let detail = "The X-OJS-Tenant header must have 1 to 128 letters, digits, dots, hyphens and underscores.";
    match name {
        Some(name) => Ok(Some(name)),
        None => Err(RefusedRequest::new(Kind::MalformedRequest, detail).fact("field", "X-OJS-Tenant").into()),
    }
}
