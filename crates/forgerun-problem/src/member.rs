//! The one list of what a problem object holds, from which all writers work.
//!
//! JSON, canonical JSON, XML and the header field walk the same members, so they can not drift
//! apart.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use crate::item::ItemOutcome;
use crate::timestamp::{TEXT_BYTES, Timestamp};

/// The members RFC 9457 defines.
pub const STANDARD_NAMES: [&str; 5] = ["type", "title", "status", "detail", "instance"];

/// The members the async-job draft adds.
pub const JOB_NAMES: [&str; 9] = [
    "jobId",
    "jobStatus",
    "submittedAt",
    "completedAt",
    "retryable",
    "retryAfter",
    "processingStage",
    "correlationId",
    "results",
];

/// The members the async-job draft defines for an entry of `results`.
pub const ITEM_NAMES: [&str; 5] = ["itemId", "status", "detail", "retryable", "processingStage"];

/// The stage names the async-job draft recommends.
pub const RECOMMENDED_STAGES: [&str; 8] = [
    "validation",
    "authorization",
    "queuing",
    "processing",
    "rendering",
    "conversion",
    "storage",
    "delivery",
];

/// A borrowed value of a member.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Node<'a> {
    Text(&'a str),
    Whole(u64),
    Flag(bool),
    Time(Timestamp),
    Items(&'a [ItemOutcome]),
    Value(&'a Value),
}

/// A member: its name and its value.
pub(crate) type Member<'a> = (&'a str, Node<'a>);

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Node::Text(text) => serializer.serialize_str(text),
            Node::Whole(number) => serializer.serialize_u64(*number),
            Node::Flag(flag) => serializer.serialize_bool(*flag),
            Node::Time(time) => serializer.serialize_str(time.text(&mut [0; TEXT_BYTES])),
            Node::Value(value) => value.serialize(serializer),
            Node::Items(items) => {
                let mut sequence = serializer.serialize_seq(Some(items.len()))?;
                for item in *items {
                    sequence.serialize_element(item)?;
                }
                sequence.end()
            }
        }
    }
}

impl Serialize for ItemOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_members(self.members(), serializer)
    }
}

pub(crate) fn serialize_members<'a, S: Serializer>(
    members: impl Iterator<Item = Member<'a>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (name, node) in members {
        map.serialize_entry(name, &node)?;
    }
    map.end()
}
