//! JSON and `google.protobuf.Value`, both ways. Every number of a `Value` is a double: an integer above 2^53 loses digits on this way, as
//! it does in JavaScript.

use std::fmt;

use prost_types::value::Kind;
use prost_types::{ListValue, NullValue, Struct, Value};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::readable;

/// Integers up to here are written without a fraction.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Why a value cannot be written as JSON, in words that follow its name.
pub type NotJson = &'static str;

/// Writes a value as JSON.
pub fn write(value: &Value, out: &mut String) -> Result<(), NotJson> {
    match &value.kind {
        None => return Err("has a value without a kind"),
        Some(Kind::NullValue(_)) => out.push_str("null"),
        Some(Kind::BoolValue(truth)) => out.push_str(if *truth { "true" } else { "false" }),
        Some(Kind::NumberValue(number)) => write_number(*number, out)?,
        Some(Kind::StringValue(text)) => write_text(text, out),
        Some(Kind::StructValue(members)) => write_struct(members, out)?,
        Some(Kind::ListValue(list)) => write_list(&list.values, out)?,
    }
    Ok(())
}

/// Writes an object.
pub fn write_struct(members: &Struct, out: &mut String) -> Result<(), NotJson> {
    out.push('{');
    for (at, (name, value)) in members.fields.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_text(name, out);
        out.push(':');
        write(value, out)?;
    }
    out.push('}');
    Ok(())
}

/// Writes an array.
pub fn write_list(values: &[Value], out: &mut String) -> Result<(), NotJson> {
    out.push('[');
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(value, out)?;
    }
    out.push(']');
    Ok(())
}

/// Writes a string.
pub fn write_text(text: &str, out: &mut String) {
    let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::Value::from(text).to_string());
    }
}

fn write_number(number: f64, out: &mut String) -> Result<(), NotJson> {
    use fmt::Write as _;
    if !number.is_finite() {
        return Err("has a number that JSON cannot write");
    }
    let written = if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        write!(out, "{}", number as i64)
    } else {
        let number = serde_json::Number::from_f64(number).expect("a finite number");
        write!(out, "{number}")
    };
    written.expect("text takes text");
    Ok(())
}

/// Reads JSON, as far as it can be read; `None` for what is none.
pub fn read(json: &[u8]) -> Option<Value> {
    let read = serde_json::from_slice(json).or_else(|_| serde_json::from_slice(&readable::mended(json)));
    read.ok().map(|JsonValue(value)| value)
}

/// Reads JSON to show it. What is nested too deeply for a value is shown as its text, rather than as nothing.
pub fn read_shown(json: &[u8]) -> Value {
    read(json).unwrap_or_else(|| text(&String::from_utf8_lossy(json)))
}

/// Reads a JSON object; `None` for what is none.
pub fn read_struct(json: &[u8]) -> Option<Struct> {
    match read(json)?.kind {
        Some(Kind::StructValue(members)) => Some(members),
        _ => None,
    }
}

/// Reads a JSON array. What another dialect took in its place is the only entry.
pub fn read_list(json: &[u8]) -> Vec<Value> {
    if json.is_empty() {
        return Vec::new();
    }
    match read_shown(json) {
        Value { kind: Some(Kind::ListValue(list)) } => list.values,
        value => vec![value],
    }
}

/// An object that is here already; `None` for what is none.
pub fn of_object(value: &serde_json::Value) -> Option<Struct> {
    match JsonValue::deserialize(value).ok()?.0.kind {
        Some(Kind::StructValue(members)) => Some(members),
        _ => None,
    }
}

/// Text as a value.
pub fn text(text: &str) -> Value {
    Value { kind: Some(Kind::StringValue(text.to_owned())) }
}

struct JsonValue(Value);

impl<'de> Deserialize<'de> for JsonValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<JsonValue, D::Error> {
        from.deserialize_any(JsonReader).map(|kind| JsonValue(Value { kind: Some(kind) }))
    }
}

struct JsonReader;

impl<'de> Visitor<'de> for JsonReader {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::NullValue(NullValue::NullValue.into()))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Kind, E> {
        Ok(Kind::BoolValue(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Kind, E> {
        Ok(Kind::NumberValue(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Kind, E> {
        Ok(Kind::NumberValue(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Kind, E> {
        Ok(Kind::NumberValue(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Kind, E> {
        Ok(Kind::StringValue(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Kind, E> {
        Ok(Kind::StringValue(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Kind, A::Error> {
        let mut values = Vec::new();
        while let Some(JsonValue(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Kind::ListValue(ListValue { values }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Kind, A::Error> {
        let mut members = Struct::default();
        while let Some((name, JsonValue(value))) = map.next_entry::<String, JsonValue>()? {
            members.fields.insert(name, value);
        }
        Ok(Kind::StructValue(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &Value) -> Result<String, NotJson> {
        let mut out = String::new();
        write(value, &mut out).map(|()| out)
    }

    #[test]
    fn json_comes_back_as_it_was() {
        for text in [
            "null",
            "true",
            "[]",
            "{}",
            "42",
            "-7",
            "3.14",
            "1e300",
            "9007199254740992",
            r#""a \"quoted\" ü\n""#,
            r#"[1,[2,{"a":null}],"x"]"#,
            r#"{"a":{"b":[false]},"c":0.5}"#,
        ] {
            let value = read(text.as_bytes()).expect(text);
            let back: serde_json::Value = serde_json::from_str(&written(&value).unwrap()).unwrap();
            assert_eq!(back, serde_json::from_str::<serde_json::Value>(text).unwrap(), "{text}");
        }
        assert_eq!(written(&read(b"42").unwrap()).unwrap(), "42", "no fraction where there is none");
    }

    #[test]
    fn what_json_cannot_write_is_refused() {
        let number = |number| Value { kind: Some(Kind::NumberValue(number)) };
        for value in [number(f64::NAN), number(f64::INFINITY), Value { kind: None }] {
            assert!(written(&value).is_err(), "{value:?}");
            let list = Value { kind: Some(Kind::ListValue(ListValue { values: vec![value] })) };
            assert!(written(&list).is_err());
        }
        assert_eq!(read(b"{"), None);
        assert_eq!(read_struct(b"[]"), None);
    }

    #[test]
    fn what_no_value_can_be_made_of_is_shown_as_far_as_it_can_be_read() {
        let text = |shown: &str| Value { kind: Some(Kind::StringValue(shown.to_owned())) };
        assert_eq!(read_list(br#"["caf\ud83d",1e400]"#), [text("caf\u{fffd}"), text("1e400")]);
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(read_list(deep.as_bytes()), [text(&deep)]);
        assert_eq!(read_list(b""), []);
    }
}
