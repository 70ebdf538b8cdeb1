//! Why an attempt, or a whole job, ended other than well.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::catalog::Kind;
use crate::time::Time;

/// Why one attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptError {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When.
    pub at: Time,
    /// The kind of failure, from the catalog.
    pub kind: Kind,
    /// The code the worker gave, or the catalog's.
    pub code: String,
    /// In English.
    pub message: String,
    /// The error class the worker gave.
    pub class: Option<String>,
    /// Whether another try is worth it.
    pub retryable: bool,
    /// Whatever else the worker sent, as received.
    pub details: Vec<u8>,
    /// How long the job then waits before it is tried again; `None` if it is not, by itself.
    pub wait: Option<Duration>,
    /// Whether the job ended with this failure and was discarded: by its handler, or by a policy that does not keep jobs whose
    /// retries are exhausted. Such a job is no dead letter anywhere.
    pub discarded: bool,
    /// The number of its execution, from 1; 0 where an older version wrote it.
    pub execution: u32,
}

/// Who cancelled a job and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancellation {
    /// `user`, or what the system calls itself.
    pub by: String,
    /// In English.
    pub reason: String,
}
