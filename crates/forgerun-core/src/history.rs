//! Events of a job; the compact history stored in a job row; and the journal with the events of all
//! jobs and webhooks.
//!
//! Every change of state is one [`Event`]. Progress and the notification of an EMIT_EVENT job are
//! events too, but change no state: they go to the journal only.

use alloc::vec::Vec;

use crate::codec::{Corrupt, VARINT_MAX, lay_varint, put_varint, take_varint};
use crate::id::{ClientId, EventId, JobId, WebhookId};
use crate::limits;
use crate::state::{Cause, State};
use crate::time::Time;
use crate::webhook::{Disabled, DisabledReason, Notice};

/// An event of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// 1 for the first event of the job; unique within the job.
    pub n: u32,
    pub kind: EventKind,
    /// Strictly later than the event before.
    pub at: Time,
    /// The attempt that was running or about to begin, from 1.
    pub attempt: u32,
    /// From 1.
    pub execution: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Moved {
        /// `None` for the first event.
        from: Option<State>,
        to: State,
        cause: Cause,
        /// For a failure: whether another attempt follows.
        retry_status: RetryStatus,
    },
    /// Progress in percent.
    Progress(u8),
    /// The notification of an EMIT_EVENT job.
    Emitted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum RetryStatus {
    /// Not a failure; or one that the server does not retry, but a client may.
    #[default]
    Open = 0,
    /// The server will retry.
    WillRetry = 1,
    /// No retry is left.
    Final = 2,
}

/// Each transport derives its own spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventName {
    Created,
    Queued,
    Assigned,
    Requeued,
    Started,
    Progress,
    Emitted,
    Succeeded,
    Failed,
    Mixed,
    TimedOut,
    Canceled,
}

impl Event {
    pub const fn name(&self) -> EventName {
        match self.kind {
            EventKind::Progress(_) => EventName::Progress,
            EventKind::Emitted => EventName::Emitted,
            EventKind::Moved { to, cause, .. } => match (to, cause) {
                (State::Created, _) => EventName::Created,
                (State::Queued, Cause::LeaseExpired | Cause::HandBack) => EventName::Requeued,
                (State::Queued, _) => EventName::Queued,
                (State::Assigned, _) => EventName::Assigned,
                (State::Running, _) => EventName::Started,
                (State::Succeeded, _) => EventName::Succeeded,
                (State::Failed, Cause::Timeout) => EventName::TimedOut,
                (State::Failed, Cause::Mixed) => EventName::Mixed,
                (State::Failed, _) => EventName::Failed,
                (State::Canceled, _) => EventName::Canceled,
            },
        }
    }

    pub const fn id(&self, job: JobId) -> EventId {
        EventId::of(job, self.n, self.at.unix_ms())
    }

    /// Whether it ended its execution: the outcome was written with it.
    pub const fn ends(&self) -> bool {
        match self.kind {
            EventKind::Moved { to, retry_status, .. } => {
                to.is_final() && !matches!(retry_status, RetryStatus::WillRetry)
            }
            EventKind::Progress(_) | EventKind::Emitted => false,
        }
    }

    /// Whether it came after the event of the same job with this id. The id has only the lowest
    /// bits of the number, which suffices: within one millisecond there are a thousand events at
    /// most.
    pub const fn is_after(&self, id: EventId) -> bool {
        let (ms, id_ms) = (self.at.unix_ms(), id.unix_ms());
        let ahead = (self.n as u16).wrapping_sub(id.n_low()) & 0xfff;
        ms > id_ms || ms == id_ms && ahead > 0 && ahead < 0x800
    }

