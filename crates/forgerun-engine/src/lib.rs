//! The running parts. [`Engine`] is the handle that every dialect and every loop uses: commands go in, and nothing is
//! answered before it is durable.
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
//! The engine knows no network and no SQL, and asks [`Clock`] for time and chance; so a test moves the clock by hand, and
//! the simulator runs the whole of it from one seed.

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

/// Why the engine did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The rules say no. Asking again changes nothing.
    #[error("refused: {0:?}")]
    Refused(Refusal),
    /// Too many commands are waiting already. Asking again later is fine; nothing was written.
    #[error("too many commands are waiting")]
    Overloaded,
    /// The engine is stopping. Nothing was written.
    #[error("the engine is stopping")]
    Stopped,
    /// The store failed.
    #[error(transparent)]
    Store(Arc<forgerun_store::Error>),
}

impl From<forgerun_store::Error> for Error {
    fn from(error: forgerun_store::Error) -> Error {
        Error::Store(Arc::new(error))
    }
}
