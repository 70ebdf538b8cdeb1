//! Webhook subscriptions of OJS: what a client sends to have one, and how one is shown (D34). A subscription is a webhook like any other.

use forgerun_core::catalog::Kind;
use forgerun_core::history::EventName;
use forgerun_core::webhook::{Events, Webhook};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::members::{Members, ViolationList};
use crate::body::quoted;
use crate::forge::WEBHOOK_DESCRIPTION_BYTES_MAX as DESCRIPTION_BYTES_MAX;
use crate::hint::nearest;
use crate::problem::RefusedRequest;
use crate::time;

/// Bytes of a secret that a client chooses.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 8..=64;

const BAD: Kind = Kind::MalformedRequest;

/// The names that a subscription can ask for, and what each stands for.
const NAMES: [(&str, Events); 7] = [
    ("job.enqueued", Events::only(EventName::Queued)),
    ("job.started", Events::only(EventName::Started)),
    ("job.progress", Events::only(EventName::Progress)),
    ("job.completed", Events::only(EventName::Succeeded)),
    ("job.failed", Events::only(EventName::Failed)),
    ("job.discarded", Events::RETRIES_EXHAUSTED),
    ("job.cancelled", Events::only(EventName::Canceled)),
];

/// Names of which we tell with others: those of workflows, whose own jobs are jobs, and those that come with another name.
const WITH_OTHERS: [(&str, &str); 8] = [
    ("job.retrying", "job.failed"),
    ("job.expired", "job.cancelled"),
    ("job.canceled", "job.cancelled"),
    ("workflow.started", "job.started"),
    ("workflow.step_completed", "job.progress"),
    ("workflow.completed", "job.completed"),
    ("workflow.failed", "job.failed"),
    ("workflow.cancelled", "job.cancelled"),
];

/// Everything that OJS has a name for.
fn all() -> Events {
    NAMES.iter().fold(Events::NONE, |all, (_, events)| all.with(*events))
}

fn parse(word: &str) -> Option<Events> {
    if matches!(word, "*" | "job.*") {
        return Some(all());
    }
    let word = WITH_OTHERS.iter().find(|(name, _)| *name == word).map_or(word, |(_, with)| with);
    NAMES.iter().find(|(name, _)| *name == word).map(|(_, events)| *events)
}

/// What a client wants of a subscription; `None` leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionRequest {
    /// Where to send to.
    pub url: Option<String>,
    /// What to tell of.
    pub events: Option<Events>,
    /// What to sign with.
    pub secret: Option<String>,
    /// Whether anything is sent.
    pub active: Option<bool>,
    /// What the client says about it, as JSON.
    pub metadata: Option<String>,
}

/// Reads the body of a subscription to be; it needs an address and events.
pub fn read_subscription(body: &[u8]) -> Result<SubscriptionRequest, Box<RefusedRequest>> {
    read(body, &["url", "events"])
}

/// Reads the body of a change.
pub fn read_subscription_change(body: &[u8]) -> Result<SubscriptionRequest, Box<RefusedRequest>> {
    read(body, &[])
}

fn read(body: &[u8], required: &[&str]) -> Result<SubscriptionRequest, Box<RefusedRequest>> {
    let members = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    for name in required.iter().filter(|name| members.get(name).is_none()) {
        violations.add(BAD, name, "is required", "required");
    }
    if let Some(value) = members.get("filter").filter(|value| value.get() != "{}") {
        let detail = "is not supported: a subscription hears of all queues and types";
        violations.add_value(Kind::UnsupportedFeature, "filter", value, detail, "unsupported");
    }
    let secret: Option<String> = violations.typed(BAD, "secret", members.get("secret"), "a string");
    if secret.as_ref().is_some_and(|secret| !SECRET_BYTES.contains(&secret.len())) {
        violations.add(BAD, "secret", "must have 8 to 64 bytes", "length");
    }
    let request = SubscriptionRequest {
        url: violations.typed(BAD, "url", members.get("url"), "a string"),
        events: members.get("events").and_then(|value| events(value, &mut violations)),
        secret,
        active: violations.typed(BAD, "active", members.get("active"), "true or false"),
        metadata: members.get("metadata").and_then(|value| metadata(value, &mut violations)),
    };
    violations.settle(Some(request))
}

