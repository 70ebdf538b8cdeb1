//! Why a delivery failed, in words that help the user and reveal nothing internal.

use super::guard;

/// An error between the server and a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The store cannot provide the signing keys.
    #[error("it could not be signed")]
    NoKeys,
    /// The URL is not, or no longer, allowed.
    #[error("the URL is not allowed")]
    BadTarget,
    /// The name leads to a refused address.
    #[error("the address {0}")]
    Forbidden(guard::AddressRefused),
    /// The name has no address.
    #[error("the host name cannot be resolved")]
    NoSuchName,
    #[error("the connection was refused")]
    Refused,
    /// No connection within the timeout.
    #[error("no connection could be made")]
    Unreachable,
    /// Not trusted, expired, or for another name.
    #[error("the certificate is not trusted")]
    Certificate,
    #[error("no secure connection could be made")]
    Insecure,
    /// Closed or reset before an answer.
    #[error("the connection was closed before an answer")]
    Closed,
    /// Not HTTP, or too large.
    #[error("the answer is not HTTP")]
    NotHttp,
    /// No answer within `webhooks.timeout_ms`.
    #[error("no answer in time")]
    Slow,
    /// A redirect.
    #[error("answered with status {0}; redirects are not followed")]
    Redirect(u16),
    /// A status other than 2xx.
    #[error("answered with status {0}")]
    Status(u16),
}

impl SendError {
    /// The status of the answer, if there was one.
    pub const fn status(self) -> Option<u16> {
        match self {
            SendError::Redirect(status) | SendError::Status(status) => Some(status),
            SendError::NoKeys
            | SendError::BadTarget
            | SendError::Forbidden(_)
            | SendError::NoSuchName
            | SendError::Refused
            | SendError::Unreachable
            | SendError::Certificate
            | SendError::Insecure
            | SendError::Closed
            | SendError::NotHttp
            | SendError::Slow => None,
        }
    }

    /// Every value of [`label`](SendError::label).
    pub const LABELS: [&str; 11] = [
        "no_keys",
        "forbidden",
        "name",
        "connect",
        "tls",
        "closed",
        "not_http",
        "timeout",
        "status_3xx",
        "status_4xx",
        "status_5xx",
    ];

    /// One word for metrics, of [`LABELS`](SendError::LABELS).
    pub const fn label(self) -> &'static str {
        match self {
            SendError::NoKeys => "no_keys",
            SendError::BadTarget | SendError::Forbidden(_) => "forbidden",
            SendError::NoSuchName => "name",
            SendError::Refused | SendError::Unreachable => "connect",
            SendError::Certificate | SendError::Insecure => "tls",
            SendError::Closed => "closed",
            SendError::NotHttp => "not_http",
            SendError::Slow => "timeout",
            SendError::Redirect(_) | SendError::Status(300..=399) => "status_3xx",
            SendError::Status(400..=499) => "status_4xx",
            SendError::Status(_) => "status_5xx",
        }
    }
}
