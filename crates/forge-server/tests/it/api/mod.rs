//! `/v1` over HTTP, against a server in this process.

mod auth;
mod batches;
mod contract;
mod documents;
mod edges;
mod faulty;
pub(crate) mod http;
mod idempotency;
mod judges;
mod keys;
mod languages;
mod lifecycle;
mod limits;
mod listing;
mod negotiation;
mod operations;
mod pages;
mod problems;
mod refusals;
mod restart;
mod retention;
pub(crate) mod server;
mod settings;
mod sse;
mod trouble;
mod waiting;
mod webhooks;
