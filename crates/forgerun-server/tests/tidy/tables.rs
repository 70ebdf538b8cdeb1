//! Tables of reference pages say what the code says: keys of the configuration, errors, events.
//!
//! The table of errors is made from the catalogue; `FORGERUN_WRITE_TABLES=1 cargo test --test tidy`
//! writes it into its page. The others have words of their own, one row per line.

use std::collections::{BTreeMap, BTreeSet};

use forgerun_core::catalog::{ErrorLevel, Kind};
use forgerun_core::job::Dialect;
use forgerun_wire::event::Word;
use forgerun_wire::status;

use crate::repo::{self, File};

const MANUAL: &str = "crates/forgerun-server/forgerun.default.toml";
const CONFIGURATION: &str = "docs/reference/configuration.md";
const ERRORS: &str = "docs/reference/errors.md";
const EVENTS: &str = "docs/reference/events.md";

/// Where the table of errors begins and ends.
const TABLE: (&str, &str) = ("<!-- table: errors -->\n", "<!-- /table -->");

/// Set to write tables instead of checking them.
const WRITE: &str = "FORGERUN_WRITE_TABLES";

/// Every key of the manual with its default.
fn keys(manual: &str) -> BTreeMap<String, String> {
    let mut section = "";
    let mut keys = BTreeMap::new();
    for line in manual.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        } else if let Some((key, default)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            keys.insert(format!("{section}.{key}"), default.to_owned());
        }
    }
    keys
}

/// The keys of the page with their defaults: rows whose first two cells are code.
fn rows(page: &str) -> BTreeMap<String, String> {
    let row = |line: &str| {
        let (key, rest) = line.strip_prefix("| `")?.split_once("` | `")?;
        let (default, _) = rest.split_once("` |")?;
        Some((key.to_owned(), default.to_owned()))
    };
    page.lines().filter_map(row).collect()
}

fn wrong_keys(manual: &str, page: &str) -> Vec<String> {
    let (keys, rows) = (keys(manual), rows(page));
    let missing = keys.iter().filter(|(key, default)| rows.get(*key) != Some(default));
    let missing =
        missing.map(|(key, default)| format!("{CONFIGURATION} needs the row | `{key}` | `{default}` | … |"));
    let gone = rows.keys().filter(|key| !keys.contains_key(*key));
    missing.chain(gone.map(|key| format!("{CONFIGURATION} has {key}, which does not exist"))).collect()
}

/// Names on pages that look like keys and are none: of a broker, of a job, of SDKs.
const NO_KEYS: [&str; 4] = ["ojs.exchange.", "retry.max_attempts", "webhooks.verify", "webhooks.Verify"];

/// Keys between backticks that do not exist: `section.name` of a section of the manual.
fn unknown_keys(page: &File, keys: &BTreeMap<String, String>) -> Vec<String> {
    let section = |name: &str| name.split('.').next().unwrap_or("").to_owned();
    let sections: BTreeSet<String> = keys.keys().map(|key| section(key)).collect();
    let prose = page.text.split("\n```").step_by(2);
    let code = prose.flat_map(|text| text.split('`').skip(1).step_by(2));
    let names = code.map(|text| text.split(" = ").next().unwrap_or(""));
    let is_key = |name: &&str| {
        let parts: Vec<&str> = name.split('.').collect();
        let is_plain = parts
            .iter()
            .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphabetic() || c == '_'));
        parts.len() > 1 && is_plain && sections.contains(&section(name))
    };
    let unknown = names
        .filter(is_key)
        .filter(|name| !keys.contains_key(*name) && !NO_KEYS.iter().any(|prefix| name.starts_with(prefix)));
    unknown.map(|name| format!("{}: there is no key {name}", page.path)).collect()
}

