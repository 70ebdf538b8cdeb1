//! Correlation ids: text from a stranger that ends up in logs, headers and pages.

use std::fmt;

use crate::limits::CORRELATION_CHARS_MAX;

/// A client's correlation id, reduced to what is safe to print anywhere: 1 to 256 of `A-Z a-z 0-9 .
/// _ -`.
///
/// The same input always gives the same id, so a client that wants to recognise its own value
/// compares with `CorrelationId::sanitize(its_value)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CorrelationId(Box<str>);

impl CorrelationId {
    /// Drops every other character, cuts the rest at 256; `None` if nothing is left.
    #[must_use]
    pub fn sanitize(untrusted: &str) -> Option<Self> {
        let kept: String =
            untrusted.chars().filter(|c| is_harmless(*c)).take(CORRELATION_CHARS_MAX).collect();
        (!kept.is_empty()).then(|| Self(kept.into_boxed_str()))
    }

    /// Takes the trace-id out of a W3C `traceparent` header, the best correlation id there is.
    ///
    /// `None` if the header is malformed or its trace-id is all zeros.
    #[must_use]
    pub fn from_traceparent(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, trace_id) = (parts.next()?, parts.next()?);
        let (parent_id, flags) = (parts.next()?, parts.next()?);
        let well_formed = is_lower_hex(version, 2)
            && version != "ff"
            && is_lower_hex(trace_id, 32)
            && is_lower_hex(parent_id, 16)
            && is_lower_hex(flags, 2)
            && (version != "00" || parts.next().is_none());
        (well_formed && trace_id.bytes().any(|byte| byte != b'0')).then(|| Self(trace_id.into()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn is_harmless(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn is_lower_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sanitized(text: &str) -> Option<String> {
        CorrelationId::sanitize(text).map(|id| id.to_string())
    }

    #[test]
    fn injections_are_taken_apart() {
        assert_eq!(sanitized("a\r\nX: y").as_deref(), Some("aXy"));
        assert_eq!(sanitized("\u{1b}[31mred").as_deref(), Some("31mred"));
        assert_eq!(sanitized("<script>alert(1)</script>").as_deref(), Some("scriptalert1script"));
        assert_eq!(sanitized("'; DROP TABLE jobs; --").as_deref(), Some("DROPTABLEjobs--"));
    }

    #[test]
    fn long_ids_are_cut_and_empty_ones_are_absent() {
        assert_eq!(sanitized(&"x".repeat(300)).unwrap().len(), 256);
        assert_eq!(sanitized(""), None);
        assert_eq!(sanitized("\u{e9}\u{1f600} \n"), None);
    }

    #[test]
    fn a_traceparent_gives_its_trace_id() {
        let id = |header: &str| CorrelationId::from_traceparent(header).map(|id| id.to_string());
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(id(&format!("00-{trace}-00f067aa0ba902b7-01")).as_deref(), Some(trace));
        assert_eq!(id(&format!("01-{trace}-00f067aa0ba902b7-01-later")).as_deref(), Some(trace));
        for bad in ["", "00", "00-0-0-0", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"] {
            assert_eq!(id(bad), None, "{bad}");
        }
        assert_eq!(id(&format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32))), None);
    }
}
