//! Whether stored records agree with themselves. A new kind of record does not compile without its
//! line here.

use crate::audit::{AuditChain, AuditCount, AuditEntry};
use crate::checkpoint::Checkpoint;
use crate::client::ClientName;
use crate::client_limits::ClientLimits;
use crate::codec::Corrupt;
use crate::failure::{FailureBatch, FailureGroup, FailureIndex};
use crate::memo::{MemoIndex, StepMemo};
use crate::node::Node;
use crate::pace::QueuePace;
use crate::queue::QueueSettings;
use crate::quota::QuotaCount;
use crate::record::{Record, RecordKind, Stored};
use crate::redrive::Redrive;
use crate::schedule::{Schedule, ScheduleCount};
use crate::schema::{SchemaIndex, SchemaText};
use crate::session::EndedSession;
use crate::sink::SinkCursor;
use crate::tally::NodeTally;
use crate::token_key::TokenKey;
use crate::worker::Worker;
use crate::workflow::{ElementPart, ElementTemplate, ForEach, Signal, Workflow, WorkflowPart};

impl Record {
    /// Whether key, group and due moment are those of its content. An error if the content cannot
    /// be decoded.
    pub fn agrees(&self) -> Result<bool, Corrupt> {
        match self.key.kind {
            RecordKind::Queue => agrees::<QueueSettings>(self),
            RecordKind::Worker => agrees::<Worker>(self),
            RecordKind::Sink => agrees::<SinkCursor>(self),
            RecordKind::QueuePace => agrees::<QueuePace>(self),
            RecordKind::FailureBatch => agrees::<FailureBatch>(self),
            RecordKind::FailureGroup => agrees::<FailureGroup>(self),
            RecordKind::FailureIndex => agrees::<FailureIndex>(self),
            RecordKind::Redrive => agrees::<Redrive>(self),
            RecordKind::Node => agrees::<Node>(self),
            RecordKind::Tally => agrees::<NodeTally>(self),
            RecordKind::QuotaCount => agrees::<QuotaCount>(self),
            RecordKind::EndedSession => agrees::<EndedSession>(self),
            RecordKind::ClientName => agrees::<ClientName>(self),
            RecordKind::Schedule => agrees::<Schedule>(self),
            RecordKind::Checkpoint => agrees::<Checkpoint>(self),
            RecordKind::SchemaIndex => agrees::<SchemaIndex>(self),
            RecordKind::SchemaText => agrees::<SchemaText>(self),
            RecordKind::ScheduleCount => agrees::<ScheduleCount>(self),
            RecordKind::StepMemo => agrees::<StepMemo>(self),
            RecordKind::MemoIndex => agrees::<MemoIndex>(self),
            RecordKind::Workflow => agrees::<Workflow>(self),
            RecordKind::WorkflowPart => agrees::<WorkflowPart>(self),
            RecordKind::ForEach => agrees::<ForEach>(self),
            RecordKind::ElementTemplate => agrees::<ElementTemplate>(self),
            RecordKind::ElementPart => agrees::<ElementPart>(self),
            RecordKind::Signal => agrees::<Signal>(self),
            RecordKind::AuditEntry => agrees::<AuditEntry>(self),
            RecordKind::AuditChain => agrees::<AuditChain>(self),
            RecordKind::AuditCount => agrees::<AuditCount>(self),
            RecordKind::TokenKey => agrees::<TokenKey>(self),
            RecordKind::ClientLimits => agrees::<ClientLimits>(self),
            // The store's own.
            RecordKind::Encryption => Ok(true),
        }
    }
}

fn agrees<T: Stored>(record: &Record) -> Result<bool, Corrupt> {
    let content = T::of(record)?;
    let is_same = content.key() == record.key.key && content.group() == record.group;
    Ok(is_same && content.due_at() == record.due_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ClientId;
    use crate::time::Time;

    #[test]
    fn a_record_that_was_moved_or_cut_is_noticed() {
        let name = ClientName { client: ClientId::from_u128(7), name: Some("Ada".into()) };
        let sound = name.to_record(1);
        assert_eq!(sound.agrees(), Ok(true));
        let moved = Record { group: "elsewhere".into(), ..sound.clone() };
        assert_eq!(moved.agrees(), Ok(false));
        let due = Record { due_at: Some(Time::ZERO), ..sound.clone() };
        assert_eq!(due.agrees(), Ok(false));
        let cut = Record { bytes: sound.bytes[..sound.bytes.len() - 1].to_vec(), ..sound };
        assert_eq!(cut.agrees(), Err(Corrupt));
    }
}
