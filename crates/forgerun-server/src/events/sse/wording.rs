//! The form of a stream's events: ForgeRun's, serialised once for all subscribers, or OJS's, made
//! per stream.

use bytes::Bytes;
use forgerun_core::job::{Job, Name};
use forgerun_wire::ojs::event::events;

use super::printer;
use super::subscribers::EventLine;

/// The form and filter of a stream.
pub(crate) struct EventWording(Option<Box<OjsStream>>);

/// A stream of OJS events.
#[derive(Default)]
struct OjsStream {
    queue: Option<Name>,
    tenant: Option<Name>,
}

impl EventWording {
    pub(crate) const fn forge() -> EventWording {
        EventWording(None)
    }

    pub(crate) fn ojs() -> EventWording {
        EventWording::ojs_of(None, None)
    }

    /// OJS events of one queue or tenant.
    pub(crate) fn ojs_of(queue: Option<Name>, tenant: Option<Name>) -> EventWording {
        EventWording(Some(Box::new(OjsStream { queue, tenant })))
    }

    /// The bytes of an event; `None` if it is filtered out.
    pub(super) fn told(&self, line: &EventLine) -> Option<Bytes> {
        match &self.0 {
            None => Some(line.bytes.clone()),
            Some(ojs) => ojs.told(line),
        }
    }
}

impl OjsStream {
    fn told(&self, line: &EventLine) -> Option<Bytes> {
        let (job, event) = line.job.as_deref().zip(line.event.as_ref()).filter(|(job, _)| self.wants(job))?;
        let told = events(event, job);
        let n_last = told.len().checked_sub(1)?;
        let mut out = Vec::new();
        for (n, event) in told.into_iter().enumerate() {
            // Only the last one has an id to resume from: after an interruption the client gets all
            // of them again.
            let id = (n == n_last).then_some(event.id.as_str());
            out.extend_from_slice(&printer::lines(event.name, id, event.body.to_string().as_bytes()));
        }
        Some(out.into())
    }

    fn wants(&self, job: &Job) -> bool {
        let matches =
            |wanted: &Option<Name>, of_job: Option<&Name>| wanted.is_none() || wanted.as_ref() == of_job;
        matches(&self.queue, Some(&job.head.queue)) && matches(&self.tenant, job.head.tenant.as_ref())
    }
}
