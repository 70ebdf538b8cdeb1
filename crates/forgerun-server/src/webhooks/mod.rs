//! Outgoing webhooks: sends a body to a URL and reports the receiver's answer. The engine decides
//! what is sent, when, and how often.
//!
//! ```text
//!   Target ── Letter ── signed twice ──► Sender ──► Dialler: resolve once, judge every address, dial a judged one
//!                                          ▲             └► Pool
//!                                          └ Verdict: delivered, gone, failed
//! ```
//!
//! - `guard`: refused addresses; `target`: allowed URLs.
//! - `keys`, `signature`: RFC 9421 with Ed25519; `standard`: Standard Webhooks.
//! - `signing_keys`: the keys of a running server; `courier`: the engine's interface.
//! - `contents`: the same for every attempt; `cloud_event`: envelopes; `request`: one attempt as a
//!   request.
//! - `dial`, `pool`, `sender`, `send_error`: connections, sending, errors.
//! - `verify`: explains why a signature does not match; `listen`: a receiver for testing; `fetch`:
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
pub(crate) use dial::Dialler;
pub use dial::{Addresses, Resolve, SystemResolver};
pub use listen::{ListenOptions, WebhookListener};
pub use metrics::WebhookMetrics;
pub use request::DeliveryRequest;
pub use send_error::SendError;
pub use sender::{SendVerdict, Sender, SenderOptions};
pub use signing_keys::{SigningKeys, rotate_in};
pub use target::{Objection, Target};
