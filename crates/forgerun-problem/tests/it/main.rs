//! Tests of the library from the outside, in one binary.

mod async_draft;
#[cfg(feature = "axum")]
mod axum_responses;
mod building;
mod checking;
mod field;
mod hostile;
mod jcs_vectors;
mod problem_draft;
mod properties;
mod reading;
mod relaxng;
mod samples;
mod schema;
mod strategies;
