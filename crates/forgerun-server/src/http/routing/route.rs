//! One route: method, path, requirements, and handler.
//!
//! A route stands next to its handler, as a constant:
//!
//! ```text
//! pub(super) const ROUTES: &[Route] =
//!     &[Route::post("/v1/jobs/{job_id}/cancel", "cancel", |call| Box::pin(cancel(call)))
//!         .operation("cancelJob", "Cancel a job that has not ended.")
//!         .replies(&[Reply::json::<CanceledView>(200, "Cancelled, or ended before.")])];
//!
//! async fn cancel(call: Call<'_>) -> Result<Response, ApiError> { … }
//! ```
//!
//! By default a route is for clients, counts against their rate limit, answers JSON, and, unless it
//! is a GET, accepts a JSON body of at most `limits.max_body_bytes`, without members.

use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::scope::{KeyScope, KeyScopes};
use forgerun_wire::request::RequestBody;

use super::Call;
use super::operation::{Operation, Parameter, Reply};
use crate::app::App;
use crate::auth::{OperatorRole, Who};
use crate::config::{Auth, Limits};
use crate::http::{ApiError, Exchange};

/// Boxed, so that a request uses the memory of its own handler and not of the largest one.
pub(crate) type Answering<'a> = Pin<Box<dyn Future<Output = Result<Response, ApiError>> + Send + 'a>>;

/// Authenticates the caller of a route with a rule of its own.
pub(crate) type AccessCheck =
    for<'a> fn(&'a App, &'a mut Exchange) -> Pin<Box<dyn Future<Output = Result<Who, ApiError>> + Send + 'a>>;

/// The methods of routes, in the order of `Allow`. `HEAD` is served wherever `GET` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Get,
    /// Creates something, or runs an action.
    Post,
    Put,
    Patch,
    Delete,
}

impl Verb {
    /// The method's name.
    pub const fn word(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Put => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
        }
    }

    pub fn serves(self, method: &Method) -> bool {
        method == self.word() || (self == Verb::Get && method == Method::HEAD)
    }
}

#[derive(Clone, Copy)]
pub enum RouteAccess {
    /// Any caller; credentials are ignored.
    Anyone,
    /// Any caller; credentials, if sent, must be valid.
    Optional,
    Client,
    /// A client, or the operator for all of them.
    ClientOrOperator,
    Operator,
    /// By a rule of the route's own, and who passes by it.
    Own(AccessCheck, Callers),
}

impl RouteAccess {
    /// Who may ask, as the OpenAPI document says it.
    pub const fn callers(self) -> Callers {
        match self {
            RouteAccess::Anyone => Callers::Anyone,
            RouteAccess::Optional => Callers::AnyoneOrOperator,
            RouteAccess::Client => Callers::Client,
            RouteAccess::ClientOrOperator => Callers::ClientOrOperator,
            RouteAccess::Operator => Callers::Operator,
            RouteAccess::Own(_, callers) => callers,
        }
    }
}

/// Who may ask, as the OpenAPI document says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// Every caller, with or without a key.
    Anyone,
    /// Every caller, or only the operator if so configured.
    AnyoneOrOperator,
    /// A client with a key; for its first key, every caller.
    FirstKey,
    /// A client, or the operator.
    ClientOrOperator,
    /// A client.
    Client,
    /// The operator.
    Operator,
}

/// The limit that a client's request counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateCount {
    /// `limits.rate_per_minute`, and the quota.
    Requests,
    /// `limits.worker_rate_per_minute`: workers call often (C-99).
    WorkerCalls,
    /// No limit.
    Uncounted,
}

/// The kind of answer: a client that does not accept it is refused before anything is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// A body in a media type of the API.
    Body,
    /// The same, or a stream of events if requested.
    BodyOrEvents,
    /// The same, or the failure object of a failed job, as a problem. Which one is known once the
    /// job is loaded.
    BodyOrFailure,
    /// A type that only the handler knows.
    Any,
}

/// The handler, and how it gets the body.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Gets the whole body. A GET has none.
    Whole(for<'a> fn(Call<'a>) -> Answering<'a>),
    /// Reads the body itself, within bounds of its own.
    Streaming(for<'a> fn(Call<'a>, Body) -> Answering<'a>),
}

#[derive(Clone, Copy)]
pub struct Route {
    pub verb: Verb,
    /// The path with parameters in braces, as in the OpenAPI document, logs and metrics.
    pub path: &'static str,
    /// The action in one word, for logs and traces.
    pub action: &'static str,
    pub access: RouteAccess,
    /// What a client's key must be allowed to do. Not checked for other callers.
    pub scopes: KeyScopes,
    /// The role that an operator needs. Without one, only admins may call it.
    pub role: Option<OperatorRole>,
    /// Whether it shows payloads, results or logs.
    pub shows_contents: bool,
    /// The limit that it counts against.
    pub rate: RateCount,
    /// The kind of answer.
    pub answers: Answers,
    /// The members of a whole body; others are refused unless the operator or the API ignores them
    /// (C-112).
    pub members: &'static [&'static str],
    /// Whether its handler refuses unknown members itself, so that no check is needed before.
    pub is_strict: bool,
    /// Whether its resource has an `ETag`; its handler then checks `If-Match`.
    pub is_tagged: bool,
    /// Size limit of a whole body.
    pub body_max: fn(&Limits) -> usize,
    /// Whether its access check proves that an anonymous caller may send a whole body.
    pub takes_body_of_bearer: bool,
    /// Timeout, if not the default.
    pub timeout: Option<Duration>,
    pub handler: Handler,
    /// What the OpenAPI document says of it.
    pub operation: Operation,
}

type Whole = for<'a> fn(Call<'a>) -> Answering<'a>;

