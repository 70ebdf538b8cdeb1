//! The ledger of requirements: every id once, an honest status, tests that exist.

use std::collections::{BTreeMap, BTreeSet};

use crate::repo::{self, File};

/// Every id there is: per group, the documents and their ranges of numbers.
const GROUPS: &[(&str, &str)] = &[
    ("SUB", "FR 1-16, AO 1-15, AJ 1-6, OJS 1-2"),
    ("CAT", "FR 1-13, FR 20-50"),
    ("IDM", "FR 1-8, AO 1-5, AJ 1-2, OJS 1-1"),
    ("STM", "FR 1-21, AO 1-3, AJ 1-4, OJS 1-3"),
    ("STA", "FR 1-7, AO 1-14, AJ 1-8"),
    ("CAN", "FR 1-7, AO 1-1, AJ 1-1, OJS 1-1"),
    ("RTY", "FR 1-9, AO 1-5, AJ 1-1, OJS 1-10"),
    ("SCH", "FR 1-7, OJS 1-1"),
    ("QWK", "FR 1-10, AO 1-5, OJS 1-3"),
    ("EXE", "FR 1-6, AJ 1-1, OJS 1-1"),
    ("RES", "FR 1-6, AO 1-5, AJ 1-1"),
    ("EVT", "FR 1-7, AJ 1-1"),
    ("ERR", "PD 1-20, FR 1-6, AO 1-5, OJS 1-6"),
    ("XML", "PD 1-7, AJ 1-1"),
    ("HDR", "PD 1-6"),
    ("AJM", "AJ 1-24"),
    ("COD", "FR 1-23, AO 1-1, OJS 1-19"),
    ("SSE", "AJ 1-7"),
    ("WHK", "FR 1-12, AJ 1-6"),
    ("KAF", "AJ 1-9"),
    ("AMQ", "OJS 1-9, AJ 1-1"),
    ("GRP", "OJS 1-9, AJ 1-1"),
    ("BAT", "AJ 1-8, AO 1-1, PD 1-1"),
    ("AUT", "FR 1-16, AO 1-1, AJ 1-1, OJS 1-2"),
    ("LIM", "FR 1-8, AJ 1-1, OJS 1-1"),
    ("RET", "FR 1-6, AO 1-5, AJ 1-1"),
    ("STO", "FR 1-8, AO 1-2"),
    ("OBS", "FR 1-14, AO 1-4"),
    ("CFG", "FR 1-9, AO 1-1"),
    ("SDK", "PD 1-7, AJ 1-12, AO 1-5, OJS 1-8"),
    ("SEC", "AJ 1-8, PD 1-1, FR 1-2"),
    ("PRF", "AO 1-7, FR 1-2"),
    ("DOC", "PD 1-4, AJ 1-4, OJS 1-1"),
];

const HEADER: &str = "| id | what | status | proof |";

struct Row {
    line: usize,
    id: String,
    status: String,
    proof: String,
}

fn expected_ids() -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for (group, ranges) in GROUPS {
        for range in ranges.split(", ") {
            let (document, numbers) = range.split_once(' ').expect("document, then range");
            let (first, last) = numbers.split_once('-').expect("first-last");
            let first: u32 = first.parse().expect("a number");
            let last: u32 = last.parse().expect("a number");
            ids.extend((first..=last).map(|number| format!("{document}-{group}-{number:02}")));
        }
    }
    ids
}

/// The rows of the tables with our header; other tables are left to the prose.
fn rows(ledger: &str) -> Result<Vec<Row>, Vec<String>> {
    let mut rows = Vec::new();
    let mut complaints = Vec::new();
    let mut in_table = false;
    for (index, text) in ledger.lines().enumerate() {
        let line = index + 1;
        in_table = text == HEADER || in_table && text.starts_with('|');
        if !in_table || text == HEADER || text.starts_with("|---") {
            continue;
        }
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        let ["", id, _, status, proof, ""] = cells[..] else {
            complaints.push(format!("line {line}: a row has four cells and ends with |"));
            continue;
        };
        rows.push(Row { line, id: id.to_owned(), status: status.to_owned(), proof: proof.to_owned() });
    }
    if complaints.is_empty() { Ok(rows) } else { Err(complaints) }
}

