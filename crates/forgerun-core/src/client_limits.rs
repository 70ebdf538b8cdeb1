//! Limits of one client, set by the operator, and what the client uses of them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::codec::{Corrupt, Fields, Writer};
use crate::id::ClientId;
use crate::job::Name;
use crate::record::{RecordKind, Stored};
use crate::rows::Counts;
use crate::state::{Facet, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientLimit {
    /// Requests per minute.
    RatePerMinute,
    /// Jobs that wait in its queues.
    MaxWaiting,
    /// Real jobs that workers hold.
    MaxActive,
    MaxWebhooks,
    MaxSchedules,
    /// Bytes of inputs, results and checkpoints.
    StorageBytes,
}

impl ClientLimit {
    pub const ALL: [ClientLimit; 6] = [
        ClientLimit::RatePerMinute,
        ClientLimit::MaxWaiting,
        ClientLimit::MaxActive,
        ClientLimit::MaxWebhooks,
        ClientLimit::MaxSchedules,
        ClientLimit::StorageBytes,
    ];

    /// The name in APIs.
    pub const fn word(self) -> &'static str {
        match self {
            ClientLimit::RatePerMinute => "rate_per_minute",
            ClientLimit::MaxWaiting => "max_waiting",
            ClientLimit::MaxActive => "max_active",
            ClientLimit::MaxWebhooks => "max_webhooks",
            ClientLimit::MaxSchedules => "max_schedules",
            ClientLimit::StorageBytes => "storage_bytes",
        }
    }
}

/// The limits of one client. `None`: only those that all clients have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    pub client: ClientId,
    limits: [Option<u64>; ClientLimit::ALL.len()],
}

impl ClientLimits {
    pub const fn none(client: ClientId) -> ClientLimits {
        ClientLimits { client, limits: [None; ClientLimit::ALL.len()] }
    }

    pub const fn get(&self, limit: ClientLimit) -> Option<u64> {
        self.limits[limit as usize]
    }

    pub const fn set(&mut self, limit: ClientLimit, max: Option<u64>) {
        self.limits[limit as usize] = max;
    }

    pub fn is_none(&self) -> bool {
        self.limits.iter().all(Option::is_none)
    }
}

impl Stored for ClientLimits {
    const KIND: RecordKind = RecordKind::ClientLimits;

    fn key(&self) -> String {
        self.client.to_string()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        let mut out = Writer(&mut bytes);
        for (tag, limit) in (1..).zip(self.limits) {
            // Zero is a limit too.
            limit.into_iter().for_each(|max| out.bytes(tag, &max.to_be_bytes()));
        }
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<ClientLimits, Corrupt> {
        let mut limits = ClientLimits::none(key.parse().map_err(|_| Corrupt)?);
        for field in Fields(bytes) {
            let field = field?;
            if let Some(limit) = limits.limits.get_mut(usize::from(field.tag).wrapping_sub(1)) {
                *limit = Some(u64::from_be_bytes(field.bytes.try_into().map_err(|_| Corrupt)?));
            }
        }
        Ok(limits)
    }
}

/// What a client uses. Stores sum it like the counts of a queue, under a key that no queue has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientUsage {
    pub waiting: i64,
    pub active: i64,
    pub bytes: i64,
}

impl ClientUsage {
    /// Where stores keep it. The key of an owned queue has two slashes, that of a shared one none.
    pub fn key(client: ClientId) -> Name {
        Name::new(&format!("{:032x}/{SUFFIX}", client.as_u128())).expect("a short name")
    }

    /// Whether counts of this key are the usage of a client, not of a queue.
    pub fn is_key(key: &Name) -> bool {
        key.as_str().split_once('/').is_some_and(|(_, rest)| rest == SUFFIX)
    }

    /// As stores keep it: each number stands in the place of a facet.
    pub fn to_counts(self) -> Counts {
        let mut counts = Counts::default();
        counts.add(Facet::Available, self.waiting);
        counts.add(Facet::Running, self.active);
        counts.add(Facet::Held, self.bytes);
        counts
    }

    /// The inverse of [`Self::to_counts`].
    pub fn from_counts(counts: &Counts) -> ClientUsage {
        let bytes = counts.at(Facet::Held);
        ClientUsage { waiting: counts.of(State::Queued), active: counts.active(), bytes }
    }

    /// How much of a counted limit is used; `None` for the others.
    pub fn of(&self, limit: ClientLimit) -> Option<u64> {
        let used = match limit {
            ClientLimit::MaxWaiting => self.waiting,
            ClientLimit::MaxActive => self.active,
            ClientLimit::StorageBytes => self.bytes,
            ClientLimit::RatePerMinute | ClientLimit::MaxWebhooks | ClientLimit::MaxSchedules => return None,
        };
        Some(used.max(0).cast_unsigned())
    }
}

const SUFFIX: &str = "usage";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Owner, QueueId};

    const CLIENT: ClientId = ClientId::from_u128(7);

    #[test]
    fn limits_are_read_back_as_they_were_written() {
        let mut limits = ClientLimits::none(CLIENT);
        assert!(limits.is_none());
        limits.set(ClientLimit::MaxWaiting, Some(0));
        limits.set(ClientLimit::StorageBytes, Some(u64::MAX));
        assert_eq!(ClientLimits::of(&limits.to_record(1)), Ok(limits));
        assert_eq!(ClientLimits::decode("x", &[]), Err(Corrupt));
    }

    #[test]
    fn usage_is_kept_where_no_queue_is() {
        let usage = ClientUsage { waiting: 3, active: 2, bytes: 1 << 40 };
        assert_eq!(ClientUsage::from_counts(&usage.to_counts()), usage);
        let key = ClientUsage::key(CLIENT);
        assert!(ClientUsage::is_key(&key) && !QueueId::is_shared(&key));
        let owner = Owner { client: CLIENT, tenant: None };
        for name in ["usage", "x/usage", "default"] {
            let queue = QueueId { owner: Some(owner.clone()), name: Name::new(name).unwrap() };
            assert!(!ClientUsage::is_key(&queue.key()), "{}", queue.key());
            assert!(!ClientUsage::is_key(&QueueId::shared(Name::new("usage").unwrap()).key()));
        }
    }
}