fn events(value: &RawValue, violations: &mut ViolationList) -> Option<Events> {
    let words: Vec<String> = violations.typed(BAD, "events", Some(value), "a list of names")?;
    if words.is_empty() {
        violations.add(BAD, "events", "must name at least one event", "minItems");
    }
    let mut events = Events::NONE;
    for word in &words {
        match parse(word) {
            Some(known) => events = events.with(known),
            None => {
                let names = NAMES.iter().map(|(name, _)| *name);
                let detail = match nearest(word, names.clone()) {
                    Some(near) => format!("must name events, not `{}`; did you mean `{near}`?", quoted(word)),
                    None => format!("must name *, job.* or some of {}", names.collect::<Vec<_>>().join(", ")),
                };
                violations.add_value(BAD, "events", value, detail, "enum");
                break;
            }
        }
    }
    Some(events)
}

/// What a client says about it is kept as its description.
fn metadata(value: &RawValue, violations: &mut ViolationList) -> Option<String> {
    let members: Map<String, Value> = violations.typed(BAD, "metadata", Some(value), "an object")?;
    let text = Value::Object(members).to_string();
    if text.len() > DESCRIPTION_BYTES_MAX {
        let detail = format!("must have at most {DESCRIPTION_BYTES_MAX} bytes");
        violations.add(Kind::MetadataTooLarge, "metadata", detail, "maxLength");
    }
    Some(text)
}

/// A subscription.
pub fn subscription_view(webhook: &Webhook, secret: Option<&str>) -> Map<String, Value> {
    let names = NAMES.iter().filter(|(_, events)| webhook.events.contains(*events)).map(|(name, _)| *name);
    let mut view = Map::new();
    view.insert("id".into(), webhook.id.to_string().into());
    view.insert("url".into(), webhook.url.as_str().into());
    view.insert("events".into(), names.collect());
    view.insert("active".into(), webhook.disabled.is_none().into());
    if let Some(text) = &webhook.description {
        let said: Option<Map<String, Value>> = serde_json::from_str(text).ok();
        view.insert("metadata".into(), said.map_or_else(|| json!({"description": text}), Value::from));
    }
    view.insert("created_at".into(), time::millis(webhook.created_at).into());
    view.insert("updated_at".into(), time::millis(webhook.updated_at).into());
    if let Some(secret) = secret {
        view.insert("secret".into(), secret.into());
    }
    view
}

/// The answer about one: within `subscription` as published cases look for it, and its members at the top.
pub fn subscription_answer(webhook: &Webhook, secret: Option<&str>) -> Value {
    let view = subscription_view(webhook, secret);
    let mut answer = view.clone();
    answer.insert("subscription".into(), view.into());
    answer.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_events(words: &str) -> Events {
        let body = format!(r#"{{"url":"https://example.com","events":{words}}}"#);
        read_subscription(body.as_bytes()).unwrap().events.unwrap()
    }

    #[test]
    fn names_stand_for_what_happens_to_jobs() {
        assert_eq!(read_events(r#"["job.completed"]"#), Events::only(EventName::Succeeded));
        assert_eq!(read_events(r#"["workflow.completed"]"#), Events::only(EventName::Succeeded));
        assert_eq!(read_events(r#"["job.*"]"#), all());
        assert!(!all().contains(Events::only(EventName::Assigned)), "OJS has no word for it");
        assert_eq!(read_events(r#"["job.discarded","job.retrying"]"#).with(Events::NONE), {
            Events::RETRIES_EXHAUSTED.with(Events::only(EventName::Failed))
        });
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (body, pointer) in [
            ("{}", "#/url"),
            (r#"{"url":"x","events":[]}"#, "#/events"),
            (r#"{"url":"x","events":["job.imagined"]}"#, "#/events"),
            (r#"{"url":"x","events":["*"],"filter":{"queues":["a"]}}"#, "#/filter"),
            (r#"{"url":"x","events":["*"],"secret":"short"}"#, "#/secret"),
            (r#"{"url":"x","events":["*"],"metadata":7}"#, "#/metadata"),
            (r#"{"url":"x","events":["*"],"active":"yes"}"#, "#/active"),
        ] {
            let refused = read_subscription(body.as_bytes()).unwrap_err();
            assert_eq!(refused.violations[0].pointer, pointer, "{body}");
        }
        assert_eq!(read_subscription_change(b"{}").unwrap(), SubscriptionRequest::default());
    }
}
