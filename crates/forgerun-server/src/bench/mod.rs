//! Benchmarks in the binary itself, so that whoever runs ForgeRun can measure it where it runs. Only ratios within one run
//! mean much: server, load generator and the bare handler it is compared with share the machine.
//!
//! - `http`: submissions, status reads and whole jobs over HTTP, against a bare axum handler.
//! - `ojs`: workers outside: submissions against `/api/v1`, fetch and ack, waiting workers.
//! - `grpc`: the same workers over gRPC, against HTTP.
//! - `mixed`: all of it at once, and how long submissions take at half the maximal rate.
//! - `result`: a large result, against a plain read of its file.
//! - `sinks`: events to brokers, and submissions while the broker is dead.
//! - `sse`: many streams of events.
//! - `webhooks`: deliveries to a fast receiver, and submissions while receivers hang.
//! - `load`: the load generator: a fixed number of connections, one request under way on each, bounded in time.
//!
//! What `http` compares with is a program of its own, `forgerun-bare`.

#[cfg(feature = "grpc")]
mod grpc;
mod http;
#[cfg(feature = "grpc")]
mod http2;
mod load;
mod mixed;
mod ojs;
mod result;
mod sinks;
mod sse;
mod usage;
mod webhooks;

use std::io;

use crate::Running;

pub use http::HttpOptions;
pub use result::ResultOptions;
pub use sinks::SinkBenchOptions;
pub use sse::{SseOptions, run_sse_raised};
pub use webhooks::WebhookOptions;

/// Measures, and prints a table.
pub fn run_http(options: &HttpOptions) -> Running<'_, io::Result<()>> {
    Box::pin(http::run(options))
}

/// Measures, and prints a table.
pub fn run_mixed(options: &HttpOptions) -> Running<'_, io::Result<()>> {
    Box::pin(mixed::run(options))
}

/// Measures, and prints a table.
pub fn run_ojs(options: &HttpOptions) -> Running<'_, io::Result<()>> {
    Box::pin(ojs::run(options))
}

/// Measures, and prints a table.
#[cfg(feature = "grpc")]
pub fn run_grpc(options: &HttpOptions) -> Running<'_, io::Result<()>> {
    Box::pin(grpc::run(options))
}

/// Measures, and prints a table.
pub fn run_result(options: &ResultOptions) -> Running<'_, io::Result<()>> {
    Box::pin(result::run(options))
}

/// Measures, and prints a table.
pub fn run_sinks(options: &SinkBenchOptions) -> Running<'_, io::Result<()>> {
    Box::pin(sinks::run(options))
}

/// Measures, and prints a table.
pub fn run_sse(options: &SseOptions) -> Running<'_, io::Result<()>> {
    Box::pin(sse::run(options))
}

/// Measures, and prints a table.
pub fn run_webhooks(options: &WebhookOptions) -> Running<'_, io::Result<()>> {
    Box::pin(webhooks::run(options))
}
