//! Bounds of single sign-on.

use std::time::Duration;

/// How long a log-in at the identity provider may take.
pub const OIDC_LOGIN_LASTS: Duration = Duration::from_secs(10 * 60);

/// Clocks of the identity provider and of this server may differ by so much.
pub const OIDC_CLOCK_SKEW: Duration = Duration::from_secs(60);

/// How long keys of the identity provider are believed before they are fetched again.
pub const OIDC_KEYS_FRESH: Duration = Duration::from_secs(10 * 60);

/// The identity provider is not asked for keys more often, whatever tokens come.
pub const OIDC_ASKED_EVERY: Duration = Duration::from_secs(10);

/// Timeout of a call to the identity provider.
pub const OIDC_CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Concurrent calls to the identity provider.
pub const OIDC_CALLS_MAX: usize = 8;

/// Bytes of an answer of the identity provider.
pub const OIDC_ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Keys of the identity provider that are kept.
pub const OIDC_KEYS_MAX: usize = 32;

/// Bytes of a token of the identity provider; one with hundreds of groups has half of that.
pub const OIDC_TOKEN_BYTES_MAX: usize = 16 * 1024;
