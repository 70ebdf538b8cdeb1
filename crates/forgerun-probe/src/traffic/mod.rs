//! Loads a server with realistic clients, and checks every answer.
//!
//! - **Open loop.** The start times of journeys are computed from the seed and hold whatever the
//!   server does. A latency counts from when a request was meant to be sent, so that a server that
//!   stops for a second is charged for every delayed request, and not only for those under way. (A
//!   phase with `concurrency` is a closed loop and cannot do that.)
//! - **One thread.** All clients are tasks of one thread, so the load needs at most one core, and
//!   thousands of waiting clients cost no more than their timers: connections are shared.
//! - **One seed** determines what every client does. Only the server and the network are left to
//!   chance.
//!
//! Read in this order: `scenario` and `plan` (what will be done), `journey` with `follow` (one
//! client), `check` (guarantees), `audit` (nothing is lost), `tally` and `summary` (measurements).

mod abuse;
mod audit;
mod call;
mod check;
mod flows;
mod follow;
mod html;
mod journey;
mod own_server;
mod plan;
mod receiver;
mod rotation;
mod run;
mod scenario;
mod state;
mod summary;
mod tally;
mod violation;
mod workers;
mod world;

pub use own_server::OwnServerOptions;
pub use run::{Options, TrafficError, run};
pub use scenario::{Behaviour, Expect, InvalidValue, Phase, Scenario, ScenarioError};
pub use summary::{LatencySummary, Summary};
pub use tally::{JobCounts, PhaseCounts, Tick};
pub use violation::Violation;
