//! Bounds of the server that nobody needs to configure, each with its reason. What an operator may set is in
//! [`crate::config`].

use std::time::Duration;

/// How long open connections may take to end after the request to stop. Supervisors commonly kill after 30 s (Kubernetes)
/// or 10 s (Docker); ours must be done before.
pub const STOP_GRACE: Duration = Duration::from_secs(8);

/// Characters of a bad value that a message repeats.
pub const SHOWN_CHARS_MAX: usize = 80;

/// Bytes of a configuration file. Larger is a mistaken path.
pub const CONFIG_FILE_BYTES_MAX: u64 = 1024 * 1024;
