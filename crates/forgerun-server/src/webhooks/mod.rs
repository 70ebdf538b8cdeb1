//! Webhooks, outwards: from "here is a body for this URL" to "the receiver said". What is to be
//! sent, when, and how often is the engine's matter.
//!
//! ```text
//!   Target ── Letter ── signed twice ──► Sender ──► Dialler: resolve once, judge every address, dial a judged one
//!                                          ▲             └► Pool
//!                                          └ Verdict: delivered, gone, failed
//! ```
//!
//! - `guard`: addresses that are not called; `target`: URLs that may be.
//! - `keys`, `signature`: RFC 9421 with Ed25519; `standard`: Standard Webhooks.
//! - `signing_keys`: the keys of a running server; `courier`: the engine's.
//! - `contents`: what a delivery says at every attempt; `envelope`: CloudEvents; `letter`: one
//!   attempt as a request.
//! - `dial`, `pool`, `sender`, `trouble`: getting it there, and what can go wrong.
//! - `verify`: why a signature does not match; `listen`: a receiver for trying things out; `fetch`:
//!   keys for both.

pub mod cloud_event;
mod contents;
mod courier;
mod dial;
pub mod fetch;
pub mod guard;
pub mod keys;
mod listen;
mod metrics;
mod pool;
mod request;
mod send_error;
mod sender;
pub mod signature;
mod signing_keys;
pub mod standard;
mod target;
pub mod verify;

pub use contents::Contents;
pub use courier::{SharedCourier, WebhookCourier};
pub use dial::{Addresses, Resolve, SystemResolver};
pub use listen::{ListenOptions, WebhookListener};
pub use metrics::WebhookMetrics;
pub use request::DeliveryRequest;
pub use send_error::SendError;
pub use sender::{SendVerdict, Sender, SenderOptions};
pub use signing_keys::{SigningKeys, rotate_in};
pub use target::{Objection, Target};
