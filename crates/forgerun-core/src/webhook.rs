//! Webhooks: endpoints that a client registered for events of its jobs. What is sent to them is a
//! [`Delivery`].
//!
//! Secrets are opaque bytes here, and never shown: the sender signs.
//!
//! [`Delivery`]: crate::delivery::Delivery

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::codec::{Corrupt, Fields, Writer};
use crate::history::{Event, EventKind, EventName, RetryStatus};
use crate::id::{ClientId, EventId, SigningKeyId, WebhookId};
use crate::job::Head;
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    pub id: WebhookId,
    /// Owner; the webhook gets events of this client's jobs only.
    pub client: ClientId,
    /// Unique within the client.
    pub url: String,
    pub events: Events,
    pub envelope: Envelope,
    /// Which jobs it gets events of.
    pub filter: WebhookFilter,
    /// The owner's description.
    pub description: Option<String>,
    /// What deliveries are signed with.
    pub secrets: Secrets,
    pub created_at: Time,
    /// When its owner last changed it.
    pub updated_at: Time,
    /// Set while nothing is sent to it.
    pub disabled: Option<Disabled>,
    /// Results of its deliveries.
    pub health: Health,
    /// How often the server has disabled it: the number of its newest event.
    pub n_notices: u32,
}

impl Webhook {
    /// Version of its settings: the moment of the last change, by its owner or by being disabled.
    /// Health is not part of it.
    pub fn revision(&self) -> Time {
        self.disabled.map_or(self.updated_at, |disabled| disabled.at.max(self.updated_at))
    }
}

/// Format of the delivery body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Envelope {
    /// The body itself.
    #[default]
    None = 0,
    /// A CloudEvent whose `data` is the body.
    Structured = 1,
    /// A CloudEvent whose attributes are header fields.
    Binary = 2,
    /// An event of Open Job Spec.
    Ojs = 3,
}

/// Which jobs a webhook gets events of: those that fit each list that is not empty. A job fits a
/// list if it fits one of its entries.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct WebhookFilter {
    /// Names of queues.
    pub queues: Vec<String>,
    /// Types; `*` stands for any characters.
    pub types: Vec<String>,
    pub tags: Vec<String>,
}

impl WebhookFilter {
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.types.is_empty() && self.tags.is_empty()
    }

    pub fn fits(&self, head: &Head) -> bool {
        let one_of = |list: &[String], fits: &dyn Fn(&str) -> bool| {
            list.is_empty() || list.iter().any(|entry| fits(entry))
        };
        one_of(&self.queues, &|queue| queue == head.queue.as_str())
            && one_of(&self.types, &|glob| glob_fits(glob, head.type_name()))
            && one_of(&self.tags, &|tag| head.tags.iter().any(|known| known == tag))
    }
}

/// Whether a name is the pattern, in which `*` stands for any characters.
fn glob_fits(glob: &str, name: &str) -> bool {
    let Some((beginning, rest)) = glob.split_once('*') else { return glob == name };
    let Some(mut name) = name.strip_prefix(beginning) else { return false };
    let Some((middle, end)) = rest.rsplit_once('*') else { return name.ends_with(rest) };
    for part in middle.split('*') {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(end)
}

/// One secret, or two during a rotation.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets {
    pub current: Vec<u8>,
    /// The previous secret, and until when deliveries are also signed with it.
    pub previous: Option<(Vec<u8>, Time)>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = self.previous.as_ref().map(|(_, until)| until);
        f.debug_struct("Secrets").field("previous_until", &until).finish_non_exhaustive()
    }
}

impl Secrets {
    /// Secrets to sign with at `now`, the current one first.
    pub fn at(&self, now: Time) -> impl Iterator<Item = &[u8]> {
        let previous = self.previous.iter().filter(move |(_, until)| now < *until);
        core::iter::once(self.current.as_slice()).chain(previous.map(|(secret, _)| secret.as_slice()))
    }
}

/// When and why the endpoint was disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disabled {
    pub at: Time,
    pub reason: DisabledReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DisabledReason {
    Owner = 1,
    /// The endpoint answered 410 Gone.
    Gone = 2,
    /// Deliveries failed for too long.
    Failing = 3,
}

impl DisabledReason {
    /// Decodes the stored number.
    pub(crate) const fn from_u64(number: u64) -> Result<DisabledReason, Corrupt> {
        match number {
            1 => Ok(DisabledReason::Owner),
            2 => Ok(DisabledReason::Gone),
            3 => Ok(DisabledReason::Failing),
            _ => Err(Corrupt),
        }
    }
}

