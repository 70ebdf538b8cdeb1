//! Named limits: how many jobs of a key may run at once, or be handed out per span of time.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::job::Rate;
use forgerun_core::limits::JOB_LIMITS_MAX;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::duration;
use super::members::{Members, ViolationList};
use crate::request::{at_least, list, maybe, name, or, text};

/// Bytes of a limit's key: room for the owner before it.
const KEY_BYTES_MAX: usize = 128;

/// A limit as the client gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// What the jobs share; `None` for their queue.
    pub key: Option<String>,
    /// How many may run at once.
    pub concurrency: Option<u32>,
    /// How many may be handed out per span.
    pub rate: Option<Rate>,
}

/// What `limits` at `at` says: up to four, each with a key of its own.
pub fn read_all(at: &str, value: &RawValue, violations: &mut ViolationList) -> Vec<Limited> {
    let kind = Kind::MalformedRequest;
    let items: Option<Vec<&RawValue>> = serde_json::from_str(value.get()).ok();
    let Some(items) = items.filter(|items| items.len() <= JOB_LIMITS_MAX) else {
        violations.add_value(kind, at, value, "must be a list of at most 4 limits", "maxItems");
        return Vec::new();
    };
    let mut limits: Vec<Limited> = Vec::new();
    for (n, item) in items.into_iter().enumerate() {
        let at = format!("{at}.{n}");
        let Some(limit) = read(&at, item, violations) else { continue };
        let path = format!("{at}.key");
        match &limit.key {
            None => violations.add(kind, &path, "must be given", "required"),
            Some(_) if limits.iter().any(|other| other.key == limit.key) => {
                violations.add(kind, &path, "must be another one in each limit", "uniqueItems");
            }
            Some(_) => limits.push(limit),
        }
    }
    limits
}

/// The schema of `limits`.
pub(crate) fn schema() -> Value {
    let item = json!({
        "type": "object",
        "properties": {
            "key": name(KEY_BYTES_MAX),
            "concurrency": at_least(1),
            "rate": at_least(1),
            "period": or(text(), "second"),
        },
        "required": ["key"],
    });
    let mut all = list(item);
    all["maxItems"] = json!(JOB_LIMITS_MAX);
    maybe(all)
}

/// What `rate_limit` at `at` says.
pub fn read(at: &str, value: &RawValue, violations: &mut ViolationList) -> Option<Limited> {
    let kind = Kind::MalformedRequest;
    let Some(members) = Members::of_value(value) else {
        violations.add_value(kind, at, value, "must be an object", "type");
        return None;
    };
    let path = |name: &str| format!("{at}.{name}");
    let key: Option<String> = violations.typed(kind, &path("key"), members.get("key"), "a string");
    let proper =
        |key: &String| !key.is_empty() && key.len() <= KEY_BYTES_MAX && !key.chars().any(char::is_control);
    if key.as_ref().is_some_and(|key| !proper(key)) {
        violations.add(kind, &path("key"), "must have 1 to 128 bytes and no control characters", "format");
    }
    let concurrency: Option<u32> =
        violations.typed(kind, &path("concurrency"), members.get("concurrency"), "an integer of at least 1");
    if concurrency == Some(0) {
        violations.add(kind, &path("concurrency"), "must be an integer of at least 1", "minimum");
    }
    let rate = rates(&members, &path, violations);
    if let Some(value) = members.get("on_limit") {
        match serde_json::from_str::<String>(value.get()).as_deref() {
            // A job that must wait has the next free moment reserved for it: both words mean that here.
            Ok("wait" | "reschedule") => {}
            Ok("drop") => {
                let detail = "drop is not supported; jobs wait for their turn";
                violations.add_value(
                    Kind::UnsupportedFeature,
                    &path("on_limit"),
                    value,
                    detail,
                    "unsupported",
                );
            }
            _ => violations.add_value(kind, &path("on_limit"), value, "must be wait or reschedule", "enum"),
        }
    }
    if concurrency.is_none() && rate.is_none() && violations.is_empty() {
        violations.add(kind, at, "must have max_per_second, concurrency, rate or throttle", "required");
    }
    Some(Limited { key, concurrency, rate })
}

