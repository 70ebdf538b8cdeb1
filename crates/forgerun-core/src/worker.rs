//! Workers outside that make themselves known by heartbeats.
//!
//! A worker is a record. It is due when it has been silent for too long: it then counts as gone, and what it held is taken back
//! without waiting for its leases. Of a worker that sends no heartbeats nothing is kept, since its silence means nothing.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::{Corrupt, Field, Fields, Writer};
use crate::id::{ClientId, JobId};
use crate::job::{Name, bounded};
use crate::limits;
use crate::queue::Owner;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

/// Which worker: its name is its own, so two owners may both have a `worker-1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId {
    /// Whose jobs it works on.
    pub owner: Owner,
    /// What it calls itself.
    pub name: Name,
}

impl WorkerId {
    /// The key of its record.
    pub fn key(&self) -> String {
        format!("{}{}", self.owner.prefix(), self.name)
    }
}

/// What a worker does, or shall do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum WorkerState {
    /// It takes work.
    #[default]
    Running = 0,
    /// It finishes what it has and takes no more.
    Quiet = 1,
    /// It finishes what it has and ends.
    Terminate = 2,
}

/// What a worker says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerFacts {
    /// The machine it runs on.
    pub hostname: Option<String>,
    /// Its process there.
    pub pid: Option<u32>,
    /// The queues it serves.
    pub queues: Vec<Name>,
    /// How many jobs it works on at once.
    pub concurrency: Option<u32>,
}

/// A worker outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Which one.
    pub id: WorkerId,
    /// What it last said it does.
    pub state: WorkerState,
    /// What it is told to do.
    pub directive: WorkerState,
    /// What it says about itself.
    pub facts: WorkerFacts,
    /// When it was first seen.
    pub started_at: Time,
    /// When it was last seen.
    pub seen_at: Time,
    /// When it was found to be gone; what it held is then taken back.
    pub lost_at: Option<Time>,
    /// The jobs of its newest heartbeat, and those it fetched since; bounded by [`limits::WORKER_JOBS_MAX`].
    pub jobs: Vec<JobId>,
}

impl Worker {
    /// A worker that was just seen for the first time.
    pub fn new(id: WorkerId, now: Time) -> Worker {
        Worker {
            id,
            state: WorkerState::Running,
            directive: WorkerState::Running,
            facts: WorkerFacts::default(),
            started_at: now,
            seen_at: now,
            lost_at: None,
            jobs: Vec::new(),
        }
    }

    /// Whether it may be given work.
    pub fn takes_work(&self) -> bool {
        self.state == WorkerState::Running && self.directive == WorkerState::Running
    }

    /// Takes over what the worker says about itself, within bounds; what it leaves out stays as it was.
    pub(crate) fn learn(&mut self, facts: &WorkerFacts) {
        if let Some(hostname) = &facts.hostname {
            self.facts.hostname = Some(bounded(hostname.clone()));
        }
        self.facts.pid = facts.pid.or(self.facts.pid);
        self.facts.concurrency = facts.concurrency.or(self.facts.concurrency);
        if !facts.queues.is_empty() {
            self.facts.queues = facts.queues.iter().take(limits::WORKER_QUEUES_MAX).cloned().collect();
        }
    }
}

impl Stored for Worker {
    const KIND: RecordKind = RecordKind::Worker;

    fn key(&self) -> String {
        self.id.key()
    }

    /// The client, whatever the tenant.
    fn group(&self) -> String {
        group(self.id.owner.client)
    }

