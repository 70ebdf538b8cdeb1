//! The body of a stream: first missed events, then new ones, with regular comments so that proxies
//! keep the connection open.
//!
//! A chain of futures, each of which ends with the next bytes and the rest of the feed. A waiting
//! stream is one small allocation, without a task of its own.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::HttpBody;
use bytes::Bytes;
use forgerun_core::history::JournalEntry;
use forgerun_core::id::{ClientId, EventId, JobId};
use forgerun_core::time::Time;
use forgerun_engine::Error;
use http_body::Frame;
use tokio::sync::watch;
use tracing::debug;

use super::StreamScope;
use super::hub::{StreamPermit, Subscription};
use super::log::LogFollow;
use super::printer::Printer;
use super::subscribers::Topic;
use super::wording::EventWording;
use crate::app::App;
use crate::auth::{Caller, caller as auth};
use crate::http::Exchange;
use crate::limits::{KEY_FRESH, STREAM_PIECE_EVENTS, STREAM_ROWS_MAX};

/// The heartbeat comment.
const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

type NextChunk = Pin<Box<dyn Future<Output = Option<(Bytes, Feed)>> + Send>>;

pub(super) struct Feed {
    app: Arc<App>,
    told: StreamContent,
    caller: Caller,
    /// Notified when keys of the client change.
    keys: watch::Receiver<()>,
    /// When to recheck the key.
    check: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// When to send a heartbeat.
    beat_at: Time,
    about: StreamLabel,
    /// Held as long as the stream is open.
    permit: StreamPermit,
}

/// The events of a stream, and their form.
pub(super) struct StreamContent {
    pub(super) source: EventSource,
    pub(super) wording: EventWording,
}

/// The source of events.
pub(super) enum EventSource {
    Job {
        /// Missed events, in one piece.
        first: Option<Bytes>,
        /// Number of the last past event.
        n_last: u32,
        /// The last event that the client got before; possibly newer than the stored history.
        last: Option<EventId>,
        scope: StreamScope,
        /// `None` at the end.
        subscription: Option<Subscription>,
    },
    Client {
        first: Option<Bytes>,
        /// `None` for all clients.
        client: Option<ClientId>,
        past: Backlog,
        /// `None` while it catches up.
        subscription: Option<Subscription>,
    },
    Log(Box<LogFollow>),
}

/// Events from the journal that the client has missed.
pub(super) struct Backlog {
    /// Rows up to this one were read.
    pub(super) after: i64,
    /// Events of these that are not sent yet.
    pub(super) rest: VecDeque<JournalEntry>,
}

impl Backlog {
    pub(super) fn none() -> Backlog {
        Backlog { after: 0, rest: VecDeque::new() }
    }
}

impl Feed {
    pub(super) fn new(
        app: Arc<App>,
        exchange: &Exchange,
        caller: &Caller,
        permit: StreamPermit,
        told: StreamContent,
    ) -> Feed {
        let about = StreamLabel {
            request_id: exchange.request_id().into(),
            client: caller.client,
            job: exchange.subject,
        };
        debug!(request_id = &*about.request_id, client_id = %about.client, job_id = about.job(), "stream opened");
        let now = app.clock.now();
        let (check, beat_at) = (next_check(&app, caller, now), now + app.bounds.stream_heartbeat);
        let keys = permit.keys.clone();
        Feed { app, told, caller: caller.clone(), keys, check, beat_at, about, permit }
    }

    pub(super) fn into_body(self) -> impl HttpBody<Data = Bytes, Error = Infallible> + Send + 'static {
        StreamBody(Box::pin(self.next()))
    }

    /// The next bytes, and the rest of the feed; `None` at the end.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` would hold the feed twice, in every open stream"
    )]
    fn next(mut self) -> impl Future<Output = Option<(Bytes, Feed)>> + Send {
        async move {
            loop {
                let Feed { app, told: StreamContent { source, wording }, keys, check, permit, .. } =
                    &mut self;
                // The key first, or on a busy stream it would never be rechecked.
                let bytes = tokio::select! {
                    biased;
                    // Its sender lives as long as the permit.
                    _ = keys.changed() => None,
                    () = check.as_mut() => None,
                    next = source.next(app, permit, wording) => Some(next),
                };
                match bytes {
                    Some(Ok(Some(bytes))) => return Some((bytes, self)),
                    Some(Ok(None)) => return None,
                    Some(Err(error)) => {
                        debug!(request_id = &*self.about.request_id, %error, "stream given up");
                        return None;
                    }
                    None if !Box::pin(auth::is_good(&self.app, &self.caller)).await => return None,
                    None => {}
                }
                let now = self.app.clock.now();
                self.check = next_check(&self.app, &self.caller, now);
                if now >= self.beat_at {
                    self.beat_at = now + self.app.bounds.stream_heartbeat;
                    return Some((HEARTBEAT, self));
                }
            }
        }
    }
}

