//! Validates arguments of jobs with clients' JSON Schemas. The only crate that depends on the
//! validator, whose generic code would otherwise be compiled again with the server.

mod document;
pub mod limits;
mod pattern;
mod walk;

pub use document::{InvalidSchema, Misfit, SchemaDocument};
pub use walk::values;
