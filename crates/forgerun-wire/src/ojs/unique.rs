//! Unique jobs: which dimensions make two jobs the same, and the fingerprint of them.
//!
//! A fingerprint begins with the owner, so keys of different clients or tenants never meet. Characters that Unicode writes in two ways are
//! one (NFC), in what is compared; nothing that is kept is changed.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::id::ClientId;
use forgerun_problem::{Digest, canonical};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use unicode_normalization::{UnicodeNormalization, is_nfc};

use super::duration;
use super::members::{Members, ViolationList};
use super::state::StateWord;
use super::typos;
use crate::body::quoted;
use crate::hint::nearest;

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
pub enum OnConflict {
    Reject,
    Ignore,
    Replace,
    ReplaceExceptSchedule,
}

/// Where a job counts unless said otherwise: everywhere before its end.
const STATES: [StateWord; 5] =
    [StateWord::Available, StateWord::Active, StateWord::Scheduled, StateWord::Retryable, StateWord::Pending];

/// All that a policy may say.
pub(super) const MEMBERS: [&str; 7] =
    ["keys", "key", "args_keys", "meta_keys", "states", "period", "on_conflict"];

/// The dimensions that `keys` may name.
const DIMENSIONS: [&str; 4] = ["type", "queue", "args", "meta"];

/// Complains about names in `keys`, `args_keys` and `meta_keys` that exist nowhere in the envelope: jobs would be the same by
/// something that none of them has (C-122).
pub(super) fn check_keys(
    at: &str,
    members: &Members<'_>,
    args: &[u8],
    meta: &[u8],
    violations: &mut ViolationList,
) {
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    let (args, meta) = (read(args), read(meta));
    let names = |of: &Value| -> Vec<String> {
        of.as_object().into_iter().flat_map(|of| of.keys().cloned()).collect()
    };
    let of_args = names(args.get(0).unwrap_or(&args));
    for (member, known) in
        [("keys", &of_args), ("key", &of_args), ("args_keys", &of_args), ("meta_keys", &names(&meta))]
    {
        let given =
            members.get(member).and_then(|given| serde_json::from_str::<Vec<String>>(given.get()).ok());
        let mut known: Vec<&str> = known.iter().map(String::as_str).collect();
        if member.starts_with("key") {
            known.extend(DIMENSIONS);
        }
        for name in given.unwrap_or_default().iter().filter(|name| !known.contains(&name.as_str())) {
            let name = quoted(name);
            let detail = match typos::meant(&name, &known).or_else(|| nearest(&name, known.iter().copied())) {
                Some(meant) => {
                    format!("names `{name}`, which is nowhere in the envelope; did you mean `{meant}`?")
                }
                None => format!("names `{name}`, which is nowhere in the envelope"),
            };
            violations.add(Kind::InvalidArgs, &format!("{at}.{member}"), detail, "unknown");
        }
    }
}

