//! The sections of the configuration, typed. The manual, `forgerun.default.toml`, explains each
//! key; here are its type and bounds. Durations have lost their unit, "0 for off" and "not set" are
//! `None`, `auto` is resolved.
//!
//! The bounds catch typing errors and overflows; they are no recommendations.

mod amqp;
mod dialects;
mod encryption;
mod jobs;
mod operations;
mod results;
mod server;
mod sinks;

pub use amqp::Amqp;
pub use dialects::{Api, Asyncops, Grpc, Idempotency, Ojs, Problem, Webhooks};
pub use encryption::{BadKeys, Encryption};
pub use jobs::{Catalog, Exec, JobRetention, Limits, Retention, Retry, RetryModes, Sim, Workers};
pub(in crate::config) use operations::key as operation_key;
pub use operations::{Operation, Operations};
pub use results::{ResultStore, Results};
pub use server::{Alerts, Auth, Log, MetricsConfig, Oidc, Server, Telemetry, Tls};
pub use sinks::{CloudEvents, Kafka, KafkaSasl, KafkaTls, Nats, NatsLogin, NatsTls, SinkEvents, Sinks};

const HOUR_S: i64 = 3600;
const DAY_S: i64 = 24 * HOUR_S;
const DAY_MS: i64 = DAY_S * 1000;

/// A hundred years: longer than any plan, and without overflow.
const DAYS_MAX: i64 = 36_500;

const COUNT_MAX: i64 = 1_000_000_000;

/// Streams of one client; each is a connection.
const STREAMS_MAX: i64 = 1_000_000;

/// Built-in workers, and jobs per worker; each running job is a task with its payload in memory.
const WORKERS_MAX: i64 = 1024;

/// Retries of one delivery; each leaves a record.
const RETRIES_MAX: i64 = 100;

const KIB: i64 = 1024;

/// The usual maximum of file systems.
const RESULT_BYTES_MAX: i64 = 1 << 42;

/// Bodies are read into memory.
const BODY_BYTES_MAX: i64 = 256 * KIB * KIB;
/// Memory budget of unanswered requests: at least two batches of the largest size.
const INCOMING_BYTES_MIN: i64 = 32 * KIB * KIB;
/// See [`INCOMING_BYTES_MIN`].
const INCOMING_BYTES_MAX: i64 = 64 * KIB * KIB * KIB;
