//! Members of a request body that nobody knows. A typo in `work_kind` would silently run something else, so they are refused
//! unless the operator ignores them (ruling C-112). What is inside a payload is the caller's own and not looked at.

use std::borrow::Cow;
use std::fmt;

use forge_core::catalog::Kind;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::body;
use crate::hint::nearest;
use crate::problem::{Refused, Violation};

/// What becomes of members that a body does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownMembers {
    /// The request is refused.
    #[default]
    Refuse,
    /// They are passed over.
    Ignore,
}

/// Refuses a JSON object with a member that is not in `known`, or that is there twice. What is no JSON object is left to
/// whoever reads it.
pub fn check(bytes: &[u8], known: &[&str], unknown: UnknownMembers) -> Result<(), Box<Refused>> {
    let Ok(MemberNames(mut names)) = serde_json::from_slice(bytes) else { return Ok(()) };
    if unknown == UnknownMembers::Refuse {
        let strangers = names.iter().filter(|name| !known.contains(&&***name));
        let wrong: Vec<Violation> =
            strangers.take(VIOLATIONS_MAX).map(|name| stranger("#/", name, known)).collect();
        if !wrong.is_empty() {
            return Err(body::refused(Kind::InvalidArgs, wrong, known));
        }
    }
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(twice) => {
            let pointer = format!("#/{}", shown(&twice[0]));
            let wrong = Violation { pointer, detail: "is there twice".into(), constraint: "unique" };
            Err(body::refused(Kind::MalformedRequest, vec![wrong], known))
        }
    }
}

/// Strangers that a refusal names.
const VIOLATIONS_MAX: usize = 20;

/// Characters of a stranger's name that are repeated to its sender.
const NAME_CHARS_MAX: usize = 64;

/// The complaint about a member that is not known at this place.
pub(crate) fn stranger(place: &str, name: &str, known: &[&str]) -> Violation {
    let detail = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("is not known here; did you mean `{meant}`?"),
        None if known.is_empty() => "is not known here; nothing is expected".to_owned(),
        None => format!("is not known here; there are {}", known.join(", ")),
    };
    Violation { pointer: format!("{place}{}", shown(name)), detail, constraint: "unknown" }
}

/// A name as a part of a JSON pointer, harmless and short enough to repeat.
fn shown(name: &str) -> String {
    let plain: String = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
    plain.replace('~', "~0").replace('/', "~1")
}

/// The names of the members of an object, in order; their values are passed over.
struct MemberNames<'a>(Vec<Cow<'a, str>>);

/// A name, borrowed from the text where it has no escapes.
#[derive(Deserialize)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for MemberNames<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MemberNames<'de>, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = MemberNames<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<MemberNames<'de>, A::Error> {
                let mut names = Vec::new();
                while let Some(MemberName(name)) = members.next_key()? {
                    names.push(name);
                    members.next_value::<IgnoredAny>()?;
                }
                Ok(MemberNames(names))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["type", "work_kind", "payload"];

    fn complaints(body: &str, unknown: UnknownMembers) -> Vec<(String, String)> {
        let refused = check(body.as_bytes(), KNOWN, unknown).err();
        let violations = refused.map(|refused| refused.violations).unwrap_or_default();
        violations.into_iter().map(|violation| (violation.pointer, violation.detail)).collect()
    }

    #[test]
    fn strangers_are_named_with_what_was_probably_meant() {
        let body = r#"{"type":"a","work_knd":1,"colour":{"x":1},"a/b~\u0000c":2}"#;
        let none = "is not known here; there are type, work_kind, payload";
        assert_eq!(
            complaints(body, UnknownMembers::Refuse),
            [
                ("#/work_knd".to_owned(), "is not known here; did you mean `work_kind`?".to_owned()),
                ("#/colour".to_owned(), none.to_owned()),
                ("#/a~1b~0c".to_owned(), none.to_owned()),
            ]
        );
        assert_eq!(complaints(body, UnknownMembers::Ignore), []);
    }

    #[test]
    fn what_is_inside_a_member_is_not_judged_and_what_is_no_object_is_not_ours() {
        for body in [r#"{"payload":{"x":1,"x":2},"type":null}"#, "{}", "[1]", "{", "7", ""] {
            assert_eq!(complaints(body, UnknownMembers::Refuse), [], "{body}");
        }
    }

    #[test]
    fn a_member_that_is_there_twice_is_refused_whatever_the_operator_likes() {
        for unknown in [UnknownMembers::Refuse, UnknownMembers::Ignore] {
            let twice = [("#/type".to_owned(), "is there twice".to_owned())];
            assert_eq!(complaints(r#"{"type":1,"payload":2,"t\u0079pe":3}"#, unknown), twice);
        }
    }
}
