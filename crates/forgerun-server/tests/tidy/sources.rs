//! Rules for source files: SQL in one crate, short files, a header on each, nothing left undone.

use crate::repo::{self, File};

/// Longer files have a second subject that wants a file of its own.
const LINES_MAX: usize = 600;

const SQL: &[&str] = &["SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM", "CREATE TABLE"];

/// Paths outside `forgerun-store` that may hold SQL, and why.
const SQL_EXEMPT: &[(&str, &str)] = &[
    ("crates/forgerun-bench/src/", "compares the stores with the least that stores a job"),
    ("crates/forgerun-server/tests/tidy/", "names the words it looks for"),
    (
        "crates/forgerun-server/tests/it/damaged_rows.rs",
        "damages rows behind the server's back, as a disk would",
    ),
    ("crates/forgerun-server/tests/it/outbox/", "calls forgerun.submit, as an application does"),
    ("crates/forgerun-server/tests/it/cli/audit.rs", "tampers with the audit trail, as an intruder would"),
    ("crates/forgerun-server/tests/it/probe/prove.rs", "looks whether a run left its database behind"),
    ("crates/forgerun-server/tests/it/cli/check.rs", "damages a store in every way that a check names"),
];

/// Paths that may name the macros for work left undone.
const UNDONE_EXEMPT: &[&str] = &["crates/forgerun-server/tests/tidy/"];

/// The lines that are code or strings, with their numbers. Whole-line comments do not count:
/// prose may say FOR UPDATE.
fn code_lines(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let numbered = file.text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn sql(file: &File) -> Vec<String> {
    if file.crate_name() == "forgerun-store" || SQL_EXEMPT.iter().any(|(path, _)| file.path.starts_with(path))
    {
        return Vec::new();
    }
    code_lines(file)
        .filter(|(_, line)| SQL.iter().any(|word| line.contains(word)))
        .map(|(number, _)| format!("{}:{number}: only forgerun-store speaks SQL", file.path))
        .collect()
}

fn undone(file: &File) -> Vec<String> {
    if UNDONE_EXEMPT.iter().any(|path| file.path.starts_with(path)) {
        return Vec::new();
    }
    code_lines(file)
        .filter(|(_, line)| line.contains("todo!(") || line.contains("unimplemented!("))
        .map(|(number, _)| format!("{}:{number}: finish it, or refuse with an error", file.path))
        .collect()
}

fn length(file: &File) -> Option<String> {
    let lines = file.text.lines().count();
    let too_long = file.is_shipped() && lines > LINES_MAX;
    too_long.then(|| format!("{}: {lines} lines; above {LINES_MAX} a file has two subjects", file.path))
}

fn header(file: &File) -> Option<String> {
    // A library may take its page from its README.
    let explained = ["//!", "#![doc = include_str!("].iter().any(|start| file.text.starts_with(start));
    let bare = file.is_shipped() && !explained;
    bare.then(|| format!("{}: begins without `//!` and what the module is for", file.path))
}

mod can_fail {
    use super::*;

    #[test]
    fn sql_outside_the_store_is_named() {
        let source = "let jobs = db.query(\n    \"SELECT id FROM jobs\",\n);\n";
        let expected = ["crates/forgerun-engine/src/timers.rs:2: only forgerun-store speaks SQL"];
        assert_eq!(sql(&File::new("crates/forgerun-engine/src/timers.rs", source)), expected);
        assert_eq!(sql(&File::new("crates/forgerun-store/src/sqlite/read.rs", source)).len(), 0);
        assert_eq!(
            sql(&File::new("crates/forgerun-engine/src/timers.rs", "// rows come FOR UPDATE SKIP LOCKED\n"))
                .len(),
            0
        );
    }

    #[test]
    fn every_sql_word_is_found() {
        for word in SQL {
            let file = File::new("crates/forgerun-server/src/edge.rs", &format!("let query = \"{word}\";\n"));
            assert_eq!(sql(&file).len(), 1, "{word}");
        }
    }

    #[test]
    fn undone_work_is_named() {
        for source in ["fn retry() {\n    todo!()\n}\n", "fn retry() {\n    unimplemented!(\"soon\")\n}\n"] {
            let file = File::new("crates/forgerun-core/tests/retry.rs", source);
            assert_eq!(
                undone(&file),
                ["crates/forgerun-core/tests/retry.rs:2: finish it, or refuse with an error"]
            );
        }
    }

    #[test]
    fn long_files_are_named_in_src_only() {
        let (fits, too_long) = ("\n".repeat(LINES_MAX), "\n".repeat(LINES_MAX + 1));
        assert_eq!(length(&File::new("crates/forgerun-core/src/job.rs", &fits)), None);
        assert!(length(&File::new("crates/forgerun-core/src/job.rs", &too_long)).is_some());
        assert!(length(&File::new("crates/forgerun-core/src/decide/claim.rs", &too_long)).is_some());
        assert_eq!(length(&File::new("crates/forgerun-core/tests/job.rs", &too_long)), None);
    }

    #[test]
    fn a_module_without_header_is_named() {
        assert!(header(&File::new("crates/forgerun-core/src/job.rs", "use core::fmt;\n")).is_some());
        assert!(header(&File::new("crates/forgerun-core/src/job.rs", "// A job.\n")).is_some());
        assert!(header(&File::new("crates/forgerun-core/src/job.rs", "#![doc(hidden)]\n")).is_some());
        assert_eq!(header(&File::new("crates/forgerun-core/src/job.rs", "//! A job.\n")), None);
        let from_readme = "#![doc = include_str!(\"../README.md\")]\n";
        assert_eq!(header(&File::new("crates/forgerun-problem/src/lib.rs", from_readme)), None);
    }
}

fn check_every_file<Complaints: IntoIterator<Item = String>>(complaints: impl Fn(&File) -> Complaints) {
    let files = repo::files("crates", "rs");
    assert!(
        files.iter().any(|file| file.path == "crates/forgerun-server/tests/tidy/sources.rs"),
        "found no files"
    );
    let complaints: Vec<String> = files.iter().flat_map(complaints).collect();
    crate::assert_tidy(&complaints);
}

#[test]
fn only_the_store_speaks_sql() {
    check_every_file(sql);
    let elsewhere =
        repo::files("crates", "sql").into_iter().filter(|file| file.crate_name() != "forgerun-store");
    let complaints: Vec<String> =
        elsewhere.map(|file| format!("{}: belongs in forgerun-store", file.path)).collect();
    crate::assert_tidy(&complaints);
}

#[test]
fn exempt_paths_exist() {
    let files = repo::files("crates", "rs");
    let exempt = SQL_EXEMPT.iter().map(|(path, _)| path).chain(UNDONE_EXEMPT);
    let stale = exempt.filter(|path| !files.iter().any(|file| file.path.starts_with(**path)));
    let complaints: Vec<String> = stale.map(|path| format!("{path} exempts nothing")).collect();
    crate::assert_tidy(&complaints);
}

#[test]
fn nothing_is_left_undone() {
    check_every_file(undone);
}

#[test]
fn source_files_are_short() {
    check_every_file(length);
}

#[test]
fn every_module_says_what_it_is_for() {
    check_every_file(header);
}
