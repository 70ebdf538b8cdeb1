//! The engine as its callers see it: on the memory store behind a wrapper that counts, blocks and
//! fails, and on tokio's paused clock, which moves only when everybody waits. So a test that passes
//! an hour takes no time, and a worker that is not woken shows as time that has passed.
//!
//! What broke comparable servers has its test here too; the names say what must not happen again.

mod bad_rows;
mod batches;
mod broken_stores;
mod capped_claims;
mod delivery;
mod journal;
mod lifecycle;
mod logs;
mod nodes;
mod overload;
mod races;
mod recovery;
mod results;
mod retention;
mod sinks;
mod standing_claims;
mod stop;
mod store;
mod support;
mod timers;
mod waiting_claims;
mod worker;
