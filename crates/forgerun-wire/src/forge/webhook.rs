//! Webhooks: what may be asked, and what is shown.

use forgerun_core::catalog::Kind;
use forgerun_core::history::EventName;
use forgerun_core::time::Time;
use forgerun_core::webhook::{Envelope, Events, Webhook, WebhookFilter};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::body::{self, quoted, violation};
use crate::hint::nearest;
use crate::problem::{RefusedRequest, Violation};
use crate::request::RequestBody;
use crate::request_body;
use crate::{time, words};

/// The longest description, in bytes.
pub(crate) const DESCRIPTION_BYTES_MAX: usize = 255;

/// Entries of a list of a filter.
const FILTER_ENTRIES_MAX: usize = 50;
/// The longest entry, in bytes.
const FILTER_ENTRY_BYTES_MAX: usize = 255;
/// The lists of a filter.
const FILTER_LISTS: [&str; 3] = ["queues", "types", "tags"];

/// Every name that a filter may have, and what it stands for.
const NAMES: [(&str, Events); 13] = [
    ("job_created", Events::only(EventName::Created)),
    ("job_queued", Events::only(EventName::Queued)),
    ("job_assigned", Events::only(EventName::Assigned)),
    ("job_requeued", Events::only(EventName::Requeued)),
    ("job_started", Events::only(EventName::Started)),
    ("job_progress", Events::only(EventName::Progress)),
    ("job_event_emitted", Events::only(EventName::Emitted)),
    ("job_succeeded", Events::only(EventName::Succeeded)),
    ("job_failed", Events::only(EventName::Failed)),
    ("job_timed_out", Events::only(EventName::TimedOut)),
    ("job_canceled", Events::only(EventName::Canceled)),
    ("job_retries_exhausted", Events::RETRIES_EXHAUSTED),
    (words::WEBHOOK_DISABLED, Events::WEBHOOK_DISABLED),
];

/// Every name that a filter may have, `*` aside.
pub fn event_names() -> impl Iterator<Item = &'static str> + Clone {
    NAMES.into_iter().map(|(name, _)| name)
}

/// The events that a word stands for: case, dots, hyphens and both spellings of "cancelled" do not matter (C-61).
pub fn parse_event(word: &str) -> Option<Events> {
    if word == "*" {
        return Some(Events::ALL);
    }
    let plain = word.to_ascii_lowercase().replace(['.', '-'], "_").replace("cancelled", "canceled");
    let plain = if plain == "job_completed" { "job_succeeded" } else { plain.as_str() };
    NAMES.into_iter().find(|(name, _)| *name == plain).map(|(_, events)| events)
}

/// What is wrong with a word that stands for no event.
fn no_event(word: &str) -> String {
    if let Some(near) = nearest(word, event_names()) {
        return format!("must name events, not `{}`; did you mean `{near}`?", quoted(word));
    }
    let names: Vec<&str> = event_names().collect();
    format!("must name *, {}, not `{}`", names.join(", "), quoted(word))
}

/// The names of a filter.
fn names_of(events: Events) -> Vec<&'static str> {
    if events == Events::ALL {
        return vec!["*"];
    }
    NAMES.into_iter().filter(|(_, one)| events.contains(*one)).map(|(name, _)| name).collect()
}

/// A webhook to be, whose shape is right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookRequest {
    /// Where it is.
    pub url: Option<String>,
    /// What it wants to hear.
    pub events: Option<Events>,
    /// How bodies are wrapped.
    pub envelope: Option<Envelope>,
    /// Which jobs it wants to hear of.
    pub filter: Option<WebhookFilter>,
    /// What it is for; the inner `None` takes it away.
    pub description: Option<Option<String>>,
    /// Whether anything is sent.
    pub enabled: Option<bool>,
}

request_body! {
    /// An endpoint to be.
    pub WEBHOOK = "WebhookRequest" {
        /// Where to send to: http or https.
        "url": url(),
        /// The events to send, by name; `*` is everything. `job_failed` includes timeouts and mixed batches.
        "events": {
            let names: Vec<&str> = event_names().chain(["*"]).collect();
            json!({"type": "array", "minItems": 1, "items": {"type": "string", "examples": names}})
        },
        /// Whether bodies are CloudEvents, and in which mode; or events of Open Job Spec.
        "envelope": words(&["none", "cloudevents", "cloudevents-binary", "ojs"]),
        /// Only jobs that fit every list given here; a job fits a list if it fits one entry. `*` in a type stands for any characters.
        "filter": {
            let entries = || json!({
                "type": "array", "maxItems": FILTER_ENTRIES_MAX,
                "items": {"type": "string", "minLength": 1, "maxLength": FILTER_ENTRY_BYTES_MAX},
            });
            maybe(json!({
                "type": "object", "additionalProperties": false,
                "properties": {"queues": entries(), "types": entries(), "tags": entries()},
            }))
        },
        /// For people.
        "description": maybe(short(DESCRIPTION_BYTES_MAX)),
        /// Whether anything is sent.
        "enabled": truth(),
    }
    ; required &["url", "events"]
    ; examples {"failures": {"value": {
        "url": "https://client.example/hooks", "events": ["job_succeeded", "job_failed"],
    }}}
}

