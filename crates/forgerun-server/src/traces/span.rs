//! An ended span: one step.

use forgerun_core::random::mix;
use forgerun_core::time::Time;

#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) trace: u128,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: SpanName,
    pub(super) kind: SpanKind,
    pub(super) began: Time,
    pub(super) ended: Time,
    /// Error, if any.
    pub(super) error: Option<&'static str>,
    pub(super) attributes: Vec<(&'static str, AttributeValue)>,
    /// A related span of another trace.
    pub(super) link: Option<(u128, u64)>,
}

/// Span names: few, so that they can be grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanName {
    /// A step of a job.
    Step(&'static str),
    /// Method and route of a request.
    Request(&'static str, &'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// An attribute value. No secrets and no payloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AttributeValue {
    Word(&'static str),
    Text(String),
    Number(i64),
}

/// The part of a subject that a span is about: together with the subject's 128 bit id it determines
/// the span's id.
#[derive(Clone, Copy, Debug)]
pub(super) enum SpanPart {
    /// The request that created it.
    Birth,
    Request,
    Execution(u32),
    /// The step ended by its nth event.
    Step(u32),
    /// The writing of its report with its nth event.
    Report(u32),
    /// Its nth delivery attempt.
    Attempt(u32),
}

/// The id of a span: the same on every node and at every time, and unique as far as 64 bits go.
pub(super) fn id(subject: u128, part: SpanPart) -> u64 {
    let (tag, n) = match part {
        SpanPart::Birth => (1, 0),
        SpanPart::Request => (2, 0),
        SpanPart::Execution(n) => (3, n),
        SpanPart::Step(n) => (4, n),
        SpanPart::Report(n) => (5, n),
        SpanPart::Attempt(n) => (6, n),
    };
    let salted = mix(subject as u64 ^ mix((subject >> 64) as u64 ^ mix(tag << 32 | u64::from(n))));
    // Zero means "no span".
    salted.max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn spans_of_neighbouring_subjects_have_ids_of_their_own() {
        let parts = (0..20).flat_map(|n| {
            [SpanPart::Execution(n), SpanPart::Step(n), SpanPart::Report(n), SpanPart::Attempt(n)]
        });
        let parts: Vec<SpanPart> = parts.chain([SpanPart::Birth, SpanPart::Request]).collect();
        let ids: HashSet<u64> =
            (0..1000).flat_map(|subject| parts.iter().map(move |part| id(subject, *part))).collect();
        assert_eq!(ids.len(), 1000 * parts.len());
    }
}
