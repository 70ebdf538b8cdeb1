//! What holds for every problem.

use forgerun_problem::read::Reader;
use forgerun_problem::{Digest, FieldWriter, ItemOutcome, Job, Problem, canonical};
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::strategies::{problem, text};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn what_is_written_as_json_is_read_back_the_same(problem in problem()) {
        let reading = Reader::new().json(problem.to_json().as_bytes()).unwrap();
        prop_assert_eq!(&reading.warnings, &[]);
        prop_assert_eq!(reading.problem.to_json(), problem.to_json());
        prop_assert_eq!(reading.problem, problem);
    }

    #[test]
    fn the_canonical_form_is_stable(problem in problem()) {
        let written = problem.to_canonical_json();
        prop_assert!(!written.contains('\n'));
        let read = Reader::new().json(written.as_bytes()).unwrap().problem;
        prop_assert_eq!(read.to_canonical_json(), written.clone());
        prop_assert_eq!(read.digest(), problem.digest());
        prop_assert_eq!(Digest::of(written.as_bytes()), problem.digest());
    }

    #[test]
    fn the_canonical_form_does_not_depend_on_the_order_of_extensions(problem in problem()) {
        let mut reversed = Problem::untyped().build().unwrap().into_builder().job(problem.job().clone());
        for (name, value) in problem.extensions().iter().rev() {
            reversed = reversed.extension(name, value.clone());
        }
        let mut only_extensions = problem.clone().into_builder();
        for name in forgerun_problem::STANDARD_NAMES {
            only_extensions = only_extensions.without(name);
        }
        let (reversed, straight) = (reversed.build().unwrap(), only_extensions.build().unwrap());
        prop_assert_eq!(reversed.to_canonical_json(), straight.to_canonical_json());
    }

    #[test]
    fn our_canonical_form_is_that_of_the_same_value(problem in problem()) {
        let value: Value = serde_json::from_str(&problem.to_json()).unwrap();
        prop_assert_eq!(canonical(&value), problem.to_canonical_json());
    }

    #[test]
    fn xml_carries_the_same_model_as_json(problem in problem()) {
        let reading = Reader::new().xml(problem.to_xml().as_bytes()).unwrap();
        prop_assert_eq!(&reading.warnings, &[]);
        prop_assert_eq!(reading.problem, as_xml_can_say_it(&problem));
    }

    #[test]
    fn xml_that_was_read_is_written_the_same_again(problem in problem()) {
        let written = problem.to_xml();
        let read = Reader::new().xml(written.as_bytes()).unwrap().problem;
        prop_assert_eq!(read.to_xml(), written);
    }

    #[test]
    fn the_field_says_nothing_that_the_problem_does_not(problem in problem()) {
        let Some(field) = FieldWriter::new(500).job_members().write(&problem) else { return Ok(()); };
        let reading = Reader::new().field(field.as_bytes()).unwrap();
        prop_assert_eq!(&reading.warnings, &[]);
        let read = reading.problem;
        prop_assert_eq!(read.type_ref(), problem.type_ref());
        prop_assert_eq!(read.instance(), problem.instance());
        let plain = |text: &&str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        prop_assert_eq!(read.title(), problem.title().filter(plain));
        prop_assert_eq!(read.detail(), problem.detail().filter(plain));
        prop_assert_eq!(read.status(), problem.status().filter(|status| status.code() == 500));
        prop_assert_eq!(read.job().id(), problem.job().id().filter(plain));
        prop_assert_eq!(read.job().retryable(), problem.job().retryable());
    }

    #[test]
    fn what_can_be_built_breaks_no_must(problem in problem()) {
        let report = forgerun_problem::check::inspect_problem(&problem);
        prop_assert!(report.conforms(), "{:?}", report.findings);
    }

    #[test]
    fn readers_never_panic_on_text(text in text()) {
        let _ = Reader::new().json(text.as_bytes());
        let _ = Reader::new().xml(text.as_bytes());
        let _ = Reader::new().field(text.as_bytes());
    }
}

