//! Serialises journal events. Each job is loaded once per printer, which must not outlive its page
//! of the journal: all events of the page are in the job.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use forgerun_core::history::{Event, JournalEntry, JournalSubject};
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_store::{Error, Store};
use forgerun_wire::event::EventBody;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::subscribers::EventLine;
use crate::limits::STREAM_LOOKUPS_MAX;

pub(super) struct Printer<'a> {
    store: &'a dyn Store,
    jobs: HashMap<JobId, Arc<Job>>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(store: &'a dyn Store) -> Printer<'a> {
        Printer { store, jobs: HashMap::new() }
    }

    /// The lines of each event; `None` if its job is deleted or unreadable. Cancel-safe.
    ///
    /// Jobs are loaded together: one by one would be slower than new events, on a distant store.
    pub(super) async fn print(&mut self, entries: &[JournalEntry]) -> Result<Vec<Option<EventLine>>, Error> {
        self.look_up(entries).await?;
        let printing = entries.iter().copied().map(|entry| self.print_one(entry));
        stream::iter(printing).buffered(STREAM_LOOKUPS_MAX).try_collect().await
    }

    async fn look_up(&mut self, entries: &[JournalEntry]) -> Result<(), Error> {
        let jobs = entries.iter().filter_map(JournalEntry::job_event).map(|(job, _)| job);
        let unknown: BTreeSet<JobId> = jobs.filter(|job| !self.jobs.contains_key(job)).collect();
        for piece in Vec::from_iter(unknown).chunks(STREAM_LOOKUPS_MAX) {
            let found = self.store.jobs_by_id(piece.to_vec()).await?;
            self.jobs.extend(found.into_iter().map(|job| (job.id, Arc::new(job))));
        }
        Ok(())
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
            Some(job) => Ok(Some(line(self.store, job, event).await?)),
            None => Ok(None),
        }
    }
}

/// The lines of a job's event. An unreadable outcome is omitted, as in sinks: it must not stop all
/// streams.
pub(super) async fn line(store: &dyn Store, job: &Arc<Job>, event: Event) -> Result<EventLine, Error> {
    let outcome = match job.execution_ended(&event) {
        Some(execution) => match store.outcome(execution).await {
            Err(error) if error.fault.is_unreadable() => None,
            found => found?,
        },
        None => None,
    };
    let body = EventBody::new(job, &event, outcome.as_ref().map(|outcome| &outcome.object));
    Ok(EventLine {
        event: Some(event),
        job: Some(job.clone()),
        bytes: lines(body.word.sse(), Some(event.id(job.id)), &body.bytes),
    })
}

/// An event in the format of the HTML standard: its fields line by line, and an empty line.
pub(super) fn lines(name: &str, id: Option<impl Display>, data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(data.len() + 96);
    out.extend_from_slice(format!("event: {name}\n").as_bytes());
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    // Readers end a line at CR, LF and both together. Our own bodies are one line; others are
    // split.
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
    use forgerun_core::id::EventId;

    #[test]
    fn data_of_several_lines_becomes_several_fields() {
        let printed = lines("job-failed", Some(EventId::of(JobId::v7(0, 0), 1, 0)), b"{\"a\":\n1}");
        let expected =
            "event: job-failed\nid: 00000000-0000-7001-8000-000000000000\ndata: {\"a\":\ndata: 1}\n\n";
        assert_eq!(printed, expected);
        assert_eq!(lines("reset", None::<EventId>, b"{}"), "event: reset\ndata: {}\n\n");
    }
}
