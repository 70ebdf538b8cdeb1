//! JSON into members: bounded depth, no member twice, every number in its one form.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::assemble::{Scalars, assemble};
use super::{ReadError, Reader, Reading, Syntax, Warning, Warnings};
use crate::extension::{Exactness, normal_number};
use crate::problem::Problem;

pub(super) fn read(reader: &Reader, document: &[u8]) -> Result<Reading, ReadError> {
    let text = std::str::from_utf8(document).map_err(|_| ReadError::NotUtf8)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parse = JsonParse::new(reader.depth_max());
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let members = TopLevel(&parse)
        .deserialize(&mut deserializer)
        .and_then(|members| deserializer.end().map(|()| members))
        .map_err(|error| parse.error(&error))?;
    Ok(assemble(reader, members, Scalars::Typed, parse.warnings.into_inner()))
}

impl<'de> serde::Deserialize<'de> for Problem {
    /// Reads as [`Reader::json`] does, without the limit on bytes and without the warnings.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let reader = Reader::new();
        let parse = JsonParse::new(reader.depth_max());
        let members = TopLevel(&parse).deserialize(deserializer)?;
        Ok(assemble(&reader, members, Scalars::Typed, Warnings::default()).problem)
    }
}

/// What the visitors share. Their own errors pass through the deserializer as text, so the typed
/// ones wait here.
struct JsonParse {
    depth_max: usize,
    refusal: RefCell<Option<ReadError>>,
    /// Set when a number within the current member was rounded.
    rounded: Cell<bool>,
    warnings: RefCell<Warnings>,
}

impl JsonParse {
    fn new(depth_max: usize) -> Self {
        Self {
            depth_max,
            refusal: None.into(),
            rounded: Cell::new(false),
            warnings: Warnings::default().into(),
        }
    }

    fn refuse<E: serde::de::Error>(&self, refusal: ReadError) -> E {
        let error = E::custom(&refusal);
        self.refusal.borrow_mut().get_or_insert(refusal);
        error
    }

    fn error(&self, error: &serde_json::Error) -> ReadError {
        match self.refusal.borrow_mut().take() {
            Some(refusal) => refusal,
            None => ReadError::Malformed { syntax: Syntax::Json, reason: error.to_string() },
        }
    }
}

/// The document: an object, whose members are looked at one by one.
struct TopLevel<'p>(&'p JsonParse);

impl<'de> DeserializeSeed<'de> for TopLevel<'_> {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match (ValueSeed { parse: self.0, depth: 0 }).deserialize(deserializer)? {
            Value::Object(members) => Ok(members),
            _ => Err(self.0.refuse(ReadError::NotAProblem)),
        }
    }
}

/// A value at some depth; the document itself is at depth 0.
#[derive(Clone, Copy)]
struct ValueSeed<'p> {
    parse: &'p JsonParse,
    depth: usize,
}

impl ValueSeed<'_> {
    fn inner(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    fn number(self, number: Number) -> Value {
        let (normal, exactness) = normal_number(&number);
        if exactness == Exactness::Rounded {
            self.parse.rounded.set(true);
        }
        Value::Number(normal)
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.depth > self.parse.depth_max {
            return Err(self.parse.refuse(ReadError::TooDeep { depth_max: self.parse.depth_max }));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(self.number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(self.number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        let number = Number::from_f64(number).ok_or_else(|| E::custom("number is not finite"))?;
        Ok(self.number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let inner = self.inner();
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element_seed(inner)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.inner();
        let mut members = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let value = access.next_value_seed(inner)?;
            if self.depth == 0 && self.parse.rounded.take() {
                self.parse.warnings.borrow_mut().push(Warning::Rounded { member: name.clone() });
            }
            match members.entry(name) {
                serde_json::map::Entry::Vacant(place) => drop(place.insert(value)),
                serde_json::map::Entry::Occupied(taken) => {
                    return Err(self.parse.refuse(ReadError::Duplicate { member: taken.key().clone() }));
                }
            }
        }
        Ok(Value::Object(members))
    }
}
