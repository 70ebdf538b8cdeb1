//! Forms by a JSON Schema: an input per member of an object, or a button per answer. What has no
//! input of its own is written as JSON.

use forgerun_core::catalog::Kind;
use serde_json::{Map, Number, Value};

use crate::http::query::QueryString;

/// The name of the input for a value that is no object.
pub(super) const VALUE: &str = "value";

/// Members that are shown as inputs; more are written as JSON.
const FIELDS_MAX: usize = 50;

/// The form for a schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// A single button, which sends `true`.
    Confirm,
    /// A button per answer.
    Answers(Vec<Value>),
    /// One input.
    Value(FieldKind),
    /// An input per member of an object.
    Object(Vec<FormField>),
    /// A text area for JSON.
    Json,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct FormField {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) about: String,
    pub(super) is_required: bool,
    pub(super) kind: FieldKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum FieldKind {
    Text,
    Number,
    Integer,
    Boolean,
    Choice(Vec<Value>),
}

impl Form {
    pub(super) fn of(schema: &[u8]) -> Form {
        if schema.is_empty() {
            return Form::Confirm;
        }
        let Ok(schema) = serde_json::from_slice::<Value>(schema) else { return Form::Json };
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            let is_closed = schema.get("type").is_none_or(|kind| kind == "object");
            let fields: Option<Vec<FormField>> =
                properties.iter().map(|(name, of)| FormField::of(name, of, &schema)).collect();
            return match fields {
                Some(fields) if is_closed && (1..=FIELDS_MAX).contains(&fields.len()) => Form::Object(fields),
                Some(_) | None => Form::Json,
            };
        }
        match FieldKind::of(&schema) {
            Some(FieldKind::Boolean) => Form::Answers(vec![true.into(), false.into()]),
            Some(FieldKind::Choice(answers)) => Form::Answers(answers),
            Some(kind) => Form::Value(kind),
            None => Form::Json,
        }
    }
}

impl FormField {
    fn of(name: &str, of: &Value, whole: &Value) -> Option<FormField> {
        let text = |member: &str| of.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
        let required = whole.get("required").and_then(Value::as_array);
        let title = text("title");
        Some(FormField {
            name: name.to_owned(),
            title: if title.is_empty() { name.to_owned() } else { title },
            about: text("description"),
            is_required: required.is_some_and(|required| required.iter().any(|required| required == name)),
            kind: FieldKind::of(of)?,
        })
    }
}

impl FieldKind {
    fn of(schema: &Value) -> Option<FieldKind> {
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            let is_plain = |value: &Value| !value.is_array() && !value.is_object();
            return choices.iter().all(is_plain).then(|| FieldKind::Choice(choices.clone()));
        }
        match schema.get("type")?.as_str()? {
            "string" => Some(FieldKind::Text),
            "number" => Some(FieldKind::Number),
            "integer" => Some(FieldKind::Integer),
            "boolean" => Some(FieldKind::Boolean),
            _ => None,
        }
    }

    /// The value of an input. An empty one has none, and an unchecked box is `false`.
    fn read(&self, title: &str, sent: Option<&str>) -> Result<Option<Value>, String> {
        let sent = sent.unwrap_or_default();
        match self {
            FieldKind::Boolean => Ok(Some(Value::Bool(!matches!(sent, "" | "false")))),
            _ if sent.is_empty() => Ok(None),
            FieldKind::Text => Ok(Some(sent.into())),
            FieldKind::Number | FieldKind::Integer => {
                let number: Option<Number> = serde_json::from_str(sent.trim()).ok();
                number.map(|number| Some(Value::Number(number))).ok_or(format!("{title}: enter a number."))
            }
            FieldKind::Choice(choices) => {
                let chosen = choices.iter().find(|choice| shown(choice) == sent);
                chosen.map(|choice| Some(choice.clone())).ok_or(format!("{title}: choose one of the list."))
            }
        }
    }
}

