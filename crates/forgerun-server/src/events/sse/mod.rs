//! Server-sent events: live events of a job, or of all jobs and webhooks of a client.
//!
//! ```text
//!   journal ──► Hub (one reader for all) ──► Printer (each event once) ──► Subscribers: a bounded queue per stream
//!                                                                                        │
//!   Last-Event-ID ──► what was missed: the job's history, or the journal ──► Feed ◄──────┘──► the response's body
//! ```
//!
//! - `open`: opens or refuses a stream;
//! - `last_id`: where a stream resumes;
//! - `feed`: the body of the response: missed events, new ones, heartbeats;
//! - `hub`, `subscribers`: subscriptions; without any there is no cost;
//! - `printer`: serialises events;
//! - `log`: the stream of a job's log lines, which are no events.
//!
//! There is no gap and no repetition between past and live events. A stream of a job subscribes,
//! then loads the job: events in its history are skipped by number. A stream of a client reads the
//! journal until it has caught up with the hub, and subscribes in the same step. A stream whose
//! queue is full is closed; the client may reconnect and continue.

mod feed;
mod hub;
mod last_id;
mod log;
mod open;
mod printer;
mod subscribers;
mod wording;

pub(crate) use hub::Hub;
#[cfg(feature = "grpc")]
pub(crate) use hub::{StreamPermit, Subscription};
pub(crate) use last_id::{ResumePoint, find};
#[cfg(feature = "grpc")]
pub(crate) use open::admit;
pub(crate) use open::{StreamScope, client, everything, job, log};
#[cfg(feature = "grpc")]
pub(crate) use subscribers::{EventLine, Topic};
pub(crate) use wording::EventWording;
