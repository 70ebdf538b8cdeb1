//! Events of jobs and webhooks.

use forgerun_core::history::{Event, EventKind, EventName, RetryStatus};
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_core::state::State;
use forgerun_core::webhook::Notice;
use serde::{Deserialize, Serialize};

use crate::event::reason;
use crate::{time, words};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Event"))]
pub struct EventView {
    /// Which event.
    pub event_id: String,
    /// Of which job.
    pub job_id: String,
    /// What happened.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::EventName"))]
    pub event_name: String,
    /// The state before; null for the birth of the job.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::ForgeState>"))]
    pub prev_state: Option<String>,
    /// The state after.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::ForgeState"))]
    pub next_state: String,
    /// When, to the microsecond; no two events of a job have the same.
    pub timestamp: String,
    /// The attempt it belongs to.
    pub attempt: u32,
    /// Why, in a word; absent where no state changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::StateCause"))]
    pub cause: Option<String>,
    /// More about why: `lease_expired`, `runner_lost`, `handed_back`, or what was said when the job was cancelled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Some items of a batch went well, and some did not.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub partial: bool,
    /// Percent done, where that is what is told.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub progress: Option<u8>,
    /// What the built-in worker simulates.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::WorkKind"))]
    pub scenario: Option<String>,
    /// The server will try again by itself.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub will_retry: bool,
    /// No retry is left.
    #[serde(rename = "final", skip_serializing_if = "std::ops::Not::not", default)]
    pub is_final: bool,
}

impl EventView {
    /// The event of a job, which may be known no more.
    pub fn new(id: JobId, job: Option<&Job>, event: &Event) -> EventView {
        let scenario = job.and_then(|job| job.head.definition);
        let (states, cause, retry_status) = match event.kind {
            EventKind::Moved { from, to, cause, retry_status } => ((from, to), Some(cause), retry_status),
            // Only a running job tells more than its changes of state.
            EventKind::Progress(_) | EventKind::Emitted => {
                ((Some(State::Running), State::Running), None, RetryStatus::Open)
            }
        };
        EventView {
            event_id: event.id(id).to_string(),
            job_id: id.to_string(),
            event_name: words::event_name(event).into(),
            prev_state: states.0.map(|state| words::forge_state(state).into()),
            next_state: words::forge_state(states.1).into(),
            timestamp: time::micros(event.at),
            attempt: event.attempt,
            cause: cause.map(|cause| words::cause(cause).into()),
            reason: cause.and_then(|cause| reason(job, cause)).map(Into::into),
            partial: event.name() == EventName::Mixed,
            progress: match event.kind {
                EventKind::Progress(percent) => Some(percent),
                EventKind::Moved { .. } | EventKind::Emitted => None,
            },
            scenario: scenario.map(|definition| definition.work_kind.as_str().into()),
            will_retry: retry_status == RetryStatus::WillRetry,
            is_final: retry_status == RetryStatus::Final,
        }
    }

    /// All changes of state of `job`, oldest first.
    pub fn all(job: &Job) -> Vec<EventView> {
        job.history.events().map(|event| EventView::new(job.id, Some(job), &event)).collect()
    }
}

/// The event of a webhook: it was disabled. In the order of their names, so that the bytes are canonical.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "WebhookEvent"))]
pub struct NoticeView {
    /// Which event.
    pub event_id: String,
    /// What happened.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NoticeName"))]
    pub event_name: String,
    /// Why.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::NoticeReason"))]
    pub reason: String,
    /// When, to the microsecond.
    pub timestamp: String,
    /// To which webhook.
    pub webhook_id: String,
}

impl NoticeView {
    /// The event of a webhook.
    pub fn new(notice: &Notice) -> NoticeView {
        NoticeView {
            event_id: notice.id().to_string(),
            event_name: words::WEBHOOK_DISABLED.into(),
            reason: words::disabled_reason(notice.disabled.reason).into(),
            timestamp: time::micros(notice.disabled.at),
            webhook_id: notice.webhook.to_string(),
        }
    }
}

/// An event of a job or of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "AllEvent", inline))]
pub enum EntryView {
    /// Of a job.
    Job(EventView),
    /// Of a webhook.
    Webhook(NoticeView),
}

/// A page of events.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "{E}s"))]
pub struct EventsView<E = EventView> {
    /// Oldest first.
    pub events: Vec<E>,
    /// Where to go on; null at the end.
    pub next_cursor: Option<String>,
}
