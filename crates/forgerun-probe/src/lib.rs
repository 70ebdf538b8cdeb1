//! Tools that test a job server from outside.
//!
//! - [`conformance`] checks any server: problem details, the members for asynchronous jobs, the
//!   async-operations pattern, the core of Open Job Spec. Each finding has the requirement,
//!   request, answer, and how to fix it.
//! - [`traffic`] loads a server with clients that poll, stream, cancel, repeat and misbehave, and
//!   checks every answer.
//!
//! Neither knows ForgeRun's internals: they know what every client knows.

use std::pin::Pin;

mod clock;
pub mod conformance;
pub mod duration;
mod http;
pub mod limits;
mod own_process;
mod pool;
pub mod prove;
pub mod traffic;

/// Boxed, so that all of it is compiled here and not again with the calling program.
pub type Running<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