/// What the policy at `at` says.
pub fn read(at: &str, value: &RawValue, violations: &mut ViolationList) -> Option<Uniqueness> {
    let kind = Kind::MalformedRequest;
    let Some(members) = Members::of_value(value) else {
        violations.add_value(kind, at, value, "must be an object", "type");
        return None;
    };
    let mut list = |name: &str| -> Option<Vec<String>> {
        violations.typed(kind, &format!("{at}.{name}"), members.get(name), "a list of strings")
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
        violations.add(kind, &format!("{at}.meta_keys"), "is needed where meta is a dimension", "required");
    }
    if let Some(states) = states {
        unique.states = states.iter().filter_map(|state| StateWord::parse(state)).collect();
        if unique.states.len() != states.len() || states.is_empty() {
            violations.add(kind, &format!("{at}.states"), "must be a list of OJS states", "enum");
        }
    }
    if let Some(value) = members.get("period") {
        let text = serde_json::from_str::<String>(value.get()).ok();
        unique.period = text.and_then(|text| duration::parse(&text)).filter(|period| !period.is_zero());
        if unique.period.is_none() {
            let path = format!("{at}.period");
            violations.add_value(kind, &path, value, "must be a duration above zero, such as PT1H", "format");
        }
    }
    if let Some(value) = members.get("on_conflict") {
        match serde_json::from_str::<String>(value.get()).ok().as_deref().and_then(on_conflict) {
            Some(on_conflict) => unique.on_conflict = on_conflict,
            None => {
                let detail = "must be reject, ignore, replace or replace_except_schedule";
                violations.add_value(kind, &format!("{at}.on_conflict"), value, detail, "enum");
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
        if keys.iter().all(|key| DIMENSIONS.contains(&key.as_str())) {
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
        let text =
            |chosen: &Map<String, Value>| canonical(&json!([of.client.to_string(), of.tenant, chosen]));
        let plain = text(&chosen);
        let text = if plain.is_ascii() || is_nfc(&plain) { plain } else { text(&composed_members(chosen)) };
        Some(Digest::of(text.as_bytes()).0)
    }
}

/// The same texts in Unicode's composed form (NFC): `é` is one character, however it was typed.
fn composed(value: Value) -> Value {
    match value {
        Value::String(text) => text.nfc().collect::<String>().into(),
        Value::Array(entries) => entries.into_iter().map(composed).collect(),
        Value::Object(members) => composed_members(members).into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

fn composed_members(members: Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, value) in members {
        let usual: String = name.nfc().collect();
        // Of two names that become one, neither may be lost.
        let name = if all.contains_key(&usual) { name } else { usual };
        all.insert(name, composed(value));
    }
    all
}

fn picked(object: &Value, keys: &[String]) -> Value {
    keys.iter().map(|key| (key.clone(), object.get(key).cloned().unwrap_or(Value::Null))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unique(text: &str) -> Result<Uniqueness, Kind> {
        let value = RawValue::from_string(text.into()).unwrap();
        let mut violations = ViolationList::default();
        let read = read("options.unique", &value, &mut violations);
        violations.settle(read).map_err(|refused| refused.kind)
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
    fn a_character_is_the_same_however_it_is_composed() {
        let by_args = unique(r#"{"keys":["args"]}"#).unwrap();
        let key = |args: &str| by_args.key(job(args, "q", 1)).unwrap();
        for (one, other) in [
            (r#"["\u00e9"]"#, r#"["e\u0301"]"#),
            (r#"[{"\u00e9":["\u00c5"]}]"#, r#"[{"e\u0301":["A\u030a"]}]"#),
            (r#"["\u212b"]"#, r#"["A\u030a"]"#),
        ] {
            assert_eq!(key(one), key(other), "{one} {other}");
        }
        for (one, other) in [
            (r#"["e"]"#, r#"["\u00e9"]"#),
            (r#"["\ufb01"]"#, r#"["fi"]"#),
            (r#"["\n\u0303"]"#, r#"["\u00f1"]"#),
            (r#"[{"\u00e9":1,"e\u0301":2}]"#, r#"[{"\u00e9":2}]"#),
        ] {
            assert_ne!(key(one), key(other), "{one} {other}");
        }
        let of = |tenant| {
            let job = Dimensions { tenant: Some(tenant), ..job(r#"["e\u0301"]"#, "q", 1) };
            by_args.key(job).unwrap()
        };
        assert_ne!(of("\u{e9}"), of("e\u{301}"), "tenants are never mixed up");
    }

    #[test]
    fn the_fingerprints_of_stored_jobs_stay_what_they_were() {
        let hex = |args: &str| {
            let key = unique(r#"{"keys":["args"]}"#).unwrap().key(job(args, "q", 1)).unwrap();
            key.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        assert_eq!(
            hex(r#"[{"a":"plain"}]"#),
            "fb08c4ed8dc7ca379a0dd8eec797e9063782688a4dc0abcdb071c7482e1dc5ba"
        );
        assert_eq!(hex(r#"["\u00e9"]"#), "8ef2de2c473c6ea3c7e97a3d653bfabe7429a0a82875e0391d0bde84fbfcd832");
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