/// A choice as text.
pub(super) fn shown(choice: &Value) -> String {
    match choice {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The body of the signal that a filled-in form means, or what is wrong with it.
pub(super) fn read(schema: &[u8], sent: &[u8]) -> Result<Vec<u8>, String> {
    let form = Form::of(schema);
    let names: Vec<&str> = match &form {
        Form::Object(fields) => fields.iter().map(|field| field.name.as_str()).collect(),
        Form::Confirm | Form::Answers(_) | Form::Value(_) | Form::Json => vec![VALUE],
    };
    let text = str::from_utf8(sent).map_err(|_| "The form is not UTF-8.".to_owned())?;
    let fields = QueryString::read(text, &names).map_err(|error| match error.kind() {
        Kind::MalformedRequest => "The form is of another page; load this one again.".to_owned(),
        kind => kind.entry().title.to_owned(),
    })?;
    let value = fields.get(VALUE);
    let body = match form {
        Form::Confirm => Value::Bool(true),
        Form::Answers(answers) => {
            FieldKind::Choice(answers).read("Answer", value)?.ok_or_else(|| "Choose an answer.".to_owned())?
        }
        Form::Value(kind) => {
            let empty = || Value::String(String::new());
            kind.read("Answer", value)?.unwrap_or_else(empty)
        }
        Form::Object(members) => {
            let mut object = Map::new();
            for field in members {
                let value = field.kind.read(&field.title, fields.get(&field.name))?;
                let value = value.or_else(|| {
                    (field.is_required && field.kind == FieldKind::Text).then(|| Value::String(String::new()))
                });
                object.extend(value.map(|value| (field.name, value)));
            }
            Value::Object(object)
        }
        Form::Json => serde_json::from_str(value.unwrap_or_default())
            .map_err(|error| format!("The answer is not JSON: {error}."))?,
    };
    Ok(body.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(schema: &Value, sent: &str) -> Result<Value, String> {
        read(schema.to_string().as_bytes(), sent.as_bytes())
            .map(|body| serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn a_filled_in_form_becomes_the_body_that_its_schema_describes() {
        let object = json!({"type": "object", "required": ["by"], "properties": {
            "approved": {"type": "boolean"}, "by": {"type": "string"}, "limit": {"type": "number"},
            "size": {"enum": ["S", "M", 3, null]}, "n": {"type": "integer"},
        }});
        for (schema, sent, expected) in [
            (
                &object,
                "approved=on&by=kim+b&limit=2.5&size=M&n=3",
                json!({"approved": true, "by": "kim b", "limit": 2.5, "size": "M", "n": 3}),
            ),
            (&object, "by=&limit=&size=&n=", json!({"approved": false, "by": ""})),
            (&object, "size=3", json!({"approved": false, "by": "", "size": 3})),
            (&object, "size=null", json!({"approved": false, "by": "", "size": null})),
            (&json!({"type": "boolean"}), "value=false", json!(false)),
            (&json!({"enum": ["yes", "no"]}), "value=no", json!("no")),
            (&json!({"type": "string"}), "value=a%26b", json!("a&b")),
            (&json!({"type": "array"}), "value=%5B1%5D", json!([1])),
        ] {
            assert_eq!(body(schema, sent), Ok(expected), "{sent}");
        }
        assert_eq!(read(b"", b"").as_deref(), Ok(&b"true"[..]), "a button without a question");
    }

    #[test]
    fn what_was_entered_wrongly_is_said() {
        let object = json!({"properties": {"n": {"type": "integer", "title": "Number"}}});
        for (schema, sent, expected) in [
            (&object, "n=x", "Number: enter a number."),
            (&object, "m=1", "The form is of another page; load this one again."),
            (&json!({"enum": ["yes"]}), "value=no", "Answer: choose one of the list."),
            (&json!({"enum": ["yes"]}), "", "Choose an answer."),
        ] {
            assert_eq!(body(schema, sent), Err(expected.to_owned()), "{sent}");
        }
        assert!(
            body(&json!({"type": "array"}), "value=x").unwrap_err().starts_with("The answer is not JSON")
        );
    }

    #[test]
    fn a_schema_without_inputs_for_all_it_has_is_answered_in_json() {
        let nested = json!({"properties": {"a": {"type": "object"}, "b": {"type": "string"}}});
        for schema in [nested, json!({"anyOf": []}), json!(true), json!({"enum": [[1]]})] {
            assert_eq!(Form::of(schema.to_string().as_bytes()), Form::Json, "{schema}");
        }
        assert_eq!(Form::of(b""), Form::Confirm);
    }
}
