//! The rules of ForgeRun, and nothing else.
//!
//! Whatever happens to a job is a [`Command`]. The pure function [`decide()`] turns a batch of
//! commands and the rows they need ([`Rows`]) into [`Changes`], which a store writes all or
//! nothing. Time and randomness are arguments. There is no clock, file or socket here: `no_std`
//! lets the compiler prove it.
//!
//! Read in this order: [`state`], [`job`], [`command`], [`rows`], then [`mod@decide`].
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;
// `tests/world` names this crate from outside; the unit tests use it from inside.
#[cfg(test)]
extern crate self as forgerun_core;

pub mod command;
pub mod decide;
pub mod job;
pub mod rows;
pub mod state;

pub mod audit;
pub mod catalog;
pub mod checkpoint;
pub mod client;
pub mod client_limits;
pub mod codec;
pub mod delivery;
pub mod failure;
pub mod fair;
pub mod history;
pub mod id;
pub mod invariants;
pub mod item;
pub mod limits;
pub mod log;
pub mod memo;
pub mod node;
pub mod pace;
pub mod queue;
pub mod quota;
pub mod random;
pub mod record;
mod record_check;
pub mod redrive;
pub mod related;
pub mod retry;
pub mod schedule;
pub mod schema;
pub mod scope;
pub mod session;
pub mod set_aside;
pub mod sink;
pub mod tally;
pub mod time;
pub mod token_key;
pub mod webhook;
pub mod work;
pub mod worker;
pub mod workflow;

#[cfg(test)]
#[path = "../tests/world/mod.rs"]
mod world;

pub use command::{Answer, Command, Refusal};
pub use decide::{Batch, decide, wants};
pub use rows::{Changes, Rows, Wants};