/// The table of errors, one row per kind.
fn errors() -> String {
    let mut table =
        String::from("| type | status | retry | meaning, code, code of Open Job Spec |\n|---|---|---|---|\n");
    for kind in Kind::ALL {
        let entry = kind.entry();
        let status = match entry.level {
            ErrorLevel::Request => status::http(*kind, Dialect::Forge).to_string(),
            ErrorLevel::Job => "job".to_owned(),
        };
        let retry = if entry.retryable { "yes" } else { "no" };
        let ojs = status::code(*kind, Dialect::Ojs);
        let codes = if ojs == entry.rfa { format!("`{ojs}`") } else { format!("`{}`, `{ojs}`", entry.rfa) };
        let meaning = entry.meaning.replace('|', "\\|");
        let row = format!("| `{}` | {status} | {retry} | {meaning}<br>{codes} |\n", entry.slug);
        if !table.contains(&row) {
            table += &row;
        }
    }
    table
}

/// The page with this table between its marks.
fn with_table(page: &str, table: &str) -> String {
    let (start, end) = TABLE;
    let (before, rest) = page.split_once(start).expect("the page has the mark of the table");
    let (_, after) = rest.split_once(end).expect("the table ends");
    format!("{before}{start}{table}{end}{after}")
}

fn missing_events(page: &str) -> Vec<String> {
    let row = |word: &Word| format!("| `{}` | `{}` |", word.sse(), word.cloud_event());
    let missing = Word::ALL.iter().map(row).filter(|row| !page.contains(row.as_str()));
    missing.map(|row| format!("{EVENTS} needs a row with {row}")).collect()
}

mod can_fail {
    use super::*;

    #[test]
    fn a_key_that_is_missing_changed_or_gone_is_named() {
        let manual = "# a = 1\n[server]\nlisten = \"x\"\n\n[a.\"b/c\"]\nd = 1\ne = 2\n";
        let page = "| `server.listen` | `\"x\"` | Where. |\n| `a.\"b/c\".d` | `2` | Is. |\n| `gone.key` | `1` | Was. |\n";
        let found = wrong_keys(manual, page);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("| `a.\"b/c\".d` | `1` | … |"), "{found:?}");
        assert!(found[2].contains("gone.key"), "{found:?}");
    }

    #[test]
    fn a_key_that_does_not_exist_is_named() {
        let keys = keys("[server]\nlisten = 1\n");
        let text = "`server.listen` `server.lisen = 2` `server.*` `other.key` `ojs.exchange.a`\n\n```\n`server.x`\n```\n";
        assert_eq!(
            unknown_keys(&File::new("docs/a.md", text), &keys),
            ["docs/a.md: there is no key server.lisen"]
        );
    }

    #[test]
    fn an_event_without_a_row_is_named() {
        assert_eq!(missing_events("").len(), Word::ALL.len());
    }

    #[test]
    fn a_table_is_replaced_between_its_marks() {
        let page = with_table("a\n<!-- table: errors -->\nold\n<!-- /table -->\nb\n", "| new |\n");
        assert_eq!(page, "a\n<!-- table: errors -->\n| new |\n<!-- /table -->\nb\n");
    }
}

#[test]
fn the_page_of_the_configuration_has_every_key_with_its_default() {
    crate::assert_tidy(&wrong_keys(&repo::read(MANUAL), &repo::read(CONFIGURATION)));
}

#[test]
fn keys_that_pages_name_exist() {
    let keys = keys(&repo::read(MANUAL));
    let pages = repo::files("docs", "md");
    let pages = pages.iter().filter(|page| !page.path.starts_with("docs/internals/"));
    crate::assert_tidy(&pages.flat_map(|page| unknown_keys(page, &keys)).collect::<Vec<_>>());
}

#[test]
fn the_page_of_errors_has_every_error_of_the_catalogue() {
    let page = repo::read(ERRORS);
    let expected = with_table(&page, &errors());
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(repo::root().join(ERRORS), &expected).expect("the page can be written");
        return;
    }
    assert!(
        page == expected,
        "{ERRORS} is not what the catalogue says: run {WRITE}=1 cargo test --test tidy"
    );
}

#[test]
fn the_page_of_events_has_every_event() {
    crate::assert_tidy(&missing_events(&repo::read(EVENTS)));
}
