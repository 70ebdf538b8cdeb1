//! ForgeRun in a world determined by one seed: clients that repeat themselves, workers that are
//! slow, die or come back as zombies, webhook receivers that are slow, refuse or do not answer, a
//! clock that jumps, a store that fails before or after the commit, nodes that crash at any step.
//!
//! [`run`] plays one seed and checks the invariants; a [`SimFailure`] has the seed and the log.
//! Time is virtual, so minutes of it pass in milliseconds, and a seed always gives the same run.
//!
//! | file | what |
//! |---|---|
//! | `world.rs` | the clock and random numbers |
//! | `faulty_store.rs` | the disk that fails, and reports every commit to the auditor |
//! | `nodes.rs` | engines that crash and come back |
//! | `clients.rs`, `subscribers.rs`, `workers.rs` | the callers |
//! | `workflows.rs` | random graphs of steps, and their checks |
//! | `receivers.rs` | endpoints of deliveries |
//! | `broker.rs` | the target of sinks |
//! | `delivery_ledger.rs` | the auditor's ledger of deliveries |
//! | `schedules.rs` | schedules, and the auditor's ledger of their ticks |
//! | `shares.rs` | fair keys, and the auditor's ledger of their turns |
//! | `acknowledged.rs` | what was acknowledged, and what must follow from it |
//! | `run_log.rs` | the log of a run |

mod acknowledged;
mod auditor;
mod broker;
mod clients;
mod delivery_ledger;
mod faulty_store;
mod flows;
mod nodes;
mod receivers;
mod run;
mod run_log;
mod schedules;
mod shares;
mod subscribers;
mod workers;
mod workflows;
mod world;

pub use run::{SimFailure, SimReport, run};

/// A rule broken on purpose, to prove that the checks can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Workers are accepted without their fencing token.
    FencingOff,
    /// Reports are accepted from workers of other clients.
    OwnershipOff,
    /// The store acknowledges some batches that it did not write.
    LostWrite,
    /// The store omits some events.
    LostEvent,
    /// Some claims hand out a job that is not recorded as held.
    LostClaim,
    /// The store omits some deliveries.
    LostDelivery,
    /// Couriers may claim deliveries that others hold.
    SharedDelivery,
    /// Some deliveries do not wait for the one before.
    HastyDelivery,
    /// The store omits some jobs of ready steps.
    LostStep,
    /// Sinks record some events as sent before the broker has confirmed them.
    HastySink,
    /// Some ticks make their job, but the schedule does not advance.
    RepeatedTick,
}
