//! Rows that are *set aside*: unreadable ones, and ones that the rules fail on. Claims and timers
//! skip them, so that they do not block the rows behind them; an operator can list them.

use alloc::string::String;

use crate::id::{DeliveryId, JobId};
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowId {
    Job(JobId),
    Delivery(DeliveryId),
}

/// A row that was found, but cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub row: RowId,
    /// Reason, in English.
    pub reason: String,
    /// The delivery behind it in its chain, which would wait for ever.
    pub next: Option<DeliveryId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    pub row: RowId,
    pub at: Time,
    /// Reason, in English.
    pub reason: String,
}

impl RowId {
    /// Number of the row's kind in stores.
    pub const fn kind(self) -> u8 {
        match self {
            RowId::Job(_) => 1,
            RowId::Delivery(_) => 2,
        }
    }

    pub const fn as_u128(self) -> u128 {
        match self {
            RowId::Job(id) => id.as_u128(),
            RowId::Delivery(id) => id.as_u128(),
        }
    }

    /// The inverse of [`Self::kind`] and [`Self::as_u128`].
    pub const fn from_parts(kind: u8, id: u128) -> Option<RowId> {
        match kind {
            1 => Some(RowId::Job(JobId::from_u128(id))),
            2 => Some(RowId::Delivery(DeliveryId::from_u128(id))),
            _ => None,
        }
    }
}
