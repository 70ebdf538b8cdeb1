//! The bodies of the Open Job Spec dialect, `/ojs/v1`.
//!
//! | file | what it has |
//! |---|---|
//! | `envelope.rs` | a job as a client sends it; `retry.rs`, `unique.rs`, `limit.rs`, `duration.rs` are its parts |
//! | `batch.rs` | many of them |
//! | `job.rs` | a job as it is shown; `state.rs` has the words, `kept.rs` what is shown as it was given |
//! | `cron.rs` | cron jobs: what a client sends, and how one is shown |
//! | `schema.rs` | schemas of job types |
//! | `subscription.rs` | webhooks, as subscriptions |
//! | `worker.rs` | what workers say |
//! | `workflow.rs` | workflows |
//! | `event.rs` | what happened |
//! | `error.rs` | refusals |
//! | `server.rs` | what the server says of itself: manifest, health, queues, workers |
//! | `members.rs` | how bodies are read |
//! | `amqp.rs` | the binding for AMQP 0-9-1: names on the broker, headers and properties of messages |

pub mod amqp;
pub mod batch;
pub mod cron;
pub mod duration;
pub mod envelope;
pub mod error;
pub mod event;
pub mod exchange;
pub mod job;
pub mod kept;
pub mod limit;
pub mod log;
pub mod members;
pub mod retry;
pub mod schema;
pub mod server;
pub mod state;
pub mod subscription;
mod typos;
pub mod unique;
pub mod worker;
pub mod workflow;

/// The media type of OJS.
pub const MEDIA_TYPE: &str = "application/openjobspec+json";

/// The same for SDKs that want to see the word `application/json` in it.
pub const MEDIA_TYPE_COMPATIBLE: &str = "application/openjobspec+json; compat=\"application/json\"";
