//! The ForgeRun server: where the parts are put together.
//!
//! - `config`: every key, from flags, environment, file and defaults, checked once.
//! - `app`: everything a request may need; `edge`: what happens to every request; `dialects`: the
//!   languages.
//! - `pages`: what belongs to no dialect.
//! - `serve`: the server itself, from listening to the last answer.
//! - `telemetry`: logs; `traces`: what a collector is told.
//! - `metrics`: what can be counted.
//! - `documents`: what says the same to everybody, with its ETag;
//! - `problems`: the pages that problem types lead to.
//! - `schedules`: what all dialects do about schedules.
//! - `webhooks`: what is sent to receivers, and how.
//! - `bridge`: jobs from a RabbitMQ broker, with the feature `amqp`.
//! - `workflows`: begun and read, whichever dialect they come by.
//! - `cleanup`: retention, once and now; `migrate`: the schema, once and now.
//! - `bench`: how fast it is, here and now.
//! - `streamed_jobs`: which jobs the workers of streams still hold.
//! - `schemas`: what arguments of a job type must look like.
//! - `limits`: bounds that nobody needs to configure.
//!
//! The binary `forgerun` is a thin command line over this.

use std::pin::Pin;

pub mod app;
pub mod attendance;
pub mod bench;
#[cfg(feature = "amqp")]
pub mod bridge;
mod cleanup;
pub mod client_names;
pub mod config;
pub mod connections;
pub mod dialects;
pub mod documents;
pub mod edge;
mod http_client;
pub mod limits;
pub mod metrics;
mod migrate;
mod own_clients;
pub mod pages;
pub mod problems;
pub mod schedules;
pub mod schemas;
mod serve;
pub mod sinks;
#[cfg(feature = "grpc")]
mod streamed_jobs;
pub mod submission;
pub mod tallies;
pub mod telemetry;
pub mod traces;
pub mod webhooks;
pub mod workflows;

pub use app::{App, Bounds};
pub use cleanup::{Removed, cleanup};
pub use config::Config;
pub use forgerun_store::SchemaStatus;
pub use migrate::{migrate, schema};
pub use serve::{Ready, ServeError, ServerAddresses, serve};

/// What a command waits for. Boxed, so that all of it is compiled here: what a program polls itself
/// is compiled with that program, each time once more.
pub type Running<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
