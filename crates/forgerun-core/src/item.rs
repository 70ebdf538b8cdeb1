//! Batches: one job made of items. What each item is was fixed at submission ([`Item`]); how each ended ([`ItemEnd`]) is
//! kept per execution, apart from the job, so that an execution that has ended keeps its list whatever follows it.

use alloc::string::String;
use alloc::vec::Vec;

use crate::catalog::Kind;
use crate::codec::{Corrupt, Fields, Writer};
use crate::work::WorkKind;

/// What a job knows of its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items {
    /// How many there are; at least one, at most [`limits::ITEMS_MAX`].
    ///
    /// [`limits::ITEMS_MAX`]: crate::limits::ITEMS_MAX
    pub n: u32,
    /// Whether the built-in worker simulates them.
    pub simulated: bool,
}

/// One item of a batch, as submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What the client calls it, or its place counted from zero. Unique within its batch.
    pub id: String,
    /// What kind of job it is; `None` if that of its batch.
    pub job_type: Option<String>,
    /// What the built-in worker simulates; `None` for real work.
    pub work_kind: Option<WorkKind>,
    /// Whatever else was said of it, as received.
    pub payload: Vec<u8>,
}

/// How one item ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemEnd {
    /// Which item.
    pub id: String,
    /// What went wrong; `None` if it went well.
    pub error: Option<ItemError>,
}

/// Why one item did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemError {
    /// The kind of failure, from the catalog.
    pub kind: Kind,
    /// In English.
    pub message: String,
    /// Whether another try of this item is worth it.
    pub retryable: bool,
}

impl ItemError {
    const NOT_BEGUN: &str = "Not begun, because a step before it did not succeed.";

    /// Of a step of a workflow that never had its turn.
    pub fn not_begun() -> ItemError {
        ItemError { kind: Kind::Cancelled, message: String::from(ItemError::NOT_BEGUN), retryable: false }
    }

    /// Whether it is that. The words tell: nothing else of it is stored.
    pub fn is_not_begun(&self) -> bool {
        self.kind == Kind::Cancelled && self.message == ItemError::NOT_BEGUN
    }
}

/// How many items of a batch ended how, as of the newest attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ended well.
    pub completed: u32,
    /// Did not.
    pub failed: u32,
}

impl Tally {
    /// Counts a list.
    pub fn of(ends: &[ItemEnd]) -> Tally {
        let failed = ends.iter().filter(|end| end.error.is_some()).count() as u32;
        Tally { completed: ends.len() as u32 - failed, failed }
    }
}

/// The bytes of a list of items.
pub(crate) fn encode_items(items: &[Item], out: &mut Vec<u8>) {
    let mut out = Writer(out);
    for item in items {
        out.group(1, |out| {
            out.text(1, Some(&item.id));
            out.text(2, item.work_kind.map(WorkKind::as_str));
            if !item.payload.is_empty() {
                out.bytes(3, &item.payload);
            }
            out.text(4, item.job_type.as_deref());
        });
    }
}

pub(crate) fn decode_items(bytes: &[u8]) -> Result<Vec<Item>, Corrupt> {
    let item = |bytes| {
        let mut item = Item { id: String::new(), job_type: None, work_kind: None, payload: Vec::new() };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => item.id = field.text()?,
                2 => item.work_kind = Some(WorkKind::parse(field.str()?).ok_or(Corrupt)?),
                3 => item.payload = field.bytes.to_vec(),
                4 => item.job_type = Some(field.text()?),
                _ => {}
            }
        }
        Ok(item)
    };
    Fields(bytes).map(|field| item(field?.bytes)).collect()
}

/// The bytes of a list of ends.
pub fn encode_ends(ends: &[ItemEnd]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ends.len() * 24);
    let mut out = Writer(&mut bytes);
    for end in ends {
        out.group(1, |out| {
            out.text(1, Some(&end.id));
            if let Some(error) = &end.error {
                out.text(2, Some(error.kind.name()));
                out.text(3, Some(&error.message));
                out.flag(4, error.retryable);
            }
        });
    }
    bytes
}

/// Reads what [`encode_ends`] wrote.
pub fn decode_ends(bytes: &[u8]) -> Result<Vec<ItemEnd>, Corrupt> {
    let end = |bytes| {
        let mut id = String::new();
        let (mut kind, mut message, mut retryable) = (None, String::new(), false);
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => id = field.text()?,
                2 => kind = Some(Kind::from_name(field.str()?).ok_or(Corrupt)?),
                3 => message = field.text()?,
                4 => retryable = field.flag()?,
                _ => {}
            }
        }
        Ok(ItemEnd { id, error: kind.map(|kind| ItemError { kind, message, retryable }) })
    };
    Fields(bytes).map(|field| end(field?.bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    #[test]
    fn items_and_their_ends_come_back_as_they_were_written() {
        let items = vec![
            Item {
                id: "a".into(),
                job_type: Some("mail.send".into()),
                work_kind: Some(WorkKind::SuccessFast),
                payload: Vec::new(),
            },
            Item { id: "1".into(), job_type: None, work_kind: None, payload: vec![7; 300] },
        ];
        let mut bytes = Vec::new();
        encode_items(&items, &mut bytes);
        assert_eq!(decode_items(&bytes), Ok(items));
        let error = ItemError { kind: Kind::HandlerTransient, message: "not now".into(), retryable: true };
        let ends =
            vec![ItemEnd { id: "a".into(), error: None }, ItemEnd { id: "1".into(), error: Some(error) }];
        assert_eq!(decode_ends(&encode_ends(&ends)), Ok(ends.clone()));
        assert_eq!(Tally::of(&ends), Tally { completed: 1, failed: 1 });
    }

    proptest! {
        #[test]
        fn garbage_is_corrupt_and_never_a_panic(bytes: Vec<u8>) {
            let _ = (decode_items(&bytes), decode_ends(&bytes));
        }
    }
}
