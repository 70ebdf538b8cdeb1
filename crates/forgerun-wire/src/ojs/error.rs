//! A refused request as OJS has it: the catalogue's object at the top, the HTTP binding's `error` within, in one body, so that
//! every reader finds its own (C-13).

use forgerun_core::catalog::Kind;
use forgerun_core::job::Dialect;
use serde_json::{Map, Value, json};

use crate::problem::RefusedRequest;
use crate::status::http;

/// The HTTP status of a refusal. Where the published cases contradict the catalogue, the cases win, unless `strict`.
pub const fn status(kind: Kind, strict_catalog: bool) -> u16 {
    match kind {
        Kind::InvalidRetryPolicy if strict_catalog => 400,
        _ => http(kind, Dialect::Ojs),
    }
}

/// What the body says of the request it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct ErrorContext<'a> {
    /// The public address of the server, or empty.
    pub base: &'a str,
    /// Identifies the occurrence.
    pub instance: &'a str,
    /// What client and server call the request.
    pub request_id: &'a str,
    /// The HTTP status of the answer.
    pub status: u16,
}

/// The body of a refusal.
pub fn body(refused: &RefusedRequest, context: ErrorContext<'_>) -> Value {
    let problem = refused.problem(Dialect::Ojs, context.base, context.instance);
    let mut body: Map<String, Value> =
        serde_json::from_str(&problem.to_json()).expect("a problem is a JSON object");
    body.insert("status".into(), context.status.into());
    // The message is English whatever the rest is in.
    let (message, details) = (body["message"].clone(), body["details"].clone());
    let entry = refused.kind.entry();
    let code = binding_code(refused);
    let mut error = json!({
        "code": code,
        "type": code.to_ascii_lowercase(),
        "message": message,
        "retryable": body["retryable"],
        "details": details,
        "request_id": context.request_id,
        "canonical_code": entry.ojs_or_custom(),
        "hint": entry.remedy,
        "docs_url": body["doc_url"],
        "doc_url": body["doc_url"],
    });
    if refused.kind == Kind::InvalidRetryPolicy {
        error["type"] = "validation_error".into();
    }
    body.insert("error".into(), error);
    Value::Object(body)
}

