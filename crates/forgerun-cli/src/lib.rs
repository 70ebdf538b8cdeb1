//! The commands of `forgerun` that call a server over HTTP or gRPC. A crate of its own, so that it
//! is built in parallel with the server, and optimised for size.
//!
//! - `client_commands`: submit, wait, list, cancel; queues, schedules, failures, workflows, keys.
//! - `worker`: runs jobs with a program or URL.
//! - `init`: starts a project that submits and works.
//! - `conformance`, `traffic` and `prove`: the command line of `forgerun-probe`.
//! - `exit`: exit codes.
//! - `terminal`: output for terminals and scripts.

pub mod client_commands;
pub mod conformance;
mod exit;
pub mod init;
pub mod prove;
pub mod terminal;
pub mod traffic;
pub mod worker;

pub use exit::Exit;
