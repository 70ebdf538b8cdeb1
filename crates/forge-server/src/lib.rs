//! The ForgeRun server: where the parts are put together.
//!
//! - `config`: every key, from flags, environment, file and defaults, checked once.
//! - `limits`: bounds that nobody needs to configure.

pub mod config;
pub mod limits;

pub use config::Config;
