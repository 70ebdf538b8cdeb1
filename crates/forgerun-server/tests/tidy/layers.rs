//! Who may know whom: the arrows between our crates, and what the inner ones must not pull in.

use crate::repo;

/// Each crate and the crates of ours it may depend on. A new crate needs a row here and in
/// ARCHITECTURE.md.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("forgerun-problem", &[]),
    ("forgerun-core", &[]),
    ("forgerun-wire", &["forgerun-core", "forgerun-problem"]),
    ("forgerun-store", &["forgerun-core"]),
    ("forgerun-engine", &["forgerun-core", "forgerun-store"]),
    ("forgerun-client", &["forgerun-wire", "forgerun-problem"]),
    ("forgerun-outbox", &["forgerun-client", "forgerun-store"]),
    ("forgerun-probe", &["forgerun-client", "forgerun-problem"]),
    ("forgerun-cli", &["forgerun-client", "forgerun-probe", "forgerun-problem"]),
    ("forgerun-schema", &[]),
    ("forgerun-site", &[]),
    (
        "forgerun-server",
        &[
            "forgerun-core",
            "forgerun-store",
            "forgerun-engine",
            "forgerun-wire",
            "forgerun-problem",
            "forgerun-client",
            "forgerun-cli",
            "forgerun-outbox",
            "forgerun-schema",
            "forgerun-site",
        ],
    ),
    ("forgerun-sim", &["forgerun-core", "forgerun-store", "forgerun-engine"]),
    (
        "forgerun-bench",
        &["forgerun-core", "forgerun-store", "forgerun-engine", "forgerun-wire", "forgerun-server"],
    ),
];

/// Words that must not occur in a dependency of these crates, be it as name or as feature.
const MUST_NOT_KNOW: &[(&str, &[&str])] = &[
    ("forgerun-core", &["tokio", "axum", "hyper", "reqwest", "sqlite", "postgres", "std"]),
    ("forgerun-engine", &["axum", "hyper", "reqwest", "lapin", "tonic", "sqlite", "postgres"]),
    ("forgerun-sim", &["axum", "hyper", "reqwest", "lapin", "tonic", "sqlite", "postgres"]),
];

/// A dependency: its key and whatever the manifest says of it.
struct Dependency {
    name: String,
    entry: String,
}

/// What stands under `[dependencies]`, also for one target or as a table of its own. Dependencies
/// for tests and builds are another matter. Reads the TOML that we write, not all TOML.
fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    let mut in_list = false;
    let mut in_entry = false;
    for line in manifest.lines().map(|line| line.split('#').next().unwrap_or("").trim()) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let own_table = section.split_once("dependencies.").filter(|(before, _)| is_plain(before));
            in_list = section.strip_suffix("dependencies").is_some_and(is_plain);
            in_entry = own_table.is_some();
            if let Some((_, name)) = own_table {
                found.push(Dependency { name: name.to_owned(), entry: String::new() });
            }
        } else if in_list && !line.is_empty() {
            match line.split_once('=') {
                Some((key, entry)) if !key.contains(['{', '[', '"']) => {
                    let name = key.split('.').next().unwrap_or(key).trim();
                    found.push(Dependency { name: name.to_owned(), entry: entry.to_owned() });
                }
                _ => append(&mut found, line),
            }
        } else if in_entry {
            append(&mut found, line);
        }
    }
    found
}

/// Whether a section belongs to `dependencies`, not to `dev-dependencies` or `build-dependencies`.
fn is_plain(before: &str) -> bool {
    before.is_empty() || before.ends_with('.')
}

fn append(found: &mut [Dependency], line: &str) {
    if let Some(last) = found.last_mut() {
        last.entry.push_str(line);
    }
}

