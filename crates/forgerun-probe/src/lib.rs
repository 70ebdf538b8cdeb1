//! Tools that ask a job server questions from outside.
//!
//! - [`conformance`] judges anybody's server: problem details, the members for asynchronous jobs, the async-operations pattern, the core of
//!   Open Job Spec. Each finding names the requirement, what was sent, what came, and how to mend it.
//! - [`traffic`] makes a server busy with clients that poll, stream, cancel, repeat and misbehave, and checks every answer they get.
//!
//! Neither knows how ForgeRun works inside. What they know of it, every client knows.

use std::pin::Pin;

pub mod conformance;
pub mod duration;
mod http;
pub mod limits;
pub mod traffic;

/// What a program waits for. Boxed, so that all of it is compiled here and not once more with that program.
pub type Running<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