    /// The bytes of this event alone.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes
    }

    /// Decodes the bytes of [`Self::to_bytes`].
    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Result<Event, Corrupt> {
        let event = Event::decode(&mut bytes)?;
        if bytes.is_empty() { Ok(event) } else { Err(Corrupt) }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let kind = match self.kind {
            EventKind::Moved { from, to, cause, retry_status } => {
                let from = from.map_or(NO_STATE, State::as_u8);
                [cause.as_u8(), from << 4 | to.as_u8(), retry_status as u8]
            }
            EventKind::Progress(percent) => [PROGRESS, percent, 0],
            EventKind::Emitted => [EMITTED, 0, 0],
        };
        let mut bytes = [0; 3 + 4 * VARINT_MAX];
        bytes[..3].copy_from_slice(&kind);
        let mut len = 3;
        let micros = self.at.as_micros() as u64;
        for number in [u64::from(self.n), micros, u64::from(self.attempt), u64::from(self.execution)] {
            len += lay_varint(&mut bytes[len..], number);
        }
        out.extend_from_slice(&bytes[..len]);
    }

    fn decode(from: &mut &[u8]) -> Result<Event, Corrupt> {
        let (&[what, data, more], rest) = from.split_first_chunk::<3>().ok_or(Corrupt)?;
        *from = rest;
        let kind = match what {
            PROGRESS => EventKind::Progress(data),
            EMITTED => EventKind::Emitted,
            cause => EventKind::Moved {
                from: match data >> 4 {
                    NO_STATE => None,
                    state => Some(State::from_u8(state).ok_or(Corrupt)?),
                },
                to: State::from_u8(data & 0xf).ok_or(Corrupt)?,
                cause: Cause::from_u8(cause).ok_or(Corrupt)?,
                retry_status: match more {
                    0 => RetryStatus::Open,
                    1 => RetryStatus::WillRetry,
                    2 => RetryStatus::Final,
                    _ => return Err(Corrupt),
                },
            },
        };
        let mut small = || u32::try_from(take_varint(from)?).map_err(|_| Corrupt);
        let n = small()?;
        let at = Time::from_micros(take_varint(from)? as i64);
        let mut small = || u32::try_from(take_varint(from)?).map_err(|_| Corrupt);
        Ok(Event { n, kind, at, attempt: small()?, execution: small()? })
    }
}

const PROGRESS: u8 = 0x80;
const EMITTED: u8 = 0x81;
/// In the journal, in place of a cause: what follows is about a webhook.
const WEBHOOK_DISABLED: u8 = 0x82;
const NO_STATE: u8 = 0xf;

/// The state changes of one job, oldest first, as stored with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    bytes: Vec<u8>,
    n_kept: u32,
    n_last: u32,
    at_last: Option<Time>,
}

impl History {
    /// Number and moment of the next event: strictly after the last one, even if the clock stood
    /// still or went back.
    pub fn next(&self, now: Time) -> (u32, Time) {
        let at = self.at_last.map_or(now, |last| now.max(last + core::time::Duration::from_micros(1)));
        (self.n_last + 1, at)
    }

    /// Counts an event that is not stored, so that numbers and moments stay unique.
    pub(crate) fn count(&mut self, event: &Event) {
        debug_assert!(event.n > self.n_last, "events are numbered upwards");
        self.n_last = event.n;
        self.at_last = Some(event.at);
    }

    /// Adds the newest event and drops old ones beyond the bound.
    pub(crate) fn push(&mut self, event: &Event) {
        if self.n_kept as usize >= limits::EVENTS_MAX {
            self.forget_older_half();
        }
        self.count(event);
        event.encode(&mut self.bytes);
        self.n_kept += 1;
    }

