//! Webhooks, outwards: from "here is a body for this URL" to "the receiver said". What is to be sent, when, and how often
//! is the engine's matter.
//!
//! ```text
//!   Target ── Letter ── signed twice ──► Sender ──► Dialler: resolve once, judge every address, dial a judged one
//!                                          ▲             └► Pool
//!                                          └ Verdict: delivered, gone, failed
//! ```
//!
//! - `guard`: addresses that are not called; `target`: URLs that may be.
//! - `keys`, `signature`: RFC 9421 with Ed25519; `standard`: Standard Webhooks.
//! - `keyring`: the keys of a running server; `courier`: the engine's.
//! - `contents`: what a delivery says at every attempt; `envelope`: CloudEvents; `letter`: one attempt as a request.
//! - `dial`, `pool`, `sender`, `trouble`: getting it there, and what can go wrong.
//! - `verify`: why a signature does not match; `listen`: a receiver for trying things out; `fetch`: keys for both.

mod contents;
mod courier;
mod dial;
pub mod envelope;
pub mod fetch;
pub mod guard;
mod keyring;
pub mod keys;
mod letter;
mod listen;
mod metrics;
mod pool;
mod sender;
pub mod signature;
pub mod standard;
mod target;
mod trouble;
pub mod verify;

pub use contents::Contents;
pub use courier::{Postman, SharedPostman};
pub use dial::{Addresses, Resolve, SystemResolver};
pub use keyring::{Keyring, rotate_in};
pub use letter::Letter;
pub use listen::{Listen, listen};
pub use metrics::WebhookMetrics;
pub use sender::{Options, Sender, Verdict};
pub use target::{Objection, Target};
pub use trouble::Trouble;
