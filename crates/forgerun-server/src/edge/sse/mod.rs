//! Server-sent events: what happens to a job, or to all jobs and webhooks of a client, as it
//! happens.
//!
//! ```text
//!   journal ──► Hub (one reader for all) ──► Printer (each event once) ──► Subscribers: a bounded queue per stream
//!                                                                                        │
//!   Last-Event-ID ──► what was missed: the job's history, or the journal ──► Feed ◄──────┘──► the response's body
//! ```
//!
//! - `open`: a request becomes a stream, or is refused;
//! - `last_id`: where a listener that comes back goes on;
//! - `feed`: the body of the response: first what was missed, then what happens, heartbeats in
//!   between;
//! - `hub`, `subscribers`: who listens to what; nobody there costs nobody anything;
//! - `printer`: from an event to its lines.
//!
//! No gap and no repetition where the past meets the present. A stream of a job subscribes, then
//! reads the job: what the history has already is left out by its number. A stream of a client
//! reads the journal until it has caught up with the hub, and subscribes in the same step. A stream
//! that does not take what it is sent is removed when its queue is full; it may come back and go on
//! where it was.

mod feed;
mod hub;
mod last_id;
mod open;
mod printer;
mod subscribers;
mod wording;

pub use hub::Hub;
#[cfg(feature = "grpc")]
pub(crate) use hub::{StreamPermit, Subscription};
pub use last_id::{ResumeError, ResumePoint, find};
#[cfg(feature = "grpc")]
pub(crate) use open::admit;
pub use open::{StreamScope, client, everything, job};
#[cfg(feature = "grpc")]
pub(crate) use subscribers::{EventLine, Topic};
pub use wording::EventWording;
