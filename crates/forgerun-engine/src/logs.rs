//! Writes log lines of jobs, beside the committer. Lines that arrive while a transaction is under
//! way, or in the pause after it, share the next one: one row per job, however many requests. The
//! pause bounds how often the disk is synced for logs, so that submissions keep their pace.
//!
//! Who may append is checked before ([`Job::check_holder`](forgerun_core::job::Job::check_holder)).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use forgerun_core::id::{ClientId, JobId};
use forgerun_core::limits::{
    LOG_APPEND_BYTES_MAX, LOG_CHUNK_BYTES_MAX, LOG_CLIENT_BYTES_MAX, LOG_CLIENT_BYTES_READ, LOG_PAUSE,
    LOG_QUEUE_BYTES_MAX,
};
use forgerun_core::log::LogBatch;
use forgerun_core::time::Time;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::committer::{CommitContext, lost};
use crate::options::Options;

/// Batches that may wait; [`LOG_QUEUE_BYTES_MAX`] bounds their bytes.
const BATCHES_WAITING_MAX: usize = 4096;

/// News kept for a slow follower, which then looks at its job anyway.
const NEWS_MAX: usize = 64;

/// Clients whose bytes are remembered.
const CLIENTS_REMEMBERED_MAX: usize = 1024;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// Written.
    Lines,
    /// The job was deleted meanwhile.
    JobGone,
    /// The client has as much as it may have.
    ClientFull,
}

struct QueuedBatch {
    batch: LogBatch,
    reply: oneshot::Sender<Result<Appended, Error>>,
    _room: OwnedSemaphorePermit,
}

/// Sends lines to the writer.
pub(crate) struct LogQueue {
    queue: mpsc::Sender<QueuedBatch>,
    room: Arc<Semaphore>,
    news: broadcast::Sender<Arc<[JobId]>>,
}

impl LogQueue {
    pub(crate) async fn append(&self, batch: LogBatch) -> Result<Appended, Error> {
        let n_bytes = u32::try_from(batch.content.len()).unwrap_or(u32::MAX);
        let room = self.room.clone().try_acquire_many_owned(n_bytes).map_err(|_| Error::Overloaded)?;
        let (reply, answer) = oneshot::channel();
        self.queue.try_send(QueuedBatch { batch, reply, _room: room }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Error::Overloaded,
            mpsc::error::TrySendError::Closed(_) => Error::Stopped,
        })?;
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    pub(crate) fn news(&self) -> broadcast::Receiver<Arc<[JobId]>> {
        self.news.subscribe()
    }
}

/// The queue, and the loop behind it, which runs until stopped.
pub(crate) fn log_writer(
    context: Arc<CommitContext>,
    options: &Options,
    stop: CancellationToken,
) -> (LogQueue, impl Future<Output = ()> + Send + 'static) {
    let (queue, batches) = mpsc::channel(BATCHES_WAITING_MAX);
    let news = broadcast::channel(NEWS_MAX).0;
    let room = Arc::new(Semaphore::new(LOG_QUEUE_BYTES_MAX));
    let writer = LogWriter {
        context,
        bytes_max: options.log_bytes_max,
        waiting: VecDeque::new(),
        clients: HashMap::new(),
        news: news.clone(),
    };
    (LogQueue { queue, room, news }, writer.run(batches, stop))
}

struct LogWriter {
    context: Arc<CommitContext>,
    bytes_max: u64,
    waiting: VecDeque<QueuedBatch>,
    clients: HashMap<ClientId, ClientBytes>,
    news: broadcast::Sender<Arc<[JobId]>>,
}

/// The bytes of a client's logs, as far as this node knows.
struct ClientBytes {
    n_bytes: u64,
    read_at: Time,
}

type Replies = Vec<oneshot::Sender<Result<Appended, Error>>>;

/// One transaction: a batch per job, and the requests that each answers.
#[derive(Default)]
struct LogRound {
    batches: Vec<LogBatch>,
    replies: Vec<Replies>,
    // Their room in the queue is free once they are written.
    room: Vec<OwnedSemaphorePermit>,
}

