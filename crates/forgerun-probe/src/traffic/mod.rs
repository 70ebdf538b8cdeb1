//! Making a server busy with clients that behave as clients do, and checking every answer.
//!
//! - **Open loop.** The moments at which journeys begin are computed from the seed beforehand and hold whatever the server does. A latency counts from the moment
//!   at which a request was meant to be sent, so that a server that stops for a second is charged for every request that had to wait, and not only for those that
//!   were under way. (A phase with `concurrency` is a closed loop and cannot do that.)
//! - **One thread.** All clients are tasks of one thread, so the load needs no more than one core, and thousands of clients that wait cost no more than
//!   their timers: connections are shared.
//! - **One seed** decides what every client does. Only the server and the network are left to chance.
//!
//! The machinery in the order of reading: `scenario` and `plan` (what will be done), `journey` with `follow` (one client), `check` (what is promised), `audit` (nothing
//! is lost), `tally` and `summary` (what was measured).

mod abuse;
mod audit;
mod call;
mod check;
mod clock;
mod follow;
mod html;
mod journey;
mod own_server;
mod plan;
mod pool;
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
