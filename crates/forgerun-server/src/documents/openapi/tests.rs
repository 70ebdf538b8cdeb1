//! What must hold of the document whatever routes there are. Tests of a running server hold its answers against it.

use std::collections::{BTreeMap, BTreeSet};

use forgerun_core::catalog::Kind;
use jsonschema::Validator;
use serde_json::{Value, json};

use super::*;
use crate::config::Sources;

/// The document with everything in it is downloaded and read as a whole.
const BYTES_MAX: usize = 700_000;

fn config(environment: &[(&str, &str)]) -> Config {
    let environment = environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Config::load(&Sources { environment, ..Sources::default() }).unwrap()
}

fn served() -> Value {
    document(&config(&[]), "https://forge.example")
}

fn validator(document: &Value, schema: &Value) -> Validator {
    let root = json!({"components": {"schemas": document["components"]["schemas"]}, "allOf": [schema]});
    jsonschema::options().should_validate_formats(true).build(&root).unwrap()
}

fn complaints(validator: &Validator, instance: &Value) -> Vec<String> {
    validator.iter_errors(instance).map(|error| format!("{error} at {}", error.instance_path())).collect()
}

#[test]
fn every_served_route_says_what_it_does_and_what_it_is_refused_for() {
    let (mut ids, mut n_rows) = (BTreeSet::new(), 0);
    let document = served();
    for row in rows::all(&config(&[])) {
        let name = format!("{} {}", row.verb.word(), row.path);
        assert!(!row.id.is_empty() && ids.insert(row.id.clone()), "{name}: its id is missing or taken");
        assert!(row.summary.ends_with('.'), "{name} has no summary");
        for parameter in rows::path_parameters(&row.path) {
            assert_ne!(rows::about(parameter, &row.path), "", "{name}: {parameter}");
        }
        let operation = &document["paths"][&row.path][row.verb.word().to_ascii_lowercase()];
        let responses = operation["responses"].as_object().unwrap();
        assert!(
            responses.keys().any(|status| status.starts_with('2')) || row.operation.replies.is_empty(),
            "{name}"
        );
        for kind in refusals::of(&row) {
            let status = row.refusal_status(&config(&[]), kind).to_string();
            let response = responses.get(&status).unwrap_or_else(|| panic!("{name}: {kind:?}"));
            let target = response["$ref"].as_str().map(|target| document.pointer(&target[1..]).unwrap());
            let examples = &target.unwrap_or(response)["content"][MEDIA_TYPE_JSON]["examples"];
            let is_reply = row.operation.replies.iter().any(|reply| reply.status.to_string() == status);
            assert!(is_reply || examples.get(format!("{kind:?}")).is_some(), "{name}: {kind:?}");
        }
        n_rows += 1;
    }
    assert!(n_rows > 190, "{n_rows} routes");
}

#[test]
fn the_document_stays_small_enough_to_be_read_as_a_whole() {
    let bytes = served().to_string().len();
    assert!(bytes < BYTES_MAX, "{bytes} bytes");
}

#[test]
fn every_example_is_what_its_schema_says() {
    let document = served();
    let mut n_examples = 0;
    let contents = |value: &Value| -> Vec<Value> {
        value["content"].as_object().into_iter().flatten().map(|(_, media)| media.clone()).collect()
    };
    let mut all = Vec::new();
    for operation in
        document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values())
    {
        all.extend(contents(&operation["requestBody"]));
    }
    document["components"]["responses"]
        .as_object()
        .unwrap()
        .values()
        .for_each(|response| all.extend(contents(response)));
    let mut validators: BTreeMap<String, Validator> = BTreeMap::new();
    for media in all {
        let schema = &media["schema"];
        let validator = validators.entry(schema.to_string()).or_insert_with(|| validator(&document, schema));
        for example in media["examples"].as_object().into_iter().flatten().map(|(_, example)| example) {
            let shared = example["$ref"].as_str().and_then(|target| document.pointer(&target[1..]));
            let value = &shared.unwrap_or(example)["value"];
            assert_eq!(complaints(validator, value), Vec::<String>::new(), "{value}");
            n_examples += 1;
        }
    }
    assert!(n_examples > 200, "{n_examples} examples");
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(String::from));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    let document = served();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for target in &found {
        assert!(document.pointer(&target[1..]).is_some(), "{target}");
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(found.contains(&format!("#/components/schemas/{name}")), "{name} is not used");
    }
}

#[test]
fn operations_of_the_configuration_are_documented_with_their_durations() {
    let config = config(&[("FORGERUN_OPERATIONS__REPORTS_GENERATE__EXPECTED_DURATION_S", "5")]);
    let document = document(&config, "");
    let post = |path: &str| document["paths"][path]["post"].clone();
    let report = post("/api/v1/reports/generate");
    assert_eq!(report["operationId"], "beginGenerateReports");
    assert!(report["summary"].as_str().unwrap().contains("5 seconds"), "{}", report["summary"]);
}

#[test]
fn a_refusal_of_each_dialect_has_the_schema_of_that_dialect() {
    let document = served();
    let refused = RefusedRequest::new(Kind::MalformedRequest, "bad");
    let mut seen = BTreeSet::new();
    for row in rows::all(&config(&[])).iter().filter(|row| row.api.is_some()) {
        if !seen.insert(row.problem_schema()) {
            continue;
        }
        let example = row.refusal_example(&config(&[]), "", &refused);
        let validator = validator(&document, &document["components"]["schemas"][row.problem_schema()]);
        assert_eq!(complaints(&validator, &example), Vec::<String>::new(), "{}", row.path);
        // It can say no: to members of the problem, of the job, and of ours.
        for (member, wrong) in
            [("status", json!("no")), ("retryable", json!("yes")), ("rfa_code", json!("RFA_NOTHING"))]
        {
            let mut bad = example.clone();
            bad[member] = wrong;
            assert_ne!(complaints(&validator, &bad), Vec::<String>::new(), "{member}");
        }
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}
