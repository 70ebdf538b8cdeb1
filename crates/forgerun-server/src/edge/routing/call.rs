//! What a handler gets: a request that has passed all checks that routes share.

use std::borrow::Cow;
use std::str::FromStr;

use bytes::Bytes;
use forgerun_core::id::{ClientId, ExecutionId, JobId};
use forgerun_core::job::Head;

use super::table::decoded;
use crate::app::App;
use crate::edge::{Caller, Exchange, Who};

/// A request that has passed all checks that routes share.
pub struct Call<'a> {
    pub app: &'a App,
    /// The request, and what was learned of it.
    pub exchange: &'a Exchange,
    pub who: Who,
    /// The body; empty for a GET, and for a handler that reads it itself.
    pub body: Bytes,
}

impl Call<'_> {
    /// The client that asks. Only for routes that let nobody else in.
    pub fn caller(&self) -> &Caller {
        self.client().expect("the route is for clients")
    }

    /// The client that asks; `None` if it is somebody else.
    pub fn client(&self) -> Option<&Caller> {
        match &self.who {
            Who::Client(caller) => Some(caller),
            Who::Operator | Who::Nobody => None,
        }
    }

    /// The job of the path. An id that is none is an id of nothing (C-52).
    pub fn job(&self) -> Option<JobId> {
        self.exchange.subject
    }

    /// The execution of the path, where paths name executions (C-14).
    pub fn execution(&self) -> Option<ExecutionId> {
        self.job().map(|id| ExecutionId::from_u128(id.as_u128()))
    }

    /// The head of a job that is submitted for a client by this request: what the request says of
    /// it beside its body, everything else at its default. `correlation_id` is that of the body.
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

    /// Another id of the path; `None` if it is none.
    pub fn id<T: FromStr>(&self, parameter: &str) -> Option<T> {
        self.text(parameter).parse().ok()
    }

    /// A parameter of the path, decoded. Bytes that are no text are shown as such; no name of ours
    /// has them.
    pub fn text(&self, parameter: &str) -> Cow<'_, str> {
        decoded(self.exchange.parameter(parameter).expect("the path of the route has this parameter"))
    }
}
