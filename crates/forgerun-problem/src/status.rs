//! HTTP status codes as they stand in the `status` member, and their reason phrases.

use std::fmt;

/// A status code between 100 and 599.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(u16);

impl Status {
    /// Takes a code between 100 and 599.
    ///
    /// # Errors
    /// When the code lies outside these bounds.
    pub const fn new(code: u16) -> Result<Self, StatusError> {
        if 100 <= code && code <= 599 { Ok(Self(code)) } else { Err(StatusError(code)) }
    }

    /// The code as a number.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }

    /// The recommended phrase of the code, for the title of an `about:blank` problem; `None` for
    /// codes without one.
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        let index = REASONS.binary_search_by_key(&self.0, |(code, _)| *code).ok()?;
        Some(REASONS[index].1)
    }
}

impl TryFrom<u16> for Status {
    type Error = StatusError;

    fn try_from(code: u16) -> Result<Self, StatusError> {
        Self::new(code)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that is no status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not an HTTP status code; use one between 100 and 599")]
pub struct StatusError(pub u16);

/// The phrases of the HTTP status code registry, sorted by code.
const REASONS: [(u16, &str); 61] = [
    (100, "Continue"),
    (101, "Switching Protocols"),
    (102, "Processing"),
    (103, "Early Hints"),
    (200, "OK"),
    (201, "Created"),
    (202, "Accepted"),
    (203, "Non-Authoritative Information"),
    (204, "No Content"),
    (205, "Reset Content"),
    (206, "Partial Content"),
    (207, "Multi-Status"),
    (208, "Already Reported"),
    (226, "IM Used"),
    (300, "Multiple Choices"),
    (301, "Moved Permanently"),
    (302, "Found"),
    (303, "See Other"),
    (304, "Not Modified"),
    (305, "Use Proxy"),
    (307, "Temporary Redirect"),
    (308, "Permanent Redirect"),
    (400, "Bad Request"),
    (401, "Unauthorized"),
    (402, "Payment Required"),
    (403, "Forbidden"),
    (404, "Not Found"),
    (405, "Method Not Allowed"),
    (406, "Not Acceptable"),
    (407, "Proxy Authentication Required"),
    (408, "Request Timeout"),
    (409, "Conflict"),
    (410, "Gone"),
    (411, "Length Required"),
    (412, "Precondition Failed"),
    (413, "Content Too Large"),
    (414, "URI Too Long"),
    (415, "Unsupported Media Type"),
    (416, "Range Not Satisfiable"),
    (417, "Expectation Failed"),
    (421, "Misdirected Request"),
    (422, "Unprocessable Content"),
    (423, "Locked"),
    (424, "Failed Dependency"),
    (425, "Too Early"),
    (426, "Upgrade Required"),
    (428, "Precondition Required"),
    (429, "Too Many Requests"),
    (431, "Request Header Fields Too Large"),
    (451, "Unavailable For Legal Reasons"),
    (500, "Internal Server Error"),
    (501, "Not Implemented"),
    (502, "Bad Gateway"),
    (503, "Service Unavailable"),
    (504, "Gateway Timeout"),
    (505, "HTTP Version Not Supported"),
    (506, "Variant Also Negotiates"),
    (507, "Insufficient Storage"),
    (508, "Loop Detected"),
    (510, "Not Extended"),
    (511, "Network Authentication Required"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_codes_between_100_and_599_are_status_codes() {
        assert_eq!(Status::new(100).unwrap().code(), 100);
        assert_eq!(Status::new(599).unwrap().code(), 599);
        for code in [0, 99, 600, u16::MAX] {
            assert_eq!(Status::new(code), Err(StatusError(code)));
        }
    }

    #[test]
    fn phrases_are_found_by_code() {
        assert!(REASONS.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(Status(404).reason(), Some("Not Found"));
        assert_eq!(Status(599).reason(), None);
    }
}
