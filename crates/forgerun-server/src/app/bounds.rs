//! Timeouts and other bounds of requests.

use std::time::Duration;

use crate::limits::{REQUEST_TIMEOUT, STREAM_EVENTS_WAITING_MAX, STREAM_HEARTBEAT, WAIT_MAX};

/// Timeouts. Not configurable; tests use shorter ones.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// A request, without the wait that its client asked for.
    pub request_timeout: Duration,
    /// Longest wait that a client may ask for.
    pub wait_max: Duration,
    /// Heartbeat interval of a stream.
    pub stream_heartbeat: Duration,
    /// Events buffered per stream.
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
