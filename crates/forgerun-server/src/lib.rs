//! The ForgeRun server: combines the other crates.
//!
//! - `config`: every key, from flags, environment, file and defaults, validated.
//! - `app`: the shared state of requests; `http`: the processing of every request; `auth`: callers;
//!   `limits`: what a caller may use; `dialects`: the APIs.
//! - `events`: pages and streams of events; `results`: results of jobs, up and down.
//! - `pages`: paths outside of the APIs.
//! - `serve`: the server itself, from listening to the last answer.
//! - `telemetry`: logs; `job_log`: one line per change of a job; `traces`: spans for a collector.
//! - `metrics`: counters and gauges.
//! - `documents`: documents that are the same for all callers, with their ETag;
//! - `problems`: the pages of problem types.
//! - `schedules`: schedules, for all dialects.
//! - `webhooks`: sending and signing deliveries.
//! - `bridge`: jobs from a RabbitMQ broker, with the feature `amqp`.
//! - `workflows`: beginning and reading workflows, for all dialects.
//! - `audit`: who is behind a change, and wrong keys; `audit_trail`: pages, export and check.
//! - `backup`: copies of a store and back; `check`: its invariants; `cleanup`: retention, run once;
//!   `migrate`: schema upgrades, run once; `prove`: the empty store of a run; `reencrypt`: the
//!   change to another encryption key.
//! - `streamed_jobs`: jobs held by gRPC streaming workers.
//! - `schemas`: JSON Schemas of job types.
//!
//! The binary `forgerun` is a thin command line over this.

use std::pin::Pin;

pub mod app;
pub mod attendance;
pub mod audit;
mod audit_trail;
pub mod auth;
mod backup;
#[cfg(feature = "amqp")]
pub mod bridge;
mod check;
mod cleanup;
mod client_limits;
pub mod client_names;
pub mod config;
pub mod connections;
pub mod dialects;
pub mod documents;
pub(crate) mod events;
pub mod http;
mod http_client;
mod job_log;
mod job_logs;
pub mod limits;
pub mod metrics;
mod migrate;
mod own_clients;
pub mod pages;
pub mod problems;
mod prove;
mod reencrypt;
pub(crate) mod results;
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
pub use audit_trail::{export_audit, verify_audit};
pub use backup::{BackupError, BackupSummary, backup, restore};
pub use check::check;
pub use cleanup::{Removed, cleanup};
pub use config::Config;
pub use forgerun_store::sealed::Renewed;
pub use forgerun_store::{CheckReport, SchemaStatus};
pub use migrate::{migrate, schema};
pub use prove::{NotEmpty, ProveStore};
pub use reencrypt::reencrypt;
pub use serve::{Ready, ServeError, ServerAddresses, serve};

/// Boxed, so that all of it is compiled here: an unboxed future is compiled again with each program
/// that polls it.
pub type Running<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
