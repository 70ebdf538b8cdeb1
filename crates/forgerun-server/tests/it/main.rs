//! The server from outside. `api` talks HTTP to a server in this process, with a clock that can be
//! moved and a store that can be broken; the rest starts the real binary as a user would, judged by
//! what it prints, answers and returns.
//!
//! No fixed ports: the server takes a free one and says which.

mod acceptance;
#[cfg(feature = "amqp")]
mod amqp;
mod any_bytes;
pub(crate) mod api;
mod cleanup;
mod cli;
mod client;
mod collector;
mod config;
mod crash;
mod damaged_rows;
mod dashboard;
mod deploy;
mod documentation;
mod encryption;
mod generated_client;
#[cfg(feature = "grpc")]
mod grpc;
#[cfg(feature = "nats")]
mod hostile_network;
mod load;
mod logs;
mod metrics;
mod migrate;
mod nodes;
mod nodes_agree;
#[cfg(feature = "s3")]
mod objects;
mod ojs;
mod operators;
mod outbox;
mod probe;
mod process;
mod rabbitmq;
mod redrives;
mod schedules;
mod serving;
#[cfg(unix)]
mod shell_blocks;
#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats"))]
mod sinks;
mod tls;
mod traces;
#[cfg(target_os = "linux")]
mod unread;
mod upgrade;
mod usage;
mod webhooks;
mod workflow_nodes;