/// What is left of a problem once it has been through XML: the rules of the writer, told
/// independently.
fn as_xml_can_say_it(problem: &Problem) -> Problem {
    let mut left = Problem::untyped().job(job_left(problem.job()));
    if let Some(uri) = problem.type_ref() {
        left = left.type_uri(uri.as_str());
    }
    if let Some(title) = problem.title() {
        left = left.title(text_left(title));
    }
    if let Some(status) = problem.status() {
        left = left.status(status.code());
    }
    if let Some(detail) = problem.detail() {
        left = left.detail(text_left(detail));
    }
    if let Some(uri) = problem.instance() {
        left = left.instance(uri.as_str());
    }
    for (name, value) in members_left(problem.extensions()) {
        left = left.extension(&name, value);
    }
    left.build().unwrap()
}

fn job_left(job: &Job) -> Job {
    let mut left = Job::builder().correlation_id(job.correlation_id().cloned());
    left = job.id().into_iter().fold(left, |left, id| left.id(text_left(id)));
    left = job.status().into_iter().fold(left, |left, status| left.status(status.clone()));
    left = job.submitted_at().into_iter().fold(left, |left, time| left.submitted_at(time));
    left = job.completed_at().into_iter().fold(left, |left, time| left.completed_at(time));
    left = job.retryable().into_iter().fold(left, |left, flag| left.retryable(flag));
    left = job.retry_after_s().into_iter().fold(left, |left, seconds| left.retry_after_s(seconds));
    left =
        job.processing_stage().into_iter().fold(left, |left, stage| left.processing_stage(text_left(stage)));
    let items = job.results().filter(|items| !items.is_empty());
    left = items.into_iter().fold(left, |left, items| left.results(items.iter().map(item_left)));
    left.build().unwrap()
}

fn item_left(item: &ItemOutcome) -> ItemOutcome {
    let mut left = ItemOutcome::new(text_left(item.item_id()), item.status());
    left = item.detail().into_iter().fold(left, |left, detail| left.with_detail(text_left(detail)));
    left = item.retryable().into_iter().fold(left, |left, flag| left.with_retryable(flag));
    let stage = item.processing_stage();
    left = stage.into_iter().fold(left, |left, stage| left.with_processing_stage(text_left(stage)));
    let extensions = members_left(item.extensions()).into_iter();
    extensions.fold(left, |left, (name, value)| left.with_extension(&name, value).unwrap())
}

fn members_left(members: &Map<String, Value>) -> Map<String, Value> {
    let named = members.iter().filter(|(name, _)| is_name(name));
    named.filter_map(|(name, value)| Some((name.clone(), value_left(value)?))).collect()
}

fn value_left(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Bool(_) | Value::Number(_) => Some(canonical(value).into()),
        Value::String(text) => Some(text_left(text).into()),
        Value::Array(values) => {
            let left: Vec<_> = values.iter().filter_map(value_left).collect();
            (!left.is_empty()).then(|| left.into())
        }
        Value::Object(members) => {
            let mut left = members_left(members);
            if left.len() == 1
                && let Some(lone) = left.shift_remove("i")
            {
                left.insert("item".to_owned(), lone);
            }
            (!left.is_empty()).then(|| left.into())
        }
    }
}

fn text_left(text: &str) -> String {
    let illegal = |c: char| (c < ' ' && !"\t\n\r".contains(c)) || c == '\u{fffe}' || c == '\u{ffff}';
    text.chars().filter(|c| !illegal(*c)).collect()
}

/// ASCII names by a rule of our own; beyond ASCII the tables are long, so the writer is trusted
/// here and checked against another parser in the RELAX NG tests.
fn is_name(name: &str) -> bool {
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    if name.is_ascii() {
        let goes_on = |c: char| starts(c) || c.is_ascii_digit() || c == '-' || c == '.';
        return name.starts_with(starts) && name.chars().all(goes_on);
    }
    let probe = Problem::untyped().extension(name, 1).build().unwrap();
    probe.to_xml().contains(&format!("<{name}>1</{name}>"))
}
