//! Unique jobs: which dimensions make two jobs the same, and the fingerprint of them.
//!
//! A fingerprint begins with the owner, so keys of different clients or tenants never meet.

use std::time::Duration;

use forge_core::catalog::Kind;
use forge_core::id::ClientId;
use forge_problem::{Digest, canonical};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::duration;
use super::members::{Members, Wrong};
use super::state::StateWord;

/// What must be unique, for how long, against which jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uniqueness {
    queue: bool,
    args: bool,
    meta: bool,
    args_keys: Vec<String>,
    meta_keys: Vec<String>,
    /// How long the key is held at most.
    pub period: Option<Duration>,
    /// Where the other job must stand to count.
    pub states: Vec<StateWord>,
    /// What happens to the newcomer.
    pub on_conflict: OnConflict,
}

/// What happens when the key is held already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "OJS's words")]
pub enum OnConflict {
    Reject,
    Ignore,
    Replace,
    ReplaceExceptSchedule,
}

/// Where a job counts unless said otherwise: everywhere before its end.
const STATES: [StateWord; 5] =
    [StateWord::Available, StateWord::Active, StateWord::Scheduled, StateWord::Retryable, StateWord::Pending];

/// What the policy at `at` says.
pub fn read(at: &str, value: &RawValue, wrong: &mut Wrong) -> Option<Uniqueness> {
    let kind = Kind::MalformedRequest;
    let Some(members) = Members::of_value(value) else {
        wrong.add_value(kind, at, value, "must be an object", "type");
        return None;
    };
    let mut list = |name: &str| -> Option<Vec<String>> {
        wrong.typed(kind, &format!("{at}.{name}"), members.get(name), "a list of strings")
    };
    let keys = list("keys").or_else(|| list("key")).unwrap_or_default();
    let (args_keys, meta_keys, states) = (list("args_keys"), list("meta_keys"), list("states"));
    let mut unique = Uniqueness {
        queue: false,
        args: false,
        meta: false,
        args_keys: args_keys.unwrap_or_default(),
        meta_keys: meta_keys.unwrap_or_default(),
        period: None,
        states: STATES.to_vec(),
        on_conflict: OnConflict::Reject,
    };
    unique.take_dimensions(keys);
    if unique.meta && unique.meta_keys.is_empty() {
        wrong.add(kind, &format!("{at}.meta_keys"), "is needed where meta is a dimension", "required");
    }
    if let Some(states) = states {
        unique.states = states.iter().filter_map(|state| StateWord::parse(state)).collect();
        if unique.states.len() != states.len() || states.is_empty() {
            wrong.add(kind, &format!("{at}.states"), "must be a list of OJS states", "enum");
        }
    }
    if let Some(value) = members.get("period") {
        let text = serde_json::from_str::<String>(value.get()).ok();
        unique.period = text.and_then(|text| duration::parse(&text)).filter(|period| !period.is_zero());
        if unique.period.is_none() {
            let path = format!("{at}.period");
            wrong.add_value(kind, &path, value, "must be a duration above zero, such as PT1H", "format");
        }
    }
    if let Some(value) = members.get("on_conflict") {
        match serde_json::from_str::<String>(value.get()).ok().as_deref().and_then(on_conflict) {
            Some(on_conflict) => unique.on_conflict = on_conflict,
            None => {
                let detail = "must be reject, ignore, replace or replace_except_schedule";
                wrong.add_value(kind, &format!("{at}.on_conflict"), value, detail, "enum");
            }
        }
    }
    Some(unique)
}

fn on_conflict(word: &str) -> Option<OnConflict> {
    match word {
        "reject" => Some(OnConflict::Reject),
        "ignore" => Some(OnConflict::Ignore),
        "replace" => Some(OnConflict::Replace),
        "replace_except_schedule" => Some(OnConflict::ReplaceExceptSchedule),
        _ => None,
    }
}

/// What a job brings to its fingerprint.
#[derive(Clone, Copy, Debug)]
pub struct Dimensions<'a> {
    /// Whose job it is.
    pub client: ClientId,
    /// The tenant, if the client has some.
    pub tenant: Option<&'a str>,
    /// Its type, which always counts.
    pub job_type: &'a str,
    /// Its queue.
    pub queue: &'a str,
    /// Its arguments, as received.
    pub args: &'a [u8],
    /// Its metadata, as received.
    pub meta: &'a [u8],
}

