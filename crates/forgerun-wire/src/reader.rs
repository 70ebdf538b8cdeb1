//! How the body of a submission is read, whatever its members are called: straight into them, and only if that fails one member
//! after the other, so that everything that is wrong is named at once.

use forgerun_core::catalog::Kind;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::body::{self, violation};
use crate::members::{self, UnknownMembers};
use crate::ojs::limit::{self, Limited};
use crate::ojs::members::ViolationList;
use crate::problem::{RefusedRequest, Violation};
use crate::readable;

/// What was found wrong with a body. Shape errors (JSON, missing, wrong type) are malformed; values that break a rule are
/// invalid.
#[derive(Default)]
pub(crate) struct BodyReader {
    malformed: Vec<Violation>,
    invalid: Vec<(Kind, Violation)>,
}

/// The members of a body, to be taken one by one.
pub(crate) struct LooseMembers {
    map: Map<String, Value>,
    malformed: Vec<Violation>,
}

impl BodyReader {
    /// The members of a body. `M` takes those in `known` and no others, and none of them twice: a body that fits has been checked with that.
    /// `one_by_one` takes those of one that does not fit.
    pub(crate) fn members<M: DeserializeOwned>(
        bytes: &[u8],
        known: &[&str],
        unknown: UnknownMembers,
        one_by_one: fn(&mut LooseMembers) -> M,
    ) -> Result<(M, BodyReader), Box<RefusedRequest>> {
        // A struct would also be read from an array, which nobody means.
        let object = bytes.trim_ascii_start().first() == Some(&b'{');
        match serde_json::from_slice(bytes) {
            Ok(members) if object => Ok((members, BodyReader::default())),
            Ok(_) | Err(_) => {
                members::check(bytes, known, unknown)?;
                let mut loose = LooseMembers { map: body::object(bytes)?, malformed: Vec::new() };
                let members = one_by_one(&mut loose);
                Ok((members, BodyReader { malformed: loose.malformed, invalid: Vec::new() }))
            }
        }
    }

    /// What a member says, or a complaint.
    pub(crate) fn value_of<T>(&mut self, read: Result<T, Violation>) -> Option<T> {
        read.map_err(|violation| self.invalid.push((Kind::InvalidArgs, violation))).ok()
    }

    /// The limits of a job.
    pub(crate) fn limits(&mut self, given: &RawValue) -> Vec<Limited> {
        let mut violations = ViolationList::default();
        let limits = limit::read_all("limits", given, &mut violations);
        self.malformed.extend(violations.into_violations());
        limits
    }

    /// What is kept as it was written, if a value can be made of it.
    pub(crate) fn verbatim(&mut self, name: &str, given: Box<RawValue>) -> Option<Vec<u8>> {
        if let Err(violation) = readable::check(given.get(), name) {
            self.malformed.push(violation);
            return None;
        }
        Some(Box::<str>::from(given).into_string().into_bytes())
    }

    /// A member is missing, unless it is there and was complained about.
    pub(crate) fn mandatory(&mut self, name: &str, detail: &str) {
        if !self.malformed.iter().any(|violation| violation.pointer[2..] == *name) {
            self.malformed(name, detail, "required");
        }
    }

    /// A member has the wrong shape.
    pub(crate) fn malformed(&mut self, name: &str, detail: &str, constraint: &'static str) {
        self.malformed.push(violation(name, detail, constraint));
    }

    /// A member breaks a rule.
    pub(crate) fn invalid(&mut self, kind: Kind, name: &str, detail: &str, constraint: &'static str) {
        self.invalid.push((kind, violation(name, detail, constraint)));
    }

    /// What was read, if nothing is wrong. `members` are named in this order.
    pub(crate) fn settle<T>(self, read: Option<T>, members: &[&str]) -> Result<T, Box<RefusedRequest>> {
        if !self.malformed.is_empty() {
            return Err(body::refused(Kind::MalformedRequest, self.malformed, members));
        }
        match (self.invalid.first().map(|(kind, _)| *kind), read) {
            (None, Some(read)) => Ok(read),
            (kind, _) => {
                let invalid = self.invalid.into_iter().map(|(_, violation)| violation).collect();
                Err(body::refused(kind.unwrap_or(Kind::MalformedRequest), invalid, members))
            }
        }
    }
}

impl LooseMembers {
    /// Null counts as absent.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    /// Any value.
    pub(crate) fn raw(&mut self, name: &str) -> Option<Box<RawValue>> {
        self.take(name).and_then(|value| RawValue::from_string(value.to_string()).ok())
    }

    /// A string.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        match self.take(name)? {
            Value::String(text) => Some(text),
            _ => {
                self.malformed.push(violation(name, "must be a string", "type"));
                None
            }
        }
    }

    /// A list of strings.
    pub(crate) fn texts(&mut self, name: &str) -> Option<Vec<String>> {
        let texts = serde_json::from_value(self.take(name)?).ok();
        if texts.is_none() {
            self.malformed.push(violation(name, "must be a list of strings", "type"));
        }
        texts
    }

    /// A whole number.
    pub(crate) fn number(&mut self, name: &str) -> Option<i64> {
        let number = self.take(name)?.as_i64();
        if number.is_none() {
            self.malformed.push(violation(name, "must be an integer", "type"));
        }
        number
    }
}
