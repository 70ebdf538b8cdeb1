//! Log lines of a job, for every dialect: a page, or a stream that follows.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::codec::Corrupt;
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_core::log::decode_lines;
use forgerun_store::{LogChunk, LogQuery, Store};
use forgerun_wire::forge::{LogLineView, LogsView};
use forgerun_wire::request::at_least;
use serde_json::json;

use crate::app::App;
use crate::auth::Caller;
use crate::events::sse;
use crate::http::{ApiError, Exchange, accept, query::QueryString, respond, routing::operation::Parameter};
use crate::limits::{LOG_CHUNKS_PER_READ, LOG_CHUNKS_SCANNED_MAX, LOG_PAGE_DEFAULT, LOG_PAGE_MAX};

/// The parameters of a page and of a stream.
pub(crate) const FILTERS: &[Parameter] = &[
    Parameter::new("attempt", "Only lines of this attempt.").schema(|| at_least(1)),
    Parameter::new("stream", "Only lines of this stream, such as `stderr` or `output`."),
    Parameter::new("q", "Only lines that contain this text."),
    Parameter::new(
        "after",
        "Only lines after the one with this `seq`; the `next_cursor` of the page before.",
    )
    .schema(|| at_least(0)),
    Parameter::new("limit", "Lines in a page.").schema(
        || json!({"type": "integer", "minimum": 1, "maximum": LOG_PAGE_MAX, "default": LOG_PAGE_DEFAULT}),
    ),
];

/// Which lines of a job to show.
#[derive(Clone, Debug)]
pub(crate) struct LogFilter {
    pub(crate) job: JobId,
    pub(crate) attempt: Option<u32>,
    pub(crate) stream: Option<String>,
    pub(crate) text: Option<String>,
}

impl LogFilter {
    pub(crate) fn all_of(job: JobId) -> LogFilter {
        LogFilter { job, attempt: None, stream: None, text: None }
    }

    fn of(job: JobId, query: &QueryString) -> Result<LogFilter, ApiError> {
        let attempt = query.get("attempt").map(|text| match text.parse() {
            Ok(attempt @ 1..) => Ok(attempt),
            Ok(0) | Err(_) => Err(query.malformed("attempt", "must be a whole number of at least 1")),
        });
        let text = |name: &str| query.get(name).map(str::to_owned);
        Ok(LogFilter { job, attempt: attempt.transpose()?, stream: text("stream"), text: text("q") })
    }

    fn shows(&self, line: &LogLineView) -> bool {
        self.stream.as_ref().is_none_or(|stream| line.stream == *stream)
            && self.text.as_ref().is_none_or(|text| line.text.contains(text.as_str()))
    }
}

/// Lines after `after`, and how far was looked.
pub(crate) struct ScannedLines {
    pub(crate) lines: Vec<LogLineView>,
    /// The last line that was looked at.
    pub(crate) until: u64,
    /// Whether more may follow.
    pub(crate) more: bool,
    /// Lines that are missing between `after` and `until`.
    pub(crate) n_missing: u64,
}

/// Looks for lines after one, at most `limit`.
pub(crate) async fn scan(
    store: &dyn Store,
    filter: &LogFilter,
    after: u64,
    limit: usize,
) -> Result<ScannedLines, forgerun_store::Error> {
    let mut scanned = ScannedLines { lines: Vec::new(), until: after, more: true, n_missing: 0 };
    for _ in 0..LOG_CHUNKS_SCANNED_MAX / LOG_CHUNKS_PER_READ {
        let LogFilter { job, attempt, .. } = *filter;
        let query = LogQuery { job, attempt, after: scanned.until, limit: LOG_CHUNKS_PER_READ };
        let chunks = store.logs(query).await?;
        let is_last = chunks.len() < LOG_CHUNKS_PER_READ;
        for chunk in chunks {
            let first = chunk.place.last - u64::from(chunk.place.n_lines) + 1;
            // Lines of other attempts are not missing.
            let seen = if filter.attempt.is_some() {
                scanned.until.max(chunk.place.attempt_after)
            } else {
                scanned.until
            };
            scanned.n_missing += first.saturating_sub(seen + 1);
            for line in views(chunk)? {
                if line.seq <= scanned.until {
                    continue;
                }
                if scanned.lines.len() >= limit {
                    return Ok(scanned);
                }
                scanned.until = line.seq;
                if filter.shows(&line) {
                    scanned.lines.push(line);
                }
            }
        }
        if is_last {
            scanned.more = false;
            break;
        }
    }
    Ok(scanned)
}

fn views(chunk: LogChunk) -> Result<impl Iterator<Item = LogLineView>, Corrupt> {
    let first = chunk.place.last - u64::from(chunk.place.n_lines) + 1;
    let lines = decode_lines(&chunk.content)?;
    Ok(lines
        .into_iter()
        .zip(first..)
        .map(move |(line, seq)| LogLineView::new(seq, chunk.place.attempt, line)))
}

/// The last lines of a job, oldest first, and how many were deleted.
pub(crate) async fn last(
    store: &dyn Store,
    job: JobId,
    n_lines: usize,
) -> Result<LogsView, forgerun_store::Error> {
    let summary = store.log_summary(job, None).await?;
    if summary.last == 0 {
        return Ok(LogsView::default());
    }
    let after = summary.last.saturating_sub(n_lines as u64);
    let scanned = scan(store, &LogFilter::all_of(job), after, n_lines).await?;
    Ok(LogsView { lines: scanned.lines, dropped: summary.dropped, next_cursor: None })
}

/// Answers with a page of a job's lines, or with a stream if requested.
pub(crate) async fn show(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    job: Arc<Job>,
) -> Result<Response, ApiError> {
    let query = QueryString::of_route(exchange)?;
    let filter = LogFilter::of(job.id, &query)?;
    let after = match query.get("after").map(str::parse::<u64>) {
        None => None,
        Some(Ok(after)) => Some(after),
        Some(Err(_)) => return Err(query.malformed("after", "must be the `seq` of a line")),
    };
    if accept::wants_stream(&exchange.headers) {
        return sse::log(app, exchange, caller, &job, filter, after).await;
    }
    let limit = match query.get("limit").map(str::parse::<usize>) {
        None => LOG_PAGE_DEFAULT,
        Some(Ok(limit @ 1..=LOG_PAGE_MAX)) => limit,
        Some(_) => {
            return Err(query.malformed("limit", &format!("must be a whole number from 1 to {LOG_PAGE_MAX}")));
        }
    };
    let store = &**app.engine.store();
    let scanned = scan(store, &filter, after.unwrap_or(0), limit).await?;
    let dropped = store.log_summary(job.id, filter.attempt).await?.dropped;
    let next_cursor = scanned.more.then(|| scanned.until.to_string());
    Ok(respond::json(StatusCode::OK, &LogsView { lines: scanned.lines, dropped, next_cursor }))
}