/// The HTTP binding's word for a refusal: lower case, except the one that its own document has in capitals.
pub fn binding_code(refused: &RefusedRequest) -> String {
    let entry = refused.kind.entry();
    let word = match refused.kind {
        // A body that cannot be read at all, or one with something wrong in it.
        Kind::MalformedRequest if refused.violations.is_empty() => "invalid_payload",
        Kind::MalformedRequest => "invalid_request",
        _ => match entry.ojs {
            Some(
                "INVALID_JOB_TYPE"
                | "JOB_TYPE_TOO_LONG"
                | "INVALID_QUEUE"
                | "QUEUE_NAME_TOO_LONG"
                | "INVALID_ARGS"
                | "INVALID_METADATA"
                | "INVALID_CRON_EXPRESSION",
            ) => "invalid_request",
            Some("INVALID_RETRY_POLICY") => "validation_error",
            Some("SCHEMA_VALIDATION_FAILED") => "schema_validation",
            Some("INVALID_STATE_TRANSITION" | "JOB_ALREADY_COMPLETED" | "JOB_ALREADY_CANCELLED") => {
                "conflict"
            }
            Some("DUPLICATE_JOB") => "duplicate",
            Some("QUEUE_FULL") => "QUEUE_FULL",
            Some("UNSUPPORTED_FEATURE") => "unsupported",
            Some(code) => return code.to_ascii_lowercase(),
            None => return entry.slug.replace('-', "_"),
        },
    };
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use forgerun_core::catalog::ojs_category;

    use super::*;
    use crate::body::violation;

    fn context() -> ErrorContext<'static> {
        ErrorContext {
            base: "https://forge.example",
            instance: "urn:uuid:x",
            request_id: "req_1",
            status: 400,
        }
    }

    #[test]
    fn both_objects_say_the_same_of_every_kind() {
        for kind in Kind::ALL {
            let body = body(&RefusedRequest::new(*kind, "So it is."), context());
            let error = &body["error"];
            assert_eq!(body["code"], kind.entry().ojs_or_custom(), "{kind:?}");
            assert_eq!(error["canonical_code"], body["code"]);
            assert_eq!((&error["message"], &body["message"]), (&json!("So it is."), &json!("So it is.")));
            assert_eq!(error["retryable"], body["retryable"], "{kind:?}");
            assert!(error["details"].is_object() && body["details"].is_object());
            let early = super::body(&RefusedRequest::new(*kind, "So it is.").early(2), context());
            assert_eq!((&early["retryable"], &early["error"]["retryable"]), (&json!(true), &json!(true)));
            for name in ["hint", "docs_url", "code", "type", "request_id"] {
                assert!(error[name].as_str().is_some_and(|text| !text.is_empty()), "{kind:?} {name}");
            }
        }
    }

    #[test]
    fn the_bindings_words_are_those_of_the_table() {
        let word = |kind| binding_code(&RefusedRequest::new(kind, ""));
        let cases = [
            (Kind::MalformedRequest, "invalid_payload"),
            (Kind::UnknownJobType, "invalid_request"),
            (Kind::QueueNameTooLong, "invalid_request"),
            (Kind::InvalidRetryPolicy, "validation_error"),
            (Kind::SchemaMismatch, "schema_validation"),
            (Kind::IllegalTransition, "conflict"),
            (Kind::AlreadyCancelled, "conflict"),
            (Kind::Duplicate, "duplicate"),
            (Kind::Unauthenticated, "unauthenticated"),
            (Kind::KeyExpired, "token_expired"),
            (Kind::ForeignResource, "tenant_access_denied"),
            (Kind::JobNotFound, "not_found"),
            (Kind::QueuePaused, "queue_paused"),
            (Kind::QueueFull, "QUEUE_FULL"),
            (Kind::RateLimited, "rate_limited"),
            (Kind::BodyTooLarge, "payload_too_large"),
            (Kind::UnsupportedFeature, "unsupported"),
            (Kind::StorageError, "backend_error"),
            (Kind::MethodNotAllowed, "method_not_allowed"),
        ];
        for (kind, expected) in cases {
            assert_eq!(word(kind), expected, "{kind:?}");
        }
        let wrong = RefusedRequest::new(Kind::MalformedRequest, "").violations(vec![violation(
            "type",
            "is required",
            "required",
        )]);
        assert_eq!(binding_code(&wrong), "invalid_request");
    }

    #[test]
    fn statuses_are_the_catalogues_but_for_a_bad_retry_policy() {
        assert_eq!(
            (status(Kind::InvalidRetryPolicy, false), status(Kind::InvalidRetryPolicy, true)),
            (422, 400)
        );
        let cases: [(u16, &[&str]); 8] = [
            (
                400,
                &[
                    "INVALID_PAYLOAD",
                    "INVALID_JOB_TYPE",
                    "INVALID_QUEUE",
                    "INVALID_ARGS",
                    "INVALID_METADATA",
                    "INVALID_RETRY_POLICY",
                    "INVALID_CRON_EXPRESSION",
                    "QUEUE_NAME_TOO_LONG",
                    "JOB_TYPE_TOO_LONG",
                ],
            ),
            (
                409,
                &[
                    "INVALID_STATE_TRANSITION",
                    "DUPLICATE_JOB",
                    "JOB_ALREADY_COMPLETED",
                    "JOB_ALREADY_CANCELLED",
                ],
            ),
            (422, &["SCHEMA_VALIDATION_FAILED", "QUEUE_PAUSED", "UNSUPPORTED_FEATURE", "CHECKSUM_MISMATCH"]),
            (401, &["UNAUTHENTICATED", "TOKEN_EXPIRED"]),
            (403, &["PERMISSION_DENIED", "TENANT_ACCESS_DENIED"]),
            (404, &["NOT_FOUND"]),
            (429, &["QUEUE_FULL", "RATE_LIMITED"]),
            (413, &["PAYLOAD_TOO_LARGE", "METADATA_TOO_LARGE"]),
        ];
        for kind in Kind::ALL {
            let entry = kind.entry();
            let Some(code) = entry.ojs.filter(|_| entry.level == forgerun_core::catalog::ErrorLevel::Request)
            else {
                continue;
            };
            assert!(ojs_category(code).is_some());
            for (status_expected, codes) in cases {
                // Storage of a client is 507 in every API.
                let exempt = matches!(kind, Kind::RangeNotSatisfiable | Kind::StorageQuotaExceeded);
                if codes.contains(&code) && !exempt {
                    assert_eq!(status(*kind, true), status_expected, "{kind:?} {code}");
                }
            }
        }
    }
}