/// Resolves when the key of a stream must be rechecked: as early as for requests, and as soon as it
/// expires.
fn next_check(app: &App, caller: &Caller, now: Time) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let usual = app.bounds.stream_heartbeat.min(KEY_FRESH);
    let span = caller.good_for(now).map_or(usual, |good_for| good_for.min(usual));
    app.clock.sleep(span)
}

struct StreamLabel {
    request_id: Box<str>,
    client: ClientId,
    job: Option<JobId>,
}

impl StreamLabel {
    fn job(&self) -> Option<tracing::field::DisplayValue<JobId>> {
        self.job.map(tracing::field::display)
    }
}

impl Drop for StreamLabel {
    fn drop(&mut self) {
        debug!(request_id = &*self.request_id, client_id = %self.client, job_id = self.job(), "stream closed");
    }
}

impl EventSource {
    /// The next bytes; `None` at the end. Cancel-safe.
    async fn next(
        &mut self,
        app: &App,
        permit: &StreamPermit,
        wording: &EventWording,
    ) -> Result<Option<Bytes>, Error> {
        match self {
            EventSource::Job { first: first @ Some(_), .. }
            | EventSource::Client { first: first @ Some(_), .. } => Ok(first.take()),
            EventSource::Log(follow) => Box::pin(follow.next(app)).await,
            EventSource::Job { n_last, last, scope, subscription, .. } => {
                while let Some(open) = subscription {
                    let Some(line) = open.next().await else { return Ok(None) };
                    let Some(event) = line.event.filter(|event| event.n > *n_last) else { continue };
                    *n_last = event.n;
                    if event.ends() {
                        *subscription = None;
                    }
                    let is_news = scope.has(&event) && last.is_none_or(|last| event.is_after(last));
                    if let Some(bytes) = wording.told(&line).filter(|_| is_news) {
                        return Ok(Some(bytes));
                    }
                }
                Ok(None)
            }
            EventSource::Client { client, past, subscription, .. } => loop {
                if let Some(open) = subscription {
                    let Some(line) = open.next().await else { return Ok(None) };
                    match wording.told(&line) {
                        Some(bytes) => return Ok(Some(bytes)),
                        None => continue,
                    }
                }
                match Box::pin(past.next(app, *client, wording)).await? {
                    Some(bytes) => return Ok(Some(bytes)),
                    None => *subscription = permit.subscribe_after(Topic::of(*client), past.after)?,
                }
            },
        }
    }
}

impl Backlog {
    /// The next events, a piece at a time; `None` at the end of the journal. Cancel-safe.
    async fn next(
        &mut self,
        app: &App,
        client: Option<ClientId>,
        wording: &EventWording,
    ) -> Result<Option<Bytes>, Error> {
        let store = &**app.engine.store();
        loop {
            if !self.rest.is_empty() {
                let mut printer = Printer::new(store);
                let mut out = Vec::new();
                let n_printed = self.rest.len().min(STREAM_PIECE_EVENTS);
                let piece: Vec<JournalEntry> = self.rest.iter().take(n_printed).copied().collect();
                for line in printer.print(&piece).await?.into_iter().flatten() {
                    out.extend_from_slice(&wording.told(&line).unwrap_or_default());
                }
                self.rest.drain(..n_printed);
                if !out.is_empty() {
                    return Ok(Some(out.into()));
                }
                continue;
            }
            if app.is_stopping() {
                return Err(Error::Stopped);
            }
            let rows = store.journal(self.after, STREAM_ROWS_MAX).await?;
            let Some(last) = rows.last() else { return Ok(None) };
            self.after = last.seq;
            self.rest = rows
                .iter()
                .flat_map(|row| &row.entries)
                .filter(|entry| client.is_none_or(|client| entry.client == client))
                .copied()
                .collect();
        }
    }
}

struct StreamBody(NextChunk);

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match ready!(self.0.as_mut().poll(context)) {
            Some((bytes, feed)) => {
                self.0 = Box::pin(feed.next());
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            None => {
                // Polled again after the end, it stays at the end.
                self.0 = Box::pin(std::future::ready(None));
                Poll::Ready(None)
            }
        }
    }
}
