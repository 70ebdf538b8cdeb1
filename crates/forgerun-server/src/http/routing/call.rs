//! The argument of handlers: a request that has passed the common checks.

use std::borrow::Cow;
use std::str::FromStr;

use bytes::Bytes;
use forgerun_core::id::{ClientId, ExecutionId, JobId};
use forgerun_core::job::Head;

use super::table::decoded;
use crate::app::App;
use crate::auth::{Caller, OperatorRole, Who};
use crate::http::{ApiError, Exchange, query::QueryString};

/// A request that has passed the common checks.
pub struct Call<'a> {
    pub app: &'a App,
    pub exchange: &'a Exchange,
    pub who: Who,
    /// The body; empty for a GET, and for a handler that reads it itself.
    pub body: Bytes,
}

impl Call<'_> {
    /// The client. Only for routes that require one.
    pub fn caller(&self) -> &Caller {
        self.client().expect("the route is for clients")
    }

    /// The client; `None` for other callers.
    pub fn client(&self) -> Option<&Caller> {
        match &self.who {
            Who::Client(caller) => Some(caller),
            Who::Operator(_) | Who::Anonymous => None,
        }
    }

    /// Whether the caller is an operator with this role or a higher one.
    pub(crate) fn may(&self, role: OperatorRole) -> bool {
        matches!(&self.who, Who::Operator(operator) if operator.role >= role)
    }

    /// Whether this operator sees payloads, results and logs.
    pub(crate) fn sees_contents(&self) -> bool {
        self.app.config.auth.viewers_see_payloads || self.may(OperatorRole::Operator)
    }

    /// The job id in the path. `None` if it is malformed; answered like an unknown id, with 404
    /// (C-52).
    pub fn job(&self) -> Option<JobId> {
        self.exchange.subject
    }

    /// The execution id in the path, for paths of executions (C-14).
    pub fn execution(&self) -> Option<ExecutionId> {
        self.job().map(|id| ExecutionId::from_u128(id.as_u128()))
    }

    /// The head of a job that this request submits for a client: the values of its headers, and
    /// defaults. `correlation_id` is that of the body.
    pub fn head(&self, client: ClientId, correlation_id: Option<&str>) -> Head {
        let (traceparent, tracestate) = self.exchange.trace_context();
        let correlation_id = self.exchange.correlation(correlation_id);
        Head {
            dialect: self.exchange.dialect,
            correlation_id: correlation_id.map(|id| id.as_str().to_owned()),
            traceparent,
            tracestate,
            language: self.exchange.language().stored(),
            ..Head::new(client, self.app.default_queue.clone(), self.app.clock.now())
        }
    }

    /// The query, with the parameters that the route has.
    pub(crate) fn query(&self) -> Result<QueryString, ApiError> {
        QueryString::of_route(self.exchange)
    }

    /// Another id of the path; `None` if it is none.
    pub fn id<T: FromStr>(&self, parameter: &str) -> Option<T> {
        self.text(parameter).parse().ok()
    }

    /// A decoded path parameter. Bytes that are not text are replaced; our names do not contain
    /// them.
    pub fn text(&self, parameter: &str) -> Cow<'_, str> {
        decoded(self.exchange.parameter(parameter).expect("the path of the route has this parameter"))
    }
}