fn complaints(name: &str, manifest: &str) -> Vec<String> {
    let Some((_, may_know)) = MAY_KNOW.iter().find(|(crate_name, _)| *crate_name == name) else {
        return vec![format!("{name} has no row in MAY_KNOW")];
    };
    let must_not_know =
        MUST_NOT_KNOW.iter().find(|(crate_name, _)| *crate_name == name).map_or(&[][..], |(_, words)| words);
    let mut complaints = Vec::new();
    for Dependency { name: dependency, entry } in dependencies(manifest) {
        let ours = dependency.starts_with("forgerun-") || entry.contains("\"forgerun-");
        if ours && !may_know.iter().any(|known| dependency == *known) {
            complaints.push(format!("{name} must not know {dependency}"));
        }
        for word in must_not_know.iter().copied() {
            if dependency.split(['-', '_']).any(|part| part == word) || entry.contains(&format!("\"{word}\""))
            {
                complaints.push(format!("{name} must not know {word}, see its dependency {dependency}"));
            }
        }
    }
    complaints
}

fn is_no_std(lib: &str) -> bool {
    lib.lines().any(|line| line == "#![no_std]")
}

mod can_fail {
    use super::*;

    #[track_caller]
    fn check(name: &str, manifest: &str, expected: &[&str]) {
        assert_eq!(complaints(name, manifest), expected, "{manifest}");
    }

    #[test]
    fn a_forbidden_arrow_is_named_in_every_spelling() {
        let expected = ["forgerun-store must not know forgerun-engine"];
        check("forgerun-store", "[dependencies]\nforgerun-engine.workspace = true", &expected);
        check(
            "forgerun-store",
            "[dependencies]\nforgerun-engine = { path = \"../forgerun-engine\" }",
            &expected,
        );
        check("forgerun-store", "[dependencies.forgerun-engine]\npath = \"../forgerun-engine\"", &expected);
        check("forgerun-store", "[target.'cfg(unix)'.dependencies]\nforgerun-engine = \"0.1\"", &expected);
        check(
            "forgerun-store",
            "[dependencies]\nengine = { package = \"forgerun-engine\", version = \"0.1\" }",
            &["forgerun-store must not know engine"],
        );
    }

    #[test]
    fn allowed_arrows_and_test_dependencies_pass() {
        check("forgerun-store", "[dependencies]\nforgerun-core.workspace = true\nbytes = \"1\"", &[]);
        check("forgerun-store", "[dev-dependencies]\nforgerun-engine.workspace = true", &[]);
        check("forgerun-store", "[dev-dependencies.forgerun-engine]\npath = \"x\"", &[]);
        check(
            "forgerun-store",
            "[build-dependencies]\nforgerun-engine = \"0.1\"\n[features]\nforgerun-sim = []",
            &[],
        );
    }

    #[test]
    fn forbidden_libraries_and_features_are_named() {
        check(
            "forgerun-engine",
            "[dependencies]\ntokio-postgres = \"0.7\"",
            &["forgerun-engine must not know postgres, see its dependency tokio-postgres"],
        );
        check(
            "forgerun-engine",
            "[dependencies]\nforgerun-store = { workspace = true, features = [\n  \"sqlite\",\n] }",
            &["forgerun-engine must not know sqlite, see its dependency forgerun-store"],
        );
    }

    #[test]
    fn a_crate_without_a_row_is_named() {
        check("forgerun-utils", "", &["forgerun-utils has no row in MAY_KNOW"]);
    }

    #[test]
    fn only_the_plain_attribute_counts_as_no_std() {
        assert!(is_no_std("//! The rules.\n#![no_std]\n"));
        assert!(!is_no_std("//! Not #![no_std].\n"));
        assert!(!is_no_std("#![cfg_attr(not(test), no_std)]\n"));
    }
}

#[test]
fn crates_know_only_whom_they_may_know() {
    let crates = repo::crates();
    assert!(crates.iter().any(|name| name == "forgerun-server"), "found {crates:?}");
    let complaints: Vec<String> = crates
        .iter()
        .flat_map(|name| complaints(name, &repo::read(&format!("crates/{name}/Cargo.toml"))))
        .collect();
    crate::assert_tidy(&complaints);
}

#[test]
fn the_core_is_no_std() {
    assert!(is_no_std(&repo::read("crates/forgerun-core/src/lib.rs")), "forgerun-core must be #![no_std]");
}
