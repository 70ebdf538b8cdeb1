//! Envelopes that are right, and one of each kind that is not.

use serde_json::{Value, json};

use super::*;
use crate::ojs::kept::Kept;

const NOW: Time = Time::from_millis(1_700_000_000_000);

fn rules() -> Rules<'static> {
    Rules { now: NOW, tenant: None, strict_catalog: false, test_hooks: false }
}

fn good(body: &Value) -> JobEnvelope {
    read(body.to_string().as_bytes(), rules()).unwrap()
}

#[test]
fn options_win_over_the_top_and_aliases_are_understood() {
    let both = good(&json!({
        "type": "a.b", "args": [1], "queue": "top", "priority": 1, "timeout": 2,
        "options": {"queue": "within", "timeout_ms": 1500, "visibility_timeout": "PT3S", "delay_until": "+PT2S"},
    }));
    assert_eq!(both.queue.unwrap().as_str(), "within");
    assert_eq!((both.priority, both.timeout), (1, Some(Duration::from_millis(1500))));
    assert_eq!(both.lease, Some(Duration::from_secs(3)));
    assert_eq!(both.scheduled_at.unwrap().at, NOW + Duration::from_secs(2));
    let top =
        good(&json!({"type": "a", "args": {"to": 1}, "queue": "emails", "retry_policy": {"max_attempts": 7},
        "timeout": 2.5, "priority": "HIGH", "pending": true, "tags": ["x"], "specversion": "1.0.0-rc.1"}));
    assert_eq!((top.retry.attempts_max, top.priority, top.pending), (7, 10, true));
    assert_eq!(top.timeout, Some(Duration::from_millis(2500)));
    assert_eq!(top.args, br#"{"to":1}"#);
    assert_eq!(good(&json!({"type": "a", "args": [], "options": {"max_attempts": 9}})).retry.attempts_max, 9);
}

#[test]
fn unknown_members_are_kept_verbatim_and_system_members_are_not() {
    let body = br#"{"type":"a","args":[1.50, {"b":null}],"x_one":{ "n": 1.0 },"state":"completed","attempt":9,"version":3}"#;
    let envelope = read(body, rules()).unwrap();
    assert_eq!(envelope.args, br#"[1.50, {"b":null}]"#);
    let kept = Kept::of(&envelope.kept);
    let names: Vec<&str> = kept.unknown.0.iter().map(|(name, _)| name.as_ref()).collect();
    assert_eq!(names, ["x_one", "version"]);
    assert_eq!(kept.unknown.get("x_one").unwrap().get(), r#"{ "n": 1.0 }"#);
    assert!(good(&json!({"type": "a", "args": []})).kept.is_empty());
}

#[test]
fn absolute_times_are_kept_as_given_and_spans_are_not() {
    let envelope = good(&json!({"type": "a", "args": [],
        "options": {"scheduled_at": "2099-12-31T23:59:59+01:00", "expires_at": "+PT2S"}}));
    let kept = Kept::of(&envelope.kept);
    assert_eq!(kept.scheduled_at.unwrap().get(), "\"2099-12-31T23:59:59+01:00\"");
    assert!(kept.expires_at.is_none());
}

#[test]
fn metadata_of_all_places_is_one_and_names_the_tenant() {
    let body = json!({"type": "a", "args": [], "meta": {"a": 1, "b": 1}, "options": {"metadata": {"b": 2}}});
    assert_eq!(serde_json::from_slice::<Value>(&good(&body).meta).unwrap(), json!({"a": 1, "b": 2}));
    let of_tenant = Rules { tenant: Some("acme \"corp\""), ..rules() };
    let meta = read(br#"{"type":"a","args":[]}"#, of_tenant).unwrap().meta;
    assert_eq!(serde_json::from_slice::<Value>(&meta).unwrap(), json!({"tenant_id": "acme \"corp\""}));
    assert!(good(&json!({"type": "a", "args": []})).meta.is_empty());
}

/// (body, kind, field, constraint)
#[test]
fn every_fault_has_its_code_its_field_and_its_rule() {
    let long = "x".repeat(256);
    let large = "m".repeat(META_BYTES_MAX);
    let with = |options: Value| json!({"type": "a", "args": [], "options": options});
    let cases = [
        (json!({"args": []}), Kind::MalformedRequest, "type", "required"),
        (json!({"type": null, "args": []}), Kind::MalformedRequest, "type", "required"),
        (json!({"type": 7, "args": []}), Kind::UnknownJobType, "type", "format"),
        (json!({"type": "", "args": []}), Kind::UnknownJobType, "type", "format"),
        (json!({"type": "Email.Send", "args": []}), Kind::UnknownJobType, "type", "format"),
        (json!({"type": "1a", "args": []}), Kind::UnknownJobType, "type", "format"),
        (json!({"type": "a..b", "args": []}), Kind::UnknownJobType, "type", "format"),
        (json!({"type": "a b", "args": []}), Kind::UnknownJobType, "type", "format"),
        (json!({"type": long, "args": []}), Kind::JobTypeTooLong, "type", "maxLength"),
        (json!({"type": "a"}), Kind::MalformedRequest, "args", "required"),
        (json!({"type": "a", "args": null}), Kind::InvalidArgs, "args", "type"),
        (json!({"type": "a", "args": {"b": 1}}), Kind::InvalidArgs, "args", "type"),
        (json!({"type": "a", "args": "b"}), Kind::InvalidArgs, "args", "type"),
        (json!({"type": "a", "args": {}, "queue": "q", "options": {}}), Kind::InvalidArgs, "args", "type"),
        (json!({"type": "a", "args": [], "id": ""}), Kind::MalformedRequest, "id", "format"),
        (
            json!({"type": "a", "args": [], "id": "550e8400-e29b-41d4-a716-446655440000"}),
            Kind::MalformedRequest,
            "id",
            "format",
        ),
        (
            json!({"type": "a", "args": [], "id": "019461A8-1A2B-7C3D-8E4F-5A6B7C8D9E0F"}),
            Kind::MalformedRequest,
            "id",
            "format",
        ),
        (json!({"type": "a", "args": [], "options": 1}), Kind::MalformedRequest, "options", "type"),
        (json!({"type": "a", "args": [], "meta": []}), Kind::InvalidMetadata, "meta", "type"),
        (json!({"type": "a", "args": [], "meta": {"m": large}}), Kind::MetadataTooLarge, "meta", "maxLength"),
        (json!({"type": "a", "args": [], "schema": 5}), Kind::MalformedRequest, "schema", "type"),
        (
            json!({"type": "a", "args": [], "specversion": "2.0"}),
            Kind::UnsupportedFeature,
            "specversion",
            "unsupported",
        ),
        (with(json!({"queue": "Default"})), Kind::InvalidQueue, "options.queue", "format"),
        (with(json!({"queue": "-x"})), Kind::InvalidQueue, "options.queue", "format"),
        (with(json!({"queue": ""})), Kind::InvalidQueue, "options.queue", "format"),
        (with(json!({"queue": 1})), Kind::InvalidQueue, "options.queue", "format"),
        (with(json!({"queue": long})), Kind::QueueNameTooLong, "options.queue", "maxLength"),
        (with(json!({"priority": 101})), Kind::MalformedRequest, "options.priority", "range"),
        (with(json!({"priority": -101})), Kind::MalformedRequest, "options.priority", "range"),
        (with(json!({"priority": 1.5})), Kind::MalformedRequest, "options.priority", "range"),
        (with(json!({"priority": "urgent"})), Kind::MalformedRequest, "options.priority", "range"),
        (with(json!({"timeout_ms": 0})), Kind::MalformedRequest, "options.timeout_ms", "range"),
        (with(json!({"timeout_ms": -5})), Kind::MalformedRequest, "options.timeout_ms", "range"),
        (with(json!({"timeout_ms": "5"})), Kind::MalformedRequest, "options.timeout_ms", "range"),
        (with(json!({"timeout": -1})), Kind::MalformedRequest, "options.timeout", "range"),
        (
            with(json!({"visibility_timeout": "x"})),
            Kind::MalformedRequest,
            "options.visibility_timeout",
            "range",
        ),
        (with(json!({"scheduled_at": "tomorrow"})), Kind::MalformedRequest, "options.scheduled_at", "format"),
        (
            with(json!({"scheduled_at": "2030-01-01T00:00:00"})),
            Kind::MalformedRequest,
            "options.scheduled_at",
            "format",
        ),
        (with(json!({"delay_until": 5})), Kind::MalformedRequest, "options.delay_until", "format"),
        (with(json!({"expires_at": "+soon"})), Kind::MalformedRequest, "options.expires_at", "format"),
        (
            with(json!({"retry": {"max_attempts": -1}})),
            Kind::InvalidRetryPolicy,
            "options.retry.max_attempts",
            "minimum",
        ),
        (with(json!({"max_attempts": -1})), Kind::InvalidRetryPolicy, "options.max_attempts", "minimum"),
        (with(json!({"unique": true})), Kind::MalformedRequest, "options.unique", "type"),
        (with(json!({"rate_limit": {}})), Kind::MalformedRequest, "options.rate_limit", "required"),
        (with(json!({"tags": "a"})), Kind::MalformedRequest, "options.tags", "type"),
        (with(json!({"pending": "yes"})), Kind::MalformedRequest, "options.pending", "type"),
    ];
    for (body, kind, field, constraint) in cases {
        let refused = read(body.to_string().as_bytes(), rules()).unwrap_err();
        let shown: String = body.to_string().chars().take(120).collect();
        assert_eq!(refused.kind, kind, "{shown}");
        assert_eq!(refused.details["field"], field, "{shown}");
        assert_eq!(refused.details["constraint"], constraint, "{shown}");
    }
}

#[test]
fn the_catalogues_form_takes_an_object_and_strict_mode_always() {
    let body = br#"{"type":"a","args":{"b":1}}"#;
    assert!(read(body, rules()).is_err());
    assert!(read(body, Rules { strict_catalog: true, ..rules() }).is_ok());
    assert!(read(br#"{"type":"a","queue":"emails","args":{"b":1}}"#, rules()).is_ok());
}

#[test]
fn the_hook_of_the_suite_works_only_when_asked_for() {
    let body = br#"{"type":"a","args":[ ],"meta":{"ojs_validate":true}}"#;
    assert!(read(body, rules()).is_ok());
    let hooked = read(body, Rules { test_hooks: true, ..rules() });
    assert_eq!(hooked.unwrap_err().kind, Kind::SchemaMismatch);
}

#[test]
fn a_body_that_is_none_is_refused_without_a_field() {
    for body in ["", "[]", "{", "null", "\"a\""] {
        let refused = read(body.as_bytes(), rules()).unwrap_err();
        assert_eq!((refused.kind, refused.details.is_empty()), (Kind::MalformedRequest, true), "{body}");
    }
}

#[test]
fn attempts_beside_a_policy_count_where_the_policy_does_not_say() {
    let attempts = |options: Value| {
        let read = good(&json!({"type": "a", "args": [], "options": options}));
        read.retry.attempts_max
    };
    assert_eq!(attempts(json!({"max_attempts": 7, "retry": {"initial_interval": "PT2S"}})), 7);
    assert_eq!(attempts(json!({"max_attempts": 7, "retry": {"max_attempts": 2}})), 2);
    assert_eq!(attempts(json!({"max_attempts": 7, "retry": {"maxAttempts": 2}})), 2);
    for policy in [json!({"initial_interval": "PT2S"}), json!({"max_attempts": 2})] {
        let body = json!({"type": "a", "args": [], "options": {"max_attempts": "x", "retry": policy}});
        let refused = read(body.to_string().as_bytes(), rules()).unwrap_err();
        assert_eq!(refused.violations[0].pointer, "#/options/max_attempts");
    }
}

#[test]
fn metadata_has_its_bound_as_a_whole() {
    let part = |n: usize| "x".repeat(n);
    let body = |top: usize, within: usize| json!({"type": "a", "args": [], "meta": {"a": part(top)}, "options": {"metadata": {"b": part(within)}}});
    let refused = read(body(60_000, 60_000).to_string().as_bytes(), rules()).unwrap_err();
    assert_eq!((refused.kind, &*refused.violations[0].pointer), (Kind::MetadataTooLarge, "#/meta"));
    assert!(good(&body(60_000, 5_000)).meta.len() <= META_BYTES_MAX);
    // The tenant is ours to add.
    let full = json!({"type": "a", "args": [], "meta": {"a": part(META_BYTES_MAX - 8)}}).to_string();
    let of_tenant = Rules { tenant: Some("acme"), ..rules() };
    assert!(read(full.as_bytes(), of_tenant).unwrap().meta.len() > META_BYTES_MAX);
}
