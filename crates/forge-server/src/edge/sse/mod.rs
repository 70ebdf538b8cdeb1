//! Server-sent events: what happens to a job, or to all jobs and webhooks of a client, as it happens.
//!
//! ```text
//!   journal ──► Hub (one reader for all) ──► Printer (each event once) ──► Hall ──► seat: a bounded queue per stream
//!                                                                                        │
//!   Last-Event-ID ──► what was missed: the job's history, or the journal ──► Feed ◄──────┘──► the response's body
//! ```
//!
//! - `open`: a request becomes a stream, or is refused;
//! - `last_id`: where a listener that comes back goes on;
//! - `feed`: the body of the response: first what was missed, then what happens, heartbeats in between;
//! - `hub`, `hall`: who listens to what; nobody there costs nobody anything;
//! - `printer`: from an event to its lines.
//!
//! No gap and no repetition where the past meets the present. A stream of a job takes its seat, then reads the job: what the
//! history has already is left out by its number. A stream of a client reads the journal until it has caught up with the hub,
//! and takes its seat in the same breath. A stream that does not take what it is sent loses its seat when its queue is full; it
//! may come back and go on where it was.

mod feed;
mod hall;
mod hub;
mod last_id;
mod open;
mod printer;

pub use hub::Hub;
pub use last_id::{Start, Trouble, find};
pub use open::{Scope, client, job};
