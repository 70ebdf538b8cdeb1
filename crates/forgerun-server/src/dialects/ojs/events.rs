//! Events in OJS's names: a page, oldest first, or a stream if requested.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use axum::response::Response;
use forgerun_core::id::JobId;
use forgerun_core::job::{Job, Name};
use forgerun_wire::ojs::event::{events, parse_id};
use forgerun_wire::ojs::job::shown_type;
use forgerun_wire::ojs::state::EVENT_NAMES;
use serde_json::{Value, json};

use super::scope::{CLIENT, Scope};
use super::{objects, reply};
use crate::events::sse::{self, EventWording, ResumePoint, StreamScope};
use crate::http::{
    ApiError, accept,
    query::QueryString,
    routing::{
        Answers, Call, Reply, Route,
        operation::{CURSOR, LAST_EVENT_ID, LIMIT, Parameter, STREAM_ENDED},
    },
};
use crate::limits::{JOURNAL_ROWS_MAX, OJS_EVENT_PAGES_MAX};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/events", "events", |call| Box::pin(page(call)))
        .access(CLIENT)
        .answers(Answers::BodyOrEvents)
        .operation(
            "ojsListEvents",
            "List what happened to the jobs of the caller; with `Accept: text/event-stream` as it \
     happens.",
        )
        .query(&[TYPES, QUEUES, JOB_TYPES, AFTER, CURSOR, LIMIT])
        .headers(&[LAST_EVENT_ID])
        .replies(&[Reply::object(200, "A page.", &objects::EVENTS)]),
    Route::get("/ojs/v1/events/stream", "events", |call| Box::pin(channel(call)))
        .access(CLIENT)
        .answers(Answers::Any)
        .operation("ojsStreamEvents", "Stream what happens to jobs of the caller.")
        .query(&[CHANNEL, TYPES, QUEUES])
        .headers(&[LAST_EVENT_ID])
        .replies(&[STREAM, STREAM_ENDED]),
    Route::get("/ojs/v1/jobs/{job_id}/events", "events", |call| Box::pin(of_job(call)))
        .access(CLIENT)
        .answers(Answers::BodyOrEvents)
        .job_token()
        .operation(
            "ojsListEventsOfJob",
            "List what happened to a job; with `Accept: text/event-stream` as it happens.",
        )
        .query(&[TYPES, QUEUES, JOB_TYPES, AFTER, CURSOR, LIMIT])
        .headers(&[LAST_EVENT_ID])
        .replies(&[Reply::object(200, "A page.", &objects::EVENTS), STREAM_ENDED]),
    Route::get("/ojs/v1/queues/{queue}/events", "events", |call| Box::pin(of_queue(call)))
        .access(CLIENT)
        .answers(Answers::Any)
        .operation("ojsStreamEventsOfQueue", "Stream what happens in a queue.")
        .headers(&[LAST_EVENT_ID])
        .replies(&[STREAM]),
];

const TYPES: Parameter = Parameter::new("types", "Only these events; several with commas.");
const QUEUES: Parameter = Parameter::new("queues", "Only of these queues; several with commas.");
const JOB_TYPES: Parameter = Parameter::new("job_types", "Only of jobs of these types; several with commas.");
const AFTER: Parameter = Parameter::new("after", "The id of an event, or a cursor: only what came later.");
const CHANNEL: Parameter =
    Parameter::new("channel", "`job:ID`, `workflow:ID` or `queue:NAME`; all jobs if absent.");

/// Events as they happen.
const STREAM: Reply = Reply::types(200, "Server-sent events.", &["text/event-stream"])
    .headers(&["Vary?", "X-Accel-Buffering?"]);

/// Which events are wanted.
struct Wanted {
    types: Vec<String>,
    queues: Vec<String>,
    job_types: Vec<String>,
    tenant: Option<Name>,
}

impl Wanted {
    fn of(query: &QueryString, scope: &Scope) -> Result<Wanted, ApiError> {
        let all = |name| query.all(name).map(str::to_owned).collect::<Vec<String>>();
        let wanted = Wanted {
            types: all("types"),
            queues: all("queues"),
            job_types: all("job_types"),
            tenant: scope.tenant.clone(),
        };
        match wanted.types.iter().all(|name| is_event_name(name)) {
            true => Ok(wanted),
            false => Err(query.invalid("types", &format!("must be of {}", EVENT_NAMES.join(", ")))),
        }
    }

    fn job(&self, job: &Job) -> bool {
        let listed = |list: &[String], name: &str| list.is_empty() || list.iter().any(|entry| entry == name);
        listed(&self.queues, job.head.queue.as_str())
            && listed(&self.job_types, shown_type(&job.head))
            && (self.tenant.is_none() || self.tenant == job.head.tenant)
    }

    fn name(&self, name: &str) -> bool {
        self.types.is_empty() || self.types.iter().any(|entry| entry == name)
    }
}

/// Whether events of this name may exist. A filter with an unknown name would match nothing, so it
/// is refused.
pub(in crate::dialects) fn is_event_name(name: &str) -> bool {
    EVENT_NAMES.contains(&name) || name.starts_with("x_")
}

