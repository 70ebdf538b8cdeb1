//! What ForgeRun says and hears: the words, bodies and codes of every dialect. A change here *is* a change of an API.
//!
//! - [`words`]: how each dialect names the states of the core;
//! - [`status`]: which code and HTTP status each kind of the catalog has in each dialect;
//! - [`codes`]: what clients make of error codes;
//! - [`problem`]: a refused request as a problem object;
//! - [`outcome`]: the last word on an execution, built once and stored as bytes;
//! - [`language`]: the same in German;
//! - [`error`]: why a job ended badly;
//! - [`example`]: jobs that never were, for documents;
//! - [`body`]: what bodies of requests have in common;
//! - [`members`]: members of bodies that nobody knows;
//! - [`request`]: bodies of requests as tables, with their JSON Schemas;
//! - `schema`: the JSON Schemas of views (feature `schema`);
//! - [`readable`]: JSON that every reader can read;
//! - [`hint`]: what was probably meant;
//! - [`fingerprint`]: what makes two of them the same;
//! - [`event`]: what happened, for whoever listens;
//! - [`forge`]: the bodies of `/v1`;
//! - [`operations`]: the bodies of `/api/v1`;
//! - [`ojs`]: the bodies of `/ojs/v1`;
//! - [`admin`]: the bodies of `/admin/v1`;
//! - [`item`]: the items of a batch;
//! - [`schedule`]: what the dialects have in common about schedules;
//! - [`workflow`][]: chains, groups, batches and graphs of jobs;
//! - [`time`]: moments as text.

pub mod admin;
pub mod body;
pub mod codes;
pub mod error;
pub mod event;
pub mod example;
pub mod fingerprint;
pub mod forge;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod hint;
pub mod item;
pub mod language;
pub mod members;
pub mod ojs;
pub mod operations;
pub mod outcome;
pub mod problem;
pub mod readable;
mod reader;
pub mod request;
pub mod schedule;
#[cfg(feature = "schema")]
pub mod schema;
pub mod shares;
pub mod status;
pub mod time;
pub mod words;
pub mod workflow;
