//! How a worker is made.

use std::sync::Arc;
use std::time::Duration;

use super::handler::Handler;
use super::run::{Note, Worker};
use crate::client::Client;
use crate::error::Error;
use crate::limits::{LEASE_DEFAULT, WORKER_CONCURRENCY_MAX};

/// How to make a worker.
#[must_use]
pub struct WorkerBuilder {
    pub(super) client: Client,
    pub(super) id: Option<String>,
    pub(super) queues: Vec<String>,
    pub(super) handlers: Vec<(String, Arc<dyn Handler>)>,
    pub(super) concurrency: usize,
    pub(super) lease: Duration,
    pub(super) drain: Duration,
    pub(super) grace: Duration,
    pub(super) hand_back_others: bool,
    #[cfg(feature = "grpc")]
    pub(super) grpc: Option<String>,
    pub(super) notes: Arc<dyn Fn(&Note<'_>) + Send + Sync>,
}

impl Worker {
    /// A worker of this client's jobs.
    pub fn builder(client: Client) -> WorkerBuilder {
        WorkerBuilder {
            client,
            id: None,
            queues: Vec::new(),
            handlers: Vec::new(),
            concurrency: 1,
            lease: LEASE_DEFAULT,
            drain: Duration::from_secs(30),
            grace: Duration::from_secs(10),
            hand_back_others: false,
            #[cfg(feature = "grpc")]
            grpc: None,
            notes: Arc::new(|_| {}),
        }
    }
}

impl WorkerBuilder {
    /// Takes jobs of this queue; the first one named goes first. Without any: `default`.
    pub fn queue(mut self, queue: impl Into<String>) -> WorkerBuilder {
        self.queues.push(queue.into());
        self
    }

    /// Does jobs whose type fits: a name, or a pattern in which `*` stands for any text. The first that fits counts.
    pub fn handler(mut self, job_type: impl Into<String>, handler: impl Handler) -> WorkerBuilder {
        self.handlers.push((job_type.into(), Arc::new(handler)));
        self
    }

    /// How many jobs at once: 1.
    pub fn concurrency(mut self, n: usize) -> WorkerBuilder {
        self.concurrency = n;
        self
    }

    /// How long a job is ours without a sign of life: 30 s. Heartbeats come at a third of it.
    pub fn lease(mut self, lease: Duration) -> WorkerBuilder {
        self.lease = lease;
        self
    }

    /// How long to wait for what runs, once asked to stop, before it is cancelled: 30 s.
    pub fn drain(mut self, drain: Duration) -> WorkerBuilder {
        self.drain = drain;
        self
    }

    /// How long a cancelled handler may take to end before it is dropped: 10 s.
    pub fn grace(mut self, grace: Duration) -> WorkerBuilder {
        self.grace = grace;
        self
    }

    /// Hands back jobs that no handler is for, so that another worker of the queue takes them. Otherwise they fail.
    pub fn hand_back_others(mut self) -> WorkerBuilder {
        self.hand_back_others = true;
        self
    }

    /// Takes jobs over gRPC, from the listener at this address (`http://127.0.0.1:9090`; `https` for TLS), as they come. All else, reports and
    /// heartbeats, goes the client's own way.
    #[cfg(feature = "grpc")]
    pub fn grpc(mut self, url: impl Into<String>) -> WorkerBuilder {
        self.grpc = Some(url.into());
        self
    }

    /// What the worker is called; a random name otherwise.
    pub fn id(mut self, id: impl Into<String>) -> WorkerBuilder {
        self.id = Some(id.into());
        self
    }

    /// Is told what happens: for logs.
    pub fn notes(mut self, notes: impl Fn(&Note<'_>) + Send + Sync + 'static) -> WorkerBuilder {
        self.notes = Arc::new(notes);
        self
    }

    /// The worker.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no handler, or a number is out of bounds.
    pub fn build(mut self) -> Result<Worker, Error> {
        let wrong = |text: String| Err(Error::Usage(text));
        if self.handlers.is_empty() {
            return wrong("a worker needs a handler".to_owned());
        }
        if self.concurrency == 0 || self.concurrency > WORKER_CONCURRENCY_MAX {
            return wrong(format!("concurrency is 1 to {WORKER_CONCURRENCY_MAX}, not {}", self.concurrency));
        }
        if self.lease < Duration::from_secs(1) {
            return wrong("a lease lasts at least a second".to_owned());
        }
        if self.queues.is_empty() {
            self.queues.push("default".to_owned());
        }
        Worker::new(self)
    }
}

/// Whether a type fits a pattern in which `*` stands for any text.
pub(super) fn fits(pattern: &str, job_type: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| job_type.strip_prefix(first)) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, job_type, expected) in [
            ("image.resize", "image.resize", true),
            ("image.resize", "image.resize2", false),
            ("*", "anything", true),
            ("*", "", true),
            ("image.*", "image.resize", true),
            ("image.*", "images.resize", false),
            ("*.resize", "image.resize", true),
            ("*.resize", "image.resized", false),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern, job_type), expected, "{pattern} {job_type}");
        }
    }
}
