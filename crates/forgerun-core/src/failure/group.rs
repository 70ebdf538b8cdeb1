//! A group of failures with the same reason: counts, times and affected owners.

use alloc::string::String;
use alloc::vec::Vec;

use super::FailureId;
use crate::catalog::Kind;
use crate::codec::{Corrupt, Field, Fields, Writer, put_varint, take_varint};
use crate::id::{ClientId, JobId};
use crate::job::{Job, Name};
use crate::limits;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

pub const HOURS: usize = 24;

/// Hours since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hour(pub i64);

impl Hour {
    /// The hour of a moment.
    pub const fn of(time: Time) -> Hour {
        Hour(time.as_micros().div_euclid(3_600_000_000))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureGroup {
    pub id: FailureId,
    pub kind: Kind,
    pub code: String,
    /// Operation, simulated work kind, or job type; may be empty.
    pub subject: String,
    /// The normalised message.
    pub message: String,
    pub count: u64,
    pub first_at: Time,
    pub last_at: Time,
    /// Failures per hour, newest last; the last is the hour of `last_at`.
    hours: [u64; HOURS],
    /// Affected clients; at most [`limits::FAILURE_SOURCES_MAX`].
    pub clients: Vec<ClientId>,
    /// Affected queues; bounded likewise.
    pub queues: Vec<Name>,
    /// Newest failed jobs, newest first; at most [`limits::FAILURE_EXAMPLES_MAX`].
    pub examples: Vec<JobId>,
}

impl FailureGroup {
    /// A group with the just ended execution of `job` in it.
    pub(crate) fn of_job(job: &Job, id: FailureId, at: Time) -> Option<FailureGroup> {
        let error = job.last_error()?;
        let mut hours = [0; HOURS];
        hours[HOURS - 1] = 1;
        Some(FailureGroup {
            id,
            kind: error.kind,
            code: error.code.clone(),
            subject: super::subject(job).into(),
            message: super::normalised(&error.message),
            count: 1,
            first_at: at,
            last_at: at,
            hours,
            clients: alloc::vec![job.head.client],
            queues: alloc::vec![job.head.queue.clone()],
            examples: alloc::vec![job.id],
        })
    }

    /// Failures per hour, newest last; the last is the hour of `now`.
    pub fn trend(&self, now: Time) -> [u64; HOURS] {
        let mut hours = self.hours;
        shift(&mut hours, Hour::of(now).0 - Hour::of(self.last_at).0);
        hours
    }

    pub fn merge(&mut self, other: &FailureGroup) {
        debug_assert_eq!(self.id, other.id);
        let last = Hour::of(self.last_at.max(other.last_at)).0;
        shift(&mut self.hours, last - Hour::of(self.last_at).0);
        let mut hours = other.hours;
        shift(&mut hours, last - Hour::of(other.last_at).0);
        self.hours.iter_mut().zip(hours).for_each(|(sum, n)| *sum += n);
        self.count += other.count;
        // The newest first, from both groups.
        let newer_last = other.last_at >= self.last_at;
        let (newer, older) = match newer_last {
            true => (other.examples.clone(), core::mem::take(&mut self.examples)),
            false => (core::mem::take(&mut self.examples), other.examples.clone()),
        };
        self.examples = joined(newer, &older, limits::FAILURE_EXAMPLES_MAX);
        self.clients =
            joined(core::mem::take(&mut self.clients), &other.clients, limits::FAILURE_SOURCES_MAX);
        self.queues = joined(core::mem::take(&mut self.queues), &other.queues, limits::FAILURE_SOURCES_MAX);
        self.first_at = self.first_at.min(other.first_at);
        self.last_at = self.last_at.max(other.last_at);
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) {
        out.bytes(1, &self.id.0.to_be_bytes());
        out.text(2, Some(self.kind.name()));
        out.text(3, Some(&self.code));
        out.text(4, Some(&self.subject));
        out.text(5, Some(&self.message));
        out.number(6, self.count);
        out.time(7, Some(self.first_at));
        out.time(8, Some(self.last_at));
        let mut hours = Vec::with_capacity(HOURS);
        self.hours.iter().for_each(|n| put_varint(&mut hours, *n));
        out.bytes(9, &hours);
        self.clients.iter().for_each(|client| out.bytes(10, &client.to_bytes()));
        self.queues.iter().for_each(|queue| out.text(11, Some(queue.as_str())));
        self.examples.iter().for_each(|job| out.bytes(12, &job.to_bytes()));
    }

    pub(super) fn read(bytes: &[u8]) -> Result<FailureGroup, Corrupt> {
        let mut group = FailureGroup {
            id: FailureId(0),
            kind: Kind::HandlerError,
            code: String::new(),
            subject: String::new(),
            message: String::new(),
            count: 0,
            first_at: Time::ZERO,
            last_at: Time::ZERO,
            hours: [0; HOURS],
            clients: Vec::new(),
            queues: Vec::new(),
            examples: Vec::new(),
        };
        for field in Fields(bytes) {
            group.take(&field?)?;
        }
        if group.count == 0 { Err(Corrupt) } else { Ok(group) }
    }

    fn take(&mut self, field: &Field<'_>) -> Result<(), Corrupt> {
        match field.tag {
            1 => self.id = FailureId(u64::from_be_bytes(field.bytes.try_into().map_err(|_| Corrupt)?)),
            // A kind that this version does not know still is a failure.
            2 => self.kind = Kind::from_name(field.str()?).unwrap_or(Kind::HandlerError),
            3 => self.code = field.text()?,
            4 => self.subject = field.text()?,
            5 => self.message = field.text()?,
            6 => self.count = field.number()?,
            7 => self.first_at = field.time()?,
            8 => self.last_at = field.time()?,
            9 => {
                let mut rest = field.bytes;
                for n in &mut self.hours {
                    *n = take_varint(&mut rest)?;
                }
            }
            10 => self.clients.push(ClientId::from_u128(field.id()?)),
            11 => self.queues.push(Name::joined(field.str()?)),
            12 => self.examples.push(JobId::from_u128(field.id()?)),
            _ => {}
        }
        Ok(())
    }
}

impl Stored for FailureGroup {
    const KIND: RecordKind = RecordKind::FailureGroup;

    fn key(&self) -> String {
        super::key(self.id)
    }

    fn due_at(&self) -> Option<Time> {
        Some(self.last_at + limits::FAILURE_GROUP_KEEP)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        self.write(&mut Writer(&mut bytes));
        bytes
    }

    fn decode(_key: &str, bytes: &[u8]) -> Result<FailureGroup, Corrupt> {
        FailureGroup::read(bytes)
    }
}

/// Shifts by `passed` hours; older ones are dropped.
fn shift(hours: &mut [u64; HOURS], passed: i64) {
    let passed = usize::try_from(passed).unwrap_or(0).min(HOURS);
    hours.rotate_left(passed);
    hours[HOURS - passed..].fill(0);
}

/// Union of two lists, at most `max` long.
fn joined<T: Clone + PartialEq>(mut one: Vec<T>, other: &[T], max: usize) -> Vec<T> {
    for item in other {
        if one.len() >= max {
            break;
        }
        if !one.contains(item) {
            one.push(item.clone());
        }
    }
    one.truncate(max);
    one
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use core::time::Duration;

    use super::*;
    use crate::job::{AttemptError, Head};

    const HOUR: Duration = Duration::from_secs(3600);

    fn failed(n: u128, at: Time) -> FailureGroup {
        let head = Head::new(ClientId::from_u128(n % 3), Name::new("q").unwrap(), Time::ZERO);
        let mut job = Job::blank(JobId::from_u128(n), Arc::new(head));
        job.errors.push(AttemptError {
            attempt: 1,
            at,
            kind: Kind::HandlerError,
            code: "E_DISK".into(),
            message: alloc::format!("disk {n} is full"),
            class: None,
            retryable: true,
            details: Vec::new(),
            wait: None,
            discarded: false,
            execution: 1,
        });
        let id = FailureId::of(&job).unwrap();
        FailureGroup::of_job(&job, id, at).unwrap()
    }

    fn at(hours: u32) -> Time {
        Time::from_millis(1_700_000_000_000) + HOUR * hours
    }

    #[test]
    fn failures_of_one_reason_are_added_up_in_any_order() {
        let all: Vec<FailureGroup> = (0..50).map(|n| failed(n, at(n as u32 % 30))).collect();
        let sum = |order: &mut dyn Iterator<Item = &FailureGroup>| {
            let mut sum = order.next().unwrap().clone();
            order.for_each(|one| sum.merge(one));
            sum
        };
        let (there, back) = (sum(&mut all.iter()), sum(&mut all.iter().rev()));
        assert_eq!((there.count, there.first_at, there.last_at), (50, at(0), at(29)));
        assert_eq!(there.hours, back.hours);
        assert_eq!((there.message.as_str(), there.clients.len()), ("disk <n> is full", 3));
        assert_eq!(there.examples.len(), limits::FAILURE_EXAMPLES_MAX);
        assert_eq!(there.queues.len(), 1);
        // Hours 6 to 29. The first six are too old: they were 0 to 5, and 30 to 35 a second time.
        let young = (0..50u32).filter(|n| n % 30 >= 6).count() as u64;
        assert_eq!(there.trend(at(29)).iter().sum::<u64>(), young);
    }

    #[test]
    fn the_trend_ends_with_the_hour_that_it_is() {
        let mut group = failed(1, at(0));
        group.merge(&failed(2, at(2)));
        let mut expected = [0; HOURS];
        (expected[HOURS - 1], expected[HOURS - 3]) = (1, 1);
        assert_eq!(group.trend(at(2)), expected);
        let later = group.trend(at(4));
        assert_eq!((later[HOURS - 1], later[HOURS - 3], later[HOURS - 5]), (0, 1, 1));
        assert_eq!(group.trend(at(100)), [0; HOURS]);
    }

    #[test]
    fn the_newest_examples_come_first() {
        let mut group = failed(1, at(0));
        for n in 2..6 {
            group.merge(&failed(n, at(n as u32)));
        }
        assert_eq!(group.examples, [5, 4, 3].map(JobId::from_u128));
    }

    #[test]
    fn a_group_is_read_back_as_it_was_written_and_damage_is_an_error() {
        let mut group = failed(1, at(0));
        group.merge(&failed(2, at(3)));
        assert_eq!(FailureGroup::of(&group.to_record(1)), Ok(group.clone()));
        assert_eq!(FailureGroup::decode("", &[]), Err(Corrupt));
        assert_eq!(FailureGroup::decode("", &[9, 1, 0]), Err(Corrupt));
    }
}
