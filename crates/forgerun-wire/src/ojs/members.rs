//! Members of a JSON object in the order of the text, each as it was written. Nothing is copied and nothing inside is read
//! before somebody asks, so that payloads stay bytes.

use std::borrow::Cow;
use std::fmt;

use forgerun_core::catalog::Kind;
use serde::de::{self, Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::language::Language;
use crate::problem::{RefusedRequest, Violation, summary};
use crate::readable::{self, Findings};

/// How deep what a client sends may be nested: what common readers still read.
pub const DEPTH_MAX: usize = 128;

/// The members of an object; of two with the same name the last counts.
#[derive(Clone, Debug, Default)]
pub struct Members<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reading;
        impl<'de> Visitor<'de> for Reading {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                while let Some(Text(name)) = map.next_key()? {
                    let value = map.next_value()?;
                    match members.iter().position(|(known, _)| *known == name) {
                        Some(at) => members[at].1 = value,
                        None if members.len() < MEMBERS_MAX => members.push((name, value)),
                        None => return Err(de::Error::custom("too many members")),
                    }
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Reading)
    }
}

/// Members one object may have; looking for a name walks over all of them.
const MEMBERS_MAX: usize = 256;

/// A name that is borrowed where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reading;
        impl<'de> Visitor<'de> for Reading {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(Reading)
    }
}

impl<'a> Members<'a> {
    /// The members of a body of which values can be made.
    pub fn of_body(body: &'a [u8]) -> Result<Members<'a>, Box<RefusedRequest>> {
        let (members, found) = Members::walked(body)?;
        match (found.unreadable, std::str::from_utf8(body)) {
            (Some(place), Ok(body)) => Err(readable::refused(body, place)),
            (_, Ok(_) | Err(_)) => Ok(members),
        }
    }

    /// The members of a body, some of which may hold what no value can be made of.
    pub fn of_unchecked_body(body: &'a [u8]) -> Result<Members<'a>, Box<RefusedRequest>> {
        Members::walked(body).map(|(members, _)| members)
    }

    fn walked(body: &'a [u8]) -> Result<(Members<'a>, Findings), Box<RefusedRequest>> {
        let malformed = |detail: String| Box::new(RefusedRequest::new(Kind::MalformedRequest, detail));
        if body.trim_ascii().is_empty() {
            return Err(malformed("The body is empty; a JSON object is needed.".into()));
        }
        let found = readable::walk(body);
        if found.depth > DEPTH_MAX {
            return Err(malformed(format!("The body is nested deeper than {DEPTH_MAX} levels.")));
        }
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(malformed("The body is not a JSON object.".into()));
        }
        match serde_json::from_slice(body) {
            Ok(members) => Ok((members, found)),
            Err(error) => Err(malformed(format!("The body is not JSON: {error}."))),
        }
    }

    /// The members of a value, if it is an object.
    pub fn of_value(value: &'a RawValue) -> Option<Members<'a>> {
        serde_json::from_str(value.get()).ok()
    }

    /// The member of this name; null counts as absent.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        let (_, value) = self.0.iter().find(|(known, _)| known == name)?;
        (value.get() != "null").then_some(*value)
    }

    /// The member of this name, null or not.
    pub fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Whether there is a member of this name, null or not.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }
}

/// A refused value as its refusal repeats it: as it was, or its text where a problem object cannot carry it.
fn repeated(value: &RawValue) -> Value {
    match serde_json::from_str(value.get()) {
        Ok(read) if is_portable(&read, REPEATED_DEPTH_MAX) => read,
        Ok(_) | Err(_) => value.get().into(),
    }
}

/// How deep a value may be nested that a refusal repeats as it is.
const REPEATED_DEPTH_MAX: usize = 4;

/// Whether every reader gets back the same: not nested deeply, and no integers beyond those of a double.
fn is_portable(value: &Value, depth_left: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => {
            number.is_f64() || number.as_i64().is_some_and(|whole| whole.unsigned_abs() < 1 << 53)
        }
        Value::Array(_) | Value::Object(_) if depth_left == 0 => false,
        Value::Array(values) => values.iter().all(|value| is_portable(value, depth_left - 1)),
        Value::Object(members) => members.values().all(|value| is_portable(value, depth_left - 1)),
    }
}

