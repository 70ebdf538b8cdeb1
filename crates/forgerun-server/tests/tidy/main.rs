//! Tidy: promises that no compiler checks.
//!
//! - `ledger`: `docs/internals/requirements.md` is complete and names tests that exist.
//! - `layers`: crates know only whom ARCHITECTURE.md lets them know.
//! - `dependencies`: each is used, and the versions of our own crates are those of the workspace.
//! - `sources`: SQL in one crate, short files, a header on each, nothing left undone.
//! - `names`: one type name means one thing, within reach.
//! - `deploy`: dashboard and alerts ask for metrics that exist, and the operator's page explains
//!   them.
//! - `image`: what builds or runs the container image elsewhere agrees with it.
//! - `scripts`: what a fresh machine runs is patient with other package managers.
//! - `release`: a release has one version.
//! - `words`: comments and messages in plain English, comments within 100 columns.
//! - `language`: pages for users in plain English, and not too many words.
//! - `tables`: tables of reference pages say what the code says.
//! - `summary`: every page is in the list of pages, and anchors exist.
//! - `docs`: the README names its two commands, the pages what the drafts want documented, and
//!   links lead somewhere.
//!
//! Each check is a function from text to complaints. Each module first shows on small bad
//! samples that its checks can fail, then runs them on the repository.

mod dependencies;
mod deploy;
mod docs;
mod image;
mod language;
mod layers;
mod ledger;
mod names;
mod release;
mod repo;
mod scripts;
mod sources;
mod summary;
mod tables;
mod words;

/// Fails with one complaint per line, so that a single run shows all that is wrong.
fn assert_tidy(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}
