//! The server from outside. `api` talks HTTP to a server in this process, with a clock that can be moved and a store that
//! can be broken; the rest starts the real binary as a user would, judged by what it prints, answers and returns.
//!
//! No fixed ports: the server takes a free one and says which.

mod acceptance;
pub(crate) mod api;
mod cleanup;
mod cli;
mod client;
mod collector;
mod config;
mod crash;
mod generated_client;
mod logs;
mod metrics;
mod ojs;
mod process;
mod serving;
mod traces;
#[cfg(target_os = "linux")]
mod unread;
mod usage;
mod webhooks;
