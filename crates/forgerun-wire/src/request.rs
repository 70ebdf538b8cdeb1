//! Bodies of requests as tables: which members there are, what each is for, and its JSON Schema. The table is what a body is
//! checked against for unknown members, and what the OpenAPI document shows.

use forgerun_core::job::JobForm;
use forgerun_core::limits::{EXECUTIONS_MAX, ITEM_ID_BYTES_MAX, ITEMS_MAX};
use forgerun_core::work::WorkKind;
use serde_json::{Map, Value, json};

use crate::body::{TAG_BYTES_MAX, TAGS_MAX};
use crate::words;

/// The body of a request.
#[derive(Clone, Copy)]
pub struct RequestBody {
    /// The name of its schema.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its members, in the order of the documentation.
    pub members: &'static [&'static str],
    /// The members that it must have.
    pub required: &'static [&'static str],
    /// Its members with their descriptions and schemas.
    pub properties: fn() -> Vec<(&'static str, &'static str, Value)>,
    /// Bodies that its schema refers to.
    pub parts: &'static [&'static RequestBody],
    /// What its schema says besides.
    pub rules: fn() -> Value,
    /// Bodies that are accepted as they stand, by name.
    pub examples: fn() -> Value,
}

impl RequestBody {
    /// The same members for another purpose.
    pub const fn variant(
        self,
        name: &'static str,
        about: &'static str,
        required: &'static [&'static str],
        examples: fn() -> Value,
    ) -> RequestBody {
        RequestBody { name, about, required, examples, ..self }
    }

    /// The JSON Schema.
    pub fn schema(&self) -> Value {
        let described = |(name, about, mut schema): (&'static str, &'static str, Value)| {
            // Beside a reference a description would only hide what the schema says of itself.
            if schema.get("$ref").is_none() {
                schema["description"] = about.trim().into();
            }
            (name.to_owned(), schema)
        };
        let properties: Map<String, Value> = (self.properties)().into_iter().map(described).collect();
        let mut schema =
            json!({"type": "object", "description": self.about.trim(), "properties": properties});
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        if let (Value::Object(schema), Value::Object(rules)) = (&mut schema, (self.rules)()) {
            schema.extend(rules);
        }
        schema
    }
}

