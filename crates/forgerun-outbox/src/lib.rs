//! The forwarder: sends jobs that an application submitted inside its own transactions.
//!
//! ```text
//!   application: forgerun.submit(…) ──► forgerun.outbox ──take──► send ──► POST /ojs/v1/jobs/batch
//!                                             ▲                    │
//!                                             └────── settle ◄─────┘  deletes what was sent, keeps what was refused
//! ```
//!
//! - **Once.** The id of a row is the id of its job, and its idempotency key. A forwarder that dies between sending and deleting leaves rows that
//!   are sent again; the server names the job that has the id, and the row goes.
//! - **In order.** One forwarder sends at a time, the oldest row first. Others stand by.
//! - **Rows wait** while the server is away, refuses the key, or asks for time. A row that the server will never accept stays in the table with
//!   the problem object, and the next row is sent.

#![forbid(unsafe_code)]

mod forward;
mod send;

pub use forgerun_store::outbox::{OutboxDatabase, OutboxStatus, RefusedJob, SCHEMA};
pub use forgerun_store::{Error, Fault};
pub use forward::Forwarder;
