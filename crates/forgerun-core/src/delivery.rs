//! Deliveries: one message for one endpoint, written in the transaction of its event, and sent
//! until the endpoint accepts it or it is given up.
//!
//! ```text
//!              the one before it is settled              taken by a courier
//!   Blocked ───────────────────────────────► Waiting ◄──────────────────────► Taken ───► Delivered
//!                                               ▲        failed, or its lease    │
//!                                               └───────────── ran out           └─────► Failed
//!                                                 asked for again
//! ```
//!
//! The deliveries of a job to an endpoint form a [`Chain`]: only the first open one waits or is
//! claimed, so they arrive in the order of the events. A delivery outside of a chain (not about a
//! job, or sent again on request) waits for no other.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::codec::{Corrupt, Field, Fields, Writer};
use crate::history::Event;
use crate::id::{ClientId, DeliveryId, JobId, WebhookId};
use crate::job::Job;
use crate::limits;
use crate::time::Time;
use crate::webhook::{Disabled, DisabledReason, Notice};
use crate::work::WorkKind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The same for every attempt: receivers detect repetitions by it.
    pub id: DeliveryId,
    /// Owner of the job or webhook.
    pub client: ClientId,
    pub to: Endpoint,
    pub about: DeliverySubject,
    pub created_at: Time,
    pub stage: DeliveryStage,
    /// Whether it keeps its place in the chain of its job and endpoint.
    pub chained: bool,
    /// Attempts begun since it was created or requested again.
    pub attempts: u32,
    /// Incremented by each claim: an earlier courier has lost it.
    pub fence: u32,
    /// The newest attempts, oldest first; at most [`limits::ATTEMPTS_KEPT`].
    pub log: Vec<DeliveryAttempt>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    Webhook(WebhookId),
    /// The callback URL of the job.
    Callback(String),
}

