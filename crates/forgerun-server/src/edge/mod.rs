//! The processing of every request before and after its dialect.
//!
//! ```text
//!   connection ──► service ──► Exchange (request id, correlation) ──► dialect ──► finish (headers, problem) ──► connection
//!                                                                   │ 1 route, method          routing, tables of the dialects
//!                                                                   │ 2 who asks               auth, api_key_cache
//!                                                                   │ 3 how often              limiter, rate
//!                                                                   │ 4 what is wanted         accept
//!                                                                   │ 5 what is sent           body, byte_budget
//!                                                                   └ 6 rules, engine          the dialect
//! ```
//!
//! The order of the checks is the model's (§7): the first failing one answers, and nothing is
//! written before the last. Every refusal is an [`ApiError`], turned into a response by [`finish`]
//! only, which knows the request.

pub mod accept;
pub mod accepted;
mod api_key_cache;
pub(crate) mod api_keys;
pub mod auth;
pub mod body;
mod body_cache;
pub(crate) mod byte_budget;
pub mod events;
pub(crate) mod exchange;
pub mod failure;
pub(crate) mod finish;
mod forwarded;
pub mod items;
pub(crate) mod journal_page;
mod limiter;
mod local;
mod outgoing;
pub mod ownership;
mod panic;
pub(crate) mod precondition;
pub mod prefer;
pub mod query;
mod queue_name;
mod rate;
mod refusal;
pub mod respond;
pub mod results;
pub mod routing;
mod service;
pub(crate) mod sessions;
pub(crate) mod spending;
pub mod sse;
pub mod wait;

pub use api_key_cache::ApiKeyCache;
pub use auth::{Caller, Who};
pub use body_cache::BodyCache;
pub use byte_budget::ByteBudget;
pub use exchange::Exchange;
pub(crate) use exchange::language_of;
#[cfg(feature = "grpc")]
pub(crate) use forwarded::real_address;
pub use limiter::Limiter;
pub(crate) use limiter::site_of;
pub use outgoing::{Outgoing, Unwritten};
#[cfg(feature = "grpc")]
pub(crate) use panic::{Panicked, caught};
pub(crate) use queue_name::queue_name;
pub use refusal::ApiError;
#[cfg(feature = "grpc")]
pub(crate) use service::timed_out;
pub use service::{ConnectionService, HttpService};
pub use sessions::Sessions;
