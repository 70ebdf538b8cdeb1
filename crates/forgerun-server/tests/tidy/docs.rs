//! Rules for our pages: the README names its commands, links lead to files that exist, and the
//! pages about jobs and failures name all that the drafts want documented.

use forgerun_core::catalog::ProcessingStage;
use forgerun_problem::JobStatus;
use forgerun_wire::item::LISTED_MAX;

use crate::repo::{self, File};

const COMMANDS: &[&str] =
    &["cargo run --release -- dev", "make test", "cargo install --path crates/forgerun-server"];

const PAGES: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

fn missing_commands(readme: &str) -> Vec<String> {
    let missing = COMMANDS.iter().filter(|command| !readme.contains(**command));
    missing.map(|command| format!("README.md does not name `{command}`")).collect()
}

/// The targets of `[text](target)` that are files of ours. In a block of code this is no link: `Result[int](ctx, job)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("\n```").step_by(2);
    let targets =
        prose.flat_map(|text| text.split("](").skip(1)).filter_map(|rest| Some(rest.split_once(')')?.0));
    let files = targets.map(|target| target.split('#').next().unwrap_or(""));
    files.filter(|file| !file.is_empty() && !file.contains("://"))
}

fn dead_links(page: &File, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let dead = links(&page.text).filter(|link| !exists(&format!("{folder}/{link}")));
    dead.map(|link| format!("{} links to {link}, which does not exist", page.path)).collect()
}

/// The pages that explain statuses, stages and batches.
const EXPLAINED_IN: [&str; 2] = ["docs/learn/jobs-and-attempts.md", "docs/learn/failures.md"];

/// Stages, statuses and limits of batches that the text of these pages does not name.
fn unexplained(text: &str) -> Vec<String> {
    let stages = ProcessingStage::ALL.iter().map(|stage| stage.as_str().to_owned());
    let statuses = JobStatus::REGISTERED.into_iter().map(|status| status.as_str().to_owned());
    let words = stages.chain(statuses).chain(["itemId".to_owned()]).map(|word| format!("`{word}`"));
    let listed = format!("no more than {LISTED_MAX} of them");
    let unnamed = words.chain([listed]).filter(|words| !text.contains(words.as_str()));
    unnamed.map(|words| format!("{EXPLAINED_IN:?} do not say: {words}")).collect()
}

/// The commands in the blocks of a page, one per line.
fn commands(page: &str) -> impl Iterator<Item = &str> {
    page.split("```sh\n").skip(1).flat_map(|rest| rest.split("```").next().unwrap_or("").lines())
}

/// Commands that cannot work as they stand, whoever pastes them.
fn broken_commands(page: &File) -> Vec<String> {
    let mut broken = Vec::new();
    let mut is_deleted = false;
    for command in commands(&page.text) {
        if command.contains(" -OJ ") && command.contains(" -C ") {
            broken.push(format!("{}: curl cannot combine -J with -C: {command}", page.path));
        }
        if is_deleted && command.contains("$HOOK") {
            broken.push(format!("{}: the webhook was deleted before: {command}", page.path));
        }
        is_deleted = (is_deleted || command.contains("-X DELETE $HOOK")) && !command.starts_with("HOOK=");
    }
    broken
}

mod can_fail {
    use super::*;

    #[test]
    fn a_readme_without_a_command_is_named() {
        assert_eq!(
            missing_commands("`cargo install --path crates/forgerun-server`, then `make test`"),
            ["README.md does not name `cargo run --release -- dev`"]
        );
        assert_eq!(missing_commands("").len(), COMMANDS.len());
    }

    #[test]
    fn a_stage_that_nobody_explains_is_named() {
        assert!(unexplained("").iter().any(|found| found.ends_with("do not say: `rendering`")));
    }

    #[test]
    fn a_command_that_cannot_work_is_named() {
        let text = "```sh\ncurl -OJ -C - x\n```\n$HOOK\n```sh\nask -X DELETE $HOOK\nask $HOOK\nHOOK=y\nask $HOOK\n```\n";
        let broken = broken_commands(&File::new("docs/a.md", text));
        assert_eq!(broken.len(), 2, "{broken:?}");
    }

    #[test]
    fn a_dead_link_is_named() {
        let text =
            "[a](a.md#top)\n```go\nResult[int](ctx)\n```\n[b](b.md) [c](#here) [d](https://example.org/d)";
        let page = File::new("docs/page.md", text);
        assert_eq!(
            dead_links(&page, |path| path == "docs/a.md"),
            ["docs/page.md links to b.md, which does not exist"]
        );
    }
}

#[test]
fn the_readme_names_its_commands() {
    crate::assert_tidy(&missing_commands(&repo::read("README.md")));
}

#[test]
fn no_page_shows_commands_that_cannot_work() {
    let mut pages = repo::files("docs", "md");
    pages.push(File::new("README.md", &repo::read("README.md")));
    let broken = pages.iter().flat_map(broken_commands);
    crate::assert_tidy(&broken.collect::<Vec<_>>());
}

#[test]
fn every_stage_status_and_limit_is_explained() {
    crate::assert_tidy(&unexplained(&EXPLAINED_IN.map(repo::read).concat()));
}

#[test]
fn links_in_our_pages_lead_somewhere() {
    let mut pages = repo::files("docs", "md");
    pages.extend(repo::files("crates", "md"));
    pages.extend(PAGES.iter().map(|path| File::new(path, &repo::read(path))));
    let exists = |path: &str| repo::root().join(path.trim_start_matches('/')).exists();
    crate::assert_tidy(&pages.iter().flat_map(|page| dead_links(page, exists)).collect::<Vec<String>>());
}
