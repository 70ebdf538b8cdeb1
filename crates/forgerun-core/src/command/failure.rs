//! What can be asked about failures.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::failure::FailureId;

/// Something about groups of failures.
#[derive(Clone, Debug)]
pub enum FailureCommand {
    /// Adds what batches counted to their groups.
    Fold(FailuresDue),
    /// Forgets those of these groups whose time is over, or for which there is no room.
    Forget(Vec<FailureId>),
}

/// What is due about failures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailuresDue {
    /// The keys of records of batches that are not added to their groups yet.
    pub batches: Vec<String>,
    /// The groups they are to be added to.
    pub groups: BTreeSet<FailureId>,
    /// Groups whose time is over.
    pub over: Vec<FailureId>,
}
