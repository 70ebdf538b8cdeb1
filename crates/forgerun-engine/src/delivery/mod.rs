//! The delivery loop: claims due deliveries, passes them to a [`Courier`], and settles them.
//!
//! ```text
//!   deliveries due ──► take ──► sorted by the standing of their endpoint ──► courier ──► settle
//!      (store)          ▲          good:    many at once, the rest waits here
//!                       │          untried: one at once, in slots of their own
//!                       │          suspect: few at once, in slots of their own
//!                       └───────── put off what finds no slot
//! ```
//!
//! The classes ensure that a slow or dead receiver delays no other, even if there are a thousand of
//! them. Only endpoints that answer well and quickly may have deliveries waiting here; others
//! without a slot go back to the store for a while, without using up an attempt.
//!
//! | file | subject |
//! |---|---|
//! | `endpoints.rs` | the state of endpoints, and the assignment of slots |
//! | `courier.rs` | the interface to couriers |
//! | `runner.rs` | the loop |
//!
//! Failures, and their effects:
//!
//! - the process dies: claimed deliveries are due again when their lease ends, here or on another
//!   node. So a delivery may arrive twice; receivers detect that by its id;
//! - the store fails: claiming pauses, and settling is retried until the lease ends;
//! - the endpoint was deleted or disabled: its deliveries are given up, one by one.

mod courier;
mod endpoints;
mod runner;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::delivery::{DeliveryPolicy, DeliverySchedule};

use crate::Engine;
use crate::loops::Loops;
pub use courier::{AttemptReport, AttemptVerdict, Courier, PreparedDelivery, Sending};
use runner::DeliveryRunner;

/// Options of the delivery loop. The bounds are per node.
#[derive(Clone, Debug)]
pub struct DeliveryOptions {
    pub policy: DeliveryPolicy,
    /// Lease of a claimed delivery; longer than an attempt of the courier.
    pub lease: Duration,
    /// Concurrent sends to good endpoints.
    pub good_max: usize,
    /// Concurrent sends to untried endpoints: fewer, since they may all hang.
    pub untried_max: usize,
    /// Concurrent sends to suspect endpoints.
    pub suspect_max: usize,
    /// Concurrent sends to one good endpoint.
    pub per_endpoint_max: usize,
    /// Claimed deliveries that wait for a slot; all are for good endpoints, so they do not wait
    /// long.
    pub waiting_max: usize,
    /// A longer attempt, or a longer wait here, makes an endpoint suspect.
    pub slow: Duration,
    /// Interval of checks for deliveries that another node left behind.
    pub refresh: Duration,
}

impl Default for DeliveryOptions {
    fn default() -> Self {
        DeliveryOptions {
            policy: DeliveryPolicy {
                schedule: DeliverySchedule::Doubling {
                    attempts_max: 6,
                    base: Duration::from_millis(500),
                    max: Duration::from_secs(30),
                },
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

pub struct DeliveryLoop;

impl DeliveryLoop {
    /// Starts delivering, until the handle stops it or is dropped.
    pub fn start(engine: Engine, courier: Arc<dyn Courier>, options: DeliveryOptions) -> DeliveryHandle {
        let stop = engine.stop_signal().child_token();
        let mut loops = Loops::new(stop.clone());
        loops.spawn(DeliveryRunner::new(engine, courier, options, stop).work());
        DeliveryHandle(loops)
    }
}

/// Handle of the delivery loop. Dropping it kills the loop: its deliveries are due again when their
/// lease ends.
pub struct DeliveryHandle(Loops);

impl fmt::Debug for DeliveryHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeliveryHandle").finish_non_exhaustive()
    }
}

impl DeliveryHandle {
    /// Stops: claims nothing more, gives sends under way one second, returns waiting deliveries to
    /// the store, and leaves the rest to its lease. Call it before [`Engine::stop`], which refuses
    /// to settle. Idempotent and cancel-safe.
    pub async fn stop(&self) {
        self.0.stop().await;
    }
}
