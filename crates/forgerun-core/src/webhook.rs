//! Webhooks: endpoints that a client registered to be told of its jobs. What is sent to them is a [`Delivery`].
//!
//! Secrets are opaque bytes here, and never shown: signing is the affair of whoever sends.
//!
//! [`Delivery`]: crate::delivery::Delivery

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::codec::{Corrupt, Fields, Writer};
use crate::history::{Event, EventKind, EventName, RetryStatus};
use crate::id::{ClientId, EventId, SigningKeyId, WebhookId};
use crate::time::Time;

/// A registered endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its identity.
    pub id: WebhookId,
    /// Whose it is; it hears of this client's jobs alone.
    pub client: ClientId,
    /// Where it is. A client has one webhook per URL.
    pub url: String,
    /// What it wants to hear.
    pub events: Events,
    /// How bodies are wrapped.
    pub envelope: Envelope,
    /// What its owner says it is for.
    pub description: Option<String>,
    /// What deliveries are signed with.
    pub secrets: Secrets,
    /// When it was registered.
    pub created_at: Time,
    /// When its owner last changed it.
    pub updated_at: Time,
    /// Since when and why nothing is sent to it.
    pub disabled: Option<Disabled>,
    /// How deliveries to it have gone.
    pub health: Health,
    /// How often the server has disabled it: the number of its newest event.
    pub n_notices: u32,
}

impl Webhook {
    /// Which version of its settings this is: the moment of the last change, by its owner or because it was disabled. How
    /// deliveries go is no part of it.
    pub fn revision(&self) -> Time {
        self.disabled.map_or(self.updated_at, |disabled| disabled.at.max(self.updated_at))
    }
}

/// How the body of a delivery is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Envelope {
    /// Not at all.
    #[default]
    None = 0,
    /// As a CloudEvent whose `data` is the body.
    Structured = 1,
    /// As a CloudEvent whose attributes are header fields.
    Binary = 2,
    /// Told in the words of Open Job Spec: the body is an event of it.
    Ojs = 3,
}

/// The secrets of an endpoint: one, or two while a rotation is under way.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets {
    /// The one that counts.
    pub current: Vec<u8>,
    /// The one before, and until when deliveries are signed with it too.
    pub previous: Option<(Vec<u8>, Time)>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = self.previous.as_ref().map(|(_, until)| until);
        f.debug_struct("Secrets").field("previous_until", &until).finish_non_exhaustive()
    }
}

impl Secrets {
    /// The secrets to sign with at `now`, the current one first.
    pub fn at(&self, now: Time) -> impl Iterator<Item = &[u8]> {
        let previous = self.previous.iter().filter(move |(_, until)| now < *until);
        core::iter::once(self.current.as_slice()).chain(previous.map(|(secret, _)| secret.as_slice()))
    }
}

/// Nothing is sent any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disabled {
    /// Since when.
    pub at: Time,
    /// Why.
    pub reason: DisabledReason,
}

/// Why an endpoint was disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DisabledReason {
    /// Its owner said so.
    Owner = 1,
    /// It answered 410 Gone.
    Gone = 2,
    /// Deliveries to it failed for too long.
    Failing = 3,
}

impl DisabledReason {
    /// Reads the number it is stored as.
    pub(crate) const fn from_u64(number: u64) -> Result<DisabledReason, Corrupt> {
        match number {
            1 => Ok(DisabledReason::Owner),
            2 => Ok(DisabledReason::Gone),
            3 => Ok(DisabledReason::Failing),
            _ => Err(Corrupt),
        }
    }
}

/// The event of a webhook: the server has stopped sending to it. What its owner does to it is no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Which webhook.
    pub webhook: WebhookId,
    /// 1 for its first event; no number occurs twice.
    pub n: u32,
    /// When and why.
    pub disabled: Disabled,
}

impl Notice {
    /// The id of the event.
    pub const fn id(&self) -> EventId {
        EventId::of_webhook(self.webhook, self.n, self.disabled.at.unix_ms())
    }
}

/// How deliveries to an endpoint have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Health {
    /// Attempts that failed since the last success.
    pub failures: u32,
    /// Deliveries given up since the last success.
    pub given_up: u32,
    /// When the first of these failures was.
    pub failing_since: Option<Time>,
    /// When a delivery last arrived, give or take a minute.
    pub last_success_at: Option<Time>,
    /// When an attempt last failed.
    pub last_failure_at: Option<Time>,
}

/// What an endpoint wants to hear: a set of event names, as bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Events(u16);

impl Events {
    /// Everything.
    pub const ALL: Events = Events(u16::MAX);
    /// Nothing: where a set begins.
    pub const NONE: Events = Events(0);
    /// Another webhook of the client was disabled. As with the names of jobs' events, the bit is stored.
    pub const WEBHOOK_DISABLED: Events = Events(1 << 11);
    /// Failures after which no retry is left (ruling C-20).
    pub const RETRIES_EXHAUSTED: Events = Events(1 << 15);

    /// The event of this name alone. The bits are stored, so they stay what they are.
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
            // A mixed batch goes by the name of a failure.
            EventName::Failed | EventName::Mixed => 1 << 8,
            EventName::TimedOut => 1 << 9,
            EventName::Canceled => 1 << 10,
        })
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }

    /// Whether all of the other set is in this one.
    pub const fn contains(self, other: Events) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether somebody with this filter hears of the event.
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
    /// Sends nothing any more, by decision of the server; what to tell of it.
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
        bytes
    }

    /// Reads what [`Self::encode`] wrote.
    pub fn decode(id: WebhookId, bytes: &[u8]) -> Result<Webhook, Corrupt> {
        let mut webhook = Webhook {
            id,
            client: ClientId::from_u128(0),
            url: String::new(),
            events: Events::NONE,
            envelope: Envelope::None,
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
                _ => {}
            }
        }
        webhook.secrets.previous = previous.zip(until);
        webhook.disabled = since.zip(reason).map(|(at, reason)| Disabled { at, reason });
        if webhook.url.is_empty() { Err(Corrupt) } else { Ok(webhook) }
    }
}

/// A key that this server signs deliveries with. Made once for all nodes; replaced with an overlap.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// Its identity; a later key has a later id.
    pub id: SigningKeyId,
    /// What the key pair is made from. Opaque here.
    pub seed: [u8; 32],
    /// When it was made.
    pub created_at: Time,
    /// Nothing is signed with it from then on; it stays published, for what is still under way.
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
        // An ordinary failure, a timeout, a failure that is the last word, a timeout that is.
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
    fn the_secret_before_is_used_until_its_end_and_neither_is_shown() {
        let secrets = full().secrets;
        assert_eq!(secrets.at(Time::from_millis(8)).collect::<Vec<_>>(), [&[1; 32][..], &[2; 24][..]]);
        assert_eq!(secrets.at(Time::from_millis(9)).collect::<Vec<_>>(), [&[1; 32][..]]);
        let key = SigningKey {
            id: SigningKeyId::from_u128(1),
            seed: [251; 32],
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
