//! `Prefer` (RFC 7240): `wait=N`, `respond-async` and `return=minimal`. Unknown preferences are
//! ignored, as the RFC requires.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::http::respond;

const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The header with the applied preferences.
pub(crate) const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The client's preferences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefer {
    /// Wait for the job's end, but no longer than this.
    pub wait: Option<Duration>,
    /// Answer at once, which is the default.
    pub respond_async: bool,
    /// Leave the object out of the answer, where a route can.
    pub return_minimal: bool,
}

impl Prefer {
    /// Parses the headers; longer waits are cut to `wait_max`.
    pub fn of(headers: &HeaderMap, wait_max: Duration) -> Prefer {
        let mut prefer = Prefer::default();
        let lines = headers.get_all(PREFER).iter().filter_map(|line| line.to_str().ok());
        for preference in lines.flat_map(|line| line.split(',')) {
            let preference = preference.split(';').next().unwrap_or_default();
            let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
            let value = value.trim().trim_matches('"');
            // The first of two equal preferences counts.
            match name.trim().to_ascii_lowercase().as_str() {
                "wait" if prefer.wait.is_none() => {
                    prefer.wait = seconds(value).map(|seconds| Duration::from_secs(seconds).min(wait_max));
                }
                "respond-async" => prefer.respond_async = true,
                "return" => prefer.return_minimal |= value.eq_ignore_ascii_case("minimal"),
                _ => {}
            }
        }
        prefer
    }

    /// The applied preferences.
    pub fn applied(self) -> Option<HeaderValue> {
        let wait = self.wait.map(|wait| format!("wait={}", wait.as_secs()));
        match (self.respond_async, wait) {
            (true, None) => Some(HeaderValue::from_static("respond-async")),
            (true, Some(wait)) => Some(respond::value(format!("respond-async, {wait}"))),
            (false, Some(wait)) => Some(respond::value(wait)),
            (false, None) => None,
        }
    }
}

/// A positive number of seconds; a very large one saturates.
fn seconds(value: &str) -> Option<u64> {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| value.parse().unwrap_or(u64::MAX)).filter(|seconds| *seconds > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_read_bounded_and_repeated() {
        for (header, wait_s, respond_async, applied) in [
            ("wait=5", Some(5), false, Some("wait=5")),
            ("wait=9999", Some(30), false, Some("wait=30")),
            ("wait=999999999999999999999", Some(30), false, Some("wait=30")),
            ("wait=", None, false, None),
            ("respond-async", None, true, Some("respond-async")),
            ("respond-async, wait=10", Some(10), true, Some("respond-async, wait=10")),
            ("Wait = \"7\" ; foo=bar", Some(7), false, Some("wait=7")),
            ("wait=1, wait=2", Some(1), false, Some("wait=1")),
            ("wait=0", None, false, None),
            ("wait=-1", None, false, None),
            ("wait=soon", None, false, None),
            ("return=minimal", None, false, None),
            ("return=representation", None, false, None),
            ("", None, false, None),
        ] {
            let headers = HeaderMap::from_iter([(PREFER, HeaderValue::from_static(header))]);
            let prefer = Prefer::of(&headers, Duration::from_secs(30));
            let wait = wait_s.map(Duration::from_secs);
            assert_eq!((prefer.wait, prefer.respond_async), (wait, respond_async), "{header}");
            assert_eq!(prefer.return_minimal, header == "return=minimal", "{header}");
            assert_eq!(prefer.applied(), applied.map(HeaderValue::from_static), "{header}");
        }
    }
}
