//! The built-in worker: takes simulated jobs and does what their kind says, no more. It burns no processor time, memory or
//! disk: `CPU_BURST`, `MEMORY_SPIKE` and `IO_HEAVY` differ from other kinds by their length and their result only.
//!
//! ```text
//!   queue hints ─┬─► loop 1 ─┐   each loop has slots: in one round it ends what is over, gives signs of life, and
//!   (queues      ├─► loop 2 ─┼─► claims for the slots that are free; the committer makes one transaction of the
//!    with work)  └─► loop n ─┘   rounds of all loops
//! ```
//!
//! A loop that knows of no work leaves a claim for its free slots, and is given what the next batch brings (`wakeups/standing.rs`).
//!
//! | file | subject |
//! |---|---|
//! | `plan.rs` | what one attempt does: how long, which notes, which end |
//! | `run.rs` | one attempt in hand: what is to be reported when, and what an answer means |
//! | `worker_loop.rs` | the loop |
//! | `queue_hints.rs` | which queues may have work, and news of jobs that were called off |
//! | `output.rs` | the bytes of a result |
//!
//! What goes wrong, and what follows:
//!
//! - the store fails or is overloaded: the loop waits, longer each time, and reports again while the lease lasts;
//! - the job was cancelled, timed out or given to somebody else: the report is refused, and the loop lets go without a word.
//!   A job called off on this node is noticed at once, one called off on another node at the next sign of life;
//! - the store rejects a result or has no room for it, or it is too large: the job fails, it never succeeds without its result;
//! - the worker is killed: its jobs end as lost when their lease does;
//! - the connection breaks while a claim is committed: nobody knows of the claimed jobs, and they end as lost too.

mod batch;
mod output;
mod plan;
mod queue_hints;
mod run;
mod worker_loop;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use forgerun_core::command::Output;
use forgerun_core::job::{Job, Name};
use forgerun_core::limits;
use forgerun_core::time::Time;
use tokio_util::sync::CancellationToken;

use crate::Engine;
use crate::loops::Loops;
pub(crate) use queue_hints::QueueHints;
use worker_loop::WorkerLoop;

/// What an operator may set about the built-in worker.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// How many workers there are.
    pub count: usize,
    /// How many jobs each has in hand at the same time.
    pub concurrency: usize,
    /// How long a worker may be silent, unless the job says otherwise.
    pub lease: Duration,
    /// How often a worker gives a sign of life; more often where the lease is short.
    pub heartbeat: Duration,
    /// Factor on simulated durations; 0 makes all work take no time. Finite and not negative.
    pub time_scale: f64,
    /// Take nothing that would bring the number of jobs held by workers, of whatever kind, above this. One engine, one
    /// bound: workers with different bounds hold each other up.
    pub active_max: Option<u64>,
    /// How long an attempt may run if the job does not say. Simulated time: it shrinks with `time_scale`, as the work does.
    pub max_runtime: Duration,
    /// What the workers of this node are called; each adds its number.
    pub node: Name,
    /// What a job leaves, for jobs that leave something else than their kind of work says. What such a thing looks like is a
    /// dialect's business, which is why it is handed in.
    pub compose: Compose,
}

/// What a job that ends well at this moment leaves; `None` for what its kind of work says.
pub type Compose = fn(&Job, Time) -> Option<Output>;

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            count: 4,
            concurrency: 1,
            lease: limits::LEASE,
            heartbeat: Duration::from_secs(5),
            time_scale: 1.0,
            active_max: None,
            max_runtime: Duration::from_secs(125),
            node: Name::new("worker").expect("a short word is a name"),
            compose: |_, _| None,
        }
    }
}

/// The built-in worker.
pub struct BuiltInWorker;

impl BuiltInWorker {
    /// Starts the workers. They take simulated jobs of every queue until the handle stops them or is dropped.
    pub fn start(engine: Engine, options: WorkerOptions) -> WorkerHandle {
        assert!(options.time_scale.is_finite());
        assert!(options.time_scale >= 0.0);
        let gauges = Arc::new(Gauges::default());
        let stop = CancellationToken::new();
        let mut loops = Loops::new(stop.clone());
        let slots = options.count * options.concurrency;
        let options = Arc::new(options);
        for number in 1..=options.count {
            let worker_loop =
                WorkerLoop::new(engine.clone(), options.clone(), gauges.clone(), number, stop.clone());
            loops.spawn(worker_loop.work());
        }
        WorkerHandle { slots, gauges, loops }
    }
}

/// Holds the workers. Dropping it kills them without a word: what they had in hand comes back when its lease ends.
pub struct WorkerHandle {
    slots: usize,
    gauges: Arc<Gauges>,
    loops: Loops,
}

impl WorkerHandle {
    /// Stops: nothing more is claimed, what ends within a second is finished, the rest is handed back for others to take.
    /// Before [`Engine::stop`], which refuses the reports. May be called any number of times, and dropped.
    pub async fn stop(&self) {
        self.loops.stop().await;
    }

    /// Whether there are workers, and all of them have ended.
    pub fn is_over(&self) -> bool {
        self.loops.are_over()
    }

    /// How busy the workers are.
    pub fn gauge(&self) -> Gauge {
        let busy = self.gauges.busy.load(Ordering::Relaxed);
        let heartbeats = self.gauges.heartbeats.load(Ordering::Relaxed);
        let last = Time::from_micros(self.gauges.last_heartbeat.load(Ordering::Relaxed));
        Gauge {
            busy,
            free: self.slots.saturating_sub(busy),
            heartbeats,
            last_heartbeat: (heartbeats > 0).then_some(last),
        }
    }
}

/// How busy the workers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Slots with a job in hand.
    pub busy: usize,
    /// Slots without.
    pub free: usize,
    /// Signs of life that were accepted since the start.
    pub heartbeats: u64,
    /// When the newest of them was; `None` before the first.
    pub last_heartbeat: Option<Time>,
}

#[derive(Default)]
struct Gauges {
    busy: AtomicUsize,
    heartbeats: AtomicU64,
    last_heartbeat: AtomicI64,
}

impl Gauges {
    fn beat(&self, now: Time) {
        self.last_heartbeat.store(now.as_micros(), Ordering::Relaxed);
        self.heartbeats.fetch_add(1, Ordering::Relaxed);
    }
}
