//! A release has one version: the tag's, that of `Cargo.toml`, that of the changelog. `scripts/release check` holds it to that.

use std::process::Command;

use crate::repo;

/// Whether the script is content with a tag, and what it complains of.
fn check(tag: &str) -> (bool, String) {
    let mut command = Command::new(repo::root().join("scripts/release"));
    let output = command.args(["check", tag]).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_tag_that_is_not_the_version_is_refused() {
    let (is_good, said) = check("v0.0.0");
    assert!(!is_good && said.contains("Cargo.toml has version"), "{said}");
}

#[test]
fn a_version_without_a_section_in_the_changelog_is_refused() {
    let version = env!("CARGO_PKG_VERSION");
    let (is_good, said) = check(&format!("v{version}"));
    let changelog = repo::read("CHANGELOG.md");
    let is_noted = changelog.lines().any(|line| line.starts_with(&format!("## {version} (")));
    assert_eq!((is_good, said.contains("CHANGELOG.md has no section")), (is_noted, !is_noted), "{said}");
}