impl Route {
    const fn new(verb: Verb, path: &'static str, action: &'static str, handler: Handler) -> Route {
        Route {
            verb,
            path,
            action,
            access: RouteAccess::Client,
            scopes: match verb {
                Verb::Get => KeyScopes::NONE.with(KeyScope::Read),
                Verb::Post | Verb::Put | Verb::Patch | Verb::Delete => KeyScopes::NONE,
            },
            role: None,
            shows_contents: false,
            rate: RateCount::Requests,
            answers: Answers::Body,
            members: &[],
            is_strict: false,
            is_tagged: false,
            body_max: |limits| limits.max_body_bytes,
            takes_body_of_bearer: false,
            timeout: None,
            handler,
            operation: Operation::NONE,
        }
    }

    /// `GET`, including `HEAD`.
    pub const fn get(path: &'static str, action: &'static str, handler: Whole) -> Route {
        Route::new(Verb::Get, path, action, Handler::Whole(handler))
    }

    pub const fn post(path: &'static str, action: &'static str, handler: Whole) -> Route {
        Route::new(Verb::Post, path, action, Handler::Whole(handler))
    }

    pub const fn put(path: &'static str, action: &'static str, handler: Whole) -> Route {
        Route::new(Verb::Put, path, action, Handler::Whole(handler))
    }

    pub const fn patch(path: &'static str, action: &'static str, handler: Whole) -> Route {
        Route::new(Verb::Patch, path, action, Handler::Whole(handler))
    }

    pub const fn delete(path: &'static str, action: &'static str, handler: Whole) -> Route {
        Route::new(Verb::Delete, path, action, Handler::Whole(handler))
    }

    /// A route whose handler streams the body; `timeout` limits the whole request.
    pub const fn streaming(
        verb: Verb,
        path: &'static str,
        action: &'static str,
        timeout: Duration,
        handler: for<'a> fn(Call<'a>, Body) -> Answering<'a>,
    ) -> Route {
        Route { timeout: Some(timeout), ..Route::new(verb, path, action, Handler::Streaming(handler)) }
    }

    /// Sets who may call it.
    pub const fn access(self, access: RouteAccess) -> Route {
        Route { access, ..self }
    }

    /// Is for operators with this role or a higher one.
    pub const fn role(self, role: OperatorRole) -> Route {
        Route { access: RouteAccess::Operator, role: Some(role), ..self }
    }

    /// Shows payloads, results or logs.
    pub const fn contents(self) -> Route {
        Route { shows_contents: true, ..self }
    }

    /// The role that an operator needs with this configuration.
    pub(crate) fn role_needed(&self, auth: &Auth) -> OperatorRole {
        let role = self.role.unwrap_or(OperatorRole::Admin);
        if self.shows_contents && !auth.viewers_see_payloads {
            role.max(OperatorRole::Operator)
        } else {
            role
        }
    }

    /// The scope that a client's key needs. A `GET` needs `read` by default; all others name
    /// theirs.
    pub const fn scope(self, scope: KeyScope) -> Route {
        Route { scopes: KeyScopes::NONE.with(scope), ..self }
    }

    /// A further scope that a client's key needs.
    pub const fn and_scope(self, scope: KeyScope) -> Route {
        Route { scopes: self.scopes.with(scope), ..self }
    }

    pub const fn rate(self, rate: RateCount) -> Route {
        Route { rate, ..self }
    }

    /// Sets the kind of answer.
    pub const fn answers(self, answers: Answers) -> Route {
        Route { answers, ..self }
    }

    /// What generated clients call it, and what it does.
    pub const fn operation(self, id: &'static str, summary: &'static str) -> Route {
        Route { operation: Operation { id, summary, ..self.operation }, ..self }
    }

    /// Takes these parameters in the query.
    pub const fn query(self, query: &'static [Parameter]) -> Route {
        Route { operation: Operation { query, ..self.operation }, ..self }
    }

    /// Looks at these header fields.
    pub const fn headers(self, headers: &'static [Parameter]) -> Route {
        Route { operation: Operation { headers, ..self.operation }, ..self }
    }

    /// Takes a body, which must be there.
    pub const fn body(self, body: &'static RequestBody) -> Route {
        let operation = Operation { body: Some((body, true)), ..self.operation };
        Route { members: body.members, operation, ..self }
    }

    /// Takes a body, which may be left out.
    pub const fn optional_body(self, body: &'static RequestBody) -> Route {
        let operation = Operation { body: Some((body, false)), ..self.operation };
        Route { members: body.members, operation, ..self }
    }

    /// Answers like this unless it refuses.
    pub const fn replies(self, replies: &'static [Reply]) -> Route {
        Route { operation: Operation { replies, ..self.operation }, ..self }
    }

    /// Refuses for these reasons, beside those that follow from what it is.
    pub const fn refuses(self, refusals: &'static [Kind]) -> Route {
        Route { operation: Operation { refusals, ..self.operation }, ..self }
    }

    /// A job token of the job in its path may read it.
    pub const fn job_token(self) -> Route {
        Route { operation: Operation { job_token: true, ..self.operation }, ..self }
    }

    pub const fn strict(self) -> Route {
        Route { is_strict: true, ..self }
    }

    /// Its resource has an `ETag`.
    pub const fn tagged(self) -> Route {
        Route { is_tagged: true, ..self }
    }

    /// Takes whole bodies of anonymous callers, whose token its access check has seen.
    pub const fn body_of_bearer(self) -> Route {
        Route { takes_body_of_bearer: true, ..self }
    }

    /// Sets the size limit of the body.
    pub const fn body_max(self, body_max: fn(&Limits) -> usize) -> Route {
        Route { body_max, ..self }
    }
}