/// What of it changes.
pub const WEBHOOK_CHANGE: RequestBody = WEBHOOK.variant(
    "WebhookChange",
    "What to change of an endpoint; what is absent stays.",
    &[],
    || json!({"enable": {"value": {"events": ["*"], "enabled": true, "description": "the warehouse"}}}),
);

/// Reads the body of a registration; a URL and events are needed.
pub fn read_webhook(bytes: &[u8]) -> Result<WebhookRequest, Box<RefusedRequest>> {
    read(bytes, &["url", "events"])
}

/// Reads the body of a change; nothing is needed.
pub fn read_webhook_change(bytes: &[u8]) -> Result<WebhookRequest, Box<RefusedRequest>> {
    read(bytes, &[])
}

fn read(bytes: &[u8], required: &[&str]) -> Result<WebhookRequest, Box<RefusedRequest>> {
    let members = body::object(bytes)?;
    let mut reader = WebhookReader { members: &members, malformed: Vec::new(), invalid: Vec::new() };
    for name in required.iter().filter(|name| !members.contains_key(**name)) {
        reader.malformed.push(violation(name, "is required", "required"));
    }
    let request = WebhookRequest {
        url: reader.text("url"),
        events: reader.events(),
        envelope: reader.envelope(),
        filter: reader.filter(),
        description: reader.description(),
        enabled: reader.truth("enabled"),
    };
    let WebhookReader { malformed, invalid, .. } = reader;
    if !malformed.is_empty() {
        return Err(body::refused(Kind::MalformedRequest, malformed, WEBHOOK.members));
    }
    if !invalid.is_empty() {
        return Err(body::refused(Kind::InvalidArgs, invalid, WEBHOOK.members));
    }
    Ok(request)
}

struct WebhookReader<'a> {
    members: &'a Map<String, Value>,
    malformed: Vec<Violation>,
    invalid: Vec<Violation>,
}