/// The tests that a proof names: what stands in backticks and has a `::`.
fn named_tests(proof: &str) -> Vec<&str> {
    proof.split('`').skip(1).step_by(2).filter(|span| span.contains("::")).collect()
}

fn complaints(ledger: &str, expected: &BTreeSet<String>, tests: &Tests) -> Vec<String> {
    let rows = match rows(ledger) {
        Ok(rows) => rows,
        Err(complaints) => return complaints,
    };
    let mut complaints = Vec::new();
    let mut seen = BTreeSet::new();
    for row in &rows {
        let at = format!("line {}: {}", row.line, row.id);
        if !expected.contains(&row.id) {
            complaints.push(format!("{at} is no id of ours"));
        }
        if !seen.insert(row.id.clone()) {
            complaints.push(format!("{at} stands here a second time"));
        }
        let named = named_tests(&row.proof);
        match (row.status.as_str(), named.is_empty()) {
            ("done" | "partly", false) | ("not yet", true) => {}
            ("done" | "partly", true) => complaints.push(format!("{at} is {} but names no test", row.status)),
            ("not yet", false) => complaints.push(format!("{at} names a test, so it is done or partly")),
            (other, _) => complaints.push(format!("{at} has status {other:?}, not done, partly or not yet")),
        }
        for test in named {
            if let Err(reason) = tests.find(test) {
                complaints.push(format!("{at} names `{test}`: {reason}"));
            }
        }
    }
    complaints.extend(expected.difference(&seen).map(|id| format!("{id} is missing")));
    complaints
}

/// The test functions of the workspace, by crate and name.
struct Tests {
    /// Crate → function → the files with a test of that name.
    by_crate: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// Every path of modules that leads to a file, with the modules declared in it.
    modules: BTreeMap<String, BTreeSet<String>>,
}

impl Tests {
    fn collect(files: &[File]) -> Tests {
        let mut by_crate: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        let modules = files.iter().map(|file| (file.path.clone(), module_paths(file))).collect();
        for file in files {
            let tests = by_crate.entry(file.crate_name().to_owned()).or_default();
            for name in test_functions(&file.text).into_iter().chain(suite_functions(file, files)) {
                tests.entry(name.to_owned()).or_default().push(file.path.clone());
            }
        }
        Tests { by_crate, modules }
    }

    /// `crate::module::name` wants the test in that module, `crate/file.rs::name` in that file.
    fn find(&self, reference: &str) -> Result<(), String> {
        let (place, name) = reference.rsplit_once("::").ok_or("has no ::")?;
        let folder = place.split(['/', ':']).next().unwrap_or("");
        let tests = self.by_crate.get(folder).ok_or(format!("there is no crates/{folder}"))?;
        let files =
            tests.get(name).ok_or(format!("{folder} has no test of that name that is not ignored"))?;
        if place.contains('/') && !files.contains(&format!("crates/{place}")) {
            return Err(format!("the test is not in that file but in {}", files.join(", ")));
        }
        let wanted = place.strip_prefix(folder).unwrap_or_default().trim_start_matches("::");
        if !place.contains('/') && !files.iter().any(|file| self.modules[file].contains(wanted)) {
            return Err(format!("the test is not in that module but in {}", files.join(", ")));
        }
        Ok(())
    }
}

