//! What a run saw, as lines of JSON that another checker can read.
//! docs/reference/prove.md describes them.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::clock::now;

/// Changes when a reader of older histories would misread a new one.
pub const VERSION: u32 = 1;

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// It was done.
    Ok,
    /// It was not done, and will not be.
    Refused,
    /// No answer, or none that says: it was done or not.
    Unknown,
}

/// A request: when it was sent, when its answer came, and how it was answered. Milliseconds since
/// the run began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    pub from_ms: f64,
    pub at_ms: f64,
    pub answer: AnswerKind,
}

/// A tick of a schedule that made a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tick {
    pub schedule: String,
    pub at: String,
}

/// One event of a job, as its report lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEvent {
    pub id: String,
    pub prev: Option<String>,
    pub next: String,
    pub will_retry: bool,
}

/// A step, as the workflow shows it in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEnd {
    pub id: String,
    pub job: Option<String>,
    pub state: String,
}

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The first line.
    Run { version: u32, seed: u64, store: String, nodes: usize, lease_ms: u64 },
    /// Something that was done to a node.
    Fault { fault: String, node: usize, from_ms: f64, at_ms: f64 },
    /// `op` is a number of its own in the payload; `key` is the idempotency key.
    Submit {
        op: u64,
        key: String,
        dialect: String,
        unique: Option<String>,
        job: Option<String>,
        #[serde(flatten)]
        span: Span,
    },
    /// A job was handed out.
    Claim { worker: usize, job: String, token: String, from_ms: f64, at_ms: f64 },
    /// `value` is a number of its own in the result.
    Ack {
        worker: usize,
        job: String,
        token: String,
        value: u64,
        zombie: bool,
        #[serde(flatten)]
        span: Span,
    },
    Nack {
        worker: usize,
        job: String,
        token: String,
        #[serde(flatten)]
        span: Span,
    },
    Cancel {
        job: String,
        #[serde(flatten)]
        span: Span,
    },
    /// `steps` are the numbers of its steps.
    Workflow {
        key: String,
        workflow: Option<String>,
        steps: Vec<u64>,
        #[serde(flatten)]
        span: Span,
    },
    Signal {
        workflow: String,
        value: u64,
        #[serde(flatten)]
        span: Span,
    },
    /// The first arrival of an event at the webhook.
    Delivery { job: String, id: String, at_ms: f64 },
    /// The submissions have ended; the rest is read from the store.
    End { at_ms: f64 },
    /// A job at the end.
    Final {
        job: String,
        state: String,
        op: Option<u64>,
        tick: Option<Tick>,
        value: Option<u64>,
        events: Vec<JobEvent>,
    },
    /// An acknowledged job that the server does not know at the end.
    Gone { job: String },
    /// A workflow at the end. `value` is what its wait received.
    WorkflowFinal { workflow: String, state: String, value: Option<u64>, steps: Vec<StepEnd> },
    /// What `forgerun check` said about the store.
    Check { findings: Vec<String> },
}

/// Writes a history while a run goes on, and keeps it for the judge.
pub(super) struct History {
    began: Instant,
    file: RefCell<BufWriter<File>>,
    events: RefCell<Vec<Event>>,
    failure: RefCell<Option<io::Error>>,
}

impl History {
    pub(super) fn create(path: &Path) -> io::Result<History> {
        let file = RefCell::new(BufWriter::new(File::create(path)?));
        Ok(History { began: now(), file, events: RefCell::default(), failure: RefCell::default() })
    }

    pub(super) fn ms(&self) -> f64 {
        // To the microsecond.
        ((now() - self.began).as_secs_f64() * 1e6).round() / 1e3
    }

    pub(super) fn span(&self, from_ms: f64, answer: AnswerKind) -> Span {
        Span { from_ms, at_ms: self.ms(), answer }
    }

    pub(super) fn add(&self, event: Event) {
        let mut file = self.file.borrow_mut();
        let written = serde_json::to_writer(&mut *file, &event).map_err(io::Error::from);
        if let Err(error) = written.and_then(|()| file.write_all(b"\n")) {
            self.failure.borrow_mut().get_or_insert(error);
        }
        self.events.borrow_mut().push(event);
    }

    /// The events, once all of them are in the file.
    pub(super) fn finish(&self) -> io::Result<Vec<Event>> {
        self.file.borrow_mut().flush()?;
        match self.failure.borrow_mut().take() {
            Some(error) => Err(error),
            None => Ok(self.events.take()),
        }
    }
}

/// Reads a history.
///
/// # Errors
/// With the number of the first line that cannot be read.
pub fn read(text: &str) -> Result<Vec<Event>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(n, line)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", n + 1)))
        .collect()
}
