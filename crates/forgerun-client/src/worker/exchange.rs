//! The round trip of a worker: ends that gather while a request is under way go out together in the next one, which also asks for jobs.
//!
//! Only with a server that offers it in its answer to heartbeats. Others are told of each end by itself (`report.rs`).

use std::sync::{Arc, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use super::run::{Directive, Shared};
use crate::error::{ApiError, Error};
use crate::limits::{EXCHANGE_BYTES_MAX, EXCHANGE_ENTRIES_MAX, FETCH_JOBS_MAX};
use crate::ojs::{ClaimedJob, Exchange, Exchanged, SettledEntry};

/// The end of an attempt on its way to the server.
pub(super) struct EndReport {
    pub(super) entry: Box<RawValue>,
    pub(super) reply: oneshot::Sender<Result<(), Error>>,
}

/// Sends ends until the channel closes, and passes on the jobs that come back.
pub(super) async fn exchange_ends(
    shared: Arc<Shared>,
    mut ends: mpsc::Receiver<EndReport>,
    taken: mpsc::Sender<Vec<ClaimedJob>>,
) {
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(first) => first,
            None => match ends.recv().await {
                Some(first) => first,
                None => return,
            },
        };
        let mut n_bytes = first.entry.get().len();
        let mut batch = vec![first];
        while batch.len() < EXCHANGE_ENTRIES_MAX
            && let Ok(end) = ends.try_recv()
        {
            n_bytes += end.entry.get().len();
            if n_bytes > EXCHANGE_BYTES_MAX {
                next = Some(end);
                break;
            }
            batch.push(end);
        }
        shared.exchange(batch, &taken).await;
    }
}

impl Shared {
    /// Sends ends, asking for jobs as well unless that is done already, and answers those who wait for them.
    async fn exchange(&self, batch: Vec<EndReport>, taken: &mpsc::Sender<Vec<ClaimedJob>>) {
        let asking = self.asking.try_lock().ok();
        let takes_jobs = *self.directive.borrow() == Directive::Running && !*self.stopping.borrow();
        let count = match &asking {
            Some(_) if takes_jobs && self.takes_by_fetch() => self.room.n_free().min(FETCH_JOBS_MAX),
            _ => 0,
        };
        let (entries, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|end| (end.entry, end.reply)).unzip();
        let exchange = Exchange {
            worker_id: &self.id,
            queues: &self.queues,
            count,
            visibility_timeout_ms: self.lease.as_millis() as u64,
            done: &entries,
        };
        match self.ojs().exchange(&exchange).await {
            Ok(Exchanged { results, jobs }) => {
                let mut results = results.into_iter();
                for reply in replies {
                    let _ = reply.send(results.next().map_or_else(unanswered, answered));
                }
                self.pass_on(jobs, taken).await;
            }
            Err(error) => {
                for reply in replies {
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }

    /// Passes jobs to the loop that begins them. If that has ended, they go back.
    async fn pass_on(&self, jobs: Vec<ClaimedJob>, taken: &mpsc::Sender<Vec<ClaimedJob>>) {
        if jobs.is_empty() {
            return;
        }
        jobs.iter().for_each(|_| self.room.take());
        if let Err(mpsc::error::SendError(jobs)) = taken.send(jobs).await {
            for job in &jobs {
                drop(self.room.place());
                // One by one: what sends ends together is this very task.
                let _ = self.ojs().hand_back(self.held(job)).await;
            }
        }
    }

    /// Reports the end of an attempt together with those of others.
    pub(super) async fn send_end(&self, entry: Box<RawValue>) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        let gone = || Error::Protocol("the worker has stopped".to_owned());
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(gone)?;
        ends.send(EndReport { entry, reply }).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

fn unanswered() -> Result<(), Error> {
    Err(Error::Protocol("the server answered fewer ends than it was sent".to_owned()))
}

fn answered(entry: SettledEntry) -> Result<(), Error> {
    match entry.status {
        200..=299 => Ok(()),
        status => Err(ApiError::of_problem(entry.problem.as_deref(), status).into_error()),
    }
}
