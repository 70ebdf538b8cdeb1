//! The built-in worker: claims simulated jobs and does what their kind says, no more. It uses no
//! processor time, memory or disk: `CPU_BURST`, `MEMORY_SPIKE` and `IO_HEAVY` differ from other
//! kinds by duration and result only.
//!
//! ```text
//!   queue hints ─┬─► loop 1 ─┐   each loop has slots: in one round it ends what is over, gives signs of life, and
//!   (queues      ├─► loop 2 ─┼─► claims for the slots that are free; the committer makes one transaction of the
//!    with work)  └─► loop n ─┘   rounds of all loops
//! ```
//!
//! A loop without known work places a claim for its free slots, which the next batch executes
//! (`wakeups/standing.rs`).
//!
//! | file | subject |
//! |---|---|
//! | `plan.rs` | what one attempt does: duration, reports, end |
//! | `run.rs` | one running attempt: its due reports, and the meaning of answers |
//! | `worker_loop.rs` | the loop |
//! | `queue_hints.rs` | queues that may have work, and jobs that were cancelled |
//! | `output.rs` | the bytes of a result |
//!
//! Failures, and their effects:
//!
//! - the store fails or is overloaded: the loop waits, longer each time, and reports again while
//!   the lease lasts;
//! - the job was cancelled, timed out or claimed by another worker: the report is refused, and the
//!   loop drops the job. A cancellation on this node is noticed at once, one on another node with
//!   the next lease extension;
//! - the store rejects a result or has no room for it, or it is too large: the job fails, it never
//!   succeeds without its result;
//! - the worker is killed: its jobs end as lost when their lease does;
//! - the connection breaks while a claim is committed: the claimed jobs are unknown, and end as
//!   lost too.

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

/// Options of the built-in worker.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Number of loops.
    pub count: usize,
    /// Jobs that each loop runs at once.
    pub concurrency: usize,
    /// Lease, unless the job sets one.
    pub lease: Duration,
    /// Interval of lease extensions; shorter for short leases.
    pub heartbeat: Duration,
    /// Factor on simulated durations; 0 makes all work instantaneous. Finite and not negative.
    pub time_scale: f64,
    /// Claim no job that would bring the number of active jobs, of whatever kind, above this. Use
    /// one bound per engine: workers with different bounds block each other.
    pub active_max: Option<u64>,
    /// Limit of an attempt if the job has none. Simulated time: scaled by `time_scale`, as the work
    /// is.
    pub max_runtime: Duration,
    /// Base name of the workers of this node; each adds its number.
    pub node: Name,
    /// Results of jobs whose result does not follow from their work kind. Depends on the dialect,
    /// so the caller passes it in.
    pub compose: Compose,
}

/// The result of a job that succeeds at this moment; `None` for that of its work kind.
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

pub struct BuiltInWorker;

impl BuiltInWorker {
    /// Starts the workers. They run simulated jobs of every queue until the handle stops them or is
    /// dropped.
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

/// Handle of the workers. Dropping it kills them: their jobs come back when their leases end.
pub struct WorkerHandle {
    slots: usize,
    gauges: Arc<Gauges>,
    loops: Loops,
}

impl WorkerHandle {
    /// Stops: claims nothing more, finishes what ends within a second, and hands the rest back.
    /// Call it before [`Engine::stop`], which refuses the reports. Idempotent and cancel-safe.
    pub async fn stop(&self) {
        self.loops.stop().await;
    }

    /// Whether there are workers and all have ended.
    pub fn is_over(&self) -> bool {
        self.loops.are_over()
    }

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Slots with a job.
    pub busy: usize,
    pub free: usize,
    /// Accepted lease extensions since the start.
    pub heartbeats: u64,
    /// Time of the newest of them; `None` before the first.
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
