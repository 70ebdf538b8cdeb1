//! Outcomes of the items of a batch, as listed in `results`.

use serde_json::{Map, Value};

use crate::extension::{self, ExtensionError};
use crate::member::{ITEM_NAMES, Member, Node};

/// How an item ended. There is no `COMPLETED_WITH_ERRORS` here: one item can not be a partial
/// batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ItemStatus {
    /// Ended well.
    Completed,
    /// Ended with an error.
    Failed,
    /// Stopped before its end.
    Cancelled,
    /// Took longer than it was allowed to.
    TimedOut,
}

impl ItemStatus {
    /// All of them.
    pub const ALL: [ItemStatus; 4] = [Self::Completed, Self::Failed, Self::Cancelled, Self::TimedOut];

    /// The status with this exact spelling.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// The spelling on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
            Self::TimedOut => "TIMED_OUT",
        }
    }
}

/// A member of an item lies within the item, within `results`, within the problem.
const MEMBER_DEPTH: usize = 3;

/// The outcome of one item.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemOutcome {
    item_id: String,
    status: ItemStatus,
    detail: Option<String>,
    retryable: Option<bool>,
    processing_stage: Option<String>,
    extensions: Map<String, Value>,
}

impl ItemOutcome {
    /// An item known by the id the batch request gave it.
    #[must_use]
    pub fn new(item_id: impl Into<String>, status: ItemStatus) -> Self {
        Self {
            item_id: item_id.into(),
            status,
            detail: None,
            retryable: None,
            processing_stage: None,
            extensions: Map::new(),
        }
    }

    /// An item of a request without ids: its zero-based place is its id.
    #[must_use]
    pub fn at_index(index: usize, status: ItemStatus) -> Self {
        Self::new(index.to_string(), status)
    }

    /// Says what happened, for humans.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Says whether this item may be tried again.
    #[must_use]
    pub fn with_retryable(mut self, retryable: bool) -> Self {
        self.retryable = Some(retryable);
        self
    }

    /// Names the stage at which the item ended.
    #[must_use]
    pub fn with_processing_stage(mut self, stage: impl Into<String>) -> Self {
        self.processing_stage = Some(stage.into());
        self
    }

    /// Adds a member of the server's own.
    ///
    /// # Errors
    /// When the name is one of the defined members, or the value is too deep or too large a number.
    pub fn with_extension(mut self, name: &str, value: impl Into<Value>) -> Result<Self, ExtensionError> {
        if ITEM_NAMES.contains(&name) {
            return Err(ExtensionError::Shadows(name.to_owned()));
        }
        self.extensions.insert(name.to_owned(), extension::checked(name, value.into(), MEMBER_DEPTH)?);
        Ok(self)
    }

    /// For readers, whose values are checked while they are read.
    pub(crate) fn with_read_extension(mut self, name: String, value: Value) -> Self {
        self.extensions.insert(name, value);
        self
    }

    /// The item within its batch.
    #[must_use]
    pub fn item_id(&self) -> &str {
        &self.item_id
    }

    /// How it ended.
    #[must_use]
    pub fn status(&self) -> ItemStatus {
        self.status
    }

    /// What happened, for humans.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Whether it may be tried again; `None` if the server did not say.
    #[must_use]
    pub fn retryable(&self) -> Option<bool> {
        self.retryable
    }

    /// The stage at which it ended.
    #[must_use]
    pub fn processing_stage(&self) -> Option<&str> {
        self.processing_stage.as_deref()
    }

    /// Members the drafts do not define, in order.
    #[must_use]
    pub fn extensions(&self) -> &Map<String, Value> {
        &self.extensions
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = Member<'_>> {
        let [item_id, status, detail, retryable, stage] = ITEM_NAMES;
        let defined = [
            Some((item_id, Node::Text(&self.item_id))),
            Some((status, Node::Text(self.status.as_str()))),
            self.detail.as_deref().map(|text| (detail, Node::Text(text))),
            self.retryable.map(|flag| (retryable, Node::Flag(flag))),
            self.processing_stage.as_deref().map(|text| (stage, Node::Text(text))),
        ];
        let extensions = self.extensions.iter().map(|(name, value)| (name.as_str(), Node::Value(value)));
        defined.into_iter().flatten().chain(extensions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_can_not_be_completed_with_errors() {
        assert_eq!(ItemStatus::parse("COMPLETED_WITH_ERRORS"), None);
        assert_eq!(ItemStatus::parse("PROCESSING"), None);
        assert_eq!(ItemStatus::parse("TIMED_OUT"), Some(ItemStatus::TimedOut));
    }

    #[test]
    fn items_without_ids_are_known_by_their_place() {
        assert_eq!(ItemOutcome::at_index(0, ItemStatus::Failed).item_id(), "0");
    }

    #[test]
    fn an_item_extension_can_not_shadow_a_defined_member() {
        let item = ItemOutcome::new("rec-007", ItemStatus::Failed);
        let refused = item.clone().with_extension("status", "COMPLETED_WITH_ERRORS");
        assert_eq!(refused, Err(ExtensionError::Shadows("status".into())));
        assert!(item.with_extension("size", 11).is_ok());
    }
}
