//! What all lists of the operator have in common.

#[cfg(feature = "schema")]
use std::borrow::Cow;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A page of a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AdminPage<T> {
    /// What is listed.
    pub items: Vec<T>,
    /// Where to go on; null at the end. A page may be short, or empty, while there is more.
    pub next_cursor: Option<String>,
}

/// Named after what is listed.
#[cfg(feature = "schema")]
impl<T: JsonSchema> JsonSchema for AdminPage<T> {
    fn schema_name() -> Cow<'static, str> {
        match &*T::schema_name() {
            "Delivery" => "AdminDeliveries".into(),
            name => format!("{name}s").into(),
        }
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "A page. It may be short, or empty, while there is more.",
            "required": ["items", "next_cursor"],
            "properties": {
                "items": {"type": "array", "items": generator.subschema_for::<T>(), "maxItems": 200},
                "next_cursor": {"type": ["string", "null"], "description": "Where to go on; null at the end."},
            },
        })
    }
}
