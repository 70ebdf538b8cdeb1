//! Command to send a signal to a workflow.

use alloc::string::String;
use alloc::vec::Vec;

use super::Owned;
use crate::limits;
use crate::workflow::SignalToken;

/// A signal: ends the wait for it, or is kept until that wait begins.
#[derive(Clone, Debug)]
pub struct SendSignal {
    pub to: SignalTarget,
    /// JSON, at most [`limits::SIGNAL_BODY_BYTES_MAX`] bytes.
    pub body: Vec<u8>,
    /// SHA-256 of the body.
    pub digest: [u8; 32],
}

#[derive(Clone, Debug)]
pub enum SignalTarget {
    /// By the workflow and the signal's name.
    Named { workflow: Owned, name: String },
    /// To the handler of a job: recorded among its steps, under [`crate::memo::signal_step`].
    Job { job: Owned, name: String },
    /// By the token of a wait that has begun.
    Token(SignalToken),
}

impl SendSignal {
    pub(super) fn weight(&self) -> usize {
        1 + self.body.len() / limits::WEIGHED_BYTES
    }
}
