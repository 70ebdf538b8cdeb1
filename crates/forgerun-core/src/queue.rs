//! Queues: identity and settings.
//!
//! Simulated work waits in queues shared by all clients, known by their name. Work for external
//! workers waits in queues of its owner: (client, tenant, name). Two clients that both use
//! `default` never see each other's jobs.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::codec::{Corrupt, Fields, Writer};
use crate::id::{ClientId, digits};
use crate::job::Name;
use crate::pace::QueueRate;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

/// Digits of a client in a key.
const CLIENT_DIGITS: usize = 32;

/// Owner of queues: a client, or one of its tenants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub client: ClientId,
    /// `None` for the client itself.
    pub tenant: Option<Name>,
}

impl Owner {
    /// The client itself, without a tenant.
    pub const fn client(client: ClientId) -> Owner {
        Owner { client, tenant: None }
    }

    /// Prefix of the keys of all the owner's queues.
    pub fn prefix(&self) -> String {
        self.prefix_with_room(0)
    }

    /// The prefix, with capacity for more bytes. Built several times for every job.
    fn prefix_with_room(&self, room: usize) -> String {
        let tenant = self.tenant.as_ref().map_or("", Name::as_str);
        let mut prefix = String::with_capacity(CLIENT_DIGITS + tenant.len() + 2 + room);
        let client = digits(self.client.as_u128());
        prefix.push_str(core::str::from_utf8(&client).expect("hex digits are ASCII"));
        prefix.extend(["/", tenant, "/"]);
        prefix
    }

    /// A name within the owner's scope, for what its jobs share, such as a limit.
    pub fn scoped(&self, name: &str) -> Name {
        let mut key = self.prefix_with_room(name.len());
        key.push_str(name);
        Name::joined(&key)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId {
    /// `None` for a queue shared by all clients.
    pub owner: Option<Owner>,
    pub name: Name,
}

impl QueueId {
    /// A queue shared by all clients.
    pub const fn shared(name: Name) -> QueueId {
        QueueId { owner: None, name }
    }

    /// The queue as one name: the key of its shelves, counts and settings.
    pub fn key(&self) -> Name {
        match &self.owner {
            None => self.name.clone(),
            Some(owner) => owner.scoped(self.name.as_str()),
        }
    }

    /// The inverse of [`Self::key`].
    pub fn parse(key: &Name) -> QueueId {
        Self::parse_owned(key.as_str()).unwrap_or_else(|| QueueId::shared(key.clone()))
    }

    fn parse_owned(key: &str) -> Option<QueueId> {
        let (client, rest) = key.split_once('/').filter(|(client, _)| client.len() == CLIENT_DIGITS)?;
        let client = ClientId::from_u128(u128::from_str_radix(client, 16).ok()?);
        let (tenant, name) = rest.split_once('/')?;
        let tenant = if tenant.is_empty() { None } else { Some(Name::new(tenant)?) };
        Some(QueueId { owner: Some(Owner { client, tenant }), name: Name::new(name)? })
    }

    /// Whether `key` is that of a shared queue.
    pub fn is_shared(key: &Name) -> bool {
        !key.as_str().contains('/')
    }
}

/// Settings of a queue by its owner, or by the operator for all queues of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// [`QueueId::key`]; the bare name for the operator's settings.
    pub queue: Name,
    /// When it was paused.
    pub paused_at: Option<Time>,
    /// Refuse new jobs while this many wait.
    pub waiting_max: Option<u64>,
    /// Hand out nothing while workers hold this many.
    pub active_max: Option<u64>,
    /// Hand out jobs no faster than this.
    pub rate: Option<QueueRate>,
    pub created_at: Time,
}

impl QueueSettings {
    pub const fn new(queue: Name, created_at: Time) -> QueueSettings {
        QueueSettings { queue, paused_at: None, waiting_max: None, active_max: None, rate: None, created_at }
    }
}

impl Stored for QueueSettings {
    const KIND: RecordKind = RecordKind::Queue;

    fn key(&self) -> String {
        self.queue.as_str().to_string()
    }

    /// The owner; empty for the operator's settings.
    fn group(&self) -> String {
        QueueId::parse(&self.queue).owner.map_or_else(String::new, |owner| owner.prefix())
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer(&mut bytes);
        out.time(1, self.paused_at);
        out.text(2, self.waiting_max.map(decimal).as_deref());
        out.text(3, self.active_max.map(decimal).as_deref());
        out.time(4, Some(self.created_at));
        out.number(5, self.rate.map_or(0, |rate| rate.get().into()));
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<QueueSettings, Corrupt> {
        let mut settings = QueueSettings::new(Name::joined(key), Time::ZERO);
        for field in Fields(bytes) {
            let field = field?;
            let max = || field.str()?.parse().map_err(|_| Corrupt);
            match field.tag {
                1 => settings.paused_at = Some(field.time()?),
                2 => settings.waiting_max = Some(max()?),
                3 => settings.active_max = Some(max()?),
                4 => settings.created_at = field.time()?,
                5 => settings.rate = u32::try_from(field.number()?).ok().map(QueueRate::per_1000_s),
                _ => {}
            }
        }
        Ok(settings)
    }
}

/// As text, because a missing number reads as zero, and a bound of zero is meaningful.
fn decimal(number: u64) -> String {
    let mut text = String::new();
    let _ = write!(text, "{number}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn a_queue_is_read_back_from_its_key() {
        let client = ClientId::from_u128(0xabc);
        let owners = [None, Some(Owner::client(client)), Some(Owner { client, tenant: Some(name("acme")) })];
        for owner in owners {
            let queue = QueueId { owner, name: name("mail.out") };
            assert_eq!(QueueId::parse(&queue.key()), queue);
            assert_eq!(QueueId::is_shared(&queue.key()), queue.owner.is_none());
        }
    }

    #[test]
    fn owners_never_share_a_key() {
        let queue = |client, tenant: Option<&str>, queue| {
            let owner = Owner { client: ClientId::from_u128(client), tenant: tenant.map(name) };
            QueueId { owner: Some(owner), name: name(queue) }.key()
        };
        let keys = [
            queue(1, None, "default"),
            queue(2, None, "default"),
            queue(1, Some("default"), "default"),
            queue(1, Some("a"), "default"),
        ];
        for (n, key) in keys.iter().enumerate() {
            assert!(!keys[n + 1..].contains(key), "{key}");
        }
    }

    #[test]
    fn settings_are_read_back_as_they_were_written() {
        let queue = QueueId { owner: Some(Owner::client(ClientId::from_u128(7))), name: name("q") }.key();
        let plain = QueueSettings::new(queue, Time::from_micros(5));
        let full = QueueSettings {
            paused_at: Some(Time::from_micros(9)),
            waiting_max: Some(0),
            active_max: Some(u64::MAX),
            rate: Some(QueueRate::per_1000_s(500)),
            ..plain.clone()
        };
        for settings in [plain, full] {
            let record = settings.to_record(3);
            assert_eq!(QueueSettings::of(&record), Ok(settings.clone()));
            assert_eq!(record.group, "00000000000000000000000000000007//");
        }
    }

    #[test]
    fn damaged_settings_are_an_error_not_a_panic() {
        assert_eq!(QueueSettings::decode("q", &[1]), Err(Corrupt));
        assert_eq!(QueueSettings::decode("q", &[2, 1, b'x']), Err(Corrupt));
    }
}
