//! Schedules: recurring jobs, by a cron expression in a time zone.
//!
//! A schedule is a record with its next *tick*: the moment of its next job. When it is due, one
//! transaction makes the job and advances the record; a second node finds the record changed and
//! does nothing. So each tick makes one job at most, however many nodes check, and whenever one of
//! them dies. Ticks only ascend: a clock that is set back waits until it has caught up.
//!
//! The meaning of an expression is not known here. The sender of a command computes the ticks,
//! because the rules of time zones change and are read from outside.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::codec::{Corrupt, Field, Fields, Writer};
use crate::id::{ClientId, JobId};
use crate::job::{Head, Input, Limit, Name, ScheduledRun};
use crate::limits;
use crate::queue::Owner;
use crate::random::mix;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

/// Identity of a schedule: owner and name, so two owners may both have a `nightly`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduleId {
    /// Owner of the schedule and its jobs.
    pub owner: Owner,
    pub name: Name,
}

impl ScheduleId {
    pub fn key(&self) -> String {
        format!("{}{}", self.owner.prefix(), self.name)
    }
}

/// What a tick does while an earlier job has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Overlap {
    #[default]
    Skip = 0,
    /// Both jobs may run at once.
    Allow = 1,
    /// The earlier job is cancelled.
    CancelPrevious = 2,
    /// The new job waits until the earlier one has ended.
    Enqueue = 3,
}

/// What happens to ticks that were missed because no node was running or a clock was set forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// They are skipped. A tick is missed once it is [`limits::SCHEDULE_LATE`] old.
    Nothing,
    /// The newest one is caught up.
    #[default]
    One,
    /// The newest ones are caught up, up to this many; at most [`limits::CATCH_UP_MAX`].
    All(u32),
}

/// Why a tick made no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TickSkip {
    /// The job of an earlier tick had not ended.
    Overlap = 0,
    /// A job with the same unique key existed.
    Duplicate = 1,
    /// The job was refused for another reason.
    Refused = 2,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub id: ScheduleId,
    pub expression: String,
    /// IANA name of the time zone of the expression.
    pub zone: String,
    /// What a tick does while an earlier job has not ended.
    pub overlap: Overlap,
    /// What happens to missed ticks.
    pub catch_up: CatchUp,
    /// Each job comes up to this much after its tick, so that not all schedules run at once.
    pub jitter: Duration,
    pub description: Option<String>,
    /// The head of every job. Its moments are relative to its `created_at`.
    pub head: Arc<Head>,
    pub input: Arc<Input>,
    /// The owner's description of the job, to be shown again.
    pub given: Vec<u8>,
    /// When it was paused.
    pub paused_at: Option<Time>,
    /// The next tick to process; `None` if there is no further tick.
    pub next_at: Option<Time>,
    /// Set if the queue was full at the next tick: retry at this moment.
    pub put_off_until: Option<Time>,
    /// The newest tick that made a job, or the moment of a newer trigger.
    pub last_at: Option<Time>,
    pub last_job: Option<JobId>,
    /// The job of the newest tick. Overlap is checked against it; triggered jobs are ignored.
    pub tick_job: Option<JobId>,
    /// The newest tick that made no job, and why.
    pub last_skip: Option<(Time, TickSkip)>,
    pub n_runs: u64,
    /// Ticks that made no job.
    pub n_skipped: u64,
    /// Ticks that were missed and not caught up, as far as they were counted.
    pub n_missed: u64,
    /// When missed ticks were last found.
    pub missed_at: Option<Time>,
    pub created_at: Time,
    /// When its owner last changed it.
    pub updated_at: Time,
    /// Start of intervals.
    pub anchor: Time,
}

impl Schedule {
    /// A schedule before its first tick.
    pub fn new(id: ScheduleId, expression: String, zone: String, head: Head, input: Arc<Input>) -> Schedule {
        let now = head.created_at;
        Schedule {
            id,
            expression,
            zone,
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            jitter: Duration::ZERO,
            description: None,
            head: Arc::new(head),
            input,
            given: Vec::new(),
            paused_at: None,
            next_at: None,
            put_off_until: None,
            last_at: None,
            last_job: None,
            tick_job: None,
            last_skip: None,
            n_runs: 0,
            n_skipped: 0,
            n_missed: 0,
            missed_at: None,
            created_at: now,
            updated_at: now,
            anchor: now,
        }
    }

    /// When the job of a tick is due: the tick plus its jitter, which follows from the schedule and
    /// the tick. So every node computes the same moment.
    pub fn comes_at(&self, tick: Time) -> Time {
        let span = u64::try_from(self.jitter.as_micros()).unwrap_or(u64::MAX);
        if span == 0 {
            return tick;
        }
        let name = self.id.key().bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
        tick + Duration::from_micros(mix(name ^ tick.as_micros() as u64) % span)
    }