impl Uniqueness {
    /// Two documents, two meanings of `key(s)`: names of dimensions, or of members of the first argument.
    fn take_dimensions(&mut self, keys: Vec<String>) {
        let dimensions = ["type", "queue", "args", "meta"];
        if keys.iter().all(|key| dimensions.contains(&key.as_str())) {
            let has = |name: &str| keys.iter().any(|key| key == name);
            (self.queue, self.args, self.meta) = (has("queue"), has("args"), has("meta"));
        } else {
            self.args_keys.extend(keys.into_iter().filter(|key| key != "type"));
        }
    }

    /// The fingerprint of a job; `None` if its arguments cannot be read.
    pub fn key(&self, of: Dimensions<'_>) -> Option<[u8; 32]> {
        let read = |bytes: &[u8]| -> Option<Value> {
            if bytes.is_empty() { Some(Value::Null) } else { serde_json::from_slice(bytes).ok() }
        };
        let mut chosen = Map::new();
        chosen.insert("type".into(), of.job_type.into());
        if self.queue {
            chosen.insert("queue".into(), of.queue.into());
        }
        if !self.args_keys.is_empty() {
            let args = read(of.args)?;
            let first = args.get(0).unwrap_or(&args);
            chosen.insert("args".into(), picked(first, &self.args_keys));
        } else if self.args {
            chosen.insert("args".into(), read(of.args)?);
        }
        if !self.meta_keys.is_empty() {
            chosen.insert("meta".into(), picked(&read(of.meta)?, &self.meta_keys));
        }
        let owned = json!([of.client.to_string(), of.tenant, chosen]);
        Some(Digest::of(canonical(&owned).as_bytes()).0)
    }
}

fn picked(object: &Value, keys: &[String]) -> Value {
    keys.iter().map(|key| (key.clone(), object.get(key).cloned().unwrap_or(Value::Null))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unique(text: &str) -> Result<Uniqueness, Kind> {
        let value = RawValue::from_string(text.into()).unwrap();
        let mut wrong = Wrong::default();
        let read = read("options.unique", &value, &mut wrong);
        wrong.settle(read).map_err(|refused| refused.kind)
    }

    fn job<'a>(args: &'a str, queue: &'a str, client: u128) -> Dimensions<'a> {
        let client = ClientId::from_u128(client);
        Dimensions {
            client,
            tenant: None,
            job_type: "a.b",
            queue,
            args: args.as_bytes(),
            meta: br#"{"m":1}"#,
        }
    }

    #[test]
    fn only_chosen_dimensions_count() {
        let key = |policy: &str, of| unique(policy).unwrap().key(of).unwrap();
        let (a, b) = (job("[1]", "q", 1), job("[2]", "q", 1));
        for policy in ["{}", r#"{"keys":["type"]}"#, r#"{"keys":["type","queue"]}"#] {
            assert_eq!(key(policy, a), key(policy, b), "{policy}");
        }
        let by_args = r#"{"keys":["type","args"]}"#;
        assert_ne!(key(by_args, a), key(by_args, b));
        assert_eq!(key(by_args, a), key(r#"{"key":["args"]}"#, a), "type always counts");
        assert_eq!(key(by_args, a), key(by_args, job("[ 1.0 ]", "q", 1)), "layout does not");
        assert_ne!(key("{}", a), key("{}", job("[1]", "q", 2)), "nor do keys of others meet");
        let by_user = r#"{"key":["user"]}"#;
        let (x, y) = (job(r#"[{"user":7,"n":1}]"#, "q", 1), job(r#"[{"user":7,"n":2}]"#, "r", 1));
        assert_eq!(key(by_user, x), key(by_user, y));
        assert_eq!(key(by_user, x), key(r#"{"args_keys":["user"]}"#, y));
    }

    #[test]
    fn a_bad_policy_is_refused() {
        let bad = [
            "1",
            r#"{"keys":"type"}"#,
            r#"{"keys":["meta"]}"#,
            r#"{"states":["nowhere"]}"#,
            r#"{"states":[]}"#,
            r#"{"period":"later"}"#,
            r#"{"period":"PT0S"}"#,
            r#"{"on_conflict":"explode"}"#,
        ];
        for text in bad {
            assert_eq!(unique(text), Err(Kind::MalformedRequest), "{text}");
        }
        assert_eq!(
            unique(r#"{"on_conflict":"replace_except_schedule"}"#).unwrap().on_conflict,
            OnConflict::ReplaceExceptSchedule
        );
    }
}
