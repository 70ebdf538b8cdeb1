//! ForgeRun in a world that one seed decides: clients that repeat themselves, workers that are slow, die or come back as
//! zombies, receivers of webhooks that are slow, refuse or fall silent, a clock that jumps, a store that fails before or after the
//! commit, nodes that crash at any step.
//!
//! [`run`] plays one seed and checks what must always hold; a [`SimFailure`] names the seed and tells the story. Time is
//! virtual, so minutes of it pass in milliseconds, and the same seed always gives the same story.
//!
//! | file | what |
//! |---|---|
//! | `world.rs` | the clock and the dice |
//! | `faulty_store.rs` | the disk that fails, and the auditor who sees every commit |
//! | `nodes.rs` | engines that crash and come back |
//! | `clients.rs`, `subscribers.rs`, `workers.rs` | who asks for what |
//! | `workflows.rs` | graphs of steps that clients ask for |
//! | `receivers.rs` | where deliveries go |
//! | `broker.rs` | where sinks send |
//! | `delivery_ledger.rs` | the auditor's ledger of deliveries |
//! | `schedules.rs` | schedules, and the auditor's ledger of their ticks |
//! | `acknowledged.rs` | what was acknowledged, and what must follow from it |
//! | `run_log.rs` | what happened, for the one who has to find out why |

mod acknowledged;
mod auditor;
mod broker;
mod clients;
mod delivery_ledger;
mod faulty_store;
mod nodes;
mod receivers;
mod run;
mod run_log;
mod schedules;
mod subscribers;
mod workers;
mod workflows;
mod world;

pub use run::{SimFailure, SimReport, run};

/// A rule broken on purpose, to prove that the checks can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Workers are believed without their fencing token.
    FencingOff,
    /// What a worker says of a job is believed whoever's job it is.
    OwnershipOff,
    /// The store acknowledges some batches that it did not write.
    LostWrite,
    /// The store forgets some events of what it writes.
    LostEvent,
    /// Some claims hand out a job that is not recorded as held.
    LostClaim,
    /// The store forgets some deliveries of what it writes.
    LostDelivery,
    /// Couriers may take what others hold.
    SharedDelivery,
    /// Some deliveries do not wait for the one before.
    HastyDelivery,
    /// The store forgets some jobs of steps that have their turn.
    LostStep,
    /// Sinks note some events as sent before the broker has confirmed them.
    HastySink,
    /// Some ticks make their job, and the schedule does not move on.
    RepeatedTick,
}
