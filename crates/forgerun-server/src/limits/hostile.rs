//! Bounds on what callers can make the server hold without proving who they are, or without
//! reading.

use std::time::Duration;

/// Bytes of a body or a gRPC message of a caller that is not known: a form for logging in, a
/// registration, a question about health.
pub const STRANGER_BODY_BYTES_MAX: usize = 8 * 1024;

/// Bytes that callers without a key hold at one address, and at all of them, before their requests
/// are answered.
pub const STRANGER_BYTES_MAX: usize = 1024 * 1024;
/// See [`STRANGER_BYTES_MAX`].
pub const STRANGERS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long a caller without a key may take for its body.
pub const STRANGER_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a body may bring nothing.
pub const BODY_STALL: Duration = Duration::from_secs(10);

/// Bytes a second that a body must bring on average after [`BODY_STALL`]: less than a modem has.
pub const BODY_PACE_PER_S: u64 = 1024;

/// Bytes of a body that arrived as one piece, which are not counted: they are there anyway, and are
/// judged at once.
pub const INCOMING_FREE_BYTES: usize = 16 * 1024;

/// What a client is told to wait when there is no room for its body.
pub const INCOMING_RETRY_AFTER_S: u64 = 2;

/// Bytes that are read on and dropped after an answer to a body that was not read whole, so that
/// the client sees the answer instead of a broken connection; and how long that may take in all,
/// and without a byte.
pub const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// See [`LINGER_BYTES_MAX`].
pub const LINGER: Duration = Duration::from_secs(5);
/// See [`LINGER_BYTES_MAX`].
pub const LINGER_STALL: Duration = Duration::from_secs(1);

/// Bytes of gRPC answers that their clients do not read, in all; a client may have a quarter of it.
pub const UNREAD_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Bytes of the metadata of a gRPC call. Others allow 8 KiB.
pub const GRPC_HEAD_BYTES_MAX: u32 = 16 * 1024;

/// Bytes that a gRPC client may send ahead of what is read, of one call and of one connection.
pub const GRPC_CALL_WINDOW_BYTES: u32 = 128 * 1024;
/// See [`GRPC_CALL_WINDOW_BYTES`].
pub const GRPC_CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;

/// Bytes that a call is charged for beside its metadata and message.
pub const GRPC_CALL_BYTES: usize = 512;

/// How long a reflection call may last, how many bytes it may bring in all, in one message, and
/// what it is charged for: its answers are as large.
pub const REFLECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// See [`REFLECTION_TIMEOUT`].
pub const REFLECTION_BYTES_MAX: usize = 64 * 1024;
/// See [`REFLECTION_TIMEOUT`].
pub const REFLECTION_MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// See [`REFLECTION_TIMEOUT`].
pub const REFLECTION_CALL_BYTES: usize = 32 * 1024;

/// Descriptors of the process that connections leave to files, databases and deliveries, in
/// hundredths, and at least.
pub const DESCRIPTORS_RESERVED_PERCENT: usize = 25;
/// See [`DESCRIPTORS_RESERVED_PERCENT`].
pub const DESCRIPTORS_RESERVED_MIN: usize = 128;

/// How late a wrong token is answered once its address has sent too many.
pub const WRONG_TOKEN_DELAY: Duration = Duration::from_secs(1);

/// Such answers of one address that wait at the same time; further ones are refused at once.
pub const WRONG_TOKENS_WAITING_MAX: usize = 64;

/// How often the log tells of refused credentials of one address.
pub const AUTH_FAILURES_LOGGED_EVERY: Duration = Duration::from_secs(60);

/// Results that are uploaded at once, and those of one client; a job has one. Each may be as large
/// as results may be.
pub const UPLOADS_MAX: usize = 256;
/// See [`UPLOADS_MAX`].
pub const UPLOADS_PER_CLIENT_MAX: usize = 32;
/// Uploads of the largest size that one client may have under way: their bytes are counted as they
/// come.
pub const LARGEST_UPLOADS_PER_CLIENT: u64 = 4;
