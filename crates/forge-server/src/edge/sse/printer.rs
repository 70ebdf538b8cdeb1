//! From events of the journal to the lines that are sent. A job is looked up once per printer, which therefore must not
//! outlive the page of the journal it was made for: what is in the journal is in the job.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use forge_core::history::{Event, JournalEntry, JournalSubject};
use forge_core::id::JobId;
use forge_core::job::Job;
use forge_store::{Error, Store};
use forge_wire::event::EventBody;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::subscribers::EventLine;
use crate::limits::STREAM_LOOKUPS_MAX;

pub(super) struct Printer<'a> {
    store: &'a dyn Store,
    jobs: HashMap<JobId, Option<Arc<Job>>>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(store: &'a dyn Store) -> Printer<'a> {
        Printer { store, jobs: HashMap::new() }
    }

    /// The lines of each event; `None` where its job is forgotten. Being dropped loses nothing.
    ///
    /// Several lookups are under way at once: a store far away answers them together, and one after the other they would be slower than
    /// what happens.
    pub(super) async fn print(&mut self, entries: &[JournalEntry]) -> Result<Vec<Option<EventLine>>, Error> {
        let store = self.store;
        let unknown: BTreeSet<JobId> =
            entries.iter().filter_map(job_of).filter(|id| !self.jobs.contains_key(id)).collect();
        let looking = unknown.into_iter().map(|id| async move { Ok::<_, Error>((id, store.job(id).await?)) });
        let found: Vec<_> = stream::iter(looking).buffer_unordered(STREAM_LOOKUPS_MAX).try_collect().await?;
        self.jobs.extend(found);
        let printing = entries.iter().copied().map(|entry| self.print_one(entry));
        stream::iter(printing).buffered(STREAM_LOOKUPS_MAX).try_collect().await
    }

    async fn print_one(&self, entry: JournalEntry) -> Result<Option<EventLine>, Error> {
        let (id, event) = match &entry.about {
            JournalSubject::Job { job, event } => (*job, *event),
            JournalSubject::Webhook(notice) => {
                let EventBody { word, bytes, .. } = EventBody::of_notice(notice);
                return Ok(Some(EventLine {
                    event: None,
                    job: None,
                    bytes: lines(word.sse(), Some(entry.id()), &bytes),
                }));
            }
        };
        match self.jobs.get(&id) {
            Some(Some(job)) => Ok(Some(line(self.store, job, event).await?)),
            Some(None) | None => Ok(None),
        }
    }
}

/// The job that an event is about.
fn job_of(entry: &JournalEntry) -> Option<JobId> {
    match &entry.about {
        JournalSubject::Job { job, .. } => Some(*job),
        JournalSubject::Webhook(_) => None,
    }
}

/// The lines of an event of a job.
pub(super) async fn line(store: &dyn Store, job: &Arc<Job>, event: Event) -> Result<EventLine, Error> {
    let outcome = match job.execution_ended(&event) {
        Some(execution) => store.outcome(execution).await?,
        None => None,
    };
    let body = EventBody::new(job, &event, outcome.as_ref().map(|outcome| &outcome.object));
    Ok(EventLine {
        event: Some(event),
        job: Some(job.clone()),
        bytes: lines(body.word.sse(), Some(event.id(job.id)), &body.bytes),
    })
}

/// An event as the HTML standard writes it: its fields line by line, and an empty line.
pub(super) fn lines(name: &str, id: Option<impl Display>, data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(data.len() + 96);
    out.extend_from_slice(format!("event: {name}\n").as_bytes());
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    // A reader ends a line at CR, LF and both together. Our own bodies are one line; one that is not becomes several.
    for line in data.split(|byte| matches!(byte, b'\n' | b'\r')) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forge_core::id::EventId;

    #[test]
    fn data_of_several_lines_becomes_several_fields() {
        let printed = lines("job-failed", Some(EventId::of(JobId::v7(0, 0), 1, 0)), b"{\"a\":\n1}");
        let expected =
            "event: job-failed\nid: 00000000-0000-7001-8000-000000000000\ndata: {\"a\":\ndata: 1}\n\n";
        assert_eq!(printed, expected);
        assert_eq!(lines("reset", None::<EventId>, b"{}"), "event: reset\ndata: {}\n\n");
    }
}