    /// The events, oldest first. Unreadable bytes end the list: a lost event must not break its
    /// job.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        let mut rest = self.bytes.as_slice();
        core::iter::from_fn(move || if rest.is_empty() { None } else { Event::decode(&mut rest).ok() })
    }

    /// Number of stored events.
    pub fn len(&self) -> usize {
        self.n_kept as usize
    }

    pub fn is_empty(&self) -> bool {
        self.n_kept == 0
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.n_kept));
        put_varint(out, u64::from(self.n_last));
        put_varint(out, self.at_last.map_or(0, |at| at.as_micros() as u64));
        out.extend_from_slice(&self.bytes);
    }

    pub(crate) fn decode(mut from: &[u8]) -> Result<History, Corrupt> {
        let n_kept = u32::try_from(take_varint(&mut from)?).map_err(|_| Corrupt)?;
        let n_last = u32::try_from(take_varint(&mut from)?).map_err(|_| Corrupt)?;
        let micros = take_varint(&mut from)? as i64;
        // By the number, not by the moment: a clock may stand at the epoch.
        let at_last = (n_last > 0).then_some(Time::from_micros(micros));
        Ok(History { bytes: from.to_vec(), n_kept, n_last, at_last })
    }

    fn forget_older_half(&mut self) {
        let kept: Vec<Event> = self
            .events()
            .enumerate()
            .filter(|(i, _)| *i == 0 || *i >= limits::EVENTS_MAX / 2)
            .map(|(_, e)| e)
            .collect();
        self.bytes.clear();
        for event in &kept {
            event.encode(&mut self.bytes);
        }
        self.n_kept = kept.len() as u32;
    }
}

/// One journal entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// Owner of the job or webhook.
    pub client: ClientId,
    pub about: JournalSubject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalSubject {
    Job { job: JobId, event: Event },
    Webhook(Notice),
}

impl JournalEntry {
    pub const fn of_job(job: JobId, client: ClientId, event: Event) -> JournalEntry {
        JournalEntry { client, about: JournalSubject::Job { job, event } }
    }

    /// The job and its event, if the entry is about a job.
    pub const fn job_event(&self) -> Option<(JobId, &Event)> {
        match &self.about {
            JournalSubject::Job { job, event } => Some((*job, event)),
            JournalSubject::Webhook(_) => None,
        }
    }

    pub const fn at(&self) -> Time {
        match &self.about {
            JournalSubject::Job { event, .. } => event.at,
            JournalSubject::Webhook(notice) => notice.disabled.at,
        }
    }

    pub const fn id(&self) -> EventId {
        match &self.about {
            JournalSubject::Job { job, event } => event.id(*job),
            JournalSubject::Webhook(notice) => notice.id(),
        }
    }
}

/// Encodes a journal row: all entries of one transaction, in order.
pub fn encode_entries(entries: &[JournalEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * 48);
    for entry in entries {
        let client = entry.client.to_bytes();
        match &entry.about {
            JournalSubject::Job { job, event } => {
                out.extend_from_slice(&job.to_bytes());
                out.extend_from_slice(&client);
                event.encode(&mut out);
            }
            JournalSubject::Webhook(Notice { webhook, n, disabled }) => {
                out.extend_from_slice(&webhook.to_bytes());
                out.extend_from_slice(&client);
                out.extend_from_slice(&[WEBHOOK_DISABLED, disabled.reason as u8]);
                put_varint(&mut out, u64::from(*n));
                put_varint(&mut out, disabled.at.as_micros() as u64);
            }
        }
    }
    out
}

