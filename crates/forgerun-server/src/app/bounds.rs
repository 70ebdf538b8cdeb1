//! How long things may take.

use std::time::Duration;

use crate::limits::{REQUEST_TIMEOUT, STREAM_EVENTS_WAITING_MAX, STREAM_HEARTBEAT, WAIT_MAX};

/// How long things may take. Not for operators; tests have less patience.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// A request, not counting what its client asked to wait.
    pub request_timeout: Duration,
    /// What a client may ask to wait.
    pub wait_max: Duration,
    /// Between two signs of life of a stream.
    pub stream_heartbeat: Duration,
    /// Events that may wait for one stream.
    pub stream_events_waiting: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            request_timeout: REQUEST_TIMEOUT,
            wait_max: WAIT_MAX,
            stream_heartbeat: STREAM_HEARTBEAT,
            stream_events_waiting: STREAM_EVENTS_WAITING_MAX,
        }
    }
}
