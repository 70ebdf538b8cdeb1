//! Proves a server's promises by breaking it: nodes on one store are killed, frozen and restarted
//! under load, and afterwards everything is compared with what was acknowledged.
//!
//! ```text
//!   clients, workers, receiver ──► nodes ◄── faults, by the seed
//!              │                     │
//!              └────► history ◄──────┘ end: jobs, workflows, events; `forgerun check`
//!                        │
//!                      judge ──► verdict
//! ```
//!
//! The history is a file that other checkers can read. The judge is a pure function of it.

mod ending;
pub mod history;
pub mod judge;
mod load;
mod nodes;
mod receiver;
mod report;
mod run;
mod workers;
mod world;

pub use run::{Options, Progress, ProveError, Summary, run};
