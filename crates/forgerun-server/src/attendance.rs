//! Attendance: which queues workers ask for, to find queues without workers.
//!
//! Each node remembers the queues that workers asked it for, and publishes them with its heartbeat
//! (`forgerun_core::node`). A reader combines this node's, the other nodes' and the workers with
//! heartbeats.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use forgerun_core::command::{Claim, WorkerKind};
use forgerun_core::job::Name;
use forgerun_core::limits::NODE_QUEUES_MAX;
use forgerun_core::node::{Node, queue_digest};
use forgerun_core::queue::{Owner, QueueId};
use forgerun_core::time::Time;
use forgerun_core::worker::Worker;
use forgerun_engine::Clock;
use tokio::sync::Notify;

use crate::app::App;
use crate::http::ApiError;
use crate::limits::{ASKED_FOR_MIN, PAGE_MAX, WORKERS_SEARCHED_MAX};

/// The queues for which workers asked this node, as digests of their keys.
pub struct Attendance {
    asked: Mutex<HashMap<u64, QueueRequests>>,
    clock: Arc<dyn Clock>,
    /// How recently a worker must have asked to count as present.
    window: Duration,
    news: Notify,
}

struct QueueRequests {
    at: Time,
    /// Worker requests that wait for a job of it now.
    n_waiting: u32,
}

impl Attendance {
    /// `no_worker` is the configured wait after which a queue counts as unattended.
    pub fn new(clock: Arc<dyn Clock>, no_worker: Duration) -> Attendance {
        Attendance {
            asked: Mutex::default(),
            clock,
            window: no_worker.max(ASKED_FOR_MIN),
            news: Notify::new(),
        }
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<u64, QueueRequests>> {
        self.asked.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Records that a worker asks for these queues. It is present until the returned guard is
    /// dropped, and for a while after.
    pub fn asks(self: &Arc<Self>, claim: &Claim) -> AskingWorker {
        let WorkerKind::External(owner) = &claim.worker_kind else {
            return AskingWorker { attendance: self.clone(), queues: Vec::new() };
        };
        let queues: Vec<u64> = claim.queues.iter().flat_map(|name| digests(owner, name)).collect();
        let (now, mut asked) = (self.clock.now(), self.asked());
        let mut has_news = false;
        for queue in &queues {
            if asked.len() >= NODE_QUEUES_MAX && !asked.contains_key(queue) {
                asked.retain(|_, asked| self.is_alive(asked, now));
            }
            if asked.len() >= NODE_QUEUES_MAX && !asked.contains_key(queue) {
                continue;
            }
            let entry = asked.entry(*queue).or_insert_with(|| {
                has_news = true;
                QueueRequests { at: now, n_waiting: 0 }
            });
            has_news |= !self.is_alive(entry, now);
            entry.at = now;
            entry.n_waiting += 1;
        }
        drop(asked);
        if has_news {
            self.news.notify_one();
        }
        AskingWorker { attendance: self.clone(), queues }
    }

    fn is_alive(&self, asked: &QueueRequests, now: Time) -> bool {
        asked.n_waiting > 0 || now.since(asked.at) < self.window
    }

    /// Queues that present workers ask this node for.
    pub fn alive(&self) -> Vec<u64> {
        let (now, mut asked) = (self.clock.now(), self.asked());
        asked.retain(|_, asked| self.is_alive(asked, now));
        asked.keys().copied().collect()
    }

    /// Resolves when a worker asks for a queue for the first time.
    pub async fn news(&self) {
        self.news.notified().await;
    }
}

/// A queue of an owner, and its bare name: the operator's view combines all queues of a name.
fn digests(owner: &Owner, name: &Name) -> [u64; 2] {
    let queue = QueueId { owner: Some(owner.clone()), name: name.clone() };
    [queue_digest(&queue.key()), queue_digest(name)]
}

/// Guard of a worker's request for jobs.
pub struct AskingWorker {
    attendance: Arc<Attendance>,
    queues: Vec<u64>,
}

impl Drop for AskingWorker {
    fn drop(&mut self) {
        let now = self.attendance.clock.now();
        let mut asked = self.attendance.asked();
        for queue in &self.queues {
            if let Some(asked) = asked.get_mut(queue) {
                asked.at = now;
                asked.n_waiting = asked.n_waiting.saturating_sub(1);
            }
        }
    }
}

/// Queues that present workers ask for, on any node.
pub struct AttendedQueues {
    asked: HashSet<u64>,
    /// Workers with heartbeats, by the name of each queue they ask for.
    workers: HashMap<Name, u64>,
    /// Nodes that run simulated work.
    n_built_in: u64,
}

impl AttendedQueues {
    /// Reads what nodes and workers have published.
    pub async fn read(app: &App) -> Result<AttendedQueues, ApiError> {
        let (store, now) = (app.engine.store(), app.clock.now());
        let mut asked: HashSet<u64> = app.attendance.alive().into_iter().collect();
        let mut n_built_in = u64::from(app.worker().is_some());
        let nodes: Vec<Node> = store.records(None, String::new(), PAGE_MAX).await?;
        for node in nodes.iter().filter(|node| !node.is_gone(now) && node.id != app.node.as_str()) {
            asked.extend(&node.queues);
            n_built_in += u64::from(node.has_built_in);
        }
        let mut by_name: HashMap<Name, u64> = HashMap::new();
        let workers: Vec<Worker> = store.records(None, String::new(), WORKERS_SEARCHED_MAX).await?;
        for worker in workers.iter().filter(|worker| worker.lost_at.is_none()) {
            asked.extend(worker.facts.queues.iter().flat_map(|name| digests(&worker.id.owner, name)));
            for name in &worker.facts.queues {
                *by_name.entry(name.clone()).or_default() += 1;
            }
        }
        Ok(AttendedQueues { asked, workers: by_name, n_built_in })
    }

    /// Whether an external worker asks for a queue of this name, of any client.
    pub fn contains_name(&self, name: &Name) -> bool {
        self.asked.contains(&queue_digest(name))
    }

    /// Whether a worker asks for this queue. The built-in worker asks for every queue of simulated
    /// work.
    pub fn contains(&self, queue: &QueueId) -> bool {
        match queue.owner {
            Some(_) => self.asked.contains(&queue_digest(&queue.key())),
            None => self.n_built_in > 0,
        }
    }

    /// Names of queues that workers with heartbeats ask for.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.workers.keys()
    }

    /// Living workers that ask for queues of this name. Those without heartbeats are not told
    /// apart: all of them count as one.
    pub fn n_workers(&self, name: &Name, has_simulated: bool) -> u64 {
        let external = self.workers.get(name).copied().unwrap_or_else(|| u64::from(self.contains_name(name)));
        external + if has_simulated { self.n_built_in } else { 0 }
    }
}