    /// Whether two schedules tick at the same moments.
    pub fn ticks_like(&self, other: &Schedule) -> bool {
        self.expression == other.expression && self.zone == other.zone
    }

    /// How many of the newest of these due ticks make a job.
    pub(crate) fn made_up(&self, ticks: &[Time], now: Time) -> usize {
        match (self.catch_up, ticks.last()) {
            (_, None) => 0,
            (CatchUp::Nothing, Some(last)) => {
                usize::from(now.since(self.comes_at(*last)) <= limits::SCHEDULE_LATE)
            }
            (CatchUp::One, Some(_)) => 1,
            (CatchUp::All(max), Some(_)) => ticks.len().min((max as usize).clamp(1, limits::CATCH_UP_MAX)),
        }
    }

    /// The head of the job of a tick.
    pub(crate) fn head_of(&self, tick: Time, now: Time) -> Head {
        let born = self.head.created_at;
        let moved = |at: Option<Time>| at.map(|at| now + at.since(born));
        let mut head = Head {
            created_at: now,
            execution_at: None,
            expires_at: moved(self.head.expires_at),
            deadline: moved(self.head.deadline),
            schedule: Some(ScheduledRun { name: self.id.name.clone(), tick }),
            ..(*self.head).clone()
        };
        if let Some(unique) = &mut head.unique {
            unique.until = moved(unique.until);
        }
        if self.overlap == Overlap::Enqueue && head.limits.is_empty() {
            let key = self.id.owner.scoped(&format!("schedule:{}", self.id.name));
            head.limits.push(Limit { key, concurrency: Some(1), rate: None });
        }
        head
    }
}

impl Stored for Schedule {
    const KIND: RecordKind = RecordKind::Schedule;

    fn key(&self) -> String {
        self.id.key()
    }

    fn group(&self) -> String {
        self.id.owner.prefix()
    }

    fn due_at(&self) -> Option<Time> {
        let comes_at = self.comes_at(self.next_at.filter(|_| self.paused_at.is_none())?);
        Some(self.put_off_until.map_or(comes_at, |until| comes_at.max(until)))
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512);
        let mut out = Writer(&mut bytes);
        out.bytes(1, &self.id.owner.client.to_bytes());
        out.text(2, self.id.owner.tenant.as_ref().map(Name::as_str));
        out.text(3, Some(self.id.name.as_str()));
        out.text(4, Some(&self.expression));
        out.text(5, Some(&self.zone));
        out.number(6, self.overlap as u64);
        out.number(
            7,
            match self.catch_up {
                CatchUp::One => 0,
                CatchUp::Nothing => 1,
                CatchUp::All(max) => u64::from(max) + 2,
            },
        );
        out.span(8, Some(self.jitter).filter(|jitter| !jitter.is_zero()));
        out.text(9, self.description.as_deref());
        out.bytes(10, &self.head.encode());
        out.bytes(11, &self.input.encode());
        out.bytes(12, &self.given);
        out.time(13, self.paused_at);
        out.time(14, self.next_at);
        out.time(15, self.put_off_until);
        out.time(16, self.last_at);
        if let Some(job) = self.last_job {
            out.bytes(17, &job.to_bytes());
        }
        if let Some((tick, why)) = self.last_skip {
            out.time(18, Some(tick));
            out.number(19, why as u64);
        }
        out.number(20, self.n_runs);
        out.number(21, self.n_skipped);
        out.number(22, self.n_missed);
        out.time(23, Some(self.created_at));
        out.time(24, Some(self.updated_at));
        out.time(25, Some(self.anchor));
        if self.tick_job != self.last_job {
            out.bytes(26, &self.tick_job.unwrap_or(NO_JOB).to_bytes());
        }
        out.time(27, self.missed_at);
        bytes
    }

    fn decode(_key: &str, bytes: &[u8]) -> Result<Schedule, Corrupt> {
        let nobody = Owner::client(ClientId::from_u128(0));
        let id = ScheduleId { owner: nobody, name: Name::joined("") };
        let head = Head::new(id.owner.client, Name::joined(""), Time::ZERO);
        let mut schedule = Schedule::new(id, String::new(), String::new(), head, Arc::default());
        for field in Fields(bytes) {
            schedule.read(&field?)?;
        }
        if schedule.id.name.as_str().is_empty() || schedule.head.queue.as_str().is_empty() {
            return Err(Corrupt);
        }
        Ok(schedule)
    }
}