/// Decodes the bytes of [`encode_entries`].
pub fn decode_entries(mut from: &[u8]) -> Result<Vec<JournalEntry>, Corrupt> {
    let mut entries = Vec::new();
    while !from.is_empty() {
        let (id, rest) = from.split_first_chunk::<16>().ok_or(Corrupt)?;
        let (client, rest) = rest.split_first_chunk::<16>().ok_or(Corrupt)?;
        from = rest;
        let (id, client) = (u128::from_be_bytes(*id), ClientId::from_u128(u128::from_be_bytes(*client)));
        let about = match from {
            [WEBHOOK_DISABLED, reason, rest @ ..] => {
                from = rest;
                let n = u32::try_from(take_varint(&mut from)?).map_err(|_| Corrupt)?;
                let at = Time::from_micros(take_varint(&mut from)? as i64);
                let disabled = Disabled { at, reason: DisabledReason::from_u64(u64::from(*reason))? };
                JournalSubject::Webhook(Notice { webhook: WebhookId::from_u128(id), n, disabled })
            }
            _ => JournalSubject::Job { job: JobId::from_u128(id), event: Event::decode(&mut from)? },
        };
        entries.push(JournalEntry { client, about });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn moved(n: u32, from: Option<State>, to: State, cause: Cause) -> Event {
        let kind = EventKind::Moved { from, to, cause, retry_status: RetryStatus::Open };
        Event { n, kind, at: Time::from_millis(i64::from(n)), attempt: 1, execution: 1 }
    }

    #[test]
    fn a_history_comes_back_as_it_was_written() {
        let mut history = History::default();
        let events = [
            moved(1, None, State::Created, Cause::Submit),
            moved(2, Some(State::Created), State::Queued, Cause::Due),
            moved(3, Some(State::Queued), State::Canceled, Cause::CancelByUser),
        ];
        events.iter().for_each(|event| history.push(event));
        let mut bytes = Vec::new();
        history.encode(&mut bytes);
        let read = History::decode(&bytes).unwrap();
        assert_eq!(read, history);
        assert_eq!(read.events().collect::<Vec<_>>(), events);
    }

    #[test]
    fn the_next_event_is_later_even_when_the_clock_goes_back() {
        let mut history = History::default();
        history.push(&moved(1, None, State::Created, Cause::Submit));
        let (n, at) = history.next(Time::ZERO);
        assert_eq!((n, at), (2, Time::from_micros(1001)));
    }

    #[test]
    fn a_long_history_keeps_its_birth_and_its_newest_events() {
        let mut history = History::default();
        let last = 3 * limits::EVENTS_MAX as u32;
        (1..=last).for_each(|n| history.push(&moved(n, Some(State::Queued), State::Assigned, Cause::Claim)));
        assert!(history.len() <= limits::EVENTS_MAX);
        let numbers: Vec<u32> = history.events().map(|event| event.n).collect();
        assert_eq!((numbers[0], *numbers.last().unwrap()), (1, last));
        assert!(numbers.is_sorted());
    }

    #[test]
    fn an_event_is_after_the_ids_of_all_before_it_and_of_no_other() {
        let job = JobId::v7(1, 1);
        // Crosses the number at which the bits in the id begin again, many within a millisecond.
        let events: Vec<Event> = (4000..4200)
            .map(|n| Event {
                at: Time::from_micros(i64::from(n) * 7),
                ..moved(n, None, State::Created, Cause::Submit)
            })
            .collect();
        for event in &events {
            for other in &events {
                assert_eq!(event.is_after(other.id(job)), event.n > other.n, "{} {}", event.n, other.n);
            }
        }
    }

    #[test]
    fn only_a_final_state_without_a_retry_to_come_ends_an_execution() {
        for to in State::ALL {
            for retry_status in [RetryStatus::Open, RetryStatus::WillRetry, RetryStatus::Final] {
                let kind = EventKind::Moved { from: None, to, cause: Cause::Fail, retry_status };
                let event = Event { kind, ..moved(1, None, to, Cause::Fail) };
                assert_eq!(event.ends(), to.is_final() && retry_status != RetryStatus::WillRetry);
            }
        }
    }

    #[test]
    fn journal_rows_come_back() {
        let client = ClientId::from_u128(7);
        let entry = |n, kind| {
            let event = Event { n, kind, at: Time::from_millis(5), attempt: 300, execution: 2 };
            JournalEntry::of_job(JobId::from_u128(u128::MAX), client, event)
        };
        let disabled = Disabled { at: Time::from_micros(5_000_123), reason: DisabledReason::Gone };
        let notice = Notice { webhook: WebhookId::from_u128(u128::MAX), n: 300, disabled };
        let notice = JournalEntry { client, about: JournalSubject::Webhook(notice) };
        let entries = [entry(1, EventKind::Progress(40)), notice, entry(2, EventKind::Emitted)];
        assert_eq!(decode_entries(&encode_entries(&entries)).unwrap(), entries);
    }

    proptest! {
        #[test]
        fn garbage_is_corrupt_and_never_a_panic(bytes: Vec<u8>) {
            let _ = decode_entries(&bytes);
            if let Ok(history) = History::decode(&bytes) {
                history.events().count();
            }
        }
    }
}
