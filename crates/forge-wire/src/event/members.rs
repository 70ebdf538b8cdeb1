//! The members of an object that is written once and then kept as bytes. A map of JSON values would own a copy of every name and text, and
//! every job that ends makes such an object in the transaction that ends it.

use std::borrow::Cow;

use serde::ser::{Serialize, Serializer};
use serde_json::Value;

/// Bytes that an object of an event usually takes.
const BYTES_USUAL: usize = 640;

/// Members in any order, each name once.
#[derive(Debug, Default)]
pub(crate) struct Members<'a>(Vec<(&'static str, Member<'a>)>);

/// The value of a member.
#[derive(Debug)]
pub(crate) enum Member<'a> {
    Null,
    True,
    /// Below 2^53, as all that are told of.
    Number(u64),
    Text(Cow<'a, str>),
    /// Any other; objects in it have their names in order.
    Value(Value),
}

impl<'a> Members<'a> {
    pub(crate) fn put(&mut self, name: &'static str, value: impl Into<Member<'a>>) {
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

impl<'a> IntoIterator for Members<'a> {
    type Item = (&'static str, Member<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Serialize for Member<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Member::Null => serializer.serialize_unit(),
            Member::True => serializer.serialize_bool(true),
            Member::Number(number) => serializer.serialize_u64(*number),
            Member::Text(text) => serializer.serialize_str(text),
            Member::Value(value) => value.serialize(serializer),
        }
    }
}

impl From<Member<'_>> for Value {
    fn from(member: Member<'_>) -> Value {
        match member {
            Member::Null => Value::Null,
            Member::True => Value::Bool(true),
            Member::Number(number) => number.into(),
            Member::Text(text) => text.into(),
            Member::Value(value) => value,
        }
    }
}

impl<'a> From<&'a str> for Member<'a> {
    fn from(text: &'a str) -> Member<'a> {
        Member::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Member<'_> {
    fn from(text: String) -> Self {
        Member::Text(Cow::Owned(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_written_in_canonical_form() {
        let text = "\u{0}\u{8}\u{1f}\"\\/\u{7f}é\u{2028}😀\n";
        let mut members = Members::default();
        members.put("text", text);
        members.put("Upper", Member::True);
        members.put("_", Member::Null);
        members.put("number", Member::Number((1 << 53) - 1));
        members.put("list", Member::Value(json!([{"a": 1, "b": [null]}])));
        let same = json!({"text": text, "Upper": true, "_": null, "number": (1_u64 << 53) - 1, "list": [{"a": 1, "b": [null]}]});
        assert_eq!(String::from_utf8(members.into_canonical()).unwrap(), forge_problem::canonical(&same));
    }
}