impl Schedule {
    fn read(&mut self, field: &Field<'_>) -> Result<(), Corrupt> {
        let name = || Name::new(field.str()?).ok_or(Corrupt);
        match field.tag {
            1 => self.id.owner.client = ClientId::from_u128(field.id()?),
            2 => self.id.owner.tenant = Some(name()?),
            3 => self.id.name = name()?,
            4 => self.expression = field.text()?,
            5 => self.zone = field.text()?,
            6 => self.overlap = overlap(field)?,
            7 => {
                self.catch_up = match field.number()? {
                    1 => CatchUp::Nothing,
                    number => {
                        let max = number.checked_sub(2).ok_or(Corrupt)?;
                        CatchUp::All(u32::try_from(max).map_err(|_| Corrupt)?)
                    }
                }
            }
            8 => self.jitter = field.span()?,
            9 => self.description = Some(field.text()?),
            10 => self.head = Arc::new(Head::decode(field.bytes)?),
            11 => self.input = Arc::new(Input::decode(field.bytes)?),
            12 => self.given = field.bytes.to_vec(),
            13 => self.paused_at = Some(field.time()?),
            14 => self.next_at = Some(field.time()?),
            15 => self.put_off_until = Some(field.time()?),
            16 => self.last_at = Some(field.time()?),
            // Earlier versions kept only the last job.
            17 => {
                self.last_job = Some(JobId::from_u128(field.id()?));
                self.tick_job = self.last_job;
            }
            18 => self.last_skip = Some((field.time()?, TickSkip::Overlap)),
            19 => self.last_skip = Some((self.last_skip.ok_or(Corrupt)?.0, skip(field)?)),
            20 => self.n_runs = field.number()?,
            21 => self.n_skipped = field.number()?,
            22 => self.n_missed = field.number()?,
            23 => self.created_at = field.time()?,
            24 => self.updated_at = field.time()?,
            25 => self.anchor = field.time()?,
            27 => self.missed_at = Some(field.time()?),
            26 => self.tick_job = Some(JobId::from_u128(field.id()?)).filter(|job| *job != NO_JOB),
            _ => {}
        }
        Ok(())
    }
}

/// Written if no tick has made a job, but a trigger has.
const NO_JOB: JobId = JobId::from_u128(0);

fn overlap(field: &Field<'_>) -> Result<Overlap, Corrupt> {
    match field.number()? {
        1 => Ok(Overlap::Allow),
        2 => Ok(Overlap::CancelPrevious),
        3 => Ok(Overlap::Enqueue),
        _ => Err(Corrupt),
    }
}

fn skip(field: &Field<'_>) -> Result<TickSkip, Corrupt> {
    match field.number()? {
        1 => Ok(TickSkip::Duplicate),
        2 => Ok(TickSkip::Refused),
        _ => Err(Corrupt),
    }
}

/// The number of a client's schedules, so that the bound need not list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleCount {
    pub client: ClientId,
    pub n: u64,
}

impl Stored for ScheduleCount {
    const KIND: RecordKind = RecordKind::ScheduleCount;

