//! Failures, grouped by their reason.
//!
//! When an execution fails, its job gets the id of a group: a digest of problem type, code, subject
//! and normalised message ([`message`]). A FAILED job keeps it and can be found by it.
//!
//! Counting groups never blocks. A batch with failures writes one new record ([`FailureBatch`])
//! under a key of its own, so that no two nodes write the same one. A moment later the timers add
//! such records to their groups ([`FailureGroup`]) and delete them, in one transaction. Readers add
//! up both. A batch without failures writes nothing.
//!
//! ```text
//!   executions end badly ──► FailureBatch (new record) ──┐ due after a second
//!                                                        ▼
//!                                 Fold: add to FailureGroup, note in FailureIndex, remove the batch
//! ```
//!
//! The index bounds the number of groups: the one not seen for the longest time is deleted.

mod group;
mod message;
mod records;

pub use group::{FailureGroup, HOURS, Hour};
pub use message::normalised;
pub use records::{FailureBatch, FailureIndex};

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use crate::job::{Job, Lane, Name, Shelf};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FailureId(pub u64);

impl FailureId {
    /// Shelves of the group's jobs: dead letters, and others.
    pub fn shelves(self) -> [Shelf; 2] {
        [Lane::Dead, Lane::Failed].map(|lane| Shelf { lane, name: self.shelf_name() })
    }

    pub fn shelf_name(self) -> Name {
        Name::joined(&self.to_string())
    }

    pub(crate) fn of(job: &Job) -> Option<FailureId> {
        let error = job.last_error()?;
        let parts = [error.kind.entry().slug, &error.code, subject(job), &normalised(&error.message)];
        // FNV-1a, with a separator that occurs in no part, then spread.
        let mut digest = 0xcbf2_9ce4_8422_2325_u64;
        for byte in parts.iter().flat_map(|part| part.bytes().chain([0xff])) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        digest ^= digest >> 32;
        digest = digest.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Some(FailureId(digest ^ (digest >> 29)))
    }
}

/// The operation, the simulated work kind, or the job type.
pub(crate) fn subject(job: &Job) -> &str {
    let head = &job.head;
    let simulated = || head.definition.map(|definition| definition.work_kind.as_str());
    head.operation.as_deref().or_else(simulated).unwrap_or(&head.job_type)
}

impl fmt::Display for FailureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for FailureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not a group id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAGroup;

impl FromStr for FailureId {
    type Err = NotAGroup;

    fn from_str(text: &str) -> Result<FailureId, NotAGroup> {
        let well_formed = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if !well_formed {
            return Err(NotAGroup);
        }
        u64::from_str_radix(text, 16).map(FailureId).map_err(|_| NotAGroup)
    }
}

/// Record key of a group.
pub(crate) fn key(id: FailureId) -> String {
    id.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_and_nothing_else_is_one() {
        for id in [FailureId(0), FailureId(u64::MAX), FailureId(0x1234)] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in ["", "12", "zzzzzzzzzzzzzzzz", "+123456789abcdef", "00000000000000000"] {
            assert_eq!(text.parse::<FailureId>(), Err(NotAGroup), "{text}");
        }
    }
}
