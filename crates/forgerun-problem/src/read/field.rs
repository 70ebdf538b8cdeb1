//! The `Problem` header field into members.

use serde_json::{Map, Number, Value};
use sfv::{BareItem, Dictionary, ListEntry, Parser};

use super::assemble::{Scalars, assemble};
use super::{ReadError, Reader, Reading, Syntax, Warning, Warnings};
use crate::extension::normal_number;
use crate::field::JOB_SPELLINGS;
use crate::member::STANDARD_NAMES;

pub(super) fn read(reader: &Reader, value: &[u8]) -> Result<Reading, ReadError> {
    let dictionary: Dictionary = Parser::new(value)
        .parse()
        .map_err(|error| ReadError::Malformed { syntax: Syntax::Dictionary, reason: error.to_string() })?;
    let mut warnings = Warnings::default();
    let mut members = Map::new();
    for (key, entry) in dictionary {
        let name = member_name(key.as_str());
        match value_of(&entry, STANDARD_NAMES.contains(&name)) {
            Some(value) => drop(members.insert(name.to_owned(), value)),
            None => warnings.push(Warning::WrongType { member: name.to_owned() }),
        }
    }
    Ok(assemble(reader, members, Scalars::Typed, warnings))
}

/// The member a key stands for: itself, unless it is one of the field-only spellings.
fn member_name(key: &str) -> &str {
    JOB_SPELLINGS.iter().find(|(_, spelling)| *spelling == key).map_or(key, |(member, _)| member)
}

fn value_of(entry: &ListEntry, standard: bool) -> Option<Value> {
    match entry {
        ListEntry::Item(item) => scalar(&item.bare_item, standard),
        ListEntry::InnerList(list) => {
            let values = list.items.iter().map(|item| scalar(&item.bare_item, standard));
            values.collect::<Option<Vec<_>>>().map(Value::Array)
        }
    }
}

/// A token may stand for an extension's text, but the draft wants its own members as strings.
fn scalar(item: &BareItem, standard: bool) -> Option<Value> {
    match item {
        BareItem::String(text) => Some(text.as_str().into()),
        BareItem::Integer(number) => Some(i64::from(*number).into()),
        BareItem::Boolean(flag) => Some((*flag).into()),
        BareItem::Decimal(number) => {
            let number = Number::from_f64(f64::from(*number))?;
            Some(Value::Number(normal_number(&number).0))
        }
        BareItem::Token(token) if !standard => Some(token.as_str().into()),
        BareItem::DisplayString(text) if !standard => Some(text.as_str().into()),
        BareItem::Date(date) if !standard => Some(i64::from(date.unix_seconds()).into()),
        BareItem::Token(_) | BareItem::DisplayString(_) | BareItem::Date(_) | BareItem::ByteSequence(_) => {
            None
        }
    }
}
