//! The commands of `forgerun` that know a server only from outside, over HTTP or gRPC. A crate of its own, so that it is built beside the
//! server and not after it, and in less time: nobody waits for what it does, only for what a server does.
//!
//! - `people`: submit, wait, list, cancel; queues, schedules, failures, workflows, keys.
//! - `worker`: a program or a URL does the work of jobs.
//! - `init`: the beginning of a project that submits and works.
//! - `conformance` and `traffic`: the front of `forgerun-probe`.
//! - `exit`: what the process says when it ends.
//! - `terminal`: what is said to people and to scripts.

pub mod conformance;
mod exit;
pub mod init;
pub mod people;
pub mod terminal;
pub mod traffic;
pub mod worker;

pub use exit::Exit;
