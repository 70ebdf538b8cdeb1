//! What goes with a job to be shown again as it was given. Stored as JSON beside the payload; nothing in it decides anything.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::members::Members;

/// What a client gave, as it gave it.
#[derive(Debug, Default, Deserialize)]
pub struct Kept<'a> {
    /// The address of a schema.
    #[serde(borrow)]
    pub schema: Option<&'a RawValue>,
    /// The retry policy.
    #[serde(borrow)]
    pub retry: Option<&'a RawValue>,
    /// What must be unique.
    #[serde(borrow)]
    pub unique: Option<&'a RawValue>,
    /// The named limit.
    #[serde(borrow)]
    pub rate_limit: Option<&'a RawValue>,
    /// Several named limits.
    #[serde(borrow)]
    pub limits: Option<&'a RawValue>,
    /// The fair key.
    #[serde(borrow)]
    pub fair: Option<&'a RawValue>,
    /// A moment to begin.
    #[serde(borrow)]
    pub scheduled_at: Option<&'a RawValue>,
    /// A moment to give up.
    #[serde(borrow)]
    pub expires_at: Option<&'a RawValue>,
    /// Members that OJS does not know.
    #[serde(borrow, default)]
    pub unknown: Members<'a>,
}

impl<'a> Kept<'a> {
    /// Reads what an envelope left; what other dialects left is nothing.
    pub fn of(bytes: &'a [u8]) -> Kept<'a> {
        if bytes.is_empty() { Kept::default() } else { serde_json::from_slice(bytes).unwrap_or_default() }
    }
}

/// Writes an object from members that are JSON already; a name put twice keeps its last value.
#[derive(Default)]
pub struct ObjectWriter<'a>(Vec<(&'a str, String)>);

impl<'a> ObjectWriter<'a> {
    /// Adds a member.
    pub fn put(&mut self, name: &'a str, value: &str) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value.to_owned(),
            None => self.0.push((name, value.to_owned())),
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object.
    pub fn finish(self) -> Vec<u8> {
        let mut text = String::from("{");
        for (at, (name, value)) in self.0.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(&serde_json::Value::from(*name).to_string());
            text.push(':');
            text.push_str(value);
        }
        text.push('}');
        text.into_bytes()
    }
}
