//! Doing the work: takes jobs of queues, runs a handler for each, keeps their leases alive, reports how they ended.
//!
//! - One request waits for work at a time, and only while a handler is free; the server holds it, so nothing polls. Short jobs are
//!   taken ahead, so that handlers do not wait for the network (`room.rs`).
//! - Ends of jobs go out together, in requests that also ask for more, where the server offers that (`exchange.rs`).
//! - One heartbeat extends all leases, at a third of the lease. A job that the server does not extend was cancelled or lost: its
//!   handler is told, and nothing it says later counts.
//! - A handler that panics has failed. The worker goes on.
//! - When it is asked to stop it takes no more, waits for what runs, then cancels the rest and hands it back.
//! - A server that is away for a while stops nothing that runs; reports are sent when it is back, as long as the lease may hold.

mod active;
mod builder;
mod exchange;
mod handler;
mod http;
mod log;
mod pauses;
mod report;
mod room;
mod run;
mod spool;
mod steps;
#[cfg(feature = "grpc")]
mod stream;

pub use self::http::{HttpHandler, Sign};
pub use builder::WorkerBuilder;
pub use handler::{Canceled, Context, Failure, Handler, Output, RetryAdvice, Suspension};
pub use log::LogLine;
pub use run::{Note, Stopped, Worker};
pub use spool::{Spool, SpoolError};

pub use crate::ojs::ClaimedJob;
