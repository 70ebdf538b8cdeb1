//! The members of an object that is written once and then kept as bytes. A map of JSON values would own a copy of every name and text, and
//! every job that ends makes such an object in the transaction that ends it.

use std::borrow::Cow;

use serde::ser::{Serialize, Serializer};
use serde_json::Value;

/// Bytes that an object of an event usually takes.
const BYTES_USUAL: usize = 640;

/// EventMembers in any order, each name once.
#[derive(Debug, Default)]
pub(crate) struct EventMembers<'a>(Vec<(&'static str, MemberValue<'a>)>);

/// The value of a member.
#[derive(Debug)]
pub(crate) enum MemberValue<'a> {
    Null,
    True,
    /// Below 2^53, as all that are told of.
    Number(u64),
    Text(Cow<'a, str>),
    /// Any other; objects in it have their names in order.
    Value(Value),
}

impl<'a> EventMembers<'a> {
    pub(crate) fn put(&mut self, name: &'static str, value: impl Into<MemberValue<'a>>) {
        debug_assert!(self.0.iter().all(|(taken, _)| *taken != name), "{name} is there twice");
        self.0.push((name, value.into()));
    }

    /// Canonical JSON (RFC 8785). Names are ASCII and numbers small, so that sorting is all there is to it.
    pub(crate) fn into_canonical(mut self) -> Vec<u8> {
        self.0.sort_unstable_by_key(|(name, _)| *name);
        let mut bytes = Vec::with_capacity(BYTES_USUAL);
        serde_json::to_writer(&mut bytes, &self).expect("a vector takes all bytes, and all values are JSON");
        bytes
    }
}

impl<'a> IntoIterator for EventMembers<'a> {
    type Item = (&'static str, MemberValue<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Serialize for EventMembers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Serialize for MemberValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            MemberValue::Null => serializer.serialize_unit(),
            MemberValue::True => serializer.serialize_bool(true),
            MemberValue::Number(number) => serializer.serialize_u64(*number),
            MemberValue::Text(text) => serializer.serialize_str(text),
            MemberValue::Value(value) => value.serialize(serializer),
        }
    }
}

impl From<MemberValue<'_>> for Value {
    fn from(member: MemberValue<'_>) -> Value {
        match member {
            MemberValue::Null => Value::Null,
            MemberValue::True => Value::Bool(true),
            MemberValue::Number(number) => number.into(),
            MemberValue::Text(text) => text.into(),
            MemberValue::Value(value) => value,
        }
    }
}

impl<'a> From<&'a str> for MemberValue<'a> {
    fn from(text: &'a str) -> MemberValue<'a> {
        MemberValue::Text(Cow::Borrowed(text))
    }
}

impl From<String> for MemberValue<'_> {
    fn from(text: String) -> Self {
        MemberValue::Text(Cow::Owned(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_written_in_canonical_form() {
        let text = "\u{0}\u{8}\u{1f}\"\\/\u{7f}é\u{2028}😀\n";
        let mut members = EventMembers::default();
        members.put("text", text);
        members.put("Upper", MemberValue::True);
        members.put("_", MemberValue::Null);
        members.put("number", MemberValue::Number((1 << 53) - 1));
        members.put("list", MemberValue::Value(json!([{"a": 1, "b": [null]}])));
        let same = json!({"text": text, "Upper": true, "_": null, "number": (1_u64 << 53) - 1, "list": [{"a": 1, "b": [null]}]});
        assert_eq!(String::from_utf8(members.into_canonical()).unwrap(), forgerun_problem::canonical(&same));
    }
}
