//! Members of a request body that nobody knows. A typo in `work_kind` would silently run something else, so they are refused
//! unless the operator ignores them (ruling C-112). A member that is there twice is refused wherever it is: one reader takes the
//! first and another the last. What is inside a payload is the caller's own and not looked at.

mod names;

use forgerun_core::catalog::Kind;

use crate::body;
use crate::hint::nearest;
use crate::problem::{RefusedRequest, Violation};
use names::BodyNames;

/// What becomes of members that a body does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownMembers {
    /// The request is refused.
    #[default]
    Refuse,
    /// They are passed over.
    Ignore,
}

/// Refuses a JSON object with a member that is not in `known`, or with one that is there twice, at any depth. What is no JSON
/// object is left to whoever reads it.
pub fn check(bytes: &[u8], known: &[&str], unknown: UnknownMembers) -> Result<(), Box<RefusedRequest>> {
    let Some(BodyNames { names, twice }) = names::read(bytes) else { return Ok(()) };
    if unknown == UnknownMembers::Refuse {
        let strangers = names.iter().filter(|name| !known.contains(&&***name));
        let wrong: Vec<Violation> =
            strangers.take(VIOLATIONS_MAX).map(|name| stranger("#/", name, known)).collect();
        if !wrong.is_empty() {
            let lacks_hint = wrong.iter().any(|violation| !has_hint(violation));
            let refused = body::refused(Kind::InvalidArgs, wrong, known);
            return Err(Box::new(if lacks_hint { refused.accepted(known) } else { *refused }));
        }
    }
    match twice {
        None => Ok(()),
        Some(pointer) => {
            let wrong = Violation { pointer, detail: "is there twice".into(), constraint: "unique" };
            Err(body::refused(Kind::MalformedRequest, vec![wrong], known))
        }
    }
}

/// The detail about an unknown member that resembles no accepted one.
const UNKNOWN: &str = "is unknown";

/// Whether the violation itself says what was probably meant.
pub(crate) fn has_hint(violation: &Violation) -> bool {
    violation.detail != UNKNOWN
}

/// Strangers that a refusal names.
const VIOLATIONS_MAX: usize = 20;

/// Characters of a stranger's name that are repeated to its sender.
const NAME_CHARS_MAX: usize = 64;

/// The violation by an unknown member. The accepted ones are listed once per answer
/// ([`RefusedRequest::accepted`]).
pub(crate) fn stranger(place: &str, name: &str, known: &[&str]) -> Violation {
    let detail = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("is unknown; did you mean `{meant}`?"),
        None if known.is_empty() => "is unknown; no members are expected".to_owned(),
        None => UNKNOWN.to_owned(),
    };
    Violation { pointer: format!("{place}{}", shown(name)), detail, constraint: "unknown" }
}

/// A name as a part of a JSON pointer, harmless and short enough to repeat.
pub(crate) fn shown(name: &str) -> String {
    let plain: String = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
    plain.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use forgerun_core::job::Dialect;

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
        let none = "is unknown";
        assert_eq!(
            complaints(body, UnknownMembers::Refuse),
            [
                ("#/work_knd".to_owned(), "is unknown; did you mean `work_kind`?".to_owned()),
                ("#/colour".to_owned(), none.to_owned()),
                ("#/a~1b~0c".to_owned(), none.to_owned()),
            ]
        );
        assert_eq!(complaints(body, UnknownMembers::Ignore), []);
    }

    #[test]
    fn accepted_members_are_listed_once_however_many_are_unknown() {
        let body: String = (0..20).map(|n| format!("\"zz{n}\":1,")).collect();
        let body = format!("{{{}\"type\":1}}", body);
        let refused = check(body.as_bytes(), KNOWN, UnknownMembers::Refuse).unwrap_err();
        assert_eq!(refused.violations.len(), 20);
        assert!(refused.told().ends_with(" Accepted here: type, work_kind, payload."), "{}", refused.told());
        for dialect in [Dialect::Forge, Dialect::Operations, Dialect::Ojs] {
            let told = refused.clone().problem(dialect, "", "urn:uuid:x").to_json();
            let told = String::from_utf8(told.into()).unwrap();
            assert_eq!(told.matches("work_kind, payload").count(), 1, "{told}");
        }
        let only_typo = check(br#"{"work_knd":1}"#, KNOWN, UnknownMembers::Refuse).unwrap_err();
        assert_eq!(only_typo.told(), "`work_knd` is unknown; did you mean `work_kind`?");
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

    #[test]
    fn a_stranger_is_found_beside_a_number_that_nobody_can_hold() {
        let strangers = complaints(r#"{"work_knd":1e999}"#, UnknownMembers::Refuse);
        assert_eq!(strangers[0].0, "#/work_knd");
    }

    #[test]
    fn what_is_there_twice_is_found_at_any_depth_but_in_payloads() {
        for (body, pointer) in [
            (
                r#"{"items":[{"a":1},{"work_kind":1,"payload":{"x":1,"x":2},"work_kind":2}]}"#,
                Some("#/items/1/work_kind"),
            ),
            (r#"{"options":{"retry":{"x/y":1,"b":[],"x/y":2}}}"#, Some("#/options/retry/x~1y")),
            (r#"{"items":[[{"a":{}, "a":{}}]]}"#, Some("#/items/0/0/a")),
            (r#"{"a":{"x":1},"b":{"x":1},"c":[{"x":1},{"x":1.5e3},{"x":null},{"x":true}]}"#, None),
            (r#"{"args":[{"x":1,"x":2}],"meta":{"x":1,"x":2},"parameters":{"x":{"y":1,"y":2}}}"#, None),
        ] {
            let refused = check(body.as_bytes(), &[], UnknownMembers::Ignore).err();
            let found = refused.map(|refused| refused.violations[0].pointer.clone());
            assert_eq!(found.as_deref(), pointer, "{body}");
        }
    }
}
