//! Judges arguments of jobs by JSON Schemas of clients. The only crate that knows the validator, whose generic code would otherwise be compiled
//! with the server, once more and in full.

mod document;
pub mod limits;
mod pattern;
mod walk;

pub use document::{InvalidSchema, Misfit, SchemaDocument};
pub use walk::values;
