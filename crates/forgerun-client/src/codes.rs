//! An error as each binding carries it: a JSON body, gRPC's `ErrorInfo`, AMQP headers. Pure functions; whatever was read, one
//! [`Report`] comes out.
//!
//! The code decides, not the transport: a 503 that carries `INVALID_PAYLOAD` is an error of validation. The canonical codes
//! come first, then ForgeRun's own, then the lower-case names that other Open Job Spec servers use. A code that is none of them
//! is unknown, and final unless the server says that it is retryable.

use std::collections::BTreeMap;
use std::time::Duration;

use forgerun_wire::codes::{self, canonical_of_rfa, ojs_category, ojs_retryable};
use serde_json::{Map, Value};

/// The seven groups of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// The input must be corrected first.
    Validation,
    /// Something that exists already stands in the way.
    Conflict,
    /// Credentials or rights are missing.
    Auth,
    /// A limit, a queue, something that is not there.
    Resource,
    /// The run of a job went wrong.
    Execution,
    /// The server, or something it needs, failed.
    Backend,
    /// A code that is not known here.
    Unknown,
}

impl From<codes::Category> for Category {
    fn from(category: codes::Category) -> Category {
        match category {
            codes::Category::Validation => Category::Validation,
            codes::Category::Conflict => Category::Conflict,
            codes::Category::Auth => Category::Auth,
            codes::Category::Resource => Category::Resource,
            codes::Category::Execution => Category::Execution,
            codes::Category::Backend => Category::Backend,
        }
    }
}

/// An error as it was reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The code as the server wrote it, without the prefix of a binding.
    pub code: Option<String>,
    /// The canonical code, where the one above has one.
    pub canonical: Option<String>,
    /// What happened, in English.
    pub message: Option<String>,
    /// Facts about it.
    pub details: Map<String, Value>,
    /// What the server says about trying again; `None` if it says nothing.
    pub retryable: Option<bool>,
    /// How long to wait before that.
    pub retry_after: Option<Duration>,
}

impl Report {
    /// Reads a JSON body: the flat form of the catalogue and of problem details, the form with an `error` object, and the
    /// `error` of the async-operations pattern. Members of the wrong type count as absent.
    pub fn from_json(body: &Value) -> Report {
        let nested = &body["error"];
        let top = [&body["code"], &body["ojs_code"], &body["rfa_code"]];
        let below = [&nested["errorCode"], &nested["code"], &nested["canonical_code"]];
        let codes: Vec<&str> = top.iter().chain(&below).filter_map(|place| place.as_str()).collect();
        // An exact canonical code anywhere goes before one that has to be looked up.
        let exact = codes.iter().find(|code| CANONICAL.contains(code)).copied();
        let canonical = exact.or_else(|| codes.iter().find_map(|code| canonical(code)));
        let text = |name: &str| {
            [&body[name], &nested[name]].iter().find_map(|value| value.as_str().map(str::to_owned))
        };
        let details =
            [&body["details"], &nested["details"]].iter().find_map(|value| value.as_object().cloned());
        let seconds = body["retryAfter"].as_f64().filter(|seconds| *seconds >= 0.0);
        Report {
            message: text("message").or_else(|| text("detail")).or_else(|| text("title")),
            details: details.unwrap_or_default(),
            retryable: body["retryable"].as_bool().or_else(|| nested["retryable"].as_bool()),
            retry_after: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            code: codes.first().map(|code| (*code).to_owned()),
            canonical: canonical.map(str::to_owned),
        }
    }

    /// Reads gRPC's `google.rpc.ErrorInfo`: `reason` is `OJS_` and the canonical code (ForgeRun), or the code in lower case
    /// (others); `metadata` may hold `message`, `retryable`, `retry_after` and facts.
    pub fn from_grpc(reason: &str, metadata: &BTreeMap<String, String>) -> Report {
        let code = reason.strip_prefix("OJS_").unwrap_or(reason);
        Report::of_pairs(
            (!code.is_empty()).then_some(code),
            metadata,
            &["message", "retryable", "retry_after"],
        )
    }

    /// Reads the headers of an AMQP message: `x-ojs-error-code`, `x-ojs-error-message`, `x-ojs-error-details` (a JSON object).
    pub fn from_amqp(headers: &BTreeMap<String, String>) -> Report {
        let text = |name: &str| headers.get(&format!("x-ojs-error-{name}")).map(String::as_str);
        let details = text("details").and_then(|text| serde_json::from_str(text).ok());
        Report {
            message: text("message").map(str::to_owned),
            details: details.unwrap_or_default(),
            retryable: text("retryable").and_then(|text| text.parse().ok()),
            ..Report::of_code(text("code").map(|code| code.strip_prefix("OJS_").unwrap_or(code)))
        }
    }

