//! Bounds on the resources of anonymous callers, and of clients that do not read.

use std::time::Duration;

/// Bytes of a body or gRPC message of an anonymous caller: login form, registration, health check.
pub const STRANGER_BODY_BYTES_MAX: usize = 8 * 1024;

/// Bytes of unanswered requests of anonymous callers, per address and in total.
pub const STRANGER_BYTES_MAX: usize = 1024 * 1024;
/// See [`STRANGER_BYTES_MAX`].
pub const STRANGERS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Timeout of an anonymous caller's body.
pub const STRANGER_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a body without progress.
pub const BODY_STALL: Duration = Duration::from_secs(10);

/// Minimum bytes per second of a body after [`BODY_STALL`]: less than a modem's.
pub const BODY_PACE_PER_S: u64 = 1024;

/// Bytes of a body that arrived in one piece and are not counted: they exist already, and are
/// processed at once.
pub const INCOMING_FREE_BYTES: usize = 16 * 1024;

/// `Retry-After` if there is no memory for a body.
pub const INCOMING_RETRY_AFTER_S: u64 = 2;

/// Bytes that are read and dropped after an early answer, so that the client sees the answer
/// instead of a broken connection; and how long that may take, in total and without progress.
pub const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// See [`LINGER_BYTES_MAX`].
pub const LINGER: Duration = Duration::from_secs(5);
/// See [`LINGER_BYTES_MAX`].
pub const LINGER_STALL: Duration = Duration::from_secs(1);

/// Total bytes of unread answers over HTTP/2 and gRPC; a client may have a quarter of it.
pub const UNREAD_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Bytes of a gRPC call's metadata. Others allow 8 KiB.
pub const GRPC_HEAD_BYTES_MAX: u32 = 16 * 1024;

/// Flow control windows of gRPC calls and connections.
pub const GRPC_CALL_WINDOW_BYTES: u32 = 128 * 1024;
/// See [`GRPC_CALL_WINDOW_BYTES`].
pub const GRPC_CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;

/// Concurrent requests per HTTP/2 connection; further ones wait at the client. As many as clients
/// commonly expect (RFC 9113, 6.5.2).
pub const HTTP2_STREAMS_MAX: u32 = 100;

/// Bytes of a request's head over HTTP/2; more is 431. Less than [`super::HEAD_BYTES_MAX`], because
/// a connection may have [`HTTP2_STREAMS_MAX`] of them.
pub const HTTP2_HEAD_BYTES_MAX: u32 = 16 * 1024;

/// Flow control windows of requests and connections over HTTP/2: what a client may send before it
/// is read.
pub const HTTP2_STREAM_WINDOW_BYTES: u32 = 128 * 1024;
/// See [`HTTP2_STREAM_WINDOW_BYTES`].
pub const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;

/// Requests that a client may reset within [`HTTP2_RESETS_SPAN`] before its connection is closed.
/// Browsers reset a few when a page is left; an attacker resets thousands, to have work done that
/// does not count as concurrent (CVE-2023-44487).
pub const HTTP2_RESETS_MAX: u32 = 100;
/// See [`HTTP2_RESETS_MAX`].
pub const HTTP2_RESETS_SPAN: Duration = Duration::from_secs(10);

/// Requests of a connection that were reset before they were looked at.
pub const HTTP2_RESETS_PENDING_MAX: usize = 20;

/// Requests of a connection that the server resets, because the client broke the protocol.
pub const HTTP2_LOCAL_RESETS_MAX: usize = 64;

/// Bytes charged for a call besides its metadata and message.
pub const GRPC_CALL_BYTES: usize = 512;

/// Bounds of a reflection call: duration, total bytes, bytes of a message, and the memory it is
/// charged for its answers.
pub const REFLECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// See [`REFLECTION_TIMEOUT`].
pub const REFLECTION_BYTES_MAX: usize = 64 * 1024;
/// See [`REFLECTION_TIMEOUT`].
pub const REFLECTION_MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// See [`REFLECTION_TIMEOUT`].
pub const REFLECTION_CALL_BYTES: usize = 32 * 1024;

/// Descriptors reserved for files, databases and deliveries, in percent, and at least.
pub const DESCRIPTORS_RESERVED_PERCENT: usize = 25;
/// See [`DESCRIPTORS_RESERVED_PERCENT`].
pub const DESCRIPTORS_RESERVED_MIN: usize = 128;

/// Delay of the answer to a wrong token once its address has sent too many.
pub const WRONG_TOKEN_DELAY: Duration = Duration::from_secs(1);

/// Concurrent delayed answers of one address; further ones are refused at once.
pub const WRONG_TOKENS_WAITING_MAX: usize = 64;

/// Interval of log lines about refused credentials of one address.
pub const AUTH_FAILURES_LOGGED_EVERY: Duration = Duration::from_secs(60);

/// Concurrent uploads of results, in total and per client; one per job. Each may have the maximum
/// size.
pub const UPLOADS_MAX: usize = 256;
/// See [`UPLOADS_MAX`].
pub const UPLOADS_PER_CLIENT_MAX: usize = 32;
/// Uploads of the maximum size that one client may have at once: their bytes are counted as they
/// arrive.
pub const LARGEST_UPLOADS_PER_CLIENT: u64 = 4;
