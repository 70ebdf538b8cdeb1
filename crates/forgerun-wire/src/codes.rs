//! Error codes as a client reads them: the groups of the canonical codes, and which canonical code stands behind one of
//! ForgeRun's own.

pub use forgerun_core::catalog::{Category, is_custom_code, ojs_category, ojs_retryable};

use forgerun_core::catalog::Kind;

/// The canonical code of one of ForgeRun's own codes (`RFA_…`). Where there are several, it is the one that most kinds of errors have,
/// then the first in the order of the catalog. `None` for a code that is not ForgeRun's, or that has no canonical one.
pub fn canonical_of_rfa(code: &str) -> Option<&'static str> {
    let entries = || Kind::ALL.iter().map(|kind| kind.entry()).filter(|entry| entry.rfa == code);
    let n_kinds = |ojs: &str| entries().filter(|entry| entry.ojs == Some(ojs)).count();
    // Of equal ones `max_by_key` takes the last, so the order is turned round.
    let canonical: Vec<&'static str> = entries().filter_map(|entry| entry.ojs).collect();
    canonical.into_iter().rev().max_by_key(|ojs| n_kinds(ojs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_forgerun_lead_to_canonical_ones() {
        for (rfa, canonical) in [
            ("RFA_JOB_NOT_FOUND", Some("NOT_FOUND")),
            ("RFA_REQUEST_RATE_LIMITED", Some("RATE_LIMITED")),
            ("RFA_STORAGE_UNAVAILABLE", Some("BACKEND_UNAVAILABLE")),
            // Of many kinds, one of which is a payload that is too large.
            ("RFA_JOB_VALIDATION_FAILED", Some("INVALID_ARGS")),
            ("RFA_EXEC_QUEUE_FULL", Some("QUEUE_FULL")),
            ("RFA_REQUEST_METHOD_NOT_ALLOWED", None),
            ("NOT_FOUND", None),
        ] {
            assert_eq!(canonical_of_rfa(rfa), canonical, "{rfa}");
        }
    }
}