    fn of_code(code: Option<&str>) -> Report {
        let canonical = code.and_then(canonical).map(str::to_owned);
        Report { code: code.map(str::to_owned), canonical, ..Report::default() }
    }

    fn of_pairs(code: Option<&str>, pairs: &BTreeMap<String, String>, own: &[&str]) -> Report {
        let facts = pairs.iter().filter(|(name, _)| !own.contains(&name.as_str()));
        let seconds = pairs.get("retry_after").and_then(|text| text.parse().ok());
        Report {
            message: pairs.get("message").cloned(),
            details: facts.map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect(),
            retryable: pairs.get("retryable").and_then(|text| text.parse().ok()),
            retry_after: seconds.map(Duration::from_secs),
            ..Report::of_code(code)
        }
    }

    /// The group of the code; `None` if there was no code at all.
    pub fn category(&self) -> Option<Category> {
        match (&self.canonical, &self.code) {
            (Some(canonical), _) => Some(ojs_category(canonical).map_or(Category::Unknown, Category::from)),
            (None, Some(_)) => Some(Category::Unknown),
            (None, None) => None,
        }
    }
}

/// The canonical code that `code` stands for: itself, one behind a code of ForgeRun, or one in the lower-case spelling of the
/// HTTP binding.
pub fn canonical(code: &str) -> Option<&'static str> {
    let upper = code.to_ascii_uppercase();
    let same = CANONICAL.iter().find(|known| **known == code || (code != upper && **known == upper));
    same.copied()
        .or_else(|| canonical_of_rfa(code))
        .or_else(|| ALIASES.iter().find(|(alias, _)| *alias == code).map(|(_, known)| *known))
}

/// Whether an error is worth another try. Errors of the caller never are, even if the server says so; what the server says
/// comes next; then the default of the code. An unknown code is final unless the server says otherwise.
pub fn is_retryable(category: Category, canonical: Option<&str>, said: Option<bool>) -> bool {
    match category {
        Category::Validation | Category::Conflict | Category::Auth => false,
        Category::Resource | Category::Execution => {
            said.or_else(|| canonical.and_then(ojs_retryable)).unwrap_or(false)
        }
        Category::Backend => said.unwrap_or(true),
        Category::Unknown => said == Some(true),
    }
}

/// Names of other servers for canonical codes that are not merely their lower case.
const ALIASES: [(&str, &str); 9] = [
    ("invalid_request", "INVALID_PAYLOAD"),
    ("validation_error", "INVALID_RETRY_POLICY"),
    ("schema_validation", "SCHEMA_VALIDATION_FAILED"),
    ("conflict", "INVALID_STATE_TRANSITION"),
    ("duplicate", "DUPLICATE_JOB"),
    ("unsupported", "UNSUPPORTED_FEATURE"),
    ("timeout", "HANDLER_TIMEOUT"),
    ("cancelled", "JOB_CANCELLED"),
    ("internal_error", "BACKEND_ERROR"),
];