/// Declares a [`RequestBody`]: the comment above it and those above its members are its descriptions.
///
/// The schemas of members are written with the functions of this module. `beside OTHER` adds the members of another body; `required […]`, `parts […]`, `rules {…}` and `examples {…}` may follow, in this order.
#[macro_export]
macro_rules! request_body {
    (
        $(#[doc = $about:literal])+
        $vis:vis $body:ident = $name:literal {
            $($(#[doc = $doc:literal])+ $member:literal: $schema:expr),+ $(,)?
        }
        $(beside $other:path)?
        $(; required $required:expr)?
        $(; parts $parts:expr)?
        $(; rules $rules:tt)?
        $(; examples $examples:tt)?
    ) => {
        $(#[doc = $about])+
        $vis const $body: $crate::request::RequestBody = {
            const OWN: &[&str] = &[$($member),+];
            const OTHERS: &[&str] = $crate::request_body!(@or (&[]) $($other.members)?);
            const MEMBERS: [&str; OWN.len() + OTHERS.len()] = $crate::request::joined(OWN, OTHERS);
            $crate::request::RequestBody {
                name: $name,
                about: concat!($($about),+),
                members: &MEMBERS,
                required: $crate::request_body!(@or (&[]) $($required)?),
                properties: || {
                    #[allow(unused_imports, reason = "a table may do without")]
                    use $crate::request::*;
                    #[allow(unused_imports, reason = "a table may do without")]
                    use ::serde_json::json;
                    let mut all = vec![$(($member, concat!($($doc),+), $schema)),+];
                    all.extend($crate::request_body!(@or (Vec::new()) $(($other.properties)())?));
                    all
                },
                parts: $crate::request_body!(@or (&[]) $($parts)?),
                rules: || $crate::request_body!(@json $($rules)?),
                examples: || $crate::request_body!(@json $($examples)?),
            }
        };
    };
    (@or ($default:expr)) => { $default };
    (@or ($default:expr) $given:expr) => { $given };
    (@json) => { ::serde_json::json!({}) };
    (@json $given:tt) => { ::serde_json::json!($given) };
}

/// Two lists of names in one.
pub const fn joined<const N: usize>(one: &[&'static str], other: &[&'static str]) -> [&'static str; N] {
    let (mut all, mut place) = ([""; N], 0);
    while place < N {
        all[place] = if place < one.len() { one[place] } else { other[place - one.len()] };
        place += 1;
    }
    all
}

/// What the name of a queue or a schedule looks like (C-107).
pub const QUEUE_NAME: &str = r"^[a-z0-9][a-z0-9.\-]*$";

/// A string.
pub fn text() -> Value {
    json!({"type": "string"})
}

/// A string of at most so many bytes.
pub fn short(bytes_max: usize) -> Value {
    json!({"type": "string", "maxLength": bytes_max})
}

/// The same, and not empty.
pub fn name(bytes_max: usize) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": bytes_max})
}

/// The name of a queue or a schedule.
pub fn queue() -> Value {
    json!({"type": "string", "maxLength": 255, "pattern": QUEUE_NAME})
}

/// An RFC 3339 time.
pub fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// A web address.
pub fn url() -> Value {
    json!({"type": "string", "format": "uri", "maxLength": 2048})
}

/// True or false.
pub fn truth() -> Value {
    json!({"type": "boolean"})
}

/// An object.
pub fn object() -> Value {
    json!({"type": "object"})
}

/// A list of these.
pub fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// A whole number within these bounds.
pub fn integer(min: i64, max: i64) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": max})
}

/// A whole number of at least this.
pub fn at_least(min: i64) -> Value {
    json!({"type": "integer", "minimum": min})
}

/// One of these words.
pub fn words(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

/// The body of that name.
pub fn reference(body: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{body}")})
}

/// The same, or null, which counts as absent.
pub fn maybe(mut schema: Value) -> Value {
    schema["type"] = json!([schema["type"], "null"]);
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    }
    schema
}

/// The same, with the value that counts where it is absent.
pub fn or(mut schema: Value, default: impl Into<Value>) -> Value {
    schema["default"] = default.into();
    schema
}

/// A kind of simulated work.
pub fn work_kind() -> Value {
    words(&WorkKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>())
}

/// EXECUTE, DEFERRED or EMIT_EVENT.
pub fn form() -> Value {
    words(&[JobForm::Execute, JobForm::Deferred, JobForm::EmitEvent].map(words::forge_type))
}

/// Which job goes first.
pub fn priority() -> Value {
    or(maybe(integer(-100, 100)), 0)
}

/// Who starts retries.
pub fn retry_mode() -> Value {
    maybe(words(&["manual", "auto"]))
}

/// How often the server retries.
pub fn max_retries() -> Value {
    maybe(integer(0, EXECUTIONS_MAX as i64 - 1))
}

/// How many a second.
pub fn rate() -> Value {
    maybe(json!({"type": "number", "minimum": 0.001, "maximum": 100_000}))
}

/// Labels of a job on `/v1` and `/api/v1`.
pub fn tags() -> Value {
    let tag = json!({"type": "string", "pattern": format!("^[a-z0-9._:-]{{1,{TAG_BYTES_MAX}}}$")});
    maybe(json!({"type": "array", "maxItems": TAGS_MAX, "uniqueItems": true, "items": tag}))
}

/// The items of a batch.
pub fn items(item: Value) -> Value {
    json!({"type": "array", "minItems": 1, "maxItems": ITEMS_MAX, "items": item})
}

/// The id of an item.
pub fn item_id() -> Value {
    maybe(name(ITEM_ID_BYTES_MAX))
}
