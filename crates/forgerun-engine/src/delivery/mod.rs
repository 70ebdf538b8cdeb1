//! The delivery loop: takes deliveries that are due, hands them to a [`Courier`], and settles what became of them.
//!
//! ```text
//!   deliveries due ──► take ──► sorted by the standing of their endpoint ──► courier ──► settle
//!      (store)          ▲          good:    many at once, the rest waits here
//!                       │          untried: one at once, in slots of their own
//!                       │          suspect: few at once, in slots of their own
//!                       └───────── put off what finds no slot
//! ```
//!
//! The point of the sorting is that a receiver that is slow or dead delays nobody else, be there a thousand of them. Only an
//! endpoint that answers well and quickly may have deliveries waiting here; whatever else finds no slot goes back to the store
//! for a while, without costing it an attempt.
//!
//! | file | subject |
//! |---|---|
//! | `endpoints.rs` | what is known of endpoints, and who gets a slot |
//! | `courier.rs` | what a courier is given, and what it says |
//! | `runner.rs` | the loop |
//!
//! What goes wrong, and what follows:
//!
//! - the process dies: what it had taken is due again when its lease ends, here or on another node. So a delivery may arrive
//!   twice, and has an id to know it by;
//! - the store fails: taking pauses; what was sent is settled again and again until the lease is over;
//! - the endpoint was deleted or disabled: what was meant for it is given up, one after the other.

mod courier;
mod endpoints;
mod runner;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::delivery::DeliveryPolicy;

use crate::Engine;
use crate::loops::Loops;
pub use courier::{AttemptReport, AttemptVerdict, Courier, PreparedDelivery, Sending};
use runner::DeliveryRunner;

/// What an operator may set about deliveries. The bounds are per node.
#[derive(Clone, Debug)]
pub struct DeliveryOptions {
    /// What to do about failures.
    pub policy: DeliveryPolicy,
    /// How long a delivery is held without a word; longer than the courier takes at most.
    pub lease: Duration,
    /// Sends under way to endpoints that answer well and quickly.
    pub good_max: usize,
    /// Sends under way to endpoints that nothing is known of: fewer, since they may all hang.
    pub untried_max: usize,
    /// Sends under way to endpoints that failed or are slow.
    pub suspect_max: usize,
    /// Sends under way to one good endpoint.
    pub per_endpoint_max: usize,
    /// Deliveries taken that wait here for a slot; all of them for good endpoints, so they do not wait long.
    pub waiting_max: usize,
    /// An answer that takes longer makes an endpoint suspect, and so does waiting here for longer.
    pub slow: Duration,
    /// How often to look for deliveries that another node left behind.
    pub refresh: Duration,
}

impl Default for DeliveryOptions {
    fn default() -> Self {
        DeliveryOptions {
            policy: DeliveryPolicy {
                attempts_max: 6,
                base: Duration::from_millis(500),
                max: Duration::from_secs(30),
                disable_after: Duration::from_secs(24 * 3600),
            },
            lease: Duration::from_secs(30),
            good_max: 128,
            untried_max: 64,
            suspect_max: 256,
            per_endpoint_max: 64,
            waiting_max: 256,
            slow: Duration::from_millis(500),
            refresh: Duration::from_secs(1),
        }
    }
}

/// The delivery loop.
pub struct DeliveryLoop;

impl DeliveryLoop {
    /// Starts delivering. It goes on until the handle stops it or is dropped.
    pub fn start(engine: Engine, courier: Arc<dyn Courier>, options: DeliveryOptions) -> DeliveryHandle {
        let stop = engine.stop_signal().child_token();
        let mut loops = Loops::new(stop.clone());
        loops.spawn(DeliveryRunner::new(engine, courier, options, stop).work());
        DeliveryHandle(loops)
    }
}

/// Holds the delivery loop. Dropping it kills it without a word: what it had taken comes back when its lease ends.
pub struct DeliveryHandle(Loops);

impl fmt::Debug for DeliveryHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeliveryHandle").finish_non_exhaustive()
    }
}

impl DeliveryHandle {
    /// Stops: nothing more is taken, what is under way has a second to end, what waits goes back to the store, and the rest is
    /// left to its lease. Before [`Engine::stop`], which refuses to settle. May be called any number of times, and dropped.
    pub async fn stop(&self) {
        self.0.stop().await;
    }
}