/// The closed set. A test holds it against the catalogue.
const CANONICAL: [&str; 36] = [
    "INVALID_PAYLOAD",
    "INVALID_JOB_TYPE",
    "INVALID_QUEUE",
    "INVALID_ARGS",
    "INVALID_METADATA",
    "INVALID_STATE_TRANSITION",
    "INVALID_RETRY_POLICY",
    "INVALID_CRON_EXPRESSION",
    "SCHEMA_VALIDATION_FAILED",
    "DUPLICATE_JOB",
    "JOB_ALREADY_COMPLETED",
    "JOB_ALREADY_CANCELLED",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "TOKEN_EXPIRED",
    "TENANT_ACCESS_DENIED",
    "NOT_FOUND",
    "QUEUE_PAUSED",
    "QUEUE_FULL",
    "RATE_LIMITED",
    "PAYLOAD_TOO_LARGE",
    "METADATA_TOO_LARGE",
    "QUEUE_NAME_TOO_LONG",
    "JOB_TYPE_TOO_LONG",
    "CHECKSUM_MISMATCH",
    "UNSUPPORTED_FEATURE",
    "UNSUPPORTED_COMPRESSION",
    "HANDLER_ERROR",
    "HANDLER_TIMEOUT",
    "HANDLER_PANIC",
    "NON_RETRYABLE_ERROR",
    "JOB_CANCELLED",
    "BACKEND_ERROR",
    "BACKEND_UNAVAILABLE",
    "REPLICATION_LAG",
    "BACKEND_TIMEOUT",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_canonical_code_has_its_category() {
        let n_in = |wanted| {
            let category = |code: &&str| Report::of_code(Some(code)).category() == Some(wanted);
            CANONICAL.iter().filter(|code| category(code)).count()
        };
        let counts = [
            Category::Validation,
            Category::Conflict,
            Category::Auth,
            Category::Resource,
            Category::Execution,
            Category::Backend,
            Category::Unknown,
        ]
        .map(n_in);
        assert_eq!(counts, [9, 3, 4, 11, 5, 4, 0]);
    }

    #[test]
    fn a_code_is_read_from_every_binding_alike() {
        let http = Report::from_json(&json!({"code": "QUEUE_FULL", "message": "full", "retryable": true,
            "details": {"queue": "q"}}));
        let facts = pairs(&[("message", "full"), ("retryable", "true"), ("queue", "q")]);
        let amqp = pairs(&[
            ("x-ojs-error-code", "QUEUE_FULL"),
            ("x-ojs-error-message", "full"),
            ("x-ojs-error-retryable", "true"),
            ("x-ojs-error-details", r#"{"queue":"q"}"#),
        ]);
        assert_eq!(http.category(), Some(Category::Resource));
        assert_eq!(Report::from_grpc("OJS_QUEUE_FULL", &facts), http);
        assert_eq!(Report::from_amqp(&amqp), http);
        let lower = Report::from_grpc("queue_full", &facts);
        assert_eq!(
            (lower.canonical.as_deref(), lower.category()),
            (Some("QUEUE_FULL"), Some(Category::Resource))
        );
    }

    #[test]
    fn the_code_is_found_in_every_form_of_a_body() {
        for (body, canonical) in [
            (json!({"code": "RFA_JOB_NOT_FOUND", "ojs_code": "NOT_FOUND"}), Some("NOT_FOUND")),
            (json!({"code": "RFA_STORAGE_UNAVAILABLE"}), Some("BACKEND_UNAVAILABLE")),
            (json!({"error": {"code": "duplicate", "message": "twice"}}), Some("DUPLICATE_JOB")),
            (json!({"error": {"code": "rate_limited"}, "code": "RATE_LIMITED"}), Some("RATE_LIMITED")),
            (json!({"error": {"errorCode": "HANDLER_TIMEOUT", "type": "X"}}), Some("HANDLER_TIMEOUT")),
            (json!({"code": "VALIDATION_FAILED"}), None),
            (json!({"code": "ACME_NO_PAPER"}), None),
            (json!({"code": 7, "ojs_code": null}), None),
            (json!([]), None),
        ] {
            assert_eq!(Report::from_json(&body).canonical.as_deref(), canonical, "{body}");
        }
    }

    #[test]
    fn an_unknown_code_is_known_to_be_unknown_and_no_code_is_none() {
        let custom = Report::from_json(&json!({"code": "ACME_NO_PAPER"}));
        assert_eq!(
            (custom.code.as_deref(), custom.category()),
            (Some("ACME_NO_PAPER"), Some(Category::Unknown))
        );
        assert_eq!(Report::from_json(&json!({"title": "Oops"})).category(), None);
        assert_eq!(Report::from_amqp(&BTreeMap::new()).category(), None);
        assert_eq!(Report::from_grpc("", &BTreeMap::new()).category(), None);
    }

    #[test]
    fn what_the_server_says_goes_before_the_default_but_never_for_errors_of_the_caller() {
        let check = |category, code, said, expected| {
            assert_eq!(is_retryable(category, code, said), expected, "{category:?} {code:?} {said:?}");
        };
        for category in [Category::Validation, Category::Conflict, Category::Auth] {
            check(category, None, Some(true), false);
        }
        check(Category::Resource, Some("RATE_LIMITED"), None, true);
        check(Category::Resource, Some("RATE_LIMITED"), Some(false), false);
        check(Category::Resource, Some("NOT_FOUND"), None, false);
        check(Category::Resource, Some("NOT_FOUND"), Some(true), true);
        check(Category::Execution, Some("NON_RETRYABLE_ERROR"), None, false);
        check(Category::Backend, Some("BACKEND_ERROR"), None, true);
        check(Category::Backend, Some("BACKEND_ERROR"), Some(false), false);
        check(Category::Unknown, None, None, false);
        check(Category::Unknown, None, Some(true), true);
    }
}
