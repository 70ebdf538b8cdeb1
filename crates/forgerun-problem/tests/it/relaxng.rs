//! Our XML before an independent judge: `xmllint` with a RELAX NG schema written from the draft's
//! grammar.
//!
//! `xmllint` comes with the Debian package `libxml2-utils`. Without it these tests fail; they do
//! not skip.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use forgerun_problem::Problem;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::json;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn xmllint(documents: &[PathBuf]) -> Output {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/relaxng/problem.rng");
    Command::new("xmllint")
        .args(["--noout", "--nonet", "--relaxng"])
        .arg(schema)
        .args(documents)
        .output()
        .expect("xmllint is installed: apt-get install libxml2-utils")
}

fn assert_valid(name: &str, documents: impl IntoIterator<Item = String>) {
    let folder = folder(name);
    let write = |(index, document): (usize, String)| {
        let path = folder.join(format!("{index}.xml"));
        std::fs::write(&path, document).unwrap();
        path
    };
    let paths: Vec<_> = documents.into_iter().enumerate().map(write).collect();
    let output = xmllint(&paths);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_full_failure_is_valid() {
    assert_valid("full", [crate::samples::full_failure().to_xml()]);
}

#[test]
fn troublesome_members_are_valid() {
    let problem = Problem::builder("https://example.com/p?a=1&b=2#c")
        .title("<&>]]>\r\n\u{1}\u{fffe}\u{1f600}")
        .status(599)
        .extension("xmlns", "not a namespace")
        .extension("XMLish", 1)
        .extension("caf\u{e9}", json!({"i": [{"i": 1}], "a b": 1, "e:e": 1}))
        .extension("empty", "")
        .build()
        .unwrap();
    assert_valid("troublesome", [problem.to_xml(), Problem::default().to_xml()]);
}

#[test]
fn examples_of_the_async_draft_are_valid() {
    let documents =
        crate::async_draft::EXAMPLES.map(|json| serde_json::from_str::<Problem>(json).unwrap().to_xml());
    assert_valid("async", documents);
}

#[test]
fn arbitrary_problems_are_valid() {
    let mut runner = TestRunner::deterministic();
    let mut next = || crate::strategies::problem().new_tree(&mut runner).unwrap().current();
    assert_valid("arbitrary", (0..400).map(|_| next().to_xml()).collect::<Vec<_>>());
}

/// The judge must be able to say no, or its yes is worth nothing.
#[test]
fn invalid_documents_are_found_out() {
    for (index, document) in [
        "<problem/>",
        "<problem xmlns='urn:ietf:rfc:7807'><status>many</status></problem>",
        "<problem xmlns='urn:ietf:rfc:7807'><status>0</status></problem>",
        "<problem xmlns='urn:ietf:rfc:7807'><x xmlns='urn:other'/></problem>",
        "<problem xmlns='urn:ietf:rfc:7807'><title>\u{1}</title></problem>",
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder("invalid").join(format!("{index}.xml"));
        std::fs::write(&path, document).unwrap();
        assert!(!xmllint(&[path]).status.success(), "{document}");
    }
}
