//! Writing the `Problem` header field, a Structured Fields Dictionary.
//!
//! The field belongs to draft-ietf-httpapi-rfc7807bis-04. It was taken out before RFC 9457 was
//! published, so it is an extension of HTTP that only those who know the draft will understand. It
//! can say in a header or trailer what went wrong beside a response that is itself a success.
//!
//! It can carry less than the body: keys are lower-case, strings are ASCII. What does not fit is
//! left out. An extension goes in only if the caller names the structured type its problem type
//! defines for it. The async-job members have camelCase names that no key can have;
//! [`FieldWriter::job_members`] writes some of them in the spellings of [`JOB_SPELLINGS`], which
//! problem types that use them should document.

use serde_json::Value;
use sfv::{Decimal, DictSerializer, Integer, KeyRef, RefBareItem, StringRef, TokenRef};

use crate::member::Node;
use crate::problem::Problem;

/// The name of the field.
pub const FIELD_NAME: &str = "Problem";

/// Members of the job which the field can carry, and their spelling there.
pub const JOB_SPELLINGS: [(&str, &str); 5] = [
    ("jobId", "job_id"),
    ("jobStatus", "job_status"),
    ("retryable", "retryable"),
    ("retryAfter", "retry_after"),
    ("processingStage", "processing_stage"),
];

/// The structured type of an extension, as defined by its problem type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    /// Text in ASCII.
    String,
    /// A word without blanks.
    Token,
    /// A whole number of at most 15 digits.
    Integer,
    /// A number with at most three decimals; others are rounded.
    Decimal,
    /// True or false.
    Boolean,
}

/// Writes problems as `Problem` fields; set up once per response code and set of extensions.
#[derive(Debug, Clone)]
pub struct FieldWriter {
    response_status: u16,
    job_members: bool,
    extensions: Vec<(String, FieldType)>,
}

impl FieldWriter {
    /// A writer for responses with this status code: the `status` key is written only if it says
    /// the same.
    #[must_use]
    pub fn new(response_status: u16) -> Self {
        Self { response_status, job_members: false, extensions: Vec::new() }
    }

    /// Also writes the job members that have a spelling in [`JOB_SPELLINGS`].
    #[must_use]
    pub fn job_members(mut self) -> Self {
        self.job_members = true;
        self
    }

    /// Also writes this extension, as its problem type defines it. Nothing is written where the
    /// name is no key, or the value does not fit the type.
    #[must_use]
    pub fn extension(mut self, name: impl Into<String>, as_type: FieldType) -> Self {
        self.extensions.push((name.into(), as_type));
        self
    }

    /// The field's value; `None` if there is nothing to say, when the field must be left out.
    #[must_use]
    pub fn write(&self, problem: &Problem) -> Option<String> {
        let mut dictionary = DictSerializer::new();
        for (name, node) in problem.members() {
            let Some((key, as_type)) = self.place_of(name) else {
                continue;
            };
            let (Ok(key), Some(item)) = (KeyRef::from_str(key), item_of(node, as_type)) else {
                continue;
            };
            dictionary.bare_item(key, item);
        }
        dictionary.finish()
    }

    /// The key and type a member is written with, if it is written at all.
    fn place_of<'a>(&'a self, name: &'a str) -> Option<(&'a str, FieldForm)> {
        match name {
            "type" | "title" | "detail" | "instance" => Some((name, FieldForm::Typed(FieldType::String))),
            "status" => Some((name, FieldForm::Status(self.response_status))),
            _ => self.job_spelling(name).or_else(|| self.extension_type(name)),
        }
    }

    fn job_spelling(&self, name: &str) -> Option<(&'static str, FieldForm)> {
        let (_, key) = JOB_SPELLINGS.iter().find(|(member, _)| self.job_members && *member == name)?;
        Some((key, FieldForm::AsItIs))
    }

    fn extension_type<'a>(&'a self, name: &'a str) -> Option<(&'a str, FieldForm)> {
        let taken = self.job_members && JOB_SPELLINGS.iter().any(|(_, spelling)| *spelling == name);
        let (_, as_type) = self.extensions.iter().find(|(known, _)| known == name)?;
        (!taken).then_some((name, FieldForm::Typed(*as_type)))
    }
}

/// How a member finds its structured type.
#[derive(Clone, Copy)]
enum FieldForm {
    Typed(FieldType),
    /// An integer, written only if it equals this.
    Status(u16),
    /// The job members: text, numbers and booleans become strings, integers and booleans.
    AsItIs,
}

fn item_of<'a>(node: Node<'a>, place: FieldForm) -> Option<RefBareItem<'a>> {
    match (node, place) {
        (Node::Whole(code), FieldForm::Status(sent)) => {
            (code == u64::from(sent)).then(|| Integer::from(sent).into())
        }
        (Node::Text(text), FieldForm::Typed(as_type)) => text_item(text, as_type),
        (Node::Text(text), FieldForm::AsItIs) => text_item(text, FieldType::String),
        (Node::Whole(number), FieldForm::AsItIs | FieldForm::Typed(FieldType::Integer)) => {
            Integer::try_from(number).ok().map(Into::into)
        }
        (Node::Flag(flag), FieldForm::AsItIs | FieldForm::Typed(FieldType::Boolean)) => Some(flag.into()),
        (Node::Value(value), FieldForm::Typed(as_type)) => value_item(value, as_type),
        _ => None,
    }
}

fn value_item(value: &Value, as_type: FieldType) -> Option<RefBareItem<'_>> {
    match (value, as_type) {
        (Value::String(text), _) => text_item(text, as_type),
        (Value::Bool(flag), FieldType::Boolean) => Some((*flag).into()),
        (Value::Number(number), FieldType::Integer) => {
            Integer::try_from(number.as_i64()?).ok().map(Into::into)
        }
        (Value::Number(number), FieldType::Decimal) => {
            Decimal::try_from(number.as_f64()?).ok().map(Into::into)
        }
        _ => None,
    }
}

fn text_item(text: &str, as_type: FieldType) -> Option<RefBareItem<'_>> {
    match as_type {
        FieldType::String => StringRef::from_str(text).ok().map(Into::into),
        FieldType::Token => TokenRef::from_str(text).ok().map(Into::into),
        FieldType::Integer | FieldType::Decimal | FieldType::Boolean => None,
    }
}