impl LogWriter {
    async fn run(mut self, mut queue: mpsc::Receiver<QueuedBatch>, stop: CancellationToken) {
        loop {
            if self.waiting.is_empty() {
                let next = tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    next = queue.recv() => next,
                };
                let Some(next) = next else { return };
                self.waiting.push_back(next);
            }
            while self.waiting.len() < BATCHES_WAITING_MAX
                && let Ok(next) = queue.try_recv()
            {
                self.waiting.push_back(next);
            }
            let round = self.gather().await;
            self.write(round).await;
            let pause = self.context.clock.sleep(LOG_PAUSE);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = pause => {}
            }
        }
    }

    /// What the next transaction writes. The rest keeps waiting, each job's batches in order.
    async fn gather(&mut self) -> LogRound {
        let (mut round, mut of_job) = (LogRound::default(), HashMap::new());
        // Jobs of which a batch does not fit any more.
        let mut passed: HashSet<JobId> = HashSet::new();
        let mut n_bytes = 0;
        for queued in std::mem::take(&mut self.waiting) {
            let job = queued.batch.job;
            let full = n_bytes + queued.batch.content.len() > LOG_APPEND_BYTES_MAX && n_bytes > 0;
            if full || passed.contains(&job) {
                passed.insert(job);
                self.waiting.push_back(queued);
                continue;
            }
            if !self.has_room(&queued.batch).await {
                // The request may have gone away.
                let _ = queued.reply.send(Ok(Appended::ClientFull));
                continue;
            }
            let QueuedBatch { batch, reply, _room } = queued;
            let n_more = batch.content.len();
            let at = *of_job.entry(job).or_insert(round.batches.len());
            if at == round.batches.len() {
                round.batches.push(batch);
                round.replies.push(vec![reply]);
                round.room.push(_room);
            } else if let Some(batch) = round.batches[at].absorb(batch, LOG_CHUNK_BYTES_MAX) {
                passed.insert(job);
                self.waiting.push_back(QueuedBatch { batch, reply, _room });
                continue;
            } else {
                round.replies[at].push(reply);
                round.room.push(_room);
            }
            n_bytes += n_more;
        }
        round
    }

    /// Counts the batch for its client if that has room for it.
    async fn has_room(&mut self, batch: &LogBatch) -> bool {
        let now = self.context.clock.now();
        let known = self.clients.get(&batch.client);
        if known.is_none_or(|known| now - LOG_CLIENT_BYTES_READ >= known.read_at) {
            // Unknown while the store fails, as the append will.
            let n_bytes = self.context.store.log_bytes(batch.client).await.unwrap_or(0);
            if self.clients.len() >= CLIENTS_REMEMBERED_MAX {
                self.clients.clear();
            }
            self.clients.insert(batch.client, ClientBytes { n_bytes, read_at: now });
        }
        let Some(known) = self.clients.get_mut(&batch.client) else { return true };
        if known.n_bytes + batch.n_bytes() > LOG_CLIENT_BYTES_MAX {
            return false;
        }
        known.n_bytes += batch.n_bytes();
        true
    }

    async fn write(&self, round: LogRound) {
        let LogRound { batches, replies, room } = round;
        if batches.is_empty() {
            return;
        }
        let jobs: Arc<[JobId]> = batches.iter().map(|batch| batch.job).collect();
        let n_lines: u64 = batches.iter().map(|batch| u64::from(batch.n_lines)).sum();
        let appended = self.context.store.append_logs(batches, self.bytes_max).await;
        drop(room);
        match appended {
            Ok(last) => {
                let _ = self.news.send(jobs);
                self.context.observer.logged(n_lines);
                for (last, replies) in last.into_iter().zip(replies) {
                    let answer = if last.is_some() { Appended::Lines } else { Appended::JobGone };
                    replies.into_iter().for_each(|reply| drop(reply.send(Ok(answer))));
                }
            }
            Err(error) => {
                tracing::warn!(%error, n_lines, "log lines not written: their workers send them again");
                let error = Error::from(error);
                let replies = replies.into_iter().flatten();
                replies.for_each(|reply| drop(reply.send(Err(error.clone()))));
            }
        }
    }
}
