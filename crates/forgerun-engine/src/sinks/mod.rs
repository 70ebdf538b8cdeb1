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
//! | `feed.rs` | reads the journal and loads what belongs to its events, a chunk at a time |
//! | `runner.rs` | holds the sink, sends, and notes how far it is |
//! | `lag.rs` | how far a sink is behind |
//! | `unsent.rs` | what the sweeper must leave alone |
//!
//! What is promised: every event that a sink wants is sent at least once, and those of one job in order. The place in the
//! journal moves only after the broker has confirmed. What goes wrong, and what follows:
//!
//! - the broker is away or refuses: the same events are sent again, with waits that grow up to [`SinkOptions::wait_max`]. The sink
//!   falls behind, and nobody else notices: it reads the journal at its own pace and keeps two chunks in memory at most;
//! - that goes on for a whole lease: the node leaves the sink for a moment, so that another node may try, which perhaps reaches the broker;
//! - the broker will never take an event, because it is too large: it is counted, logged and left out;
//! - a job was deleted before its event was sent: the event is counted and left out;
//! - the sink panics: that is a failure like any other. A panic elsewhere in the loop begins the loop again, after a wait;
//! - the process dies: another node takes over when the lease ends, and sends the chunk again that was under way;
//! - a node that was taken for dead comes back: its fence is old, so it cannot move the place, and it stops sending.
//!
//! A chunk is cut into *waves*: no job occurs twice in a wave. So a sink may send a wave in any order and all at once, and an
//! event that fails is never overtaken by a later one of its job.

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

/// Where events go.
pub trait EventSink: Send + Sync + 'static {
    /// What the sink is called. Its place in the journal is kept under this name.
    fn name(&self) -> &str;

    /// What it is: `kafka`, `nats`, `amqp`.
    fn kind(&self) -> &'static str;

    /// Whether the sink wants this event. Asked before anything is loaded.
    fn wants(&self, event: &Event) -> bool;

    /// Sends events, and returns when the broker has confirmed each of them or will never take it. No job occurs twice among
    /// them, so their order does not matter. After an error all of them are sent again. May be dropped at any time.
    fn send<'a>(&'a self, events: &'a [SinkEvent]) -> SinkSending<'a>;
}

/// A send under way.
pub type SinkSending<'a> = Pin<Box<dyn Future<Output = Result<SinkSent, SinkError>> + Send + 'a>>;

/// An event, and what is needed to tell of it.
#[derive(Clone, Debug)]
pub struct SinkEvent {
    /// The job, as it stands now.
    pub job: Arc<Job>,
    /// What happened to it.
    pub event: Event,
    /// The outcome that was written with it, if it ended an execution.
    pub outcome: Option<Object>,
}

/// What became of a wave.
#[derive(Clone, Debug, Default)]
pub struct SinkSent {
    /// How many events the broker confirmed.
    pub n_sent: usize,
    /// Events that the broker will never take: which, and why.
    pub refused: Vec<(usize, String)>,
}

/// Why nothing goes out now. The text follows "could not send: " and names no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SinkError(pub String);

/// How a sink loop behaves.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// This process: another name with every start.
    pub node: Name,
    /// How long the sink is held without a word.
    pub lease: Duration,
    /// How often the place is written while events go out: what a crash sends again is at most what went out since.
    pub save_every: Duration,
    /// How long the broker may take to confirm a wave.
    pub send_timeout: Duration,
    /// The wait after the first failure; it doubles with each further one.
    pub wait_base: Duration,
    /// The longest wait.
    pub wait_max: Duration,
    /// How often to look how far the sink is behind.
    pub lag_every: Duration,
    /// Events in a chunk. With their jobs and outcomes they are what a sink keeps in memory, twice.
    pub chunk_max: usize,
}

impl SinkOptions {
    /// The usual behaviour.
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

/// What this process has counted for a sink, for metrics.
#[derive(Debug, Default)]
pub struct SinkCounters {
    /// Events that the broker confirmed.
    pub sent: AtomicU64,
    /// Waves that failed, and panics of the loop.
    pub errors: AtomicU64,
    /// Events whose job was deleted before they were sent.
    pub skipped: AtomicU64,
    /// Events that the broker will never take.
    pub refused: AtomicU64,
    /// Events that wait to be sent, as of the last look.
    pub lag_events: AtomicU64,
    /// How long the oldest of them has waited, in milliseconds.
    pub lag_ms: AtomicU64,
}

/// The loop of a sink.
pub struct SinkLoop;

impl SinkLoop {
    /// Begins to send, as soon as no other node does. A sink that is used for the first time begins with what happens from now
    /// on. It goes on until the handle stops it or is dropped.
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

/// Holds the loop of a sink. Dropping it kills it without a word: another node takes over when the lease ends.
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
    /// What the sink is called.
    pub fn name(&self) -> &str {
        self.sink.name()
    }

    /// What it is.
    pub fn kind(&self) -> &'static str {
        self.sink.kind()
    }

    /// What this process has counted.
    pub fn counters(&self) -> &SinkCounters {
        &self.counters
    }

    /// The sink as the store has it, whichever node sends, and how far it is behind; `None` before it was first used.
    pub async fn look(&self) -> Result<Option<(SinkCursor, SinkLag)>, Error> {
        lag::look(&self.engine, &*self.sink).await
    }

    /// Stops: what is under way is left to whoever goes on, the place is written, and another node may take over at once. Before
    /// [`Engine::stop`]. May be called any number of times, and dropped.
    pub async fn stop(&self) {
        self.loops.stop().await;
    }
}

impl SinkCounters {
    fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }
}
