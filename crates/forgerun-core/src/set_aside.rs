//! Rows that are *set aside*: they cannot be read, or the rules break on them. Neither a claim nor a timer meets such a row
//! again, so that it does not stop everything behind it; an operator finds it in a list.

use alloc::string::String;

use crate::id::{DeliveryId, JobId};
use crate::time::Time;

/// A row that can be set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowId {
    /// A job.
    Job(JobId),
    /// A delivery.
    Delivery(DeliveryId),
}

/// A row that was found, but cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Which row.
    pub row: RowId,
    /// What is wrong with it, in English.
    pub reason: String,
    /// The delivery behind it in its chain, loaded too, which would wait for it for ever.
    pub next: Option<DeliveryId>,
}

/// A row that is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Which row.
    pub row: RowId,
    /// Since when.
    pub at: Time,
    /// What is wrong with it, in English.
    pub reason: String,
}

impl RowId {
    /// The number by which a store knows what kind of row it is.
    pub const fn kind(self) -> u8 {
        match self {
            RowId::Job(_) => 1,
            RowId::Delivery(_) => 2,
        }
    }

    /// The id without its kind.
    pub const fn as_u128(self) -> u128 {
        match self {
            RowId::Job(id) => id.as_u128(),
            RowId::Delivery(id) => id.as_u128(),
        }
    }

    /// What [`Self::kind`] and [`Self::as_u128`] took apart.
    pub const fn from_parts(kind: u8, id: u128) -> Option<RowId> {
        match kind {
            1 => Some(RowId::Job(JobId::from_u128(id))),
            2 => Some(RowId::Delivery(DeliveryId::from_u128(id))),
            _ => None,
        }
    }
}