/// The paths of modules that name a place in a file: the file's own, and those of the modules that
/// are declared in it. The name of a test binary that is a folder may be left out.
fn module_paths(file: &File) -> BTreeSet<String> {
    let below = file.path.splitn(3, '/').nth(2).unwrap_or_default();
    let (kind, rest) = below.split_once('/').unwrap_or(("", below));
    let rest = rest.strip_suffix(".rs").unwrap_or(rest);
    let own: Vec<&str> = rest.split('/').filter(|part| !matches!(*part, "mod" | "main" | "lib")).collect();
    let short = if kind == "tests" && rest.contains('/') { &own[1..] } else { &own[..] };
    let declared = file.text.lines().filter_map(|line| line.trim_start().strip_prefix("mod "));
    let inside: Vec<&str> =
        declared.filter_map(|line| line.split_once([' ', ';'])).map(|(name, _)| name).collect();
    let mut paths = BTreeSet::new();
    for path in [&own[..], short] {
        paths.insert(path.join("::"));
        paths.extend(
            inside.iter().map(|name| path.iter().chain([name]).copied().collect::<Vec<_>>().join("::")),
        );
    }
    paths
}

/// The functions under a test attribute that are not ignored.
///
/// Reads line by line and trusts rustfmt: an attribute stands on its own line above its function,
/// in a `proptest!` block too.
fn test_functions(source: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let (mut is_test, mut is_ignored) = (false, false);
    for line in source.lines().map(str::trim_start) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        is_ignored |= line.starts_with("#[ignore");
        let Some(name) = function_name(line) else { continue };
        if is_test && !is_ignored {
            names.push(name);
        }
        (is_test, is_ignored) = (false, false);
    }
    names
}

/// The functions of a conformance suite. They have no attribute, since a macro makes one test of
/// them for each store; they count if some line of the crate besides their declaration names them.
fn suite_functions<'a>(file: &'a File, files: &[File]) -> Vec<&'a str> {
    if !file.path.contains("/conformance/") {
        return Vec::new();
    }
    let names = file.text.lines().filter_map(|line| function_name(line.trim_start()));
    let crate_files = || files.iter().filter(|other| other.crate_name() == file.crate_name());
    names.filter(|name| crate_files().any(|other| is_used(name, &other.text))).collect()
}

/// Whether a line of code names the function without declaring it.
fn is_used(name: &str, source: &str) -> bool {
    let code = source.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    let mut uses = code.filter(|line| function_name(line) != Some(name));
    uses.any(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name))
}

/// The name of the function that this line begins to declare.
fn function_name(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) ")).unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    let (name, _) = line.strip_prefix("fn ")?.split_once(['(', '<'])?;
    Some(name)
}

mod can_fail {
    use super::*;

    fn complaints_about(row: &str) -> Vec<String> {
        let expected = BTreeSet::from(["FR-SUB-01".to_owned()]);
        let source = "#[test]\nfn a_job_is_accepted() {}\n\n#[test]\n#[ignore]\nfn an_ignored_one() {}\n\nfn a_helper() {}\n";
        let tests = Tests::collect(&[File::new("crates/forgerun-core/src/job.rs", source)]);
        complaints(&format!("{HEADER}\n|---|---|---|---|\n{row}\n"), &expected, &tests)
    }

    #[track_caller]
    fn check(row: &str, complaint: &str) {
        let found = complaints_about(row);
        assert!(found.iter().any(|found| found.contains(complaint)), "wanted {complaint:?}, got {found:?}");
    }

    #[test]
    fn good_rows_pass() {
        for row in [
            "| FR-SUB-01 | root | not yet | |",
            "| FR-SUB-01 | root | not yet | needs `axum` |",
            "| FR-SUB-01 | root | done | `forgerun-core::job::a_job_is_accepted` |",
            "| FR-SUB-01 | root | partly | `forgerun-core/src/job.rs::a_job_is_accepted` without `Accept` |",
        ] {
            assert_eq!(complaints_about(row), Vec::<String>::new(), "{row}");
        }
    }

