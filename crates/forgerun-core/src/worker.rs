//! External workers that send heartbeats.
//!
//! A worker is a record. It is due when it has been silent for too long: then it counts as lost,
//! and its jobs are taken back before their leases end. Workers without heartbeats are not
//! recorded, since their silence means nothing.

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

/// Owner and name, so two owners may both have a `worker-1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId {
    /// Owner of the jobs it works on.
    pub owner: Owner,
    pub name: Name,
}

impl WorkerId {
    pub fn key(&self) -> String {
        format!("{}{}", self.owner.prefix(), self.name)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum WorkerState {
    #[default]
    Running = 0,
    /// It finishes its jobs and claims no more.
    Quiet = 1,
    /// It finishes its jobs and exits.
    Terminate = 2,
}

/// What a worker reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerFacts {
    pub hostname: Option<String>,
    pub pid: Option<u32>,
    pub queues: Vec<Name>,
    /// How many jobs it runs at once.
    pub concurrency: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    pub id: WorkerId,
    /// As last reported.
    pub state: WorkerState,
    /// The operator's directive.
    pub directive: WorkerState,
    pub facts: WorkerFacts,
    pub started_at: Time,
    /// Last heartbeat.
    pub seen_at: Time,
    /// When it was found to be lost; its jobs are then taken back.
    pub lost_at: Option<Time>,
    /// Jobs of its last heartbeat, and those claimed since; at most [`limits::WORKER_JOBS_MAX`].
    pub jobs: Vec<JobId>,
}

impl Worker {
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

    /// Whether it may get jobs.
    pub fn takes_work(&self) -> bool {
        self.state == WorkerState::Running && self.directive == WorkerState::Running
    }

    /// Updates the facts, within bounds; missing ones stay as they were.
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

/// The record group of a client's workers.
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