/// Everything that is wrong with a request, found while it is read.
#[derive(Debug, Default)]
pub struct ViolationList {
    found: Vec<(Kind, Violation)>,
    /// What the first wrong member held, where that is short.
    value: Option<Value>,
}

/// Bytes of a refused value that are repeated in the refusal.
const SHOWN_BYTES_MAX: usize = 128;

impl ViolationList {
    /// Notes one thing. `path` has dots: `options.queue`.
    pub fn add(&mut self, kind: Kind, path: &str, detail: impl Into<String>, constraint: &'static str) {
        let pointer = format!("#/{}", path.replace('.', "/"));
        self.found.push((kind, Violation { pointer, detail: detail.into(), constraint }));
    }

    /// The same, with the value that is refused.
    pub fn add_value(
        &mut self,
        kind: Kind,
        path: &str,
        value: &RawValue,
        detail: impl Into<String>,
        constraint: &'static str,
    ) {
        if self.found.is_empty() && value.get().len() <= SHOWN_BYTES_MAX {
            self.value = Some(repeated(value));
        }
        self.add(kind, path, detail, constraint);
    }

    /// A member of this type, or a complaint.
    pub fn typed<T: DeserializeOwned>(
        &mut self,
        kind: Kind,
        path: &str,
        value: Option<&RawValue>,
        what: &str,
    ) -> Option<T> {
        let value = value?;
        let read = serde_json::from_str(value.get()).ok();
        if read.is_none() {
            self.add_value(kind, path, value, format!("must be {what}"), "type");
        }
        read
    }

    /// Everything that is wrong.
    pub(crate) fn into_violations(self) -> impl Iterator<Item = Violation> {
        self.found.into_iter().map(|(_, violation)| violation)
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// What was read, unless something is wrong with it.
    pub fn settle<T>(self, read: Option<T>) -> Result<T, Box<RefusedRequest>> {
        match (self.found.first(), read) {
            (None, Some(read)) => Ok(read),
            (None, None) => {
                Err(Box::new(RefusedRequest::new(Kind::MalformedRequest, "The request is not complete.")))
            }
            (Some((kind, _)), _) => {
                let kind = *kind;
                let violations: Vec<Violation> =
                    self.found.into_iter().map(|(_, violation)| violation).collect();
                let refused =
                    RefusedRequest::new(kind, summary(&violations, Language::English)).violations(violations);
                Err(Box::new(match self.value {
                    Some(value) => refused.fact("value", value),
                    None => refused,
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_kept_as_written_and_the_last_of_a_name_counts() {
        let members = Members::of_body(br#" {"a": 1.0, "b\u0041":[ 1 ],"a":null,"c":null}"#).unwrap();
        let names: Vec<&str> = members.0.iter().map(|(name, _)| name.as_ref()).collect();
        assert_eq!(names, ["a", "bA", "c"]);
        assert_eq!(members.get("bA").unwrap().get(), "[ 1 ]");
        assert!(members.get("a").is_none() && members.has("a") && !members.has("d"));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200));
        let many: String = (0..300).map(|n| format!("\"{n}\":1,")).collect();
        let many = format!("{{{}\"last\":1}}", many);
        for bad in ["", " ", "[]", "1", "{", "{\"a\"}", "{}x", "\u{feff}{}", &deep, &many] {
            assert_eq!(
                Members::of_body(bad.as_bytes()).unwrap_err().kind,
                Kind::MalformedRequest,
                "{bad:.20}"
            );
        }
        assert!(Members::of_body(b"{\"a\":\"\xff\"}").is_err());
    }

    #[test]
    fn a_body_that_no_value_can_be_made_of_is_refused_with_the_place() {
        for (body, pointer) in [(r#"{"a":{"b":["\ud83d"]}}"#, "#/a/b/0"), (r#"{"a":1,"b":1e400}"#, "#/b")] {
            let refused = Members::of_body(body.as_bytes()).unwrap_err();
            assert_eq!((refused.kind, &*refused.violations[0].pointer), (Kind::MalformedRequest, pointer));
        }
    }
}
