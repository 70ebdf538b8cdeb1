//! Pages of the journal: events of a client's jobs and webhooks, or of all.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use forgerun_core::history::JournalSubject;
use forgerun_core::id::{ClientId, EventId, JobId};
use forgerun_core::job::Job;
use forgerun_wire::forge::{EntryView, EventView, EventsView, NoticeView};

use crate::app::App;
use crate::events::sse::{self, ResumePoint};
use crate::http::{ApiError, query::QueryString, respond};
use crate::limits::{PAGES_SCANNED_MAX, STREAM_ROWS_MAX};

/// Events of webhooks and existing jobs, of a client or of all, oldest first.
pub(crate) async fn show(
    app: &App,
    query: &QueryString,
    client: Option<ClientId>,
) -> Result<Response, ApiError> {
    let limit = query.limit()?;
    let mut place = match query.get("cursor") {
        Some(cursor) => JournalCursor::read(app, client, query, cursor).await?,
        None => JournalCursor::default(),
    };
    let store = app.engine.store();
    let mut jobs: HashMap<JobId, Option<Arc<Job>>> = HashMap::new();
    let mut found = Vec::new();
    for _ in 0..PAGES_SCANNED_MAX {
        let rows = store.journal(place.row - 1, STREAM_ROWS_MAX).await?;
        if rows.is_empty() {
            return Ok(page(found, None));
        }
        for row in rows {
            let n_seen = if row.seq == place.row { place.n_seen } else { 0 };
            for (n, entry) in row.entries.iter().enumerate().skip(n_seen as usize) {
                if client.is_some_and(|client| entry.client != client) {
                    continue;
                }
                let view = match &entry.about {
                    JournalSubject::Job { job: id, event } => {
                        let job = match jobs.entry(*id) {
                            Slot::Occupied(known) => known.into_mut(),
                            Slot::Vacant(unknown) => unknown.insert(store.job(*id).await?),
                        };
                        // Events are deleted with their job, though the journal keeps them for a
                        // while (C-111).
                        let Some(job) = job.as_deref() else { continue };
                        EntryView::Job(EventView::new(*id, Some(job), event))
                    }
                    JournalSubject::Webhook(notice) => EntryView::Webhook(NoticeView::new(notice)),
                };
                // One more than is shown indicates whether there are more.
                if found.len() == limit {
                    return Ok(page(found, Some(JournalCursor { row: row.seq, n_seen: n as u32 })));
                }
                found.push(view);
            }
            place = JournalCursor { row: row.seq + 1, n_seen: 0 };
        }
    }
    // Page not full, but not everything was examined: the client may continue from here.
    Ok(page(found, Some(place)))
}

fn page(events: Vec<EntryView>, next: Option<JournalCursor>) -> Response {
    let next_cursor = next.map(JournalCursor::write);
    respond::json(StatusCode::OK, &EventsView { events, next_cursor })
}

/// A position in the journal: all rows before this one and some entries of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct JournalCursor {
    row: i64,
    n_seen: u32,
}

impl JournalCursor {
    /// Parses a cursor. An event id is one too: after the last event a client continues from it.
    async fn read(
        app: &App,
        client: Option<ClientId>,
        query: &QueryString,
        cursor: &str,
    ) -> Result<JournalCursor, ApiError> {
        let none = || query.malformed("cursor", "is no cursor of this list");
        let Ok(id) = cursor.parse::<EventId>() else { return JournalCursor::parse(cursor).ok_or_else(none) };
        let found = sse::find(&**app.engine.store(), client, id, app.clock.now()).await?;
        match found {
            Ok(ResumePoint::After { row, at }) => Ok(JournalCursor { row: row.seq, n_seen: at as u32 + 1 }),
            Ok(ResumePoint::Reset(row)) => Ok(JournalCursor { row: row + 1, n_seen: 0 }),
            Err(_) => Err(none()),
        }
    }

    fn write(self) -> String {
        let mut bytes = self.row.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.n_seen.to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn parse(text: &str) -> Option<JournalCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (row, n_seen) = bytes.split_at_checked(8)?;
        let row = i64::from_be_bytes(row.try_into().ok()?);
        Some(JournalCursor { row, n_seen: u32::from_be_bytes(n_seen.try_into().ok()?) })
            .filter(|place| place.row > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written_and_nonsense_is_not() {
        for place in [JournalCursor { row: 1, n_seen: 0 }, JournalCursor { row: i64::MAX, n_seen: u32::MAX }]
        {
            assert_eq!(JournalCursor::parse(&place.write()), Some(place));
        }
        for text in ["", "7", "AAAA", "AAAAAAAAAAAAAAAA", "not base64!", "__________________________"] {
            assert_eq!(JournalCursor::parse(text), None, "{text}");
        }
    }
}
