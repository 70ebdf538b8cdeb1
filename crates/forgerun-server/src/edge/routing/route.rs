//! One route: a method at a path, what a request for it must bring, and who answers.
//!
//! A route stands next to its handler, as a constant:
//!
//! ```ignore
//! pub(super) const ROUTES: &[Route] =
//!     &[Route::post("/v1/jobs/{job_id}/cancel", "cancel", |call| Box::pin(cancel(call)))];
//!
//! async fn cancel(call: Call<'_>) -> Result<Response, ApiError> { … }
//! ```
//!
//! Without another word it is for clients, is counted against their rate, answers JSON, and takes a
//! JSON body of at most `limits.max_body_bytes`, without members, unless it is a GET.

use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use axum::response::Response;

use super::Call;
use crate::app::App;
use crate::config::Limits;
use crate::edge::{ApiError, Exchange, Who};

/// What a handler returns. Boxed, so that a request takes the memory of its own handler and not of
/// the largest one.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Response, ApiError>> + Send + 'a>>;

/// Finds out who asks, where a route has a rule of its own.
pub type AccessCheck =
    for<'a> fn(&'a App, &'a mut Exchange) -> Pin<Box<dyn Future<Output = Result<Who, ApiError>> + Send + 'a>>;

/// A method that routes have. `HEAD` goes wherever `GET` goes. In the order in which `Allow` lists
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Get,
    /// Makes something, or does something.
    Post,
    Put,
    Patch,
    Delete,
}

impl Verb {
    /// The word in a request.
    pub const fn word(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Put => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
        }
    }

    /// Whether a request with this method is meant.
    pub fn serves(self, method: &Method) -> bool {
        method == self.word() || (self == Verb::Get && method == Method::HEAD)
    }
}

#[derive(Clone, Copy)]
pub enum RouteAccess {
    /// Anybody; credentials are not looked at.
    Anyone,
    /// Anybody; credentials that are shown must be good.
    Optional,
    Client,
    /// A client, or the operator for all of them.
    ClientOrOperator,
    Operator,
    /// By a rule of the route's own.
    Own(AccessCheck),
}

/// Which limit a request of a client is counted against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateCount {
    /// `limits.rate_per_minute`, and the quota.
    Requests,
    /// `limits.worker_rate_per_minute`: workers call often (C-99).
    WorkerCalls,
    /// None.
    Uncounted,
}

/// What the answer is, as far as it is known beforehand: whoever would not read it is refused
/// before anything is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// A body in a media type of the API.
    Body,
    /// The same, or a stream of events for whoever asks for one.
    BodyOrEvents,
    /// The same, or the failure object of a job that ended badly, as a problem. Which of them is
    /// known when the job is.
    BodyOrFailure,
    /// In a type that only the handler knows.
    Any,
}

/// Who answers, and what it makes of the body.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Gets the body whole. A GET has none.
    Whole(for<'a> fn(Call<'a>) -> Answering<'a>),
    /// Reads the body itself as it comes, and keeps to bounds of its own.
    Streaming(for<'a> fn(Call<'a>, Body) -> Answering<'a>),
}

#[derive(Clone, Copy)]
pub struct Route {
    pub verb: Verb,
    /// The whole path, with parameters in braces, as the OpenAPI document, logs and metrics have
    /// it.
    pub path: &'static str,
    /// What a request wants done, in one word for logs and traces.
    pub action: &'static str,
    pub access: RouteAccess,
    /// What a request counts against.
    pub rate: RateCount,
    /// What the answer will be.
    pub answers: Answers,
    /// The members that a body read whole may have; others are refused unless the operator or the
    /// API ignores them (C-112).
    pub members: &'static [&'static str],
    /// Whether its handler refuses them while it reads, so that nobody has to look before.
    pub is_strict: bool,
    /// Whether what it changes has an `ETag`; its handler then looks at `If-Match`.
    pub is_tagged: bool,
    /// How large a body may be that is read whole.
    pub body_max: fn(&Limits) -> usize,
    /// How long it may take, where the usual span is not right.
    pub timeout: Option<Duration>,
    pub handler: Handler,
}

type Whole = for<'a> fn(Call<'a>) -> Answering<'a>;

impl Route {
    const fn new(verb: Verb, path: &'static str, action: &'static str, handler: Handler) -> Route {
        Route {
            verb,
            path,
            action,
            access: RouteAccess::Client,
            rate: RateCount::Requests,
            answers: Answers::Body,
            members: &[],
            is_strict: false,
            is_tagged: false,
            body_max: |limits| limits.max_body_bytes,
            timeout: None,
            handler,
        }
    }

    /// `GET`, and with it `HEAD`.
    pub const fn get(path: &'static str, action: &'static str, handler: Whole) -> Route {
        Route::new(Verb::Get, path, action, Handler::Whole(handler))
    }

    /// `POST`.
    pub const fn post(path: &'static str, action: &'static str, handler: Whole) -> Route {
        Route::new(Verb::Post, path, action, Handler::Whole(handler))
    }

    /// `PUT`.
    pub const fn put(path: &'static str, action: &'static str, handler: Whole) -> Route {
        Route::new(Verb::Put, path, action, Handler::Whole(handler))
    }

    /// `PATCH`.
    pub const fn patch(path: &'static str, action: &'static str, handler: Whole) -> Route {
        Route::new(Verb::Patch, path, action, Handler::Whole(handler))
    }

    /// `DELETE`.
    pub const fn delete(path: &'static str, action: &'static str, handler: Whole) -> Route {
        Route::new(Verb::Delete, path, action, Handler::Whole(handler))
    }

    /// A route whose handler reads the body as it comes; `timeout` bounds the whole request.
    pub const fn streaming(
        verb: Verb,
        path: &'static str,
        action: &'static str,
        timeout: Duration,
        handler: for<'a> fn(Call<'a>, Body) -> Answering<'a>,
    ) -> Route {
        Route { timeout: Some(timeout), ..Route::new(verb, path, action, Handler::Streaming(handler)) }
    }

    /// For somebody else than clients.
    pub const fn access(self, access: RouteAccess) -> Route {
        Route { access, ..self }
    }

    pub const fn rate(self, rate: RateCount) -> Route {
        Route { rate, ..self }
    }

    /// Answers with something else than the API's own bodies.
    pub const fn answers(self, answers: Answers) -> Route {
        Route { answers, ..self }
    }

    /// Takes a body with these members.
    pub const fn members(self, members: &'static [&'static str]) -> Route {
        Route { members, ..self }
    }

    pub const fn strict(self) -> Route {
        Route { is_strict: true, ..self }
    }

    /// Changes something that has an `ETag`.
    pub const fn tagged(self) -> Route {
        Route { is_tagged: true, ..self }
    }

    /// Takes another size of body.
    pub const fn body_max(self, body_max: fn(&Limits) -> usize) -> Route {
        Route { body_max, ..self }
    }
}