impl Endpoint {
    /// Distinguishes the endpoints of one job: the webhook id, or zero for the callback.
    pub const fn key(&self) -> WebhookId {
        match self {
            Endpoint::Webhook(id) => *id,
            Endpoint::Callback(_) => WebhookId::CALLBACK,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliverySubject {
    /// An event of a job.
    Event { job: JobId, event: Event },
    /// Another webhook of the client was disabled.
    Notice(Notice),
    /// A test requested by the owner of the endpoint.
    Test,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStage {
    Blocked,
    /// To be sent at this moment or later.
    Waiting(Time),
    /// A courier has it until this moment; then others may claim it.
    Taken(Time),
    Delivered(Time),
    Failed(Time, DeliveryFailure),
}

impl DeliveryStage {
    pub const fn is_open(&self) -> bool {
        match self {
            DeliveryStage::Blocked | DeliveryStage::Waiting(_) | DeliveryStage::Taken(_) => true,
            DeliveryStage::Delivered(_) | DeliveryStage::Failed(..) => false,
        }
    }
}

/// Why a delivery was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DeliveryFailure {
    Exhausted = 1,
    /// The endpoint answered 410 Gone.
    Gone = 2,
    Disabled = 3,
    Deleted = 4,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryAttempt {
    pub at: Time,
    pub took: Duration,
    /// HTTP status of the answer.
    pub status: Option<u16>,
    /// Error message in English; `None` on success.
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chain {
    pub job: JobId,
    /// [`Endpoint::key`].
    pub endpoint: WebhookId,
}

/// Retries of deliveries, and when a failing webhook is disabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryPolicy {
    pub schedule: DeliverySchedule,
    /// A webhook is disabled when it has failed for this long and [`limits::GIVEN_UP_MAX`]
    /// deliveries were given up.
    pub disable_after: Duration,
}

/// The waits between the attempts of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliverySchedule {
    /// The upper bound of the wait doubles with each attempt; the wait is anything below it.
    Doubling {
        /// Attempts in all, the first included.
        attempts_max: u32,
        /// Upper bound of the first wait.
        base: Duration,
        /// Upper bound of all waits.
        max: Duration,
    },
    /// The wait before each further attempt, give or take a tenth.
    Listed(Arc<[Duration]>),
}

impl DeliverySchedule {
    /// Of work that simulates failing receivers.
    const SIMULATED: DeliverySchedule = DeliverySchedule::Doubling {
        attempts_max: 6,
        base: Duration::from_millis(500),
        max: Duration::from_secs(30),
    };

    /// Attempts in all, the first included.
    pub fn attempts_max(&self) -> u32 {
        match self {
            DeliverySchedule::Doubling { attempts_max, .. } => *attempts_max,
            DeliverySchedule::Listed(waits) => {
                u32::try_from(waits.len()).unwrap_or(u32::MAX).saturating_add(1)
            }
        }
    }

    fn backoff(&self, n: u32, random: u64) -> Duration {
        let (least, span) = match self {
            DeliverySchedule::Doubling { base, max, .. } => {
                let doublings = n.saturating_sub(1).min(31);
                (Duration::ZERO, base.saturating_mul(1 << doublings).min(*max))
            }
            DeliverySchedule::Listed(waits) => {
                let at = usize::try_from(n.saturating_sub(1)).unwrap_or(usize::MAX);
                let wait = waits.get(at).or(waits.last()).copied().unwrap_or_default();
                (wait - wait / 10, wait / 5)
            }
        };
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        least + Duration::from_micros(if micros == 0 { 0 } else { random % (micros + 1) })
    }
}

impl DeliveryPolicy {
    /// The policy for deliveries about a job. Work that simulates failing receivers is to show in
    /// seconds how deliveries are given up, whatever schedule is listed.
    pub fn about(&self, job: Option<&Job>) -> DeliveryPolicy {
        let shows_retries = job.and_then(|job| job.head.definition).is_some_and(|definition| {
            matches!(definition.work_kind, WorkKind::WebhookRetriesExhausted | WorkKind::Webhook5xx)
        });
        let schedule = match &self.schedule {
            DeliverySchedule::Listed(_) if shows_retries => DeliverySchedule::SIMULATED,
            schedule => schedule.clone(),
        };
        DeliveryPolicy { schedule, ..*self }
    }

    /// The wait after attempt number `n` failed: that of the schedule, but at least what the
    /// endpoint asked for, within [`limits::RETRY_AFTER_MAX`].
    pub fn wait(&self, n: u32, asked: Option<Duration>, random: u64) -> Duration {
        let backoff = self.schedule.backoff(n, random);
        asked.map_or(backoff, |asked| backoff.max(asked.min(limits::RETRY_AFTER_MAX)))
    }
}

impl Delivery {
    pub const fn job(&self) -> Option<JobId> {
        match &self.about {
            DeliverySubject::Event { job, .. } => Some(*job),
            DeliverySubject::Notice(_) | DeliverySubject::Test => None,
        }
    }

    /// Whether the courier's lease is over.
    pub fn is_overdue(&self, now: Time) -> bool {
        matches!(self.stage, DeliveryStage::Taken(until) if until <= now)
    }

    /// The chain it belongs to, settled or not.
    pub const fn chain(&self) -> Option<Chain> {
        match self.job() {
            Some(job) if self.chained => Some(Chain { job, endpoint: self.to.key() }),
            Some(_) | None => None,
        }
    }

    /// Its position in its chain while it has one.
    pub const fn position(&self) -> Option<u32> {
        match &self.about {
            DeliverySubject::Event { event, .. } if self.chained && self.stage.is_open() => Some(event.n),
            DeliverySubject::Event { .. } | DeliverySubject::Notice(_) | DeliverySubject::Test => None,
        }
    }

    /// When a courier should look at it.
    pub const fn due_at(&self) -> Option<Time> {
        match self.stage {
            DeliveryStage::Waiting(at) | DeliveryStage::Taken(at) => Some(at),
            DeliveryStage::Blocked | DeliveryStage::Delivered(_) | DeliveryStage::Failed(..) => None,
        }
    }

    /// When it was delivered or given up.
    pub const fn settled_at(&self) -> Option<Time> {
        match self.stage {
            DeliveryStage::Delivered(at) | DeliveryStage::Failed(at, _) => Some(at),
            DeliveryStage::Blocked | DeliveryStage::Waiting(_) | DeliveryStage::Taken(_) => None,
        }
    }

    pub const fn status(&self) -> DeliveryStatus {
        match self.stage {
            DeliveryStage::Blocked | DeliveryStage::Waiting(_) | DeliveryStage::Taken(_) => {
                DeliveryStatus::Pending
            }
            DeliveryStage::Delivered(_) => DeliveryStatus::Delivered,
            DeliveryStage::Failed(..) => DeliveryStatus::Failed,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DeliveryStatus {
    Pending = 0,
    Delivered = 1,
    Failed = 2,
}

impl Delivery {
    /// The bytes of everything but the id.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        let mut out = Writer(&mut bytes);
        out.bytes(1, &self.client.to_bytes());
        match &self.to {
            Endpoint::Webhook(id) => out.bytes(2, &id.to_bytes()),
            Endpoint::Callback(url) => out.text(3, Some(url)),
        }
        match &self.about {
            DeliverySubject::Event { job, event } => {
                out.bytes(4, &job.to_bytes());
                out.bytes(5, &event.to_bytes());
            }
            DeliverySubject::Notice(Notice { webhook, n, disabled }) => {
                out.bytes(14, &webhook.to_bytes());
                out.time(15, Some(disabled.at));
                out.number(16, disabled.reason as u64);
                out.number(17, u64::from(*n));
            }
            DeliverySubject::Test => {}
        }
        out.time(6, Some(self.created_at));
        let (stage, at, why) = match self.stage {
            DeliveryStage::Blocked => (0, None, 0),
            DeliveryStage::Waiting(at) => (1, Some(at), 0),
            DeliveryStage::Taken(until) => (2, Some(until), 0),
            DeliveryStage::Delivered(at) => (3, Some(at), 0),
            DeliveryStage::Failed(at, why) => (4, Some(at), why as u64),
        };
        out.number(7, stage);
        out.time(8, at);
        out.number(9, why);
        out.flag(10, self.chained);
        out.number(11, u64::from(self.attempts));
        out.number(12, u64::from(self.fence));
        for attempt in &self.log {
            out.group(13, |out| attempt.encode(out));
        }
        bytes
    }

    /// Decodes the bytes of [`Self::encode`].
    pub fn decode(id: DeliveryId, bytes: &[u8]) -> Result<Delivery, Corrupt> {
        let mut delivery = Delivery {
            id,
            client: ClientId::from_u128(0),
            to: Endpoint::Callback(String::new()),
            about: DeliverySubject::Test,
            created_at: Time::ZERO,
            stage: DeliveryStage::Blocked,
            chained: false,
            attempts: 0,
            fence: 0,
            log: Vec::new(),
        };
        let (mut job, mut event) = (None, None);
        let (mut webhook, mut disabled_at, mut reason, mut n) = (None, None, None, 0);
        let (mut stage, mut at, mut why) = (0, None, 0);
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => delivery.client = ClientId::from_u128(field.id()?),
                2 => delivery.to = Endpoint::Webhook(WebhookId::from_u128(field.id()?)),
                3 => delivery.to = Endpoint::Callback(field.text()?),
                4 => job = Some(JobId::from_u128(field.id()?)),
                5 => event = Some(Event::from_bytes(field.bytes)?),
                6 => delivery.created_at = field.time()?,
                7 => stage = field.number()?,
                8 => at = Some(field.time()?),
                9 => why = field.number()?,
                10 => delivery.chained = field.flag()?,
                11 => delivery.attempts = field.small()?,
                12 => delivery.fence = field.small()?,
                13 => delivery.log.push(DeliveryAttempt::decode(&field)?),
                14 => webhook = Some(WebhookId::from_u128(field.id()?)),
                15 => disabled_at = Some(field.time()?),
                16 => reason = Some(DisabledReason::from_u64(field.number()?)?),
                17 => n = field.small()?,
                _ => {}
            }
        }
        if let Some((job, event)) = job.zip(event) {
            delivery.about = DeliverySubject::Event { job, event };
        }
        if let Some((webhook, (at, reason))) = webhook.zip(disabled_at.zip(reason)) {
            delivery.about =
                DeliverySubject::Notice(Notice { webhook, n, disabled: Disabled { at, reason } });
        }
        delivery.stage = match (stage, at) {
            (0, _) => DeliveryStage::Blocked,
            (1, Some(at)) => DeliveryStage::Waiting(at),
            (2, Some(until)) => DeliveryStage::Taken(until),
            (3, Some(at)) => DeliveryStage::Delivered(at),
            (4, Some(at)) => DeliveryStage::Failed(at, failure(why)?),
            _ => return Err(Corrupt),
        };
        Ok(delivery)
    }
}

fn failure(number: u64) -> Result<DeliveryFailure, Corrupt> {
    match number {
        1 => Ok(DeliveryFailure::Exhausted),
        2 => Ok(DeliveryFailure::Gone),
        3 => Ok(DeliveryFailure::Disabled),
        4 => Ok(DeliveryFailure::Deleted),
        _ => Err(Corrupt),
    }
}

impl DeliveryAttempt {
    fn encode(&self, out: &mut Writer<'_>) {
        out.time(1, Some(self.at));
        out.span(2, Some(self.took));
        out.number(3, self.status.map_or(0, u64::from));
        out.text(4, self.error.as_deref());
    }

    fn decode(from: &Field<'_>) -> Result<DeliveryAttempt, Corrupt> {
        let mut attempt = DeliveryAttempt { at: Time::ZERO, took: Duration::ZERO, status: None, error: None };
        for field in Fields(from.bytes) {
            let field = field?;
            match field.tag {
                1 => attempt.at = field.time()?,
                2 => attempt.took = field.span()?,
                3 => attempt.status = Some(field.small()?),
                4 => attempt.error = Some(field.text()?),
                _ => {}
            }
        }
        Ok(attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::EventKind;
    use proptest::prelude::*;
    use std::vec;

    fn sample(stage: DeliveryStage) -> Delivery {
        let event =
            Event { n: 3, kind: EventKind::Progress(40), at: Time::from_millis(5), attempt: 2, execution: 1 };
        Delivery {
            id: DeliveryId::from_u128(9),
            client: ClientId::from_u128(8),
            to: Endpoint::Webhook(WebhookId::from_u128(7)),
            about: DeliverySubject::Event { job: JobId::from_u128(6), event },
            created_at: Time::from_millis(5),
            stage,
            chained: true,
            attempts: 2,
            fence: 3,
            log: vec![
                DeliveryAttempt {
                    at: Time::ZERO,
                    took: Duration::from_millis(7),
                    status: None,
                    error: Some("could not connect".into()),
                },
                DeliveryAttempt {
                    at: Time::from_millis(9),
                    took: Duration::ZERO,
                    status: Some(503),
                    error: None,
                },
            ],
        }
    }

    #[test]
    fn a_delivery_comes_back_as_it_was_written() {
        let at = Time::from_millis(4);
        for stage in [
            DeliveryStage::Blocked,
            DeliveryStage::Waiting(Time::ZERO),
            DeliveryStage::Taken(at),
            DeliveryStage::Delivered(at),
            DeliveryStage::Failed(at, DeliveryFailure::Exhausted),
            DeliveryStage::Failed(at, DeliveryFailure::Gone),
            DeliveryStage::Failed(at, DeliveryFailure::Disabled),
            DeliveryStage::Failed(at, DeliveryFailure::Deleted),
        ] {
            let delivery = sample(stage);
            assert_eq!(Delivery::decode(delivery.id, &delivery.encode()), Ok(delivery.clone()));
            let callback = Endpoint::Callback("http://localhost/x".into());
            let test = Delivery {
                to: callback,
                about: DeliverySubject::Test,
                chained: false,
                log: vec![],
                ..delivery
            };
            assert_eq!(Delivery::decode(test.id, &test.encode()), Ok(test.clone()));
            let disabled = Disabled { at, reason: DisabledReason::Failing };
            let notice = Notice { webhook: WebhookId::from_u128(3), n: 7, disabled };
            let notice = Delivery { about: DeliverySubject::Notice(notice), ..test };
            assert_eq!(Delivery::decode(notice.id, &notice.encode()), Ok(notice));
        }
    }

    #[test]
    fn waits_double_up_to_their_bound_and_honour_what_the_endpoint_asks() {
        let policy = DeliveryPolicy {
            schedule: DeliverySchedule::Doubling {
                attempts_max: 6,
                base: Duration::from_millis(500),
                max: Duration::from_secs(30),
            },
            disable_after: Duration::ZERO,
        };
        let longest = |n| (0..2000u64).map(|dice| policy.wait(n, None, dice * 7919)).max().unwrap();
        for (n, bound_ms) in [(1, 500), (2, 1000), (3, 2000), (7, 30_000), (u32::MAX, 30_000)] {
            let bound = Duration::from_millis(bound_ms);
            // As many dice as make it likely to come near the bound.
            assert!(longest(n) <= bound && longest(n) > bound / 3, "{n}: {:?}", longest(n));
        }
        let asked = |secs| policy.wait(1, Some(Duration::from_secs(secs)), 0);
        assert_eq!(asked(120), Duration::from_secs(120), "longer than the backoff is fine");
        assert_eq!(asked(u64::MAX), limits::RETRY_AFTER_MAX, "but there is an end to it");
        assert_eq!(policy.wait(1, Some(Duration::ZERO), 400_000), Duration::from_micros(400_000));
    }

    #[test]
    fn a_listed_schedule_has_as_many_retries_as_waits_each_within_a_tenth() {
        let waits = [5, 120, 43_200].map(Duration::from_secs);
        let schedule = DeliverySchedule::Listed(waits.into());
        let policy = DeliveryPolicy { schedule, disable_after: Duration::ZERO };
        assert_eq!(policy.schedule.attempts_max(), 4);
        for (n, wait) in [(1, waits[0]), (2, waits[1]), (3, waits[2])] {
            let all: Vec<Duration> =
                (0..500u64).map(|dice| policy.wait(n, None, dice * 79_190_017)).collect();
            let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
            assert!(*least >= wait - wait / 10 && *most <= wait + wait / 10, "{n}: {least:?} to {most:?}");
            assert!(*most - *least > wait / 10, "{n}: {least:?} to {most:?}");
        }
        let none = DeliverySchedule::Listed([].into());
        assert_eq!((none.attempts_max(), none.backoff(1, 7)), (1, Duration::ZERO));
    }

    proptest! {
        #[test]
        fn garbage_is_corrupt_and_never_a_panic(bytes: Vec<u8>) {
            let _ = Delivery::decode(DeliveryId::from_u128(1), &bytes);
        }
    }
}
