//! The ForgeRun server: where the parts are put together.
//!
//! - `config`: every key, from flags, environment, file and defaults, checked once.
//! - `serve`: the server itself, from listening to the last answer.
//! - `telemetry`: logs.
//! - `exit`: what the process says when it ends.
//! - `limits`: bounds that nobody needs to configure.
//!
//! The binary `forgerun` is a thin command line over this.

pub mod config;
mod exit;
pub mod limits;
mod serve;
pub mod telemetry;

pub use config::Config;
pub use exit::Exit;
pub use serve::{ServeError, serve};
