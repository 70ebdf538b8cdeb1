//! The running parts. All dialects and loops use [`Engine`]: commands go in, and are answered once
//! they are durable.
//!
//! ```text
//!   submit, claim, succeed, … ──► committer ──► store.transact( core::decide )
//!                                    │ after the commit
//!                                    ├──► answers to the callers
//!                                    ├──► waiting claims are woken      (wakeups), the built-in worker too (worker)
//!                                    ├──► the timer learns what is due  (timers)
//!                                    ├──► journal readers go on         (journal)
//!                                    ├──► the delivery loop looks         (delivery)
//!                                    └──► sinks send                      (sinks, which read the journal)
//! ```
//!
//! The engine uses no network and no SQL, and gets time and randomness from [`Clock`]: tests move
//! the clock by hand, and the simulator replays a whole run from one seed.

mod audit;
pub mod clock;
mod committer;
mod delivery;
mod engine;
mod ids;
mod intake;
pub mod journal;
mod loops;
pub mod observer;
mod options;
mod panic;
mod redrive;
mod schedules;
pub mod sinks;
mod sweeper;
mod timers;
mod wakeups;
mod worker;

pub use audit::{AuditScope, audited};
pub use clock::{Clock, StoreClock, SystemClock};
pub use delivery::{
    AttemptReport, AttemptVerdict, Courier, DeliveryHandle, DeliveryLoop, DeliveryOptions, PreparedDelivery,
    Sending,
};
pub use engine::Engine;
pub use intake::{Intake, IntakeError};
pub use options::Options;
pub use redrive::{RedriveHandle, RedriveLoop};
pub use schedules::{Recurrence, RecurrenceError};
pub use worker::{BuiltInWorker, Compose, Gauge, WorkerHandle, WorkerOptions};

use std::sync::Arc;

use forgerun_core::Refusal;

/// Why a command failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Refused by the rules. A retry changes nothing.
    #[error("refused: {0:?}")]
    Refused(Refusal),
    /// Too many commands are waiting. Nothing was written; retry later.
    #[error("too many commands are waiting")]
    Overloaded,
    /// The engine is stopping. Nothing was written.
    #[error("the engine is stopping")]
    Stopped,
    #[error(transparent)]
    Store(Arc<forgerun_store::Error>),
}

impl From<forgerun_store::Error> for Error {
    fn from(error: forgerun_store::Error) -> Error {
        Error::Store(Arc::new(error))
    }
}
