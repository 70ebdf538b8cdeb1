//! The JSON Schema (2020-12) of problem objects, ready to be served.
//!
//! One document with two definitions that can be referred to on their own: `#/$defs/problem` for
//! the standard members and `#/$defs/asyncJob` for the job members; the root is both together.
//! Unknown members are allowed everywhere, and `jobStatus` is not an enumeration, because servers
//! may define states of their own.

use serde_json::Value;

/// The media type of the document.
pub const MEDIA_TYPE_SCHEMA: &str = "application/schema+json";

/// The document, without an `$id`: it does not know where it will be served.
pub const DOCUMENT: &str = include_str!("../schema/problem.schema.json");

/// The document with the `$id` it is served under.
#[must_use]
pub fn document_at(id: &str) -> Value {
    let mut document: Value = serde_json::from_str(DOCUMENT).expect("the embedded schema is JSON");
    document["$id"] = id.into();
    document
}