/// The event of a webhook: the server has disabled it. Changes by its owner are not events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    pub webhook: WebhookId,
    /// 1 for its first event; unique within the webhook.
    pub n: u32,
    pub disabled: Disabled,
}

impl Notice {
    pub const fn id(&self) -> EventId {
        EventId::of_webhook(self.webhook, self.n, self.disabled.at.unix_ms())
    }
}

/// Results of the deliveries to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Health {
    /// Failed attempts since the last success.
    pub failures: u32,
    /// Deliveries given up since the last success.
    pub given_up: u32,
    /// Time of the first of these failures.
    pub failing_since: Option<Time>,
    /// Time of the last success, to within a minute.
    pub last_success_at: Option<Time>,
    /// Time of the last failed attempt.
    pub last_failure_at: Option<Time>,
}

/// The events an endpoint subscribes to: a set of event names, as bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Events(u16);

impl Events {
    pub const ALL: Events = Events(u16::MAX);
    /// The empty set.
    pub const NONE: Events = Events(0);
    /// Another webhook of the client was disabled. Like those of job events, the bit is stored.
    pub const WEBHOOK_DISABLED: Events = Events(1 << 11);
    /// Failures without a retry left (ruling C-20).
    pub const RETRIES_EXHAUSTED: Events = Events(1 << 15);

    /// The set of this event only. The bits are stored and must not change.
    pub const fn only(name: EventName) -> Events {
        Events(match name {
            EventName::Created => 1 << 0,
            EventName::Queued => 1 << 1,
            EventName::Assigned => 1 << 2,
            EventName::Requeued => 1 << 3,
            EventName::Started => 1 << 4,
            EventName::Progress => 1 << 5,
            EventName::Emitted => 1 << 6,
            EventName::Succeeded => 1 << 7,
            // A mixed batch counts as a failure.
            EventName::Failed | EventName::Mixed => 1 << 8,
            EventName::TimedOut => 1 << 9,
            EventName::Canceled => 1 << 10,
        })
    }

    #[must_use]
    pub const fn with(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }

    /// Whether it includes the other set.
    pub const fn contains(self, other: Events) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the subscription includes the event.
    pub const fn matches(self, event: &Event) -> bool {
        let name = event.name();
        let last_word = match event.kind {
            EventKind::Moved { retry_status: RetryStatus::Final, .. } => true,
            EventKind::Moved { retry_status: RetryStatus::Open | RetryStatus::WillRetry, .. } => false,
            EventKind::Progress(_) | EventKind::Emitted => false,
        };
        let failure = matches!(name, EventName::Failed | EventName::TimedOut | EventName::Mixed);
        self.contains(Events::only(name))
            // A timeout is a failure too.
            || failure && self.contains(Events::only(EventName::Failed))
            || failure && last_word && self.contains(Events::RETRIES_EXHAUSTED)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events({:#06x})", self.0)
    }
}

impl Webhook {
    /// Disables the webhook on the server's decision; returns the event to report.
    pub(crate) fn disable(&mut self, disabled: Disabled) -> Notice {
        self.disabled = Some(disabled);
        self.n_notices += 1;
        Notice { webhook: self.id, n: self.n_notices, disabled }
    }

    /// The bytes of everything but the id.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(160);
        let mut out = Writer(&mut bytes);
        out.bytes(1, &self.client.to_bytes());
        out.text(2, Some(&self.url));
        out.number(3, u64::from(self.events.0));
        out.number(4, self.envelope as u64);
        out.text(5, self.description.as_deref());
        out.bytes(6, &self.secrets.current);
        if let Some((secret, until)) = &self.secrets.previous {
            out.bytes(7, secret);
            out.time(8, Some(*until));
        }
        out.time(9, Some(self.created_at));
        out.time(10, Some(self.updated_at));
        if let Some(disabled) = &self.disabled {
            out.number(11, disabled.reason as u64);
            out.time(12, Some(disabled.at));
        }
        out.number(13, u64::from(self.health.failures));
        out.number(14, u64::from(self.health.given_up));
        out.time(15, self.health.failing_since);
        out.time(16, self.health.last_success_at);
        out.time(17, self.health.last_failure_at);
        out.number(18, u64::from(self.n_notices));
        let WebhookFilter { queues, types, tags } = &self.filter;
        for (tag, list) in [(19, queues), (20, types), (21, tags)] {
            list.iter().for_each(|entry| out.text(tag, Some(entry)));
        }
        bytes
    }

    /// Decodes the bytes of [`Self::encode`].
    pub fn decode(id: WebhookId, bytes: &[u8]) -> Result<Webhook, Corrupt> {
        let mut webhook = Webhook {
            id,
            client: ClientId::from_u128(0),
            url: String::new(),
            events: Events::NONE,
            envelope: Envelope::None,
            filter: WebhookFilter::default(),
            description: None,
            secrets: Secrets { current: Vec::new(), previous: None },
            created_at: Time::ZERO,
            updated_at: Time::ZERO,
            disabled: None,
            health: Health::default(),
            n_notices: 0,
        };
        let (mut previous, mut until) = (None, None);
        let (mut reason, mut since) = (None, None);
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => webhook.client = ClientId::from_u128(field.id()?),
                2 => webhook.url = field.text()?,
                3 => webhook.events = Events(field.small()?),
                4 => {
                    webhook.envelope = match field.number()? {
                        0 => Envelope::None,
                        1 => Envelope::Structured,
                        2 => Envelope::Binary,
                        3 => Envelope::Ojs,
                        _ => return Err(Corrupt),
                    }
                }
                5 => webhook.description = Some(field.text()?),
                6 => webhook.secrets.current = field.bytes.to_vec(),
                7 => previous = Some(field.bytes.to_vec()),
                8 => until = Some(field.time()?),
                9 => webhook.created_at = field.time()?,
                10 => webhook.updated_at = field.time()?,
                11 => reason = Some(DisabledReason::from_u64(field.number()?)?),
                12 => since = Some(field.time()?),
                13 => webhook.health.failures = field.small()?,
                14 => webhook.health.given_up = field.small()?,
                15 => webhook.health.failing_since = Some(field.time()?),
                16 => webhook.health.last_success_at = Some(field.time()?),
                17 => webhook.health.last_failure_at = Some(field.time()?),
                18 => webhook.n_notices = field.small()?,
                19 => webhook.filter.queues.push(field.text()?),
                20 => webhook.filter.types.push(field.text()?),
                21 => webhook.filter.tags.push(field.text()?),
                _ => {}
            }
        }
        webhook.secrets.previous = previous.zip(until);
        webhook.disabled = since.zip(reason).map(|(at, reason)| Disabled { at, reason });
        if webhook.url.is_empty() { Err(Corrupt) } else { Ok(webhook) }
    }
}

/// A key that this server signs deliveries with. Shared by all nodes; replaced with an overlap.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// A later key has a later id.
    pub id: SigningKeyId,
    /// Seed of the key pair. Opaque here.
    pub seed: Vec<u8>,
    pub created_at: Time,
    /// Not used for signing from then on; still published, for deliveries under way.
    pub retired_at: Option<Time>,
}

