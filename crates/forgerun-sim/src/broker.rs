//! A broker for sinks. Most of the time it accepts events; sometimes it is slow, fails within a
//! wave, or accepts without confirming.
//!
//! It checks events on arrival: the events of one job come in order, repetitions aside. At the end
//! all events since the first use of the sink must have arrived, except those of deleted jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use forgerun_core::history::Event;
use forgerun_core::id::{EventId, JobId};
use forgerun_core::job::Name;
use forgerun_core::sink::SinkPosition;
use forgerun_engine::sinks::{EventSink, SinkError, SinkEvent, SinkOptions, SinkSending, SinkSent};
use forgerun_store::Store;

use crate::run_log::RunLog;
use crate::world::World;

/// Options of a sink loop: shorter waits than usual, and sometimes tiny chunks.
pub(crate) fn options(world: &World, node: String) -> SinkOptions {
    SinkOptions {
        lease: Duration::from_secs(5),
        send_timeout: Duration::from_secs(4),
        wait_max: Duration::from_secs(2),
        chunk_max: 1 + world.below(20) as usize,
        ..SinkOptions::new(Name::new(&node).expect("a short name"))
    }
}

#[derive(Clone)]
pub(crate) struct Broker {
    world: Arc<World>,
    log: RunLog,
    calm: Arc<AtomicBool>,
    state: Arc<Mutex<BrokerState>>,
}

#[derive(Default)]
struct BrokerState {
    arrived: BTreeSet<EventId>,
    /// Number of the newest event that arrived, by job.
    newest: BTreeMap<JobId, u32>,
}

impl Broker {
    pub(crate) fn new(world: Arc<World>, log: RunLog) -> Broker {
        Broker { world, log, calm: Arc::default(), state: Arc::default() }
    }

    /// From now on it accepts all events.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    pub(crate) fn n_arrived(&self) -> u64 {
        self.state().arrived.len() as u64
    }

    /// Events since `begin` of existing jobs that did not arrive.
    pub(crate) async fn missing(&self, begin: SinkPosition, disk: &dyn Store) -> Vec<EventId> {
        let mut missing = Vec::new();
        for row in disk.journal(begin.row, usize::MAX).await.expect("the store is calm") {
            for (job, event) in row.job_events() {
                let id = event.id(job);
                let arrived = self.state().arrived.contains(&id);
                if !arrived && disk.job(job).await.expect("the store is calm").is_some() {
                    missing.push(id);
                }
            }
        }
        missing
    }

    fn state(&self) -> MutexGuard<'_, BrokerState> {
        self.state.lock().expect("no code panics while receiving")
    }

    async fn receive(&self, events: &[SinkEvent]) -> Result<SinkSent, SinkError> {
        let dice = if self.calm.load(Ordering::Relaxed) { 9 } else { self.world.below(10) };
        self.world.pass(self.world.up_to_ms(100)).await;
        match dice {
            0 => {
                self.arrive(&events[..self.world.below(events.len() as u64 + 1) as usize]);
                return Err(SinkError("breaks in the middle".into()));
            }
            1 => return Err(SinkError("is away".into())),
            2 => {
                self.arrive(events);
                self.world.pass(Duration::from_secs(60)).await;
                return Err(SinkError("says nothing".into()));
            }
            3 => self.world.pass(self.world.up_to_ms(3000)).await,
            _ => {}
        }
        self.arrive(events);
        Ok(SinkSent { n_sent: events.len(), refused: Vec::new() })
    }

    fn arrive(&self, events: &[SinkEvent]) {
        for SinkEvent { job, event, .. } in events {
            let mut state = self.state();
            let is_new = state.arrived.insert(event.id(job.id));
            let newest = state.newest.entry(job.id).or_default();
            let before = std::mem::replace(newest, event.n.max(*newest));
            drop(state);
            if is_new && before > event.n {
                self.log.broken(format!("event {} of job {} came after event {before}", event.n, job.id));
            }
        }
    }
}

impl EventSink for Broker {
    fn name(&self) -> &str {
        "broker"
    }

    fn kind(&self) -> &'static str {
        "broker"
    }

    fn wants(&self, _: &Event) -> bool {
        true
    }

    fn send<'a>(&'a self, events: &'a [SinkEvent]) -> SinkSending<'a> {
        Box::pin(self.receive(events))
    }
}