impl WebhookReader<'_> {
    fn text(&mut self, name: &str) -> Option<String> {
        match self.members.get(name)? {
            Value::String(text) => Some(text.clone()),
            _ => {
                self.malformed.push(violation(name, "must be a string", "type"));
                None
            }
        }
    }

    fn truth(&mut self, name: &str) -> Option<bool> {
        let given = self.members.get(name)?;
        if !given.is_boolean() {
            self.malformed.push(violation(name, "must be true or false", "type"));
        }
        given.as_bool()
    }

    fn events(&mut self) -> Option<Events> {
        let words = self.members.get("events")?.as_array();
        let words: Option<Vec<&str>> = words.and_then(|words| words.iter().map(Value::as_str).collect());
        let Some(words) = words else {
            self.malformed.push(violation("events", "must be a list of strings", "type"));
            return None;
        };
        if words.is_empty() {
            self.invalid.push(violation("events", "must name at least one event", "minItems"));
        }
        let mut events = Events::NONE;
        for word in words {
            match parse_event(word) {
                Some(known) => events = events.with(known),
                None => self.invalid.push(violation("events", &no_event(word), "enum")),
            }
        }
        Some(events)
    }

    fn envelope(&mut self) -> Option<Envelope> {
        match self.members.get("envelope")?.as_str() {
            Some("none") => Some(Envelope::None),
            Some("cloudevents") => Some(Envelope::Structured),
            Some("cloudevents-binary") => Some(Envelope::Binary),
            Some("ojs") => Some(Envelope::Ojs),
            Some(_) => {
                let detail = "must be none, cloudevents, cloudevents-binary or ojs";
                self.invalid.push(violation("envelope", detail, "enum"));
                None
            }
            None => {
                self.malformed.push(violation("envelope", "must be a string", "type"));
                None
            }
        }
    }

    fn filter(&mut self) -> Option<WebhookFilter> {
        let members = match self.members.get("filter")? {
            Value::Null => return Some(WebhookFilter::default()),
            Value::Object(members) => members,
            _ => {
                self.malformed.push(violation("filter", "must be an object or null", "type"));
                return None;
            }
        };
        for name in members.keys().filter(|name| !FILTER_LISTS.contains(&name.as_str())) {
            let detail =
                format!("`{}` is unknown; expected one of {}", quoted(name), FILTER_LISTS.join(", "));
            self.malformed.push(violation("filter", &detail, "additionalProperties"));
        }
        let [queues, types, tags] = FILTER_LISTS.map(|name| self.entries(members, name));
        Some(WebhookFilter { queues, types, tags })
    }

    fn entries(&mut self, filter: &Map<String, Value>, name: &str) -> Vec<String> {
        let Some(list) = filter.get(name).filter(|list| !list.is_null()) else { return Vec::new() };
        let path = format!("filter/{name}");
        let text = |entry: &Value| entry.as_str().map(str::to_owned);
        let entries: Option<Vec<String>> = list.as_array().and_then(|list| list.iter().map(text).collect());
        let Some(entries) = entries else {
            self.malformed.push(violation(&path, "must be a list of strings", "type"));
            return Vec::new();
        };
        if entries.len() > FILTER_ENTRIES_MAX {
            let detail = format!("must have at most {FILTER_ENTRIES_MAX} entries");
            self.invalid.push(violation(&path, &detail, "maxItems"));
        }
        if entries.iter().any(|entry| entry.is_empty() || entry.len() > FILTER_ENTRY_BYTES_MAX) {
            let detail = format!("must have entries of 1 to {FILTER_ENTRY_BYTES_MAX} bytes");
            self.invalid.push(violation(&path, &detail, "length"));
        }
        entries
    }

    fn description(&mut self) -> Option<Option<String>> {
        if self.members.get("description")?.is_null() {
            return Some(None);
        }
        let description = self.text("description")?;
        if description.len() > DESCRIPTION_BYTES_MAX {
            self.invalid.push(violation("description", "is longer than 255 bytes", "maxLength"));
        }
        Some(Some(description))
    }
}

/// A webhook. Its secret is shown once, when it is made.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Webhook"))]
pub struct WebhookView {
    /// The webhook.
    pub webhook_id: String,
    /// Where it is.
    pub url: String,
    /// What it hears of.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::schema::WebhookEventName>"))]
    pub events: Vec<&'static str>,
    /// How bodies are wrapped.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Envelope"))]
    pub envelope: &'static str,
    /// Which jobs it hears of; absent if of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<WebhookFilterView>,
    /// What it is for.
    pub description: Option<String>,
    /// When it was registered.
    pub created_at: String,
    /// When its owner last changed it.
    pub updated_at: String,
    /// Whether anything is sent.
    pub enabled: bool,
    /// Since when nothing is sent.
    pub disabled_at: Option<String>,
    /// Its owner said so; it answered 410; or it failed for too long.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::DisabledReason>"))]
    pub disabled_reason: Option<&'static str>,
    /// How deliveries have gone.
    pub health: HealthView,
    /// What deliveries are signed with; shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Until when they are signed with the secret before too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_secret_until: Option<String>,
}

/// Which jobs a webhook hears of: those that fit every list, and of each list one entry.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "WebhookFilter"))]
pub struct WebhookFilterView {
    /// Names of queues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// Types; `*` stands for any characters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl WebhookFilterView {
    fn new(filter: &WebhookFilter) -> Option<WebhookFilterView> {
        let WebhookFilter { queues, types, tags } = filter.clone();
        (!filter.is_empty()).then_some(WebhookFilterView { queues, types, tags })
    }
}

/// How deliveries to a webhook have gone.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "WebhookHealth"))]
pub struct HealthView {
    /// Attempts that failed since the last success.
    pub failures_in_a_row: u32,
    /// Deliveries given up since the last success.
    pub given_up_in_a_row: u32,
    /// When the first of these failures was.
    pub failing_since: Option<String>,
    /// When one last arrived, give or take a minute.
    pub last_success_at: Option<String>,
    /// When one last failed.
    pub last_failure_at: Option<String>,
}

