//! The closed set of Open Job Spec error codes, and the rule for codes outside it.
//!
//! The four handler signals (`ACK`, `RETRY`, `DISCARD`, `DEAD_LETTER`) are exchanged between worker
//! and server. They are not errors and therefore not in the set.

use Category::{Auth, Backend, Conflict, Execution, Resource, Validation};

/// The six groups of Open Job Spec error codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    Validation,
    Conflict,
    Auth,
    Resource,
    Execution,
    Backend,
}

impl Category {
    /// Whether errors of this group are worth a retry; `None` if each code has its own default
    /// ([`ojs_retryable`]). The retry policy of the job may overrule it for
    /// [`Category::Execution`].
    pub fn default_retryable(self) -> Option<bool> {
        match self {
            Validation | Conflict | Auth => Some(false),
            Resource | Execution => None,
            Backend => Some(true),
        }
    }
}

/// The group of a canonical code; `None` if `code` is not canonical.
pub fn ojs_category(code: &str) -> Option<Category> {
    CODES.iter().find(|row| row.0 == code).map(|row| row.1)
}

/// Whether an error with this canonical code is retryable by default; `None` if `code` is not
/// canonical: then only an explicit `retryable: true` may lead to a retry.
pub fn ojs_retryable(code: &str) -> Option<bool> {
    CODES.iter().find(|row| row.0 == code).map(|row| row.2)
}

/// Whether `code` is a legal custom code: `{NAMESPACE}_{CODE}` in capitals, digits and single
/// underscores, the namespace 2 to 30 characters without underscore.
///
/// Many canonical codes have this form too, so neither they nor `DEAD_LETTER` count as custom. The
/// namespace must not be `OJS` or a canonical code (`UNAUTHENTICATED`).
pub fn is_custom_code(code: &str) -> bool {
    let Some((namespace, rest)) = code.split_once('_') else {
        return false;
    };
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    let is_reserved = namespace == "OJS"
        || code == "DEAD_LETTER"
        || ojs_category(namespace).is_some()
        || ojs_category(code).is_some();
    (2..=30).contains(&namespace.len()) && is_word(namespace) && rest.split('_').all(is_word) && !is_reserved
}

/// Code, group, retryable by default.
const CODES: [(&str, Category, bool); 36] = [
    ("INVALID_PAYLOAD", Validation, false),
    ("INVALID_JOB_TYPE", Validation, false),
    ("INVALID_QUEUE", Validation, false),
    ("INVALID_ARGS", Validation, false),
    ("INVALID_METADATA", Validation, false),
    ("INVALID_STATE_TRANSITION", Validation, false),
    ("INVALID_RETRY_POLICY", Validation, false),
    ("INVALID_CRON_EXPRESSION", Validation, false),
    ("SCHEMA_VALIDATION_FAILED", Validation, false),
    ("DUPLICATE_JOB", Conflict, false),
    ("JOB_ALREADY_COMPLETED", Conflict, false),
    ("JOB_ALREADY_CANCELLED", Conflict, false),
    ("UNAUTHENTICATED", Auth, false),
    ("PERMISSION_DENIED", Auth, false),
    ("TOKEN_EXPIRED", Auth, false),
    ("TENANT_ACCESS_DENIED", Auth, false),
    ("NOT_FOUND", Resource, false),
    ("QUEUE_PAUSED", Resource, true),
    ("QUEUE_FULL", Resource, true),
    ("RATE_LIMITED", Resource, true),
    ("PAYLOAD_TOO_LARGE", Resource, false),
    ("METADATA_TOO_LARGE", Resource, false),
    ("QUEUE_NAME_TOO_LONG", Resource, false),
    ("JOB_TYPE_TOO_LONG", Resource, false),
    ("CHECKSUM_MISMATCH", Resource, false),
    ("UNSUPPORTED_FEATURE", Resource, false),
    ("UNSUPPORTED_COMPRESSION", Resource, false),
    ("HANDLER_ERROR", Execution, true),
    ("HANDLER_TIMEOUT", Execution, true),
    ("HANDLER_PANIC", Execution, true),
    ("NON_RETRYABLE_ERROR", Execution, false),
    ("JOB_CANCELLED", Execution, false),
    ("BACKEND_ERROR", Backend, true),
    ("BACKEND_UNAVAILABLE", Backend, true),
    ("REPLICATION_LAG", Backend, true),
    ("BACKEND_TIMEOUT", Backend, true),
];

/// The closed set in alphabetical order.
#[cfg(test)]
pub(super) fn sorted_codes() -> std::vec::Vec<&'static str> {
    let mut codes: std::vec::Vec<_> = CODES.iter().map(|row| row.0).collect();
    codes.sort_unstable();
    codes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_has_nine_three_four_eleven_five_and_four_codes() {
        let n_in = |category| CODES.iter().filter(|row| row.1 == category).count();
        assert_eq!([Validation, Conflict, Auth, Resource, Execution, Backend].map(n_in), [9, 3, 4, 11, 5, 4]);
        let mut codes = sorted_codes();
        codes.dedup();
        assert_eq!(codes.len(), 36);
    }

    #[test]
    fn a_code_is_retryable_as_its_category_says() {
        for (code, category, retryable) in CODES {
            assert!(category.default_retryable().is_none_or(|rule| rule == retryable), "{code}");
        }
        assert_eq!(ojs_retryable("QUEUE_PAUSED"), Some(true));
        assert_eq!(ojs_retryable("NON_RETRYABLE_ERROR"), Some(false));
        assert_eq!(ojs_retryable("ACME_CARD_DECLINED"), None);
    }

    #[test]
    fn signals_lower_case_and_the_example_of_the_source_are_not_canonical() {
        for code in ["ACK", "RETRY", "DISCARD", "DEAD_LETTER", "not_found", "VALIDATION_FAILED", ""] {
            assert_eq!(ojs_category(code), None, "{code}");
        }
        assert_eq!(ojs_category("NOT_FOUND"), Some(Resource));
    }

    #[test]
    fn a_custom_code_is_a_namespace_and_a_code() {
        for code in ["ACME_CREDIT_CHECK_FAILED", "RFA_INTERNAL", "A1_2", "ABCDEFGHIJKLMNOPQRSTUVWXYZ1234_X"] {
            assert!(is_custom_code(code), "{code}");
        }
    }

    #[test]
    fn a_code_of_wrong_form_or_with_a_reserved_name_is_not_custom() {
        let wrong_form = ["", "ACME", "A_X", "_X", "ACME_", "ACME__X", "ACME_X_", "acme_x", "ACME_x", "ÄÖ_X"];
        let too_long = ["ABCDEFGHIJKLMNOPQRSTUVWXYZ12345_X"];
        let reserved = ["OJS_X", "NOT_FOUND", "UNAUTHENTICATED_TWICE", "DEAD_LETTER"];
        for code in wrong_form.into_iter().chain(too_long).chain(reserved) {
            assert!(!is_custom_code(code), "{code}");
        }
    }
}
