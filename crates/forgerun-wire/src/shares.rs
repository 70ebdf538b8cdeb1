//! Fair keys of jobs, in every dialect: `"fair": {"key": "customer-7", "weight": 2}`.

use forgerun_core::fair::Fair;
use forgerun_core::job::Name;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::body::violation;
use crate::problem::Violation;
use crate::request::{at_least, maybe, name};

/// What is wrong with a fair key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadFair {
    /// Empty for the whole.
    pub(crate) member: &'static str,
    pub(crate) detail: &'static str,
    pub(crate) constraint: &'static str,
}

impl BadFair {
    pub(crate) fn violation(self) -> Violation {
        let name = if self.member.is_empty() { "fair".into() } else { format!("fair/{}", self.member) };
        violation(&name, self.detail, self.constraint)
    }
}

/// Reads a fair key. Its weight is 1 unless it is given.
pub(crate) fn read(value: &RawValue) -> Result<Fair, BadFair> {
    let bad = |member, detail, constraint| BadFair { member, detail, constraint };
    let whole = "must be an object with `key`, and `weight` if it is not 1";
    let members: Map<String, Value> =
        serde_json::from_str(value.get()).map_err(|_| bad("", whole, "type"))?;
    if members.keys().any(|name| !matches!(name.as_str(), "key" | "weight")) {
        return Err(bad("", whole, "unknown"));
    }
    let key = members.get("key").and_then(Value::as_str).and_then(Name::new);
    let key =
        key.ok_or(bad("key", "must be a text of 1 to 255 bytes without control characters", "format"))?;
    let weight = match members.get("weight") {
        None | Some(Value::Null) => Some(1),
        Some(weight) => weight.as_u64().and_then(|weight| u8::try_from(weight).ok()),
    };
    let fair = weight.and_then(|weight| Fair::new(key, weight));
    fair.ok_or(bad("weight", "must be an integer from 1 to 100", "range"))
}

/// The schema of a fair key.
pub(crate) fn schema() -> Value {
    let mut weight = at_least(1);
    weight["maximum"] = json!(100);
    weight["default"] = json!(1);
    maybe(json!({
        "type": "object",
        "properties": {"key": name(255), "weight": weight},
        "required": ["key"],
        "additionalProperties": false,
    }))
}

/// A fair key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FairKey"))]
pub struct FairView {
    /// Jobs of one key take turns with those of others.
    pub key: String,
    /// How many turns it gets for one of a key of weight 1.
    pub weight: u8,
}

impl FairView {
    pub fn new(fair: &Fair) -> FairView {
        FairView { key: fair.key.as_str().to_owned(), weight: fair.weight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fair_key_is_read_or_refused_where_it_is_wrong() {
        let read = |text: &str| {
            let value = RawValue::from_string(text.to_owned()).unwrap();
            read(&value)
                .map(|fair| (fair.key.to_string(), fair.weight))
                .map_err(|bad| bad.violation().pointer)
        };
        let good = |key: &str, weight| Ok((key.to_owned(), weight));
        let long = format!(r#"{{"key":"{}"}}"#, "k".repeat(256));
        for (text, expected) in [
            (r#"{"key":"a"}"#, good("a", 1)),
            (r#"{"key":"ü 1","weight":100}"#, good("ü 1", 100)),
            (r#"{"key":"a","weight":null}"#, good("a", 1)),
            (r#""a""#, Err("#/fair".to_owned())),
            (r#"{"key":"a","wieght":3}"#, Err("#/fair".to_owned())),
            (r#"{"weight":3}"#, Err("#/fair/key".to_owned())),
            (r#"{"key":""}"#, Err("#/fair/key".to_owned())),
            (r#"{"key":"a\n"}"#, Err("#/fair/key".to_owned())),
            (&long, Err("#/fair/key".to_owned())),
            (r#"{"key":"a","weight":0}"#, Err("#/fair/weight".to_owned())),
            (r#"{"key":"a","weight":101}"#, Err("#/fair/weight".to_owned())),
            (r#"{"key":"a","weight":1.5}"#, Err("#/fair/weight".to_owned())),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
