//! The ForgeRun server: where the parts are put together.
//!
//! - `config`: every key, from flags, environment, file and defaults, checked once.
//! - `app`: everything a request may need; `edge`: what happens to every request; `dialects`: the languages.
//! - `pages`: what belongs to no dialect.
//! - `serve`: the server itself, from listening to the last answer.
//! - `telemetry`: logs; `traces`: what a collector is told.
//! - `metrics`: what can be counted.
//! - `documents`: what says the same to everybody, with its ETag;
//! - `problems`: the pages that problem types lead to.
//! - `webhooks`: what is sent to receivers, and how.
//! - `cleanup`: retention, once and now.
//! - `bench`: how fast it is, here and now.
//! - `exit`: what the process says when it ends.
//! - `limits`: bounds that nobody needs to configure.
//!
//! The binary `forgerun` is a thin command line over this.

pub mod app;
pub mod bench;
mod cleanup;
pub mod config;
pub mod connections;
pub mod dialects;
pub mod documents;
pub mod edge;
mod exit;
mod http_client;
pub mod limits;
pub mod metrics;
pub mod pages;
pub mod problems;
mod serve;
pub mod submission;
pub mod telemetry;
pub mod traces;
pub mod webhooks;

pub use app::{App, Bounds};
pub use cleanup::{Removed, cleanup};
pub use config::Config;
pub use exit::Exit;
pub use serve::{ServeError, serve};
