//! `StreamEvents`: events of the caller's jobs, from the hub that feeds all streams. Best effort,
//! as the binding defines it: a client that needs every event reads `/ojs/v1/events`, which can
//! continue from the last one.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use forgerun_core::catalog::Kind;
use forgerun_core::id::JobId;
use forgerun_core::job::{Job, Name};
use forgerun_core::limits::CLAIM_QUEUES_MAX;
use forgerun_core::time::Time;
use forgerun_engine::Error;
use forgerun_wire::body::{self, violation};
use forgerun_wire::grpc::{event, v1};
use forgerun_wire::ojs::state::EVENT_NAMES;
use forgerun_wire::problem::RefusedRequest;
use tonic::Status;

use super::call::late;
use super::feed::MessageFeed;
use crate::app::App;
use crate::auth::{Caller, caller as auth};
use crate::dialects::ojs::events::is_event_name;
use crate::dialects::ojs::scope::Scope;
use crate::events::sse::{self, EventLine, StreamPermit, Subscription, Topic};
use crate::http::{ApiError, queue_name, routing::Call};
use crate::limits::{KEY_FRESH, STREAM_EVENT_TYPES_MAX, STREAMS_FULL_AFTER_S};

pub(super) struct EventFeed {
    app: Arc<App>,
    caller: Caller,
    request_id: Box<str>,
    filter: EventFilter,
    /// Messages of the current event that are not sent yet.
    rest: VecDeque<v1::Event>,
    subscription: Subscription,
    check: Pin<Box<dyn Future<Output = ()> + Send>>,
    beat_at: Time,
    permit: StreamPermit,
}

/// The subscribed events; empty fields match all.
struct EventFilter {
    queues: Vec<Name>,
    types: Vec<String>,
    tenant: Option<Name>,
    /// Events of this workflow and its steps; all if `None`.
    workflow: Option<JobId>,
}

impl EventFilter {
    fn takes(&self, job: &Job) -> bool {
        (self.queues.is_empty() || self.queues.contains(&job.head.queue))
            && (self.tenant.is_none() || self.tenant == job.head.tenant)
            && self.workflow.is_none_or(|workflow| {
                job.id == workflow || job.head.workflow.is_some_and(|step| step.workflow == workflow)
            })
    }

    fn takes_name(&self, name: &str) -> bool {
        self.types.is_empty() || self.types.iter().any(|wanted| wanted == name)
    }
}

/// Opens a stream of events.
pub(super) async fn open(call: Call<'_>, message: v1::StreamEventsRequest) -> Result<EventFeed, ApiError> {
    let (app, scope, caller) = (call.app, Scope::of(&call)?, call.caller());
    let filter = EventFilter {
        queues: queues(message.queues)?,
        types: types(message.event_types)?,
        tenant: scope.tenant.clone(),
        workflow: match message.workflow_id.as_str() {
            "" => None,
            id => Some(scope.job(app, id.parse().ok()).await?.id),
        },
    };
    let topic = match message.job_id.as_str() {
        "" => Topic::Client(caller.client),
        id => Topic::Job(scope.job(app, id.parse().ok()).await?.id),
    };
    let permit = sse::admit(app, call.exchange, caller)?;
    let subscription = permit.subscribe(topic).await?;
    let now = app.clock.now();
    Ok(EventFeed {
        app: app.shared(),
        caller: caller.clone(),
        request_id: call.exchange.request_id().into(),
        filter,
        rest: VecDeque::new(),
        subscription,
        check: app.clock.sleep(app.bounds.stream_heartbeat.min(KEY_FRESH)),
        beat_at: now + app.bounds.stream_heartbeat,
        permit,
    })
}

fn queues(mut queues: Vec<String>) -> Result<Vec<Name>, ApiError> {
    if queues.len() > CLAIM_QUEUES_MAX {
        let detail = format!("must have at most {CLAIM_QUEUES_MAX} entries");
        let violations = vec![violation("queues", &detail, "maxItems")];
        return Err(body::refused(Kind::MalformedRequest, violations, &[]).into());
    }
    queues.sort_unstable();
    queues.dedup();
    queues.iter().map(|name| queue_name(name)).collect()
}

fn types(types: Vec<String>) -> Result<Vec<String>, ApiError> {
    let refused = |detail: &str, constraint| {
        let violations = vec![violation("event_types", detail, constraint)];
        Err(body::refused(Kind::MalformedRequest, violations, &[]).into())
    };
    if types.len() > STREAM_EVENT_TYPES_MAX {
        return refused(&format!("must have at most {STREAM_EVENT_TYPES_MAX} entries"), "maxItems");
    }
    match types.iter().all(|name| is_event_name(name)) {
        true => Ok(types),
        false => refused(&format!("must be of {}", EVENT_NAMES.join(", ")), "enum"),
    }
}

impl MessageFeed for EventFeed {
    type Message = v1::Event;

    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` would hold the feed twice, in every open stream"
    )]
    fn next(mut self) -> impl Future<Output = Option<(Result<v1::Event, Status>, EventFeed)>> + Send {
        async move {
            loop {
                if let Some(event) = self.rest.pop_front() {
                    return Some((Ok(event), self));
                }
                let EventFeed { check, subscription, permit, .. } = &mut self;
                // The key first, or on a busy stream it would never be rechecked.
                let heard = tokio::select! {
                    biased;
                    // Its sender lives as long as the permit.
                    _ = permit.keys.changed() => None,
                    () = check.as_mut() => None,
                    line = subscription.next() => Some(line),
                };
                let error = match heard {
                    Some(Some(line)) => match Box::pin(self.receive(&line)).await {
                        Ok(()) => continue,
                        Err(error) => error,
                    },
                    Some(None) => self.ended(),
                    None if Box::pin(auth::is_good(&self.app, &self.caller)).await => {
                        let now = self.app.clock.now();
                        self.check = self.app.clock.sleep(self.app.bounds.stream_heartbeat.min(KEY_FRESH));
                        if now < self.beat_at {
                            continue;
                        }
                        self.beat_at = now + self.app.bounds.stream_heartbeat;
                        return Some((Ok(event::keepalive(now)), self));
                    }
                    None => auth::unauthenticated("The API key is not good any more."),
                };
                let status = late(&self.app, &self.request_id, error);
                return Some((Err(status), self));
            }
        }
    }
}

impl EventFeed {
    /// Queues the messages for an event.
    async fn receive(&mut self, line: &EventLine) -> Result<(), ApiError> {
        let Some((job, event)) = line.job.as_deref().zip(line.event.as_ref()) else { return Ok(()) };
        if !self.filter.takes(job) {
            return Ok(());
        }
        let told = event::messages(event, job).into_iter();
        self.rest.extend(told.filter(|told| self.filter.takes_name(&told.r#type)));
        // The final event carries the outcome.
        if let (Some(last), Some(execution)) = (self.rest.back_mut(), job.execution_ended(event)) {
            let outcome = self.app.engine.store().outcome(execution).await?;
            let failed = last.r#type != "job.completed";
            last.failure =
                outcome.filter(|_| failed).map(|outcome| outcome.object.bytes.clone()).unwrap_or_default();
        }
        Ok(())
    }

    fn ended(&self) -> ApiError {
        if self.app.is_stopping() {
            return Error::Stopped.into();
        }
        let detail = "More happened than the stream took; open it again.";
        RefusedRequest::new(Kind::RateLimited, detail).retry_after(STREAMS_FULL_AFTER_S).into()
    }
}
