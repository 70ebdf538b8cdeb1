//! What every store must do, as one suite of cases that each implementation runs as its own tests:
//!
//! ```ignore
//! forgerun_store::conformance::suite!(fixture);
//! ```
//!
//! where `fixture` is an async function that gives a fresh [`Fixture`]. Every case has a store to itself, says what time
//! it is, and never sleeps. A case that runs many things at once checks what must hold however they interleave.
//!
//! | file | about |
//! |---|---|
//! | `submit.rs` | submitting and reading back |
//! | `related_rows.rs` | what a batch is given to see |
//! | `batch.rs` | all or nothing: poison, panics, abandoned calls, big batches |
//! | `damage.rs` | rows that cannot be read |
//! | `claim.rs` | who gets which job, with several nodes |
//! | `time.rs` | what is due, and when something will be |
//! | `keys.rs` | idempotency keys and unique keys, fifty at once |
//! | `fair.rs` | fair keys, with several nodes |
//! | `limits.rs` | limits on how many and how often, with several nodes |
//! | `records.rs` | records that several nodes write at once |
//! | `schedules.rs` | ticks that several nodes find at once |
//! | `workflows.rs` | what the end of a step leads to, with several nodes |
//! | `outcome.rs` | outcomes and executions |
//! | `results.rs` | results, and bytes beside the rows |
//! | `forget.rs` | forgetting and sweeping |
//! | `journal.rs` | order and completeness of the journal |
//! | `clients.rs`, `client_limits.rs` | clients, API keys and limits |
//! | `webhooks.rs` | webhooks, deliveries and signing keys, with several nodes |
//! | `list.rs` | lists, shelves, queues |
//! | `operator.rs` | what the operator asks, about all clients at once |
//! | `text.rs` | odd texts, odd moments |
//! | `restart.rs` | what survives |
//! | `sealed.rs` | encryption around a store |
//! | `wakeups.rs` | news between nodes |
//! | `random.rs` | random commands in lock step with the memory store |
//!
//! Rules are the core's and are tested there; the cases here use them only to bring a store into interesting states.

pub mod batch;
pub mod claim;
pub mod client_limits;
pub mod clients;
pub mod damage;
pub mod fair;
pub mod forget;
pub mod journal;
pub mod keys;
pub mod limits;
pub mod list;
pub mod logs;
pub mod operator;
pub mod outcome;
pub mod random;
pub mod records;
pub mod related_rows;
pub mod restart;
pub mod results;
pub mod schedules;
#[cfg(feature = "encryption")]
pub mod sealed;
pub mod submit;
pub mod text;
pub mod time;
pub mod wakeups;
pub mod webhooks;
pub mod workflows;

mod deliveries;
mod dice;
mod harness;
mod make;
mod snapshot;
mod suite;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::set_aside::RowId;

use crate::Store;
#[cfg(feature = "encryption")]
pub use crate::conformance_sealed_suite as sealed_suite;
pub use crate::conformance_suite as suite;

/// A case that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// A store under test, with data of its own.
pub trait Fixture: Send + Sync {
    /// The store, as one node sees it.
    fn store(&self) -> Arc<dyn Store>;

    /// The same data, as another node sees them.
    fn second(&self) -> Arc<dyn Store>;

    /// The same data after the process was started again. Stores handed out before are not used any more.
    fn reopen(&self) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + '_>>;

    /// Makes a row unreadable, as damage to the disk would.
    fn damage(&self, row: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Undoes that.
    fn mend(&self, row: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Runs one case with a fixture of its own. What `suite!` makes a test of.
pub fn check<F: Fixture>(fixture: impl AsyncFnOnce() -> F, case: impl AsyncFnOnce(&dyn Fixture)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        let fixture = fixture().await;
        let done = tokio::time::timeout(PATIENCE, case(&fixture)).await;
        assert!(done.is_ok(), "the case hangs");
    });
}
