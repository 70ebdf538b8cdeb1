//! Trace contexts.

use forgerun_core::id::JobId;
use forgerun_core::job::Head;

/// A position in a trace, as in a W3C `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    pub(crate) trace: u128,
    /// The caller's span; `None` if the trace begins here.
    pub(crate) parent: Option<u64>,
    /// Whether the trace is recorded.
    pub(crate) sampled: bool,
}

impl TraceContext {
    /// A trace that begins here.
    pub(crate) const fn new(trace: u128) -> TraceContext {
        TraceContext { trace, parent: None, sampled: true }
    }

    /// Parses a `traceparent` that the edge found well formed; `None` for anything else.
    pub(crate) fn parse(traceparent: &str) -> Option<TraceContext> {
        let mut parts = traceparent.trim().split('-').skip(1);
        let trace = u128::from_str_radix(parts.next()?, 16).ok().filter(|trace| *trace != 0)?;
        let parent = u64::from_str_radix(parts.next()?, 16).ok().filter(|parent| *parent != 0);
        let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
        Some(TraceContext { trace, parent, sampled: flags & 1 == 1 })
    }

    /// The trace of a job: its submitter's, or its own.
    pub(crate) fn of_job(id: JobId, head: &Head) -> TraceContext {
        let given = head.traceparent.as_deref().and_then(TraceContext::parse);
        given.unwrap_or_else(|| TraceContext::new(id.as_u128()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_whole_or_not_at_all() {
        let trace = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
        let context = |parent, sampled| Some(TraceContext { trace, parent, sampled });
        for (text, expected) in [
            (
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                context(Some(0x00f0_67aa_0ba9_02b7), true),
            ),
            (
                " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02",
                context(Some(0x00f0_67aa_0ba9_02b7), false),
            ),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", context(None, true)),
            ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", None),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736", None),
            ("nonsense", None),
        ] {
            assert_eq!(TraceContext::parse(text), expected, "{text}");
        }
    }
}
