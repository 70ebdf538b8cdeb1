//! Type names: within reach of each other, one name means one thing. Where two types share a name
//! on purpose, `docs/internals/glossary.md` has it in its last table, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use crate::repo::{self, File};

/// Crates whose types meet in one file. `forgerun-problem` and `forgerun-client` are for others too
/// and are used by their names; the simulator is not shipped.
const CRATES: [&str; 5] =
    ["forgerun-core", "forgerun-store", "forgerun-engine", "forgerun-wire", "forgerun-server"];

/// Paths whose types are named after something outside: tables of the configuration, words of the
/// command line.
const NAMED_OUTSIDE: [&str; 2] =
    ["crates/forgerun-server/src/config/sections/", "crates/forgerun-server/src/bin/"];

/// Under this heading of the glossary, the first cell of each row has the names in backticks.
const HEADING: &str = "## Type names that occur more than once";

fn counts(file: &File) -> bool {
    let of_tests = file.path.contains("/tests/") || file.path.ends_with("tests.rs");
    let outside = NAMED_OUTSIDE.iter().any(|path| file.path.starts_with(path));
    file.is_shipped() && CRATES.contains(&file.crate_name()) && !of_tests && !outside
}

/// The types that a file defines outside of functions, traits and test modules.
fn types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with([' ', '/', '#'])).filter_map(|line| {
        let line = match line.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
            Some(rest) => rest.trim_start(),
            None => line,
        };
        let (word, rest) = line.split_once(' ')?;
        let name = rest.split(|letter: char| !letter.is_alphanumeric()).next()?;
        let is_type = ["struct", "enum", "trait", "type", "union"].contains(&word);
        (is_type && name.starts_with(char::is_uppercase)).then_some(name)
    })
}

fn exceptions(glossary: &str) -> BTreeSet<&str> {
    let table = glossary.split_once(HEADING).map_or("", |(_, table)| table);
    let cells = table.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

fn repeated(files: &[File], glossary: &str) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| counts(file)) {
        for name in types(&file.text) {
            places.entry(name).or_default().push(&file.path);
        }
    }
    let allowed = exceptions(glossary);
    let repeated = places.into_iter().filter(|(name, paths)| paths.len() > 1 && !allowed.contains(name));
    repeated
        .map(|(name, paths)| {
            format!(
                "{name} is in {}: name it after what it is, or say why in docs/internals/glossary.md",
                paths.join(", ")
            )
        })
        .collect()
}

mod can_fail {
    use super::*;

    const GLOSSARY: &str = "| `Place` | no |\n\n## Type names that occur more than once\n\n| name | why |\n|---|---|\n| `Options`, `Error` | one each |\n";

    fn files(texts: &[(&str, &str)]) -> Vec<File> {
        texts.iter().map(|(path, text)| File::new(path, text)).collect()
    }

    #[test]
    fn a_name_with_two_meanings_is_named() {
        let found = files(&[
            ("crates/forgerun-core/src/a.rs", "pub(crate) struct Place<'a> {\n}\n"),
            ("crates/forgerun-store/src/b.rs", "enum Place {\n}\npub struct Options;\n"),
            ("crates/forgerun-store/src/c.rs", "pub struct Options {\n}\n"),
        ]);
        let complaints = repeated(&found, GLOSSARY);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(
            complaints[0]
                .starts_with("Place is in crates/forgerun-core/src/a.rs, crates/forgerun-store/src/b.rs:")
        );
    }

    #[test]
    fn what_is_out_of_reach_may_repeat() {
        let found = files(&[
            ("crates/forgerun-core/src/a.rs", "pub struct Job;\n    struct Inner;\n// struct Inner;\n"),
            ("crates/forgerun-core/src/a/tests.rs", "struct Job;\n"),
            ("crates/forgerun-core/tests/world.rs", "struct Job;\n"),
            ("crates/forgerun-problem/src/job.rs", "pub struct Job;\n"),
            ("crates/forgerun-server/src/config/sections/jobs.rs", "pub struct Job;\nstruct Inner;\n"),
            ("crates/forgerun-server/src/app.rs", "type Output = Job;\nstructure Job;\nstruct Inner;\n"),
        ]);
        assert_eq!(repeated(&found, GLOSSARY), [""; 0]);
    }
}

#[test]
fn one_type_name_means_one_thing() {
    crate::assert_tidy(&repeated(&repo::files("crates", "rs"), &repo::read("docs/internals/glossary.md")));
}
