//! Dependencies: each one is used, those on our own crates name the version of the workspace, and the oldest Rust is stated
//! once.

use crate::repo::{self, File};

/// The keys below `[section]` of a manifest. Reads the TOML that we write, not all TOML.
fn keys<'a>(manifest: &'a str, section: &str) -> Vec<&'a str> {
    let header = format!("[{section}]");
    let lines = manifest.lines().skip_while(|line| *line != header).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines.filter(|line| line.starts_with(|first: char| first.is_ascii_alphabetic())).filter_map(key).collect()
}

fn key(line: &str) -> Option<&str> {
    line.split(['.', '=', ' ']).next()
}

/// Whether a word occurs that is not part of a longer one.
fn names(text: &str, word: &str) -> bool {
    let is_part = |edge: Option<char>| edge.is_some_and(|edge| edge.is_alphanumeric() || edge == '_');
    text.match_indices(word).any(|(at, _)| {
        !is_part(text[..at].chars().next_back()) && !is_part(text[at + word.len()..].chars().next())
    })
}

/// Complaints about the dependencies of a crate. Those of its product are used in `src`, those of its tests anywhere.
fn unused(name: &str, manifest: &str, files: &[File]) -> Vec<String> {
    let is_used = |dependency: &str, in_product: bool| {
        let word = dependency.replace('-', "_");
        let mut files = files.iter().filter(|file| !in_product || file.is_product());
        files.any(|file| names(&file.text, &word))
    };
    let product = keys(manifest, "dependencies").into_iter().map(|key| (key, true));
    let tests = keys(manifest, "dev-dependencies").into_iter().map(|key| (key, false));
    product
        .chain(tests)
        .filter(|(dependency, in_product)| !is_used(dependency, *in_product))
        .map(|(dependency, _)| format!("{name} does not use its dependency {dependency}"))
        .collect()
}

impl File {
    /// Whether the compiler reads it for the product of its crate.
    fn is_product(&self) -> bool {
        matches!(self.path.split('/').nth(2), Some("src" | "generated"))
    }
}

mod can_fail {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"x\"\n\n[dependencies]\ntokio-util.workspace = true\nserde = { workspace = true }\n\
                            \n[dev-dependencies]\ntempfile.workspace = true\n";

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let files: Vec<File> = files.iter().map(|(path, text)| File::new(path, text)).collect();
        assert_eq!(unused("x", MANIFEST, &files), expected);
    }

    #[test]
    fn an_unused_dependency_is_named() {
        check(
            &[
                ("crates/x/src/lib.rs", "use serde::Serialize;"),
                ("crates/x/tests/it.rs", "tempfile::tempdir()"),
            ],
            &["x does not use its dependency tokio-util"],
        );
        check(
            &[("crates/x/src/lib.rs", "tokio_util serde tempfiles")],
            &["x does not use its dependency tempfile"],
        );
    }

    #[test]
    fn a_dependency_of_tests_alone_is_not_one_of_the_product() {
        check(
            &[("crates/x/src/lib.rs", "tokio_util"), ("crates/x/tests/it.rs", "serde tempfile")],
            &["x does not use its dependency serde"],
        );
    }
}

#[test]
fn every_dependency_is_used() {
    let crates = repo::crates();
    let unused = crates.iter().flat_map(|name| {
        let folder = format!("crates/{name}");
        unused(name, &repo::read(&format!("{folder}/Cargo.toml")), &repo::files(&folder, "rs"))
    });
    crate::assert_tidy(&unused.collect::<Vec<_>>());
}

#[test]
fn every_dependency_of_the_workspace_has_a_crate() {
    let root = repo::read("Cargo.toml");
    let manifests: Vec<String> =
        repo::crates().iter().map(|name| repo::read(&format!("crates/{name}/Cargo.toml"))).collect();
    let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
    let is_wanted = |dependency: &&str| {
        manifests.iter().any(|text| sections.iter().any(|section| keys(text, section).contains(dependency)))
    };
    let unused = keys(&root, "workspace.dependencies").into_iter().filter(|key| !is_wanted(key));
    crate::assert_tidy(&unused.map(|key| format!("no crate depends on {key}")).collect::<Vec<_>>());
}

#[test]
fn our_own_crates_have_the_version_of_the_workspace() {
    let root = repo::read("Cargo.toml");
    let version = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
    let ours = root.lines().filter(|line| line.starts_with("forgerun-"));
    let wrong: Vec<String> = ours.filter(|line| !line.contains(&version)).map(str::to_owned).collect();
    crate::assert_tidy(&wrong);
}

#[test]
fn the_oldest_rust_is_the_same_wherever_it_is_stated() {
    let stated = env!("CARGO_PKG_RUST_VERSION");
    for (path, expected) in [
        (".github/workflows/release.yml", format!("rust:{stated}-alpine")),
        ("deploy/Dockerfile", format!("rust:{stated}")),
    ] {
        assert!(repo::read(path).contains(&expected), "{path} does not name {expected}");
    }
}
