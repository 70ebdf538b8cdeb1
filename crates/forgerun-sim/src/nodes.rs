//! Nodes: engines that share the disk, crash and come back.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use forgerun_core::item::ItemEnd;
use forgerun_core::job::Job;
use forgerun_core::rows::{Object, Render};
use forgerun_engine::sinks::{SinkHandle, SinkLoop};
use forgerun_engine::{DeliveryHandle, DeliveryLoop, DeliveryOptions, Engine, Options};

use crate::broker::{self, Broker};
use crate::faulty_store::FaultyStore;
use crate::receivers::{self, Receivers};
use crate::run_log::RunLog;
use crate::world::World;

/// Outcomes that differ from all others: their bytes name the execution and its state.
struct Plain;

impl Render for Plain {
    fn outcome(&self, job: &Job, _: &[ItemEnd]) -> Object {
        let text = format!("{} {:?} attempt {} fence {}", job.execution, job.state, job.attempt, job.fence);
        let mut digest = [0; 32];
        for (at, byte) in text.bytes().enumerate() {
            digest[at % 32] = u8::rotate_left(digest[at % 32], 3) ^ byte;
        }
        Object { bytes: text.into_bytes(), digest }
    }
}

#[derive(Clone)]
pub(crate) struct Nodes {
    world: Arc<World>,
    log: RunLog,
    store: Arc<FaultyStore>,
    options: Options,
    /// The receivers and options of deliveries; `None` in a world without webhooks.
    deliveries: Option<(Receivers, DeliveryOptions)>,
    /// The target of sinks; `None` in a world without a broker.
    broker: Option<Broker>,
    nodes: Arc<Mutex<Vec<Option<Node>>>>,
}

/// The parts that a crash destroys.
struct Node {
    engine: Engine,
    deliveries: Option<DeliveryHandle>,
    sink: Option<SinkHandle>,
}

impl Nodes {
    pub(crate) fn new(
        world: Arc<World>,
        log: RunLog,
        store: Arc<FaultyStore>,
        receivers: Option<Receivers>,
        broker: Option<Broker>,
    ) -> Nodes {
        let n_nodes = 1 + world.below(2) as usize;
        // Sometimes tiny bounds, so that full queues and split steps happen.
        let tiny = world.chance(300);
        let options = Options {
            commands_waiting_max: if tiny { 2 } else { 1000 },
            batch_max: 1 + world.below(if tiny { 3 } else { 64 }) as usize,
            due_max: 1 + world.below(if tiny { 2 } else { 64 }) as usize,
            sweep_every: Duration::from_secs(10),
            ..Options::default()
        };
        let deliveries = receivers.map(|receivers| (receivers, receivers::options(&world)));
        let down = (0..n_nodes).map(|_| None).collect();
        let nodes =
            Nodes { world, log, store, options, deliveries, broker, nodes: Arc::new(Mutex::new(down)) };
        (0..n_nodes).for_each(|n| nodes.start(n));
        nodes
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Option<Node>>> {
        self.nodes.lock().expect("no code panics while it holds the lock")
    }

    /// One of the running nodes.
    pub(crate) fn any(&self) -> Option<Engine> {
        let nodes = self.nodes();
        let up: Vec<&Node> = nodes.iter().flatten().collect();
        up.get(self.world.below(up.len() as u64) as usize).map(|node| node.engine.clone())
    }

    /// Crashes a node; it stays down for a while.
    pub(crate) async fn crash(&self) {
        let n = self.world.below(self.nodes().len() as u64) as usize;
        self.log.note(|| format!("node {n} crashes"));
        self.nodes()[n] = None;
        self.world.pass(self.world.up_to_ms(3000)).await;
        self.start(n);
    }

    /// Stops a node gracefully, and restarts it.
    pub(crate) async fn restart(&self) {
        let n = self.world.below(self.nodes().len() as u64) as usize;
        let node = self.nodes()[n].take();
        if let Some(Node { engine, deliveries, sink }) = node {
            self.log.note(|| format!("node {n} stops"));
            if let Some(deliveries) = deliveries {
                deliveries.stop().await;
            }
            if let Some(sink) = sink {
                sink.stop().await;
            }
            engine.stop().await;
            self.start(n);
        }
    }

    fn start(&self, n: usize) {
        self.log.note(|| format!("node {n} starts"));
        let engine =
            Engine::start(self.store.clone(), self.world.clone(), Arc::new(Plain), self.options.clone());
        let deliveries = self
            .deliveries
            .clone()
            .map(|(receivers, options)| DeliveryLoop::start(engine.clone(), Arc::new(receivers), options));
        let sink = self.broker.clone().map(|broker| {
            let options = broker::options(&self.world, format!("node-{n}-{}", self.world.below(u64::MAX)));
            SinkLoop::start(engine.clone(), Arc::new(broker), options)
        });
        self.nodes()[n] = Some(Node { engine, deliveries, sink });
    }
}