/// `GET events`: events of the caller's jobs. `after` is the id of the last event seen, or the
/// cursor of the page before. A page may be short before the end; only `has_more: false` means the
/// end.
async fn page(call: Call<'_>) -> Result<Response, ApiError> {
    if accept::wants_stream(&call.exchange.headers) {
        return channel(call).await;
    }
    let (app, scope) = (call.app, Scope::of(&call)?);
    let client = scope.owner()?.client;
    let query = call.query()?;
    let (wanted, limit) = (Wanted::of(&query, &scope)?, query.limit()?);
    let store = app.engine.store();
    let mut place = match query.get("after").or(query.get("cursor")) {
        None => Place { row: 0, n_seen: 0 },
        Some(text) => Place::read(&call, client, &query, text).await?,
    };
    let mut jobs: HashMap<JobId, Option<Arc<Job>>> = HashMap::new();
    let mut found: Vec<Value> = Vec::new();
    for _ in 0..OJS_EVENT_PAGES_MAX {
        let rows = store.journal(place.row - 1, JOURNAL_ROWS_MAX).await?;
        if rows.is_empty() {
            return Ok(answer(found, place, false));
        }
        for row in rows {
            let n_seen = if row.seq == place.row { place.n_seen as usize } else { 0 };
            for (n, entry) in row.entries.iter().enumerate().skip(n_seen) {
                let Some((id, event)) = entry.job_event().filter(|_| entry.client == client) else {
                    continue;
                };
                if found.len() >= limit {
                    return Ok(answer(found, Place { row: row.seq, n_seen: n as u32 }, true));
                }
                let job = match jobs.entry(id) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(unknown) => unknown.insert(store.job(id).await?),
                };
                // Events of deleted jobs are no longer listed (C-111).
                let Some(job) = job.as_ref().filter(|job| wanted.job(job)) else { continue };
                let told = events(event, job).into_iter().filter(|told| wanted.name(told.name));
                found.extend(told.map(|told| told.body));
            }
            place = Place { row: row.seq + 1, n_seen: 0 };
        }
    }
    Ok(answer(found, place, true))
}

fn answer(events: Vec<Value>, place: Place, has_more: bool) -> Response {
    reply::ok(&json!({"events": events, "cursor": place.write(), "has_more": has_more}))
}

/// A position: all rows before this one and some entries of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    row: i64,
    n_seen: u32,
}

impl Place {
    async fn read(
        call: &Call<'_>,
        client: forgerun_core::id::ClientId,
        query: &QueryString,
        text: &str,
    ) -> Result<Place, ApiError> {
        let none = || query.malformed("after", "is no event and no cursor of this list");
        if let Some(place) = Place::parse(text) {
            return Ok(place);
        }
        let id = parse_id(text).filter(|id| id.is_well_formed()).ok_or_else(none)?;
        let app = call.app;
        match sse::find(&**app.engine.store(), Some(client), id, app.clock.now()).await? {
            Ok(ResumePoint::After { row, at }) => Ok(Place { row: row.seq, n_seen: at as u32 + 1 }),
            Ok(ResumePoint::Reset(row)) => Ok(Place { row: row + 1, n_seen: 0 }),
            Err(_) => Err(none()),
        }
    }

    fn write(self) -> String {
        format!("{}-{}", self.row, self.n_seen)
    }

    fn parse(text: &str) -> Option<Place> {
        let (row, n_seen) = text.split_once('-')?;
        let place = Place { row: row.parse().ok()?, n_seen: n_seen.parse().ok()? };
        (place.row >= 0).then_some(place)
    }
}

/// `GET jobs/{id}/events`: its changes of state, or a stream of them.
async fn of_job(call: Call<'_>) -> Result<Response, ApiError> {
    let job = Scope::of(&call)?.job(call.app, call.job()).await?;
    if accept::wants_stream(&call.exchange.headers) {
        return sse::job(call.app, call.exchange, call.caller(), job, StreamScope::Job, EventWording::ojs())
            .await;
    }
    let told: Vec<Value> =
        job.history.events().flat_map(|event| events(&event, &job)).map(|told| told.body).collect();
    let cursor = told.last().map(|last| last["id"].clone());
    Ok(reply::ok(&json!({"events": told, "cursor": cursor, "has_more": false})))
}

/// `GET events/stream?channel=job:ID`, `workflow:ID`, `queue:NAME`, or all jobs of the caller:
/// always a stream.
async fn channel(call: Call<'_>) -> Result<Response, ApiError> {
    let scope = Scope::of(&call)?;
    let query = call.query()?;
    let (app, exchange, caller) = (call.app, call.exchange, call.caller());
    let Some(channel) = query.get("channel") else {
        let queue = query.get("queues").map(|name| queue_name(&query, name)).transpose()?;
        return sse::client(app, exchange, caller, EventWording::ojs_of(queue, scope.tenant)).await;
    };
    match channel.split_once(':') {
        Some(("job" | "workflow", id)) => {
            let job = scope.job(app, id.parse().ok()).await?;
            sse::job(app, exchange, caller, job, StreamScope::Job, EventWording::ojs()).await
        }
        Some(("queue", name)) => {
            let queue = queue_name(&query, name)?;
            sse::client(app, exchange, caller, EventWording::ojs_of(Some(queue), scope.tenant)).await
        }
        _ => Err(query.malformed("channel", "must be job:ID, workflow:ID or queue:NAME")),
    }
}

fn queue_name(query: &QueryString, name: &str) -> Result<Name, ApiError> {
    Name::queue(name).map_err(|_| query.malformed("channel", "names no queue"))
}

async fn of_queue(call: Call<'_>) -> Result<Response, ApiError> {
    let scope = Scope::of(&call)?;
    let query = call.query()?;
    let queue = queue_name(&query, &call.text("queue"))?;
    sse::client(call.app, call.exchange, call.caller(), EventWording::ojs_of(Some(queue), scope.tenant)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written_and_nonsense_is_not() {
        for place in [Place { row: 0, n_seen: 0 }, Place { row: i64::MAX, n_seen: u32::MAX }] {
            assert_eq!(Place::parse(&place.write()), Some(place));
        }
        for text in ["", "7", "-1-0", "a-b", "1-", "1--1"] {
            assert_eq!(Place::parse(text), None, "{text}");
        }
    }
}
