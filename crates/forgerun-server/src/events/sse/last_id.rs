//! Resuming streams: `Last-Event-ID`.
//!
//! | it names | a job's stream | a client's stream |
//! |---|---|---|
//! | an event of the subscriber | continues after it | continues after it |
//! | not an event id, another job's, a future one | 400 | 400 |
//! | an event that never existed, though possible | continues after its moment | 400 |
//! | an event older than the journal | continues after it | an event `reset`, then the whole
//! journal |

use axum::http::{HeaderMap, HeaderName};
use forgerun_core::catalog::Kind;
use forgerun_core::history::JournalEntry;
use forgerun_core::id::{ClientId, EventId};
use forgerun_core::job::Job;
use forgerun_core::time::Time;
use forgerun_store::{Error, JournalRow, Store};
use forgerun_wire::ojs::event::parse_id;
use forgerun_wire::problem::RefusedRequest;

use crate::http::ApiError;
use crate::limits::{JOURNAL_PAGES_SEARCHED_MAX, STREAM_ROWS_MAX};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The id in the header. An empty one counts as missing: browsers send it before the first event.
pub(super) fn of(headers: &HeaderMap) -> Result<Option<EventId>, ApiError> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let text = value.to_str().map(str::trim).map_err(|_| refused(ResumeError::NoId))?;
    if text.is_empty() {
        return Ok(None);
    }
    let id = parse_id(text).filter(|id| id.is_well_formed());
    id.map(Some).ok_or_else(|| refused(ResumeError::NoId))
}

/// Why a stream cannot resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumeError {
    /// Not an event id.
    NoId,
    /// Another job's event.
    OtherJob,
    /// A future event.
    NotYet,
    /// Not an event of the client.
    Unknown,
}

/// The refusal of the header.
pub(super) fn refused(error: ResumeError) -> ApiError {
    let what = match error {
        ResumeError::NoId => "is not the id of an event",
        ResumeError::OtherJob => "names an event of another job",
        ResumeError::NotYet => "names an event that has not happened",
        ResumeError::Unknown => "names no event of this client",
    };
    let refused = RefusedRequest::new(Kind::MalformedRequest, format!("`Last-Event-ID` {what}."));
    refused.fact("field", "Last-Event-ID").fact("constraint", "format").into()
}

/// Refuses an id that no event of the job can have.
pub(super) fn check(job: &Job, id: EventId) -> Result<(), ResumeError> {
    match id.is_of(job.id) {
        false => Err(ResumeError::OtherJob),
        true if id.unix_ms() > job.updated_at.unix_ms() => Err(ResumeError::NotYet),
        true => Ok(()),
    }
}

/// Where a client's stream resumes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResumePoint {
    /// The event is entry `at` of this row.
    After { row: JournalRow, at: usize },
    /// Events were deleted; the journal begins after this row.
    Reset(i64),
}

/// Finds the event of a client, or of any, in the journal. Usually it is recent and in the first
/// page.
pub(crate) async fn find(
    store: &dyn Store,
    client: Option<ClientId>,
    id: EventId,
    now: Time,
) -> Result<Result<ResumePoint, ResumeError>, Error> {
    let moment = Time::from_millis(i64::try_from(id.unix_ms()).unwrap_or(i64::MAX));
    let before = store.journal_before(moment).await?;
    let mut after = before;
    for _ in 0..JOURNAL_PAGES_SEARCHED_MAX {
        let rows = store.journal(after, STREAM_ROWS_MAX).await?;
        let last = rows.last().map(|row| row.seq);
        for row in rows {
            let is_it =
                |entry: &JournalEntry| client.is_none_or(|client| entry.client == client) && entry.id() == id;
            if let Some(at) = row.entries.iter().position(is_it) {
                return Ok(Ok(ResumePoint::After { row, at }));
            }
        }
        match last {
            Some(last) => after = last,
            None if moment > now => return Ok(Err(ResumeError::NotYet)),
            None if oldest(store).await?.is_some_and(|oldest| oldest.unix_ms() <= id.unix_ms()) => {
                return Ok(Err(ResumeError::Unknown));
            }
            None => break,
        }
    }
    Ok(Ok(ResumePoint::Reset(before)))
}

/// The oldest moment in the journal.
async fn oldest(store: &dyn Store) -> Result<Option<Time>, Error> {
    let first = store.journal(0, 1).await?;
    Ok(first.iter().flat_map(|row| &row.entries).map(JournalEntry::at).max())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(text: &'static [u8]) -> Result<Option<EventId>, Kind> {
        let value = HeaderValue::from_bytes(text).unwrap();
        of(&HeaderMap::from_iter([(LAST_EVENT_ID, value)])).map_err(|error| error.kind())
    }

    #[test]
    fn only_the_id_of_an_event_is_one() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert_eq!(read(id.as_bytes()), Ok(Some(id.parse().unwrap())));
        assert_eq!(read(b""), Ok(None));
        assert_eq!(of(&HeaderMap::new()).ok(), Some(None));
        for text in [&b"17"[..], b"6f1b7b46-5d6e-4a2f-9c0b-3f1f8d1f2a10", b"\xff\xfe", b"null"] {
            assert_eq!(read(text), Err(Kind::MalformedRequest), "{text:?}");
        }
    }
}
