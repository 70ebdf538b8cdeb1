//! Events as they happen. A stream that breaks comes back by itself and goes on after the last event: none is missed, none
//! comes twice.

mod parse;

use std::collections::VecDeque;
use std::time::Duration;

use http::header::ACCEPT;
use http::{HeaderName, StatusCode};
use serde_json::Value;
use url::Url;

use crate::client::{Call, Client};
use crate::clock::fraction;
use crate::error::{Error, Unreachable};
use crate::limits::{RECONNECT_DEFAULT, RECONNECT_MAX, RECONNECT_MIN, RECONNECTS_MAX};
use crate::transport::Answer;
use parse::{Item, Parser};

pub use parse::Event;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENT_STREAM: &str = "text/event-stream";

impl Event {
    /// What it says, as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }

    /// Whether it is the last of its job: the job has ended, and the server will not try again by itself.
    pub fn is_end(&self) -> bool {
        let ends = [
            "job-completed",
            "job-failed",
            "job-timed-out",
            "job-completed-with-errors",
            "job-cancelled",
            "end",
        ];
        ends.contains(&self.name.as_str())
    }
}

/// A stream of events. Read it with [`EventStream::next`].
pub struct EventStream {
    client: Client,
    url: Url,
    /// Whether the end of a connection is an end at all.
    endless: bool,
    last_id: String,
    wait: Duration,
    open: Option<Open>,
    ready: VecDeque<Event>,
    ended: bool,
    failures: u32,
}

struct Open {
    answer: Answer,
    parser: Parser,
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream")
            .field("url", &self.url.as_str())
            .field("last_id", &self.last_id)
            .finish()
    }
}

impl EventStream {
    pub(crate) fn new(client: Client, url: Url) -> EventStream {
        EventStream {
            client,
            url,
            endless: false,
            last_id: String::new(),
            wait: RECONNECT_DEFAULT,
            open: None,
            ready: VecDeque::new(),
            ended: false,
            failures: 0,
        }
    }

    pub(crate) fn endless(mut self) -> EventStream {
        self.endless = true;
        self
    }

    /// Goes on after an event that was seen before, by its id.
    #[must_use]
    pub fn after(mut self, event_id: impl Into<String>) -> EventStream {
        self.last_id = event_id.into();
        self
    }

    /// The id of the last event: what [`EventStream::after`] wants.
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// The next event; `None` once the job has ended and all was told. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the server stays away; the next call tries again. Refusals of the server.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                if !event.id.is_empty() {
                    self.last_id.clone_from(&event.id);
                }
                self.ended = !self.endless && event.is_end();
                return Ok(Some(event));
            }
            if self.ended {
                self.open = None;
                return Ok(None);
            }
            match &mut self.open {
                None => self.connect().await?,
                Some(open) => match open.answer.chunk().await {
                    Ok(Some(bytes)) => self.take(&bytes)?,
                    // Ended without a last word: the server stops, or a proxy lost patience. The server tells the end with 204.
                    Ok(None) => self.broke("the stream ended").await?,
                    Err(reason) => self.broke(&reason).await?,
                },
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let items =
            open.parser.take(bytes).map_err(|_| Error::Protocol("an event is too long".to_owned()))?;
        for item in items {
            match item {
                Item::Event(event) => self.ready.push_back(event),
                Item::Retry(ms) => self.wait = Duration::from_millis(ms).clamp(RECONNECT_MIN, RECONNECT_MAX),
            }
        }
        if !self.ready.is_empty() {
            self.failures = 0;
        }
        Ok(())
    }

    async fn connect(&mut self) -> Result<(), Error> {
        let mut call = Call::new(http::Method::GET, self.url.clone()).long(Duration::ZERO);
        call = call.header(ACCEPT, EVENT_STREAM)?;
        if !self.last_id.is_empty() {
            call = call.header(LAST_EVENT_ID, &self.last_id)?;
        }
        let answer = self.client.send(&call).await?;
        if answer.status == StatusCode::NO_CONTENT {
            self.ended = true;
        } else if answer.content_type().starts_with(EVENT_STREAM) {
            self.open = Some(Open { answer, parser: Parser::default() });
        } else {
            return Err(Error::Protocol(format!("a stream was expected, not {:?}", answer.content_type())));
        }
        Ok(())
    }

    /// The connection is gone: wait, then the next look opens another.
    async fn broke(&mut self, reason: &str) -> Result<(), Error> {
        self.open = None;
        self.failures += 1;
        if self.failures > RECONNECTS_MAX {
            self.failures = 0;
            return Err(Error::Unreachable(Unreachable::new(self.url.authority(), reason, true)));
        }
        tracing::debug!(reason, last_id = %self.last_id, "a stream broke; it comes back");
        let jitter = self.wait.mul_f64(fraction(self.client.clock().random()) / 2.0);
        self.client.clock().sleep(self.wait + jitter).await;
        Ok(())
    }
}