    fn due_at(&self) -> Option<Time> {
        Some(self.lost_at.map_or(self.seen_at + limits::WORKER_SILENCE, |at| at + limits::WORKER_AGAIN))
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        let mut out = Writer(&mut bytes);
        out.bytes(1, &self.id.owner.client.to_bytes());
        out.text(2, self.id.owner.tenant.as_ref().map(Name::as_str));
        out.text(3, Some(self.id.name.as_str()));
        out.number(4, self.state as u64);
        out.number(5, self.directive as u64);
        out.text(6, self.facts.hostname.as_deref());
        out.number(7, self.facts.pid.map_or(0, |pid| u64::from(pid) + 1));
        self.facts.queues.iter().for_each(|queue| out.text(8, Some(queue.as_str())));
        out.number(9, self.facts.concurrency.map_or(0, |n| u64::from(n) + 1));
        out.time(10, Some(self.started_at));
        out.time(11, Some(self.seen_at));
        self.jobs.iter().for_each(|job| out.bytes(13, &job.to_bytes()));
        out.time(14, self.lost_at);
        bytes
    }

    fn decode(_key: &str, bytes: &[u8]) -> Result<Worker, Corrupt> {
        let owner = Owner::client(ClientId::from_u128(0));
        let mut worker = Worker::new(WorkerId { owner, name: Name::joined("") }, Time::ZERO);
        for field in Fields(bytes) {
            worker.read(&field?)?;
        }
        if worker.id.name.as_str().is_empty() { Err(Corrupt) } else { Ok(worker) }
    }
}

impl Worker {
    fn read(&mut self, field: &Field<'_>) -> Result<(), Corrupt> {
        let name = || Name::new(field.str()?).ok_or(Corrupt);
        let number = || u32::try_from(field.number()?.wrapping_sub(1)).map_err(|_| Corrupt);
        let state = || match field.number()? {
            0 => Ok(WorkerState::Running),
            1 => Ok(WorkerState::Quiet),
            2 => Ok(WorkerState::Terminate),
            _ => Err(Corrupt),
        };
        match field.tag {
            1 => self.id.owner.client = ClientId::from_u128(field.id()?),
            2 => self.id.owner.tenant = Some(name()?),
            3 => self.id.name = name()?,
            4 => self.state = state()?,
            5 => self.directive = state()?,
            6 => self.facts.hostname = Some(field.text()?),
            7 => self.facts.pid = Some(number()?),
            8 => self.facts.queues.push(name()?),
            9 => self.facts.concurrency = Some(number()?),
            10 => self.started_at = field.time()?,
            11 => self.seen_at = field.time()?,
            13 => self.jobs.push(JobId::from_u128(field.id()?)),
            14 => self.lost_at = Some(field.time()?),
            _ => {}
        }
        Ok(())
    }
}

/// The group that the workers of a client are listed in.
pub fn group(client: ClientId) -> String {
    format!("{:032x}", client.as_u128())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_worker_is_read_back_as_it_was_written() {
        let owner = Owner { client: ClientId::from_u128(5), tenant: Name::new("acme") };
        let id = WorkerId { owner, name: Name::new("w-1").unwrap() };
        let plain = Worker::new(id, Time::from_micros(3));
        let full = Worker {
            state: WorkerState::Quiet,
            directive: WorkerState::Terminate,
            facts: WorkerFacts {
                hostname: Some("host".into()),
                pid: Some(0),
                queues: vec![Name::new("a").unwrap(), Name::new("b").unwrap()],
                concurrency: Some(8),
            },
            seen_at: Time::from_micros(9),
            lost_at: Some(Time::from_micros(10)),
            jobs: vec![JobId::from_u128(1), JobId::from_u128(2)],
            ..plain.clone()
        };
        for worker in [plain, full] {
            assert_eq!(Worker::of(&worker.to_record(1)), Ok(worker));
        }
    }

    #[test]
    fn what_a_worker_says_is_bounded() {
        let owner = Owner::client(ClientId::from_u128(5));
        let mut worker = Worker::new(WorkerId { owner, name: Name::new("w").unwrap() }, Time::ZERO);
        let queues = vec![Name::new("q").unwrap(); 1000];
        worker.learn(&WorkerFacts { hostname: Some("h".repeat(100_000)), queues, ..WorkerFacts::default() });
        assert_eq!(worker.facts.queues.len(), limits::WORKER_QUEUES_MAX);
        assert_eq!(worker.facts.hostname.map(|name| name.len()), Some(limits::TEXT_BYTES_MAX));
    }
}
