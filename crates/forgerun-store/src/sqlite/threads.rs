//! Threads that own connections and take their work from a bounded queue.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use tokio::sync::{mpsc, oneshot};

use crate::{Error, Fault};

/// Tasks waiting for a thread. Whoever comes later waits before the queue; the committer in front of a store is the real
/// bound, so this only has to be more than a few.
const QUEUE_MAX: usize = 64;

/// What a thread answers with.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// Some threads with one queue. Dropping it lets each finish what it is at, and waits for that.
pub(super) struct Threads<T> {
    /// `None` only while it is dropped.
    queue: Option<mpsc::Sender<T>>,
    threads: Vec<JoinHandle<()>>,
}

impl<T: Send + 'static> Threads<T> {
    /// Starts one thread for each worker.
    pub(super) fn start<W>(name: &str, workers: Vec<W>) -> Result<Threads<T>, Error>
    where
        W: FnMut(T) + Send + 'static,
    {
        let (queue, tasks) = mpsc::channel(QUEUE_MAX);
        let tasks = Arc::new(Mutex::new(tasks));
        let mut threads = Threads { queue: Some(queue), threads: Vec::new() };
        for mut work in workers {
            let tasks = tasks.clone();
            let run = move || {
                while let Some(task) = next(&tasks) {
                    work(task);
                }
            };
            let thread = Builder::new().name(name.into()).spawn(run);
            threads.threads.push(thread.map_err(|error| Error::new(Fault::Unavailable, error))?);
        }
        Ok(threads)
    }

    /// Hands in a task and waits for its answer. Being cancelled here leaves the task to its thread, which skips it if
    /// it has not begun.
    pub(super) async fn ask<A>(&self, task: impl FnOnce(Reply<A>) -> T) -> Result<A, Error> {
        ask(self.queue.as_ref().ok_or_else(gone)?, task).await
    }

    /// A way to them for those who may live longer.
    pub(super) fn handle(&self) -> Result<ThreadsHandle<T>, Error> {
        Ok(ThreadsHandle(self.queue.as_ref().ok_or_else(gone)?.downgrade()))
    }
}

/// A way to some threads that does not keep them.
pub(super) struct ThreadsHandle<T>(mpsc::WeakSender<T>);

impl<T: Send + 'static> ThreadsHandle<T> {
    /// As [`Threads::ask`].
    pub(super) async fn ask<A>(&self, task: impl FnOnce(Reply<A>) -> T) -> Result<A, Error> {
        ask(&self.0.upgrade().ok_or_else(gone)?, task).await
    }
}

async fn ask<T, A>(queue: &mpsc::Sender<T>, task: impl FnOnce(Reply<A>) -> T) -> Result<A, Error> {
    let (reply, answer) = oneshot::channel();
    queue.send(task(reply)).await.map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

/// The next task, or `None` once nobody can send any more. One thread waits in the queue, the others for the lock.
fn next<T>(tasks: &Mutex<mpsc::Receiver<T>>) -> Option<T> {
    tasks.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv()
}

fn gone() -> Error {
    Error::new(Fault::Unavailable, "the store is closed")
}

impl<T> Drop for Threads<T> {
    fn drop(&mut self) {
        self.queue = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store has panicked");
            }
        }
    }
}
