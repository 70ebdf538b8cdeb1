//! Sinks: the events of all jobs, sent to a broker in the order of the journal.
//!
//! ```text
//!   journal ──► feed: events that the sink wants, with job and outcome ──► chunk ──► waves ──► EventSink ──► broker
//!      ▲         (a task of its own, one chunk ahead)                                  │ confirmed
//!      └──────────────────────────── place in the record of the sink ◄──────────────────┘
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `feed.rs` | reads the journal and loads the rows for its events, a chunk at a time |
//! | `runner.rs` | holds the sink, sends, and stores the position |
//! | `lag.rs` | the lag of a sink |
//! | `unsent.rs` | what the sweeper must keep |
//!
//! Guarantee: every event that a sink wants is sent at least once, and those of one job in order.
//! The position moves only after the broker has confirmed. Failures, and their effects:
//!
//! - the broker is down or refuses: the same events are sent again, with waits that grow up to
//!   [`SinkOptions::wait_max`]. The sink lags behind without affecting other parts: it reads the
//!   journal at its own pace and keeps two chunks in memory at most;
//! - that lasts for a whole lease: the node releases the sink for a moment, so that another node
//!   may try, which perhaps reaches the broker;
//! - the broker will never accept an event, because it is too large: it is counted, logged and
//!   skipped;
//! - a job was deleted before its event was sent: the event is counted and skipped;
//! - the sink panics: a failure like any other. A panic elsewhere in the loop restarts the loop,
//!   after a wait;
//! - the process dies: another node takes over when the lease ends, and repeats the unfinished
//!   chunk;
//! - a replaced node comes back: its fence is old, so it cannot move the position, and it stops
//!   sending.
//!
//! A chunk is cut into *waves*: no job occurs twice in a wave. So a sink may send a wave in any
//! order and concurrently, and a failed event is never overtaken by a later one of its job.

mod feed;
mod lag;
mod runner;
mod unsent;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forgerun_core::history::Event;
use forgerun_core::job::{Job, Name};
use forgerun_core::rows::Object;
use forgerun_core::sink::SinkCursor;

use crate::loops::Loops;
use crate::{Engine, Error};
pub use lag::SinkLag;
use runner::SinkRunner;
pub use unsent::Unsent;

pub trait EventSink: Send + Sync + 'static {
    /// Name of the sink. Its journal position is stored under this name.
    fn name(&self) -> &str;

    /// `kafka`, `nats` or `amqp`.
    fn kind(&self) -> &'static str;

    /// Whether the sink wants this event. Called before anything is loaded.
    fn wants(&self, event: &Event) -> bool;

    /// Sends events, and returns when the broker has confirmed each of them or will never accept
    /// it. No job occurs twice, so their order does not matter. After an error all of them are sent
    /// again. Cancel-safe.
    fn send<'a>(&'a self, events: &'a [SinkEvent]) -> SinkSending<'a>;
}

pub type SinkSending<'a> = Pin<Box<dyn Future<Output = Result<SinkSent, SinkError>> + Send + 'a>>;

/// An event, with the rows for its message.
#[derive(Clone, Debug)]
pub struct SinkEvent {
    /// The job in its current state.
    pub job: Arc<Job>,
    pub event: Event,
    /// The outcome, if the event ended an execution.
    pub outcome: Option<Object>,
}

/// The result of a wave.
#[derive(Clone, Debug, Default)]
pub struct SinkSent {
    pub n_sent: usize,
    /// Events that the broker will never accept: position and reason.
    pub refused: Vec<(usize, String)>,
}

/// Why nothing can be sent. The text follows "could not send: " and contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SinkError(pub String);

#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// This process; different with every start.
    pub node: Name,
    /// Lease of the sink.
    pub lease: Duration,
    /// Interval of storing the position while events are sent: after a crash, at most the events
    /// since are repeated.
    pub save_every: Duration,
    /// How long the broker may take to confirm a wave.
    pub send_timeout: Duration,
    /// The wait after the first failure; doubled with each further one.
    pub wait_base: Duration,
    pub wait_max: Duration,
    /// Interval of lag checks.
    pub lag_every: Duration,
    /// Events in a chunk. Two chunks, with jobs and outcomes, are kept in memory.
    pub chunk_max: usize,
}

impl SinkOptions {
    pub const fn new(node: Name) -> SinkOptions {
        SinkOptions {
            node,
            lease: Duration::from_secs(15),
            save_every: Duration::from_millis(250),
            send_timeout: Duration::from_secs(30),
            wait_base: Duration::from_millis(200),
            wait_max: Duration::from_secs(15),
            lag_every: Duration::from_secs(2),
            chunk_max: 512,
        }
    }
}

/// Counters of this process for a sink, for metrics.
#[derive(Debug, Default)]
pub struct SinkCounters {
    /// Confirmed events.
    pub sent: AtomicU64,
    /// Failed waves, and panics of the loop.
    pub errors: AtomicU64,
    /// Events whose job was deleted before they were sent.
    pub skipped: AtomicU64,
    /// Events that the broker will never accept.
    pub refused: AtomicU64,
    /// Events that wait to be sent, as of the last check.
    pub lag_events: AtomicU64,
    /// Age of the oldest of them, in milliseconds.
    pub lag_ms: AtomicU64,
}

pub struct SinkLoop;

impl SinkLoop {
    /// Starts to send, as soon as no other node does. An unused sink begins with events from now
    /// on. Runs until the handle stops it or is dropped.
    pub fn start(engine: Engine, sink: Arc<dyn EventSink>, options: SinkOptions) -> SinkHandle {
        let stop = engine.stop_signal().child_token();
        let mut loops = Loops::new(stop.clone());
        let counters = Arc::new(SinkCounters::default());
        let lag_every = options.lag_every;
        let runner = SinkRunner::new(engine.clone(), sink.clone(), options, counters.clone(), stop.clone());
        loops.spawn(runner.run());
        loops.spawn(lag::watch(engine.clone(), sink.clone(), counters.clone(), lag_every, stop));
        SinkHandle { engine, sink, counters, loops }
    }
}

/// Handle of a sink loop. Dropping it kills the loop: another node takes over when the lease ends.
pub struct SinkHandle {
    engine: Engine,
    sink: Arc<dyn EventSink>,
    counters: Arc<SinkCounters>,
    loops: Loops,
}

impl fmt::Debug for SinkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkHandle").field("sink", &self.sink.name()).finish_non_exhaustive()
    }
}

impl SinkHandle {
    pub fn name(&self) -> &str {
        self.sink.name()
    }

    pub fn kind(&self) -> &'static str {
        self.sink.kind()
    }

    pub fn counters(&self) -> &SinkCounters {
        &self.counters
    }

    /// The stored sink, whichever node sends, and its lag; `None` before its first use.
    pub async fn look(&self) -> Result<Option<(SinkCursor, SinkLag)>, Error> {
        lag::look(&self.engine, &*self.sink).await
    }

    /// Stops: cancels the send under way, stores the position, and releases the sink. Call it
    /// before [`Engine::stop`]. Idempotent and cancel-safe.
    pub async fn stop(&self) {
        self.loops.stop().await;
    }
}

impl SinkCounters {
    fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }
}
