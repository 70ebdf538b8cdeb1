//! Parses a message of a bridged queue: a new job, a returning one, or invalid.

use forgerun_core::catalog::Kind;
use forgerun_core::command::Submit;
use forgerun_core::id::JobId;
use forgerun_core::job::{Dialect, Head, Name};
use forgerun_problem::CorrelationId;
use forgerun_wire::fingerprint::fingerprint;
use forgerun_wire::ojs::amqp::{header, job_id};
use forgerun_wire::ojs::envelope::{self, Rules};
use forgerun_wire::problem::RefusedRequest;
use lapin::BasicProperties;
use lapin::types::ShortString;

use super::BridgeContext;
use super::connection::BridgeError;
use super::properties::{count, text};
use crate::config::PrivateTargets;
use crate::dialects::ojs::submission::{TERMS, from_envelope};
use crate::http::ApiError;
use crate::limits::OJS_ENVELOPE_BYTES_MAX;
use crate::submission::{self, Key, SubmissionContext, Violations};

/// Keeps message keys apart from request keys.
const OPERATION: &str = "amqp";

pub(super) enum Incoming {
    New(Box<NewMessage>),
    /// A server that knows the job published it, for this attempt.
    Returning {
        job: JobId,
        attempt: Option<u32>,
    },
    Refused(Box<RefusedRequest>),
}

/// A message that may become a job.
pub(super) struct NewMessage {
    /// The producer's id, or that of an existing job.
    pub(super) id: Option<JobId>,
    pub(super) submit: Submit,
}

impl NewMessage {
    /// The store may have written it. A repetition finds it by its id.
    pub(super) fn may_be_there(&mut self) {
        for job in &mut self.submit.jobs {
            job.id_given = true;
            self.id = Some(job.id);
        }
    }
}

impl Incoming {
    /// Parses a message of `queue`.
    pub(super) async fn read(
        context: &BridgeContext,
        queue: &Name,
        properties: &BasicProperties,
        body: &[u8],
    ) -> Result<Incoming, BridgeError> {
        let named = text(properties, header::JOB_ID);
        let named =
            named.as_deref().or(properties.message_id().as_ref().map(ShortString::as_str)).and_then(job_id);
        if let Some(job) = named.filter(|_| text(properties, header::EVENT_ID).is_some()) {
            return Ok(Incoming::Returning { job, attempt: count(properties, header::ATTEMPT) });
        }
        match read_new(context, queue, properties, body, named).await {
            Ok(new) => Ok(Incoming::New(Box::new(new))),
            Err(error) => match error.read_fault() {
                // An error of the store is not the message's fault, so the message comes again.
                Some(fault) => Err(BridgeError::NoSchemas(fault)),
                None => Ok(Incoming::Refused(Box::new(error.into_parts().0))),
            },
        }
    }
}

async fn read_new(
    context: &BridgeContext,
    queue: &Name,
    properties: &BasicProperties,
    body: &[u8],
    named: Option<JobId>,
) -> Result<NewMessage, ApiError> {
    let app = &context.app;
    if body.len() > OJS_ENVELOPE_BYTES_MAX {
        let detail = format!("The message is larger than {} KB.", OJS_ENVELOPE_BYTES_MAX / 1024);
        return Err(RefusedRequest::new(Kind::JobPayloadTooLarge, detail).into());
    }
    let now = app.clock.now();
    let rules = Rules {
        now,
        tenant: None,
        strict_catalog: app.config.ojs.strict_catalog,
        test_hooks: app.config.ojs.test_hooks,
    };
    let mut envelope = envelope::read(body, rules)?;
    envelope.id = envelope.id.or(named);
    // The broker's queue counts, whatever the envelope says.
    envelope.queue = Some(queue.clone());
    let id = envelope.id;
    let message_id = properties.message_id().as_ref().map(|id| id.as_str().to_owned());
    let key = text(properties, header::IDEMPOTENCY_KEY).or_else(|| message_id.filter(|_| id.is_none()));
    let trace =
        text(properties, header::TRACE_ID).filter(|trace| CorrelationId::from_traceparent(trace).is_some());
    let correlation =
        properties.correlation_id().as_ref().and_then(|id| CorrelationId::sanitize(id.as_str()));
    let correlation = trace.as_deref().and_then(CorrelationId::from_traceparent).or(correlation);
    let head = Head {
        dialect: Dialect::Ojs,
        correlation_id: correlation.map(|id| id.as_str().to_owned()),
        traceparent: trace,
        ..Head::new(context.owner.client, queue.clone(), now)
    };
    let submission = from_envelope(app, &context.owner, envelope, head)?;
    let context = SubmissionContext { key: key.as_deref(), bytes: 0, private: PrivateTargets::Deny };
    let checked = submission.check(app, &TERMS, context, Violations::default()).await?;
    let key = match key.as_deref() {
        Some(key) => Some(Key { operation: OPERATION, key, fingerprint: fingerprint(body)? }),
        None => None,
    };
    Ok(NewMessage { id, submit: submission::command(app, vec![checked], key) })
}
