//! The items of a batch as others see them: in `results` of an outcome, and in the paged list behind it.

use forge_core::catalog::Kind;
use forge_core::item::ItemEnd;
use forge_problem::{ItemOutcome, ItemStatus};
use serde::{Deserialize, Serialize};

/// Items listed in one outcome object. A larger batch lists its failed items only, and no more than this; the rest is behind
/// `itemsUrl`.
pub const LISTED_MAX: usize = 100;

/// What an outcome lists of its items.
pub(crate) struct Listing<'a> {
    /// These.
    pub(crate) shown: Vec<&'a ItemEnd>,
    /// What is said about those that are not shown.
    pub(crate) remark: &'static str,
}

impl<'a> Listing<'a> {
    pub(crate) fn of(ends: &'a [ItemEnd]) -> Listing<'a> {
        if ends.len() <= LISTED_MAX {
            return Listing { shown: ends.iter().collect(), remark: "" };
        }
        let failed = || ends.iter().filter(|end| end.error.is_some());
        let remark = match failed().count() {
            0 => "",
            1..=LISTED_MAX => " Only failed items are listed; see itemsUrl for all.",
            _ => " Only the first failed items are listed; see itemsUrl for all.",
        };
        Listing { shown: failed().take(LISTED_MAX).collect(), remark }
    }
}

/// How an item ended, in the words of the async-job members.
pub const fn status(end: &ItemEnd) -> ItemStatus {
    match &end.error {
        None => ItemStatus::Completed,
        Some(error) => match error.kind {
            Kind::HandlerTimeout => ItemStatus::TimedOut,
            Kind::Cancelled => ItemStatus::Cancelled,
            _ => ItemStatus::Failed,
        },
    }
}

/// The member of `results` for an item.
pub fn outcome(end: &ItemEnd) -> ItemOutcome {
    let outcome = ItemOutcome::new(&*end.id, status(end));
    match &end.error {
        None => outcome,
        Some(error) => outcome
            .with_detail(&*error.message)
            .with_retryable(error.retryable)
            .with_processing_stage(error.kind.entry().stage.map_or("processing", |stage| stage.as_str())),
    }
}

/// A page of the items of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ItemsView {
    /// The execution they belong to.
    #[serde(rename = "jobId")]
    pub execution_id: String,
    /// How many items the batch has.
    pub total: u32,
    /// How many ended well.
    pub completed: u32,
    /// How many did not.
    pub failed: u32,
    /// The items of this page, in the order of the request.
    pub items: Vec<ItemView>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}

/// One item.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ItemView {
    /// What the request called it, or its place counted from zero.
    #[serde(rename = "itemId")]
    pub item_id: String,
    /// How it ended; ACCEPTED or PROCESSING, like its batch, before.
    pub status: String,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
    /// Whether another try of this item is worth it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retryable: Option<bool>,
    /// How far it had come.
    #[serde(rename = "processingStage", skip_serializing_if = "Option::is_none", default)]
    pub processing_stage: Option<String>,
}

impl ItemView {
    /// An item that has ended.
    pub fn ended(end: &ItemEnd) -> ItemView {
        let outcome = outcome(end);
        ItemView {
            item_id: end.id.clone(),
            status: outcome.status().as_str().into(),
            detail: outcome.detail().map(str::to_owned),
            retryable: outcome.retryable(),
            processing_stage: outcome.processing_stage().map(str::to_owned),
        }
    }

    /// An item whose batch is under way.
    pub fn open(id: &str, batch: &forge_problem::JobStatus) -> ItemView {
        ItemView {
            item_id: id.into(),
            status: batch.as_str().into(),
            detail: None,
            retryable: None,
            processing_stage: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use forge_core::item::ItemError;

    use super::*;

    fn ends(n_completed: usize, n_failed: usize) -> Vec<ItemEnd> {
        let error = ItemError { kind: Kind::HandlerError, message: "no".into(), retryable: false };
        let end = |n: usize| ItemEnd { id: n.to_string(), error: (n >= n_completed).then(|| error.clone()) };
        (0..n_completed + n_failed).map(end).collect()
    }

    #[test]
    fn a_small_batch_lists_all_and_a_large_one_its_failures_up_to_a_bound() {
        for (n_completed, n_failed, n_shown, remark) in [
            (2, 1, 3, ""),
            (99, 1, 100, ""),
            (100, 1, 1, "Only failed items"),
            (1, 100, 100, "Only failed items"),
            (0, 101, 100, "Only the first failed items"),
            (500, 0, 0, ""),
        ] {
            let ends = ends(n_completed, n_failed);
            let listing = Listing::of(&ends);
            assert_eq!(listing.shown.len(), n_shown, "{n_completed} + {n_failed}");
            assert!(listing.remark.trim_start().starts_with(remark), "{n_completed} + {n_failed}");
            assert_eq!(listing.remark.is_empty(), remark.is_empty());
        }
    }
}