impl SigningKey {
    /// Whether to sign with it at `now`.
    pub fn is_good(&self, now: Time) -> bool {
        self.retired_at.is_none_or(|retired_at| now < retired_at)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("SigningKey");
        out.field("id", &self.id).field("created_at", &self.created_at).field("retired_at", &self.retired_at);
        out.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Name;
    use crate::state::{Cause, State};
    use proptest::prelude::*;
    use std::format;
    use std::vec;

    fn failed(cause: Cause, retry_status: RetryStatus) -> Event {
        let kind = EventKind::Moved { from: Some(State::Running), to: State::Failed, cause, retry_status };
        Event { n: 5, kind, at: Time::ZERO, attempt: 1, execution: 1 }
    }

    #[test]
    fn who_hears_of_failures() {
        let job_failed = Events::only(EventName::Failed);
        let timed_out = Events::only(EventName::TimedOut);
        let exhausted = Events::RETRIES_EXHAUSTED;
        let succeeded = Events::only(EventName::Succeeded);
        // An ordinary failure, a timeout, and both of them without a retry left.
        for (filter, expected) in [
            (job_failed, [true, true, true, true]),
            (timed_out, [false, true, false, true]),
            (exhausted, [false, false, true, true]),
            (succeeded, [false, false, false, false]),
            (Events::ALL, [true, true, true, true]),
            (Events::NONE, [false, false, false, false]),
            (timed_out.with(succeeded), [false, true, false, true]),
        ] {
            let events = [
                failed(Cause::Fail, RetryStatus::Open),
                failed(Cause::Timeout, RetryStatus::WillRetry),
                failed(Cause::Fail, RetryStatus::Final),
                failed(Cause::Timeout, RetryStatus::Final),
            ];
            assert_eq!(events.map(|event| filter.matches(&event)), expected, "{filter:?}");
        }
    }

    fn full() -> Webhook {
        Webhook {
            id: WebhookId::from_u128(7),
            client: ClientId::from_u128(8),
            url: "https://example.com/hook".into(),
            events: Events::only(EventName::Failed).with(Events::RETRIES_EXHAUSTED),
            filter: WebhookFilter {
                queues: vec!["a".into(), "b".into()],
                types: vec!["c*".into()],
                tags: vec!["d".into()],
            },
            envelope: Envelope::Binary,
            description: Some("for tests".into()),
            secrets: Secrets { current: vec![1; 32], previous: Some((vec![2; 24], Time::from_millis(9))) },
            created_at: Time::from_millis(1),
            updated_at: Time::from_millis(2),
            disabled: Some(Disabled { at: Time::from_millis(3), reason: DisabledReason::Failing }),
            health: Health {
                failures: 4,
                given_up: 5,
                failing_since: Some(Time::ZERO),
                last_success_at: Some(Time::from_millis(6)),
                last_failure_at: Some(Time::from_millis(7)),
            },
            n_notices: 8,
        }
    }

    #[test]
    fn a_webhook_comes_back_as_it_was_written() {
        let bare = Webhook {
            description: None,
            filter: WebhookFilter::default(),
            secrets: Secrets { current: vec![1], previous: None },
            disabled: None,
            health: Health::default(),
            n_notices: 0,
            ..full()
        };
        for webhook in [full(), bare] {
            assert_eq!(Webhook::decode(webhook.id, &webhook.encode()), Ok(webhook));
        }
    }

    #[test]
    fn a_filter_takes_jobs_that_fit_every_list_and_of_each_list_one_entry() {
        let mut head = Head::new(ClientId::from_u128(1), Name::new("mail").unwrap(), Time::ZERO);
        head.job_type = "invoice.render".into();
        head.tags = vec!["eu".into(), "big".into()];
        let list =
            |entries: &[&str]| entries.iter().map(|entry| String::from(*entry)).collect::<Vec<String>>();
        for (queues, types, tags, fits) in [
            (&[][..], &[][..], &[][..], true),
            (&["mail"], &["invoice.*"], &["eu"], true),
            (&["web", "mail"], &["x", "*.render"], &["us", "big"], true),
            (&["web"], &["invoice.*"], &["eu"], false),
            (&["mail"], &["invoice"], &[], false),
            (&["mail"], &[], &["us"], false),
            (&["mai*"], &[], &[], false),
            (&[], &["*"], &[], true),
            (&[], &["i*.r*r"], &[], true),
            (&[], &["invoice.render*render"], &[], false),
            (&[], &["**v**c*"], &[], true),
        ] {
            let filter = WebhookFilter { queues: list(queues), types: list(types), tags: list(tags) };
            assert_eq!(filter.fits(&head), fits, "{filter:?}");
        }
        head.job_type.clear();
        assert!(WebhookFilter { types: list(&["EXECUTE"]), ..WebhookFilter::default() }.fits(&head));
    }

    #[test]
    fn the_secret_before_is_used_until_its_end_and_neither_is_shown() {
        let secrets = full().secrets;
        assert_eq!(secrets.at(Time::from_millis(8)).collect::<Vec<_>>(), [&[1; 32][..], &[2; 24][..]]);
        assert_eq!(secrets.at(Time::from_millis(9)).collect::<Vec<_>>(), [&[1; 32][..]]);
        let key = SigningKey {
            id: SigningKeyId::from_u128(1),
            seed: vec![251; 32],
            created_at: Time::ZERO,
            retired_at: None,
        };
        let shown = format!("{secrets:?} {key:?}");
        assert!(!shown.contains("251") && !shown.contains("[1") && !shown.contains("[2"), "{shown}");
    }

    proptest! {
        #[test]
        fn garbage_is_corrupt_and_never_a_panic(bytes: Vec<u8>) {
            let _ = Webhook::decode(WebhookId::from_u128(1), &bytes);
        }
    }
}
