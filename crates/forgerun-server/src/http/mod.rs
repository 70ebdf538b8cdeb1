//! The processing of every request before and after its dialect.
//!
//! ```text
//!   connection ──► service ──► Exchange (request id, correlation) ──► dialect ──► finish (headers, problem) ──► connection
//!                                                                   │ 1 route, method          routing, tables of the dialects
//!                                                                   │ 2 who asks               auth
//!                                                                   │ 3 how often              limits: limiter, rate
//!                                                                   │ 4 what is wanted         accept
//!                                                                   │ 5 what is sent           body; limits: byte_budget
//!                                                                   └ 6 rules, engine          the dialect
//! ```
//!
//! The order of the checks is the model's (§7): the first failing one answers, and nothing is
//! written before the last. Every refusal is an [`ApiError`], turned into a response by [`finish`]
//! only, which knows the request.

pub(crate) mod accept;
pub(crate) mod accepted;
pub(crate) mod body;
mod body_cache;
pub(crate) mod cors;
pub(crate) mod exchange;
pub(crate) mod failure;
pub(crate) mod finish;
mod forwarded;
pub(crate) mod items;
mod local;
mod outgoing;
mod panic;
pub(crate) mod precondition;
pub(crate) mod prefer;
pub(crate) mod query;
mod queue_name;
mod refusal;
pub(crate) mod respond;
pub(crate) mod routing;
mod service;
pub(crate) mod wait;

pub use body_cache::BodyCache;
pub use exchange::Exchange;
pub(crate) use exchange::language_of;
#[cfg(feature = "grpc")]
pub(crate) use forwarded::real_address;
pub use outgoing::{Outgoing, Unwritten};
#[cfg(feature = "grpc")]
pub(crate) use panic::{Panicked, caught};
pub(crate) use queue_name::queue_name;
pub use refusal::ApiError;
#[cfg(feature = "grpc")]
pub(crate) use service::timed_out;
pub use service::{ConnectionService, HttpService};
