//! The schema against the drafts' examples, our own output and broken objects, judged by an
//! independent validator.

use forgerun_problem::schema;
use jsonschema::Validator;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

fn validator() -> Validator {
    let schema = schema::document_at("https://example.com/schemas/problem");
    jsonschema::draft202012::options().should_validate_formats(true).build(&schema).unwrap()
}

#[test]
fn the_schema_is_a_valid_schema_of_2020_12() {
    let schema: Value = serde_json::from_str(schema::DOCUMENT).unwrap();
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
}

#[test]
fn the_schema_is_served_under_its_own_id() {
    assert_eq!(schema::document_at("/schemas/problem")["$id"], "/schemas/problem");
}

#[test]
fn examples_of_the_drafts_are_valid() {
    let validator = validator();
    for document in crate::async_draft::EXAMPLES {
        let value: Value = serde_json::from_str(document).unwrap();
        assert!(validator.is_valid(&value), "{document}");
    }
    assert!(validator.is_valid(&json!({
        "type": "https://example.com/probs/out-of-credit", "title": "You do not have enough credit.",
        "instance": "/account/12345/msgs/abc", "balance": 30, "accounts": ["/account/12345", "/account/67890"]
    })));
}

#[test]
fn what_we_write_is_valid() {
    let validator = validator();
    let mut runner = TestRunner::deterministic();
    for _ in 0..300 {
        let problem = crate::strategies::problem().new_tree(&mut runner).unwrap().current();
        let value: Value = serde_json::from_str(&problem.to_canonical_json()).unwrap();
        let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{value}: {errors:?}");
    }
}

#[test]
fn unknown_states_and_members_are_accepted() {
    let validator = validator();
    assert!(
        validator.is_valid(&json!({"jobStatus": "AWAITING_APPROVAL", "completedAt": "2026-02-26T10:00:00Z"}))
    );
    assert!(validator.is_valid(&json!({"anything": {"at": ["all"]}, "results": []})));
    assert!(validator.is_valid(&json!({})));
}

#[test]
fn broken_objects_are_not_valid() {
    let validator = validator();
    for broken in [
        json!([]),
        json!({"type": 1}),
        json!({"type": "not a uri"}),
        json!({"status": 99}),
        json!({"status": 600}),
        json!({"status": "500"}),
        json!({"submittedAt": "2026-02-26T10:00:00+02:00"}),
        json!({"submittedAt": "yesterday"}),
        json!({"retryAfter": -1}),
        json!({"retryable": "true"}),
        json!({"jobStatus": "PROCESSING", "completedAt": "2026-02-26T10:00:00Z"}),
        json!({"results": [{"itemId": "a"}]}),
        json!({"results": [{"itemId": "a", "status": "COMPLETED_WITH_ERRORS"}]}),
        json!({"results": {}}),
    ] {
        assert!(!validator.is_valid(&broken), "{broken}");
    }
}