impl WebhookView {
    /// The webhook at a moment, with its secret if it was just made.
    pub fn new(webhook: &Webhook, secret: Option<String>, now: Time) -> WebhookView {
        let health = &webhook.health;
        let previous = webhook.secrets.previous.as_ref().filter(|(_, until)| now < *until);
        WebhookView {
            webhook_id: webhook.id.to_string(),
            url: webhook.url.clone(),
            events: names_of(webhook.events),
            envelope: match webhook.envelope {
                Envelope::None => "none",
                Envelope::Structured => "cloudevents",
                Envelope::Binary => "cloudevents-binary",
                Envelope::Ojs => "ojs",
            },
            filter: WebhookFilterView::new(&webhook.filter),
            description: webhook.description.clone(),
            created_at: time::millis(webhook.created_at),
            updated_at: time::millis(webhook.updated_at),
            enabled: webhook.disabled.is_none(),
            disabled_at: webhook.disabled.map(|disabled| time::millis(disabled.at)),
            disabled_reason: webhook.disabled.map(|disabled| words::disabled_reason(disabled.reason)),
            health: HealthView {
                failures_in_a_row: health.failures,
                given_up_in_a_row: health.given_up,
                failing_since: health.failing_since.map(time::millis),
                last_success_at: health.last_success_at.map(time::millis),
                last_failure_at: health.last_failure_at.map(time::millis),
            },
            secret,
            previous_secret_until: previous.map(|(_, until)| time::millis(*until)),
        }
    }
}

/// A page of webhooks, oldest first.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Webhooks"))]
pub struct WebhooksView {
    /// The webhooks.
    pub webhooks: Vec<WebhookView>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// It was deleted: a webhook, a job.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Deleted"))]
pub struct DeletedView {
    /// Always true.
    pub deleted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events_are_read_in_every_spelling() {
        for (word, name) in [
            ("job_failed", EventName::Failed),
            ("JOB-FAILED", EventName::Failed),
            ("job.timed-out", EventName::TimedOut),
            ("job.cancelled", EventName::Canceled),
            ("job_canceled", EventName::Canceled),
            ("job-completed", EventName::Succeeded),
        ] {
            assert_eq!(parse_event(word), Some(Events::only(name)), "{word}");
        }
        assert_eq!(parse_event("webhook-disabled"), Some(Events::WEBHOOK_DISABLED));
        assert_eq!(parse_event("*"), Some(Events::ALL));
        for word in ["", "failed", "job failed", "job_exploded", "**"] {
            assert_eq!(parse_event(word), None, "{word}");
        }
        for name in event_names() {
            assert_eq!(names_of(parse_event(name).unwrap()), [name]);
        }
    }

    #[test]
    fn everything_wrong_with_a_registration_is_named() {
        for (body, kind, pointers) in [
            ("{}", Kind::MalformedRequest, vec!["#/url", "#/events"]),
            (r#"{"url":1,"events":"*"}"#, Kind::MalformedRequest, vec!["#/url", "#/events"]),
            (r#"{"url":"http://a","events":[]}"#, Kind::InvalidArgs, vec!["#/events"]),
            (
                r#"{"url":"http://a","events":["x"],"envelope":"y"}"#,
                Kind::InvalidArgs,
                vec!["#/events", "#/envelope"],
            ),
            (
                r#"{"url":"http://a","events":["*"],"filter":{"tag":["x"],"types":"y"}}"#,
                Kind::MalformedRequest,
                vec!["#/filter", "#/filter/types"],
            ),
            (
                r#"{"url":"http://a","events":["*"],"filter":{"queues":["a",""]}}"#,
                Kind::InvalidArgs,
                vec!["#/filter/queues"],
            ),
            (
                r#"{"url":"http://a","events":["*"],"enabled":"no"}"#,
                Kind::MalformedRequest,
                vec!["#/enabled"],
            ),
        ] {
            let refused = read_webhook(body.as_bytes()).unwrap_err();
            assert_eq!(refused.kind, kind, "{body}");
            let named: Vec<&str> =
                refused.violations.iter().map(|violation| violation.pointer.as_str()).collect();
            assert_eq!(named, pointers, "{body}");
        }
        assert_eq!(read_webhook_change(b"{}").unwrap(), WebhookRequest::default());
        let change = read_webhook_change(br#"{"description":null,"enabled":false}"#).unwrap();
        assert_eq!((change.description, change.enabled), (Some(None), Some(false)));
        let change = read_webhook_change(br#"{"filter":{"types":["invoice.*"],"tags":[]}}"#).unwrap();
        let filter = WebhookFilter { types: vec!["invoice.*".into()], ..WebhookFilter::default() };
        assert_eq!(change.filter, Some(filter));
        let change = read_webhook_change(br#"{"filter":null}"#).unwrap();
        assert_eq!(change.filter, Some(WebhookFilter::default()));
    }
}
