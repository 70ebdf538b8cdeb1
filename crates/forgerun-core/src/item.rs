//! Batches: one job made of items. [`Item`] is fixed at submission. How each ended ([`ItemEnd`]) is
//! stored per execution, apart from the job, so that an ended execution keeps its list.

use alloc::string::String;
use alloc::vec::Vec;

use crate::catalog::Kind;
use crate::codec::{Corrupt, Fields, Writer};
use crate::work::WorkKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items {
    /// From 1 to [`limits::ITEMS_MAX`].
    ///
    /// [`limits::ITEMS_MAX`]: crate::limits::ITEMS_MAX
    pub n: u32,
    /// Whether the built-in worker simulates them.
    pub simulated: bool,
}

/// One item of a batch, as submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The client's id, or the position counted from zero. Unique within the batch.
    pub id: String,
    /// Job type; `None` for that of the batch.
    pub job_type: Option<String>,
    /// Simulated work; `None` for real work.
    pub work_kind: Option<WorkKind>,
    /// Other members, as received.
    pub payload: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemEnd {
    pub id: String,
    /// `None` if the item succeeded.
    pub error: Option<ItemError>,
}

/// Why an item failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemError {
    pub kind: Kind,
    /// In English.
    pub message: String,
    /// Whether a retry of the item is worthwhile.
    pub retryable: bool,
}

impl ItemError {
    const NOT_BEGUN: &str = "Not begun, because a step before it did not succeed.";

    /// The error of a workflow step that never ran.
    pub fn not_begun() -> ItemError {
        ItemError { kind: Kind::Cancelled, message: String::from(ItemError::NOT_BEGUN), retryable: false }
    }

    /// Recognised by the message: nothing else of it is stored.
    pub fn is_not_begun(&self) -> bool {
        self.kind == Kind::Cancelled && self.message == ItemError::NOT_BEGUN
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub completed: u32,
    pub failed: u32,
}

impl Tally {
    pub fn of(ends: &[ItemEnd]) -> Tally {
        let failed = ends.iter().filter(|end| end.error.is_some()).count() as u32;
        Tally { completed: ends.len() as u32 - failed, failed }
    }
}

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

/// Decodes the bytes of [`encode_ends`].
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
