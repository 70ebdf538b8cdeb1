//! `/v1` over HTTP, against a server in this process.

mod auth;
mod batches;
mod contract;
mod edges;
mod faulty;
pub(crate) mod http;
mod idempotency;
mod keys;
mod languages;
mod lifecycle;
mod limits;
mod listing;
mod negotiation;
mod refusals;
mod restart;
mod retention;
mod server;
mod settings;
mod trouble;
mod waiting;
