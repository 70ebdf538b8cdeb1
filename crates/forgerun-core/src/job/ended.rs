//! Failures of attempts, and cancellations.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::catalog::Kind;
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptError {
    /// From 1.
    pub attempt: u32,
    pub at: Time,
    pub kind: Kind,
    /// The worker's code, or the catalog's.
    pub code: String,
    /// In English.
    pub message: String,
    /// The worker's error class.
    pub class: Option<String>,
    /// Whether a retry is worthwhile.
    pub retryable: bool,
    /// Other members from the worker, as received.
    pub details: Vec<u8>,
    /// Wait before the retry; `None` if the server does not retry.
    pub wait: Option<Duration>,
    /// Whether the job ended with this failure and was discarded, by its handler or by its policy.
    /// Such a job is not a dead letter.
    pub discarded: bool,
    /// Execution number, from 1; 0 if an older version wrote it.
    pub execution: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancellation {
    /// `user`, or the name of the system component.
    pub by: String,
    /// In English.
    pub reason: String,
}