    fn key(&self) -> String {
        self.client.to_string()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        Writer(&mut bytes).number(1, self.n);
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<ScheduleCount, Corrupt> {
        let mut count = ScheduleCount { client: key.parse().map_err(|_| Corrupt)?, n: 0 };
        for field in Fields(bytes) {
            let field = field?;
            if field.tag == 1 {
                count.n = field.number()?;
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Conflict, Unique};

    fn plain() -> Schedule {
        let owner = Owner { client: ClientId::from_u128(7), tenant: Name::new("acme") };
        let id = ScheduleId { owner, name: Name::new("nightly").unwrap() };
        let head = Head::new(id.owner.client, Name::new("reports").unwrap(), Time::from_millis(5_000));
        Schedule::new(id, "0 3 * * *".into(), "Europe/Berlin".into(), head, Arc::default())
    }

    #[test]
    fn a_schedule_is_read_back_as_it_was_written() {
        let full = Schedule {
            overlap: Overlap::Enqueue,
            catch_up: CatchUp::All(12),
            jitter: Duration::from_secs(30),
            description: Some("every night".into()),
            given: b"{}".to_vec(),
            paused_at: Some(Time::from_millis(1)),
            next_at: Some(Time::from_millis(2)),
            put_off_until: Some(Time::from_millis(3)),
            last_at: Some(Time::from_millis(4)),
            last_job: Some(JobId::from_u128(9)),
            tick_job: Some(JobId::from_u128(8)),
            last_skip: Some((Time::from_millis(6), TickSkip::Refused)),
            n_runs: 3,
            n_skipped: 2,
            n_missed: 1,
            missed_at: Some(Time::from_micros(8)),
            ..plain()
        };
        let nothing = Schedule { catch_up: CatchUp::Nothing, ..plain() };
        let overlapped = Schedule { last_skip: Some((Time::ZERO, TickSkip::Overlap)), ..plain() };
        let triggered = Schedule { tick_job: None, ..full.clone() };
        let ticked = Schedule { tick_job: full.last_job, ..full.clone() };
        for schedule in [plain(), full, nothing, overlapped, triggered, ticked] {
            let record = schedule.to_record(3);
            assert_eq!(record.group, "00000000000000000000000000000007/acme/");
            assert_eq!(Schedule::of(&record), Ok(schedule));
        }
        assert_eq!(Schedule::decode("", &[3, 1]), Err(Corrupt));
        assert_eq!(Schedule::decode("", &[]), Err(Corrupt));
    }

    #[test]
    fn in_a_record_of_an_earlier_program_the_last_job_is_that_of_a_tick() {
        let job = Some(JobId::from_u128(9));
        let mut bytes = plain().encode();
        Writer(&mut bytes).bytes(17, &JobId::from_u128(9).to_bytes());
        let read = Schedule::decode("", &bytes).unwrap();
        assert_eq!((read.last_job, read.tick_job), (job, job));
    }

    #[test]
    fn a_schedule_is_due_at_its_tick_unless_it_is_paused_or_was_put_off() {
        let tick = Some(Time::from_millis(60_000));
        let schedule = Schedule { next_at: tick, ..plain() };
        assert_eq!(schedule.due_at(), tick);
        let paused = Schedule { paused_at: tick, ..schedule.clone() };
        assert_eq!(paused.due_at(), None);
        let later = Some(Time::from_millis(65_000));
        assert_eq!(Schedule { put_off_until: later, ..schedule }.due_at(), later);
    }

    #[test]
    fn jitter_follows_from_the_schedule_and_the_tick_and_stays_within_its_span() {
        let span = Duration::from_secs(600);
        let schedule = Schedule { jitter: span, ..plain() };
        let delays: Vec<Duration> = (0..100)
            .map(|n| Time::from_millis(n * 3_600_000))
            .map(|tick| schedule.comes_at(tick).since(tick))
            .collect();
        assert!(delays.iter().all(|delay| *delay < span));
        assert!(delays.windows(2).any(|pair| pair[0] != pair[1]), "ticks of a schedule differ");
        let other = ScheduleId { name: Name::new("weekly").unwrap(), ..schedule.id.clone() };
        let other = Schedule { id: other, ..schedule.clone() };
        assert_ne!(other.comes_at(Time::ZERO), schedule.comes_at(Time::ZERO), "and schedules do");
        assert_eq!(schedule.comes_at(Time::ZERO), schedule.clone().comes_at(Time::ZERO));
    }

    #[test]
    fn of_the_ticks_that_were_missed_as_many_are_made_up_for_as_the_policy_says() {
        let ticks: Vec<Time> = (1..=5).map(|n| Time::from_millis(n * 60_000)).collect();
        let soon = Time::from_millis(301_000);
        let late = Time::from_millis(3_000_000);
        let made_up = |catch_up, now| Schedule { catch_up, ..plain() }.made_up(&ticks, now);
        assert_eq!((made_up(CatchUp::Nothing, soon), made_up(CatchUp::Nothing, late)), (1, 0));
        assert_eq!((made_up(CatchUp::One, soon), made_up(CatchUp::One, late)), (1, 1));
        assert_eq!((made_up(CatchUp::All(3), late), made_up(CatchUp::All(9), late)), (3, 5));
        assert_eq!(made_up(CatchUp::All(0), late), 1);
        assert_eq!(plain().made_up(&[], late), 0);
    }

    #[test]
    fn moments_of_the_template_are_counted_from_the_run() {
        let mut schedule = plain();
        let head = Arc::make_mut(&mut schedule.head);
        head.expires_at = Some(Time::from_millis(65_000));
        head.deadline = Some(Time::from_millis(75_000));
        let until = Some(Time::from_millis(6_000));
        head.unique = Some(Unique { key: [1; 32], facets: 1, until, on_conflict: Conflict::Reject });
        let (tick, now) = (Time::from_millis(100_000), Time::from_millis(100_500));
        let head = schedule.head_of(tick, now);
        assert_eq!(head.expires_at, Some(Time::from_millis(160_500)));
        assert_eq!(head.deadline, Some(Time::from_millis(170_500)));
        assert_eq!(head.unique.unwrap().until, Some(Time::from_millis(101_500)));
        assert_eq!((head.created_at, head.schedule.unwrap().tick), (now, tick));
    }
}