/// The one rate among the ways to say it.
fn rates(
    members: &Members<'_>,
    path: &dyn Fn(&str) -> String,
    violations: &mut ViolationList,
) -> Option<Rate> {
    let kind = Kind::MalformedRequest;
    let second = Duration::from_secs(1);
    let mut found = Vec::new();
    if let Some(value) = members.get("max_per_second") {
        found.push(counted(value, second).ok_or(("max_per_second", value)));
    }
    if let Some(value) = members.get("rate") {
        let rate = match Members::of_value(value) {
            Some(inner) => window(&inner),
            None => counted(value, members.get("period").map_or(Some(second), period).unwrap_or_default()),
        };
        found.push(rate.ok_or(("rate", value)));
    }
    if let Some(value) = members.get("throttle") {
        // Evenly spread: one at a time.
        let even = Members::of_value(value).and_then(|inner| window(&inner));
        let even = even.map(|rate| Rate { count: 1, per: rate.per / rate.count });
        found.push(even.ok_or(("throttle", value)));
    }
    if found.len() > 1 {
        let detail = "only one of max_per_second, rate and throttle is supported";
        violations.add(Kind::UnsupportedFeature, &path("rate"), detail, "unsupported");
        return None;
    }
    match found.pop()? {
        Ok(rate) => Some(rate),
        Err((name, value)) => {
            let detail = "must be a count of at least 1 per second, minute, hour, day or duration";
            violations.add_value(kind, &path(name), value, detail, "format");
            None
        }
    }
}

fn window(inner: &Members<'_>) -> Option<Rate> {
    counted(inner.get("limit")?, period(inner.get("period")?)?)
}

fn counted(value: &RawValue, per: Duration) -> Option<Rate> {
    let count: u32 = serde_json::from_str(value.get()).ok()?;
    (count > 0 && !per.is_zero()).then_some(Rate { count, per })
}

fn period(value: &RawValue) -> Option<Duration> {
    let text: String = serde_json::from_str(value.get()).ok()?;
    match text.as_str() {
        "second" => Some(Duration::from_secs(1)),
        "minute" => Some(Duration::from_secs(60)),
        "hour" => Some(Duration::from_secs(3600)),
        "day" => Some(Duration::from_secs(24 * 3600)),
        text => duration::parse(text).filter(|span| !span.is_zero()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(text: &str) -> Result<Limited, Kind> {
        let value = RawValue::from_string(text.into()).unwrap();
        let mut violations = ViolationList::default();
        let read = read("options.rate_limit", &value, &mut violations);
        violations.settle(read).map_err(|refused| refused.kind)
    }

    #[test]
    fn every_way_to_say_a_rate_is_understood() {
        let rate = |count, ms| Some(Rate { count, per: Duration::from_millis(ms) });
        let cases = [
            (r#"{"max_per_second":5}"#, None, None, rate(5, 1000)),
            (r#"{"key":"k","concurrency":2}"#, Some("k"), Some(2), None),
            (r#"{"key":"k","rate":10,"period":"minute"}"#, Some("k"), None, rate(10, 60_000)),
            (r#"{"key":"k","rate":10}"#, Some("k"), None, rate(10, 1000)),
            (
                r#"{"key":"k","rate":{"limit":9,"period":"PT1M"},"on_limit":"wait"}"#,
                Some("k"),
                None,
                rate(9, 60_000),
            ),
            (r#"{"key":"k","throttle":{"limit":5,"period":"PT1S"}}"#, Some("k"), None, rate(1, 200)),
        ];
        for (text, key, concurrency, rate) in cases {
            let expected = Limited { key: key.map(Into::into), concurrency, rate };
            assert_eq!(limited(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let bad = [
            "1",
            "{}",
            r#"{"key":"k"}"#,
            r#"{"key":""}"#,
            r#"{"max_per_second":0}"#,
            r#"{"max_per_second":-1}"#,
            r#"{"key":"k","concurrency":0}"#,
            r#"{"key":"k","rate":5,"period":"fortnight"}"#,
            r#"{"key":"k","rate":{"limit":5}}"#,
            r#"{"key":"k","concurrency":1,"on_limit":"explode"}"#,
        ];
        for text in bad {
            assert_eq!(limited(text), Err(Kind::MalformedRequest), "{text}");
        }
        for text in [r#"{"rate":1,"max_per_second":1}"#, r#"{"concurrency":1,"on_limit":"drop"}"#] {
            assert_eq!(limited(text), Err(Kind::UnsupportedFeature), "{text}");
        }
    }
}