    #[test]
    fn bad_rows_are_named() {
        check("", "FR-SUB-01 is missing");
        check("| FR-SUB-1 | root | not yet | |", "is no id of ours");
        check("| FR-SUB-01 | root | not yet | |\n| FR-SUB-01 | root | not yet | |", "a second time");
        check("| FR-SUB-01 | root | nearly | |", "has status \"nearly\"");
        check("| FR-SUB-01 | root | done | trust me |", "is done but names no test");
        check("| FR-SUB-01 | root | partly | |", "is partly but names no test");
        check(
            "| FR-SUB-01 | root | not yet | `forgerun-core::job::a_job_is_accepted` |",
            "so it is done or partly",
        );
        check("| FR-SUB-01 | root | not yet |", "four cells");
        check("| FR-SUB-01 | root | not yet | | extra |", "four cells");
    }

    #[test]
    fn a_test_that_does_not_exist_is_named() {
        let row = |test: &str| format!("| FR-SUB-01 | root | done | `{test}` |");
        check(&row("forgerun-core::job::a_job_is_lost"), "has no test of that name");
        check(&row("forgerun-core::job::a_helper"), "has no test of that name");
        check(&row("forgerun-core::job::an_ignored_one"), "has no test of that name");
        check(&row("forgerun-moon::job::a_job_is_accepted"), "there is no crates/forgerun-moon");
        check(&row("forgerun-core/src/state.rs::a_job_is_accepted"), "is not in that file");
        check(&row("forgerun-core::state::a_job_is_accepted"), "is not in that module");
        check(&row("forgerun-core::a_job_is_accepted"), "is not in that module");
    }

    #[test]
    fn a_suite_function_counts_only_if_it_is_run() {
        let suite =
            "pub async fn one_claims(store: &dyn Store) {}\npub async fn two_claim(store: &dyn Store) {}\n";
        let tests = Tests::collect(&[
            File::new("crates/forgerun-store/src/conformance/claims.rs", suite),
            File::new(
                "crates/forgerun-store/tests/memory.rs",
                "// two_claim\nsuite!(memory, [one_claims]);\n",
            ),
            File::new("crates/forgerun-engine/src/conformance.rs", "two_claim\n"),
        ]);
        assert_eq!(tests.find("forgerun-store::conformance::claims::one_claims"), Ok(()));
        assert!(tests.find("forgerun-store::conformance::claims::two_claim").is_err());
    }

    #[test]
    fn a_module_is_known_by_its_path_with_or_without_the_name_of_its_binary() {
        let paths =
            |path: &str, text: &str| module_paths(&File::new(path, text)).into_iter().collect::<Vec<_>>();
        assert_eq!(paths("crates/a/src/b/c.rs", "mod tests {\n"), ["b::c", "b::c::tests"]);
        assert_eq!(paths("crates/a/src/b/mod.rs", ""), ["b"]);
        assert_eq!(paths("crates/a/tests/it/b.rs", ""), ["b", "it::b"]);
        assert_eq!(paths("crates/a/tests/b.rs", ""), ["b"]);
    }

    #[test]
    fn test_functions_are_found_in_all_their_forms() {
        let source = "
            #[tokio::test(start_paused = true)]
            async fn one() {}
            proptest! {
                #[test]
                fn two(input in any::<u8>()) {}
            }
            #[test]
            #[should_panic(expected = \"no\")]
            fn three() {}
            fn four() {}";
        assert_eq!(test_functions(source), ["one", "two", "three"]);
    }
}

#[test]
fn there_are_571_ids() {
    assert_eq!(expected_ids().len(), 571);
}

#[test]
fn the_ledger_is_complete_and_names_tests_that_exist() {
    let tests = Tests::collect(&repo::files("crates", "rs"));
    crate::assert_tidy(&complaints(&repo::read("docs/internals/requirements.md"), &expected_ids(), &tests));
}

#[test]
fn the_guarantees_name_tests_that_exist() {
    let tests = Tests::collect(&repo::files("crates", "rs"));
    let page = repo::read("docs/understand/guarantees.md");
    let named = named_tests(&page);
    assert!(named.len() > 20, "{named:?}");
    let missing = named.into_iter().filter_map(|test| Some(format!("`{test}`: {}", tests.find(test).err()?)));
    crate::assert_tidy(&missing.collect::<Vec<_>>());
}
