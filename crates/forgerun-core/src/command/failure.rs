//! Commands about failure groups.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::failure::FailureId;

#[derive(Clone, Debug)]
pub enum FailureCommand {
    /// Adds the failures that batches counted to their groups.
    Fold(FailuresDue),
    /// Forgets those of these groups that expired or exceed the bound.
    Forget(Vec<FailureId>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailuresDue {
    /// Keys of the batch records that are not added to their groups yet.
    pub batches: Vec<String>,
    /// The groups that these batches belong to.
    pub groups: BTreeSet<FailureId>,
    /// Groups that expired.
    pub over: Vec<FailureId>,
}
