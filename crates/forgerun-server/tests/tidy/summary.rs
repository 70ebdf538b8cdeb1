//! The list of pages, `docs/SUMMARY.md`: every page is in it once, and every anchor of a link
//! exists.

use std::collections::{BTreeMap, BTreeSet};

use crate::repo::{self, File};

const SUMMARY: &str = "docs/SUMMARY.md";

/// Text outside of code blocks.
fn prose(text: &str) -> String {
    text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// The targets of all links in a text.
fn targets(text: &str) -> Vec<String> {
    let prose = prose(text);
    let rests = prose.split("](").skip(1);
    rests.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

fn complaints(summary: &str, pages: &[File]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for target in targets(summary) {
        *counts.entry(format!("docs/{target}")).or_default() += 1;
    }
    let listed_once = |page: &&File| page.path != SUMMARY && counts.get(&page.path) != Some(&1);
    let n = |page: &File| counts.get(&page.path).copied().unwrap_or(0);
    pages
        .iter()
        .filter(listed_once)
        .map(|page| format!("{} is {} times in {SUMMARY}, expected once", page.path, n(page)))
        .collect()
}

/// The anchor that a heading gets: letters, digits, hyphens and underscores of its text.
fn slug(heading: &str) -> String {
    let lower = heading.trim().to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let prose = prose(text);
    let headings = prose.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    headings.map(slug).collect()
}

/// `docs/a/../b.md` as `docs/b.md`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn dead_anchors(pages: &[File]) -> Vec<String> {
    let known: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let mut dead = Vec::new();
    for page in pages {
        let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for target in targets(&page.text).iter().filter(|target| !target.contains("://")) {
            let Some((file, anchor)) = target.split_once('#') else { continue };
            let path = match file {
                "" => page.path.clone(),
                file => normal(&format!("{folder}/{file}")),
            };
            if known.get(path.as_str()).is_some_and(|anchors| !anchors.contains(anchor)) {
                dead.push(format!("{} links to {target}, but there is no such heading", page.path));
            }
        }
    }
    dead
}

mod can_fail {
    use super::*;

    #[test]
    fn a_page_that_is_missing_or_listed_twice_is_named() {
        let pages = ["docs/a.md", "docs/b/c.md", "docs/d.md", SUMMARY].map(|path| File::new(path, ""));
        assert_eq!(
            complaints("# Start\n\n- [A](a.md)\n- [D](d.md)\n- [D](d.md)\n", &pages),
            [
                "docs/b/c.md is 0 times in docs/SUMMARY.md, expected once",
                "docs/d.md is 2 times in docs/SUMMARY.md, expected once"
            ]
        );
    }

    #[test]
    fn an_anchor_without_a_heading_is_named() {
        let pages = [
            File::new("docs/a.md", "# A page\n\n## `x` and y-z\n\n[b](b/c.md#two) [b](b/c.md#three)"),
            File::new("docs/b/c.md", "## Two\n\n[a](../a.md#x-and-y-z) [a](../a.md#z)\n[s](#two)"),
        ];
        assert_eq!(
            dead_anchors(&pages),
            [
                "docs/a.md links to b/c.md#three, but there is no such heading",
                "docs/b/c.md links to ../a.md#z, but there is no such heading"
            ]
        );
    }
}

#[test]
fn every_page_is_in_the_list_once() {
    crate::assert_tidy(&complaints(&repo::read(SUMMARY), &repo::files("docs", "md")));
}

#[test]
fn every_anchor_of_a_link_exists() {
    let mut pages = repo::files("docs", "md");
    pages.extend(["README.md", "CHANGELOG.md"].map(|path| File::new(path, &repo::read(path))));
    crate::assert_tidy(&dead_anchors(&pages));
}
