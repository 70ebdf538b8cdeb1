//! How many jobs a worker holds at once.
//!
//! As many as it has handlers, as long as jobs are long. Where they are short, a handler would wait longer for its next job than it
//! works, so the worker takes up to as many again ahead. A job that was taken ahead and has to wait after all goes back: another worker
//! may be free. Reports of jobs that ended do not keep a handler, but for a bounded number of them: a server that is away is not buried.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::limits::SHORT_JOB;

/// What `mean_us` is before any job has ended.
const UNKNOWN: u64 = u64::MAX;

/// The room of a worker.
pub(super) struct Room {
    n_handlers: usize,
    handlers: Semaphore,
    reports: Semaphore,
    /// Jobs that wait for a handler or have one.
    held: AtomicUsize,
    freed: Notify,
    /// How long handlers take, with more weight on the last ones.
    mean_us: AtomicU64,
}

/// A job that waits for a handler or has one.
pub(super) struct Place<'a>(&'a Room);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
        self.0.freed.notify_one();
    }
}

impl Room {
    pub(super) fn new(n_handlers: usize) -> Room {
        Room {
            n_handlers,
            handlers: Semaphore::new(n_handlers),
            reports: Semaphore::new(2 * n_handlers),
            held: AtomicUsize::new(0),
            freed: Notify::new(),
            mean_us: AtomicU64::new(UNKNOWN),
        }
    }

    /// Waits until there is room, and says for how many jobs.
    pub(super) async fn free(&self) -> usize {
        loop {
            let n_free = self.n_free();
            if n_free > 0 {
                return n_free;
            }
            self.freed.notified().await;
        }
    }

    /// What is taken ahead is taken in few requests: not before half of the handlers could use it.
    pub(super) fn n_free(&self) -> usize {
        let held = self.held.load(Ordering::Relaxed);
        if self.mean_us.load(Ordering::Relaxed) >= micros(SHORT_JOB) {
            return self.n_handlers.saturating_sub(held);
        }
        let n_free = (2 * self.n_handlers).saturating_sub(held);
        if 2 * n_free >= self.n_handlers { n_free } else { 0 }
    }

    /// Notes that a job was taken. To be called for every job before the next [`Room::free`].
    pub(super) fn take(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    /// The place of a job that was taken.
    pub(super) fn place(&self) -> Place<'_> {
        Place(self)
    }

    /// Waits for a handler.
    pub(super) async fn handler(&self) -> SemaphorePermit<'_> {
        self.handlers.acquire().await.expect("the semaphore is never closed")
    }

    /// Waits for a place among those that are reported.
    pub(super) async fn report(&self) -> SemaphorePermit<'_> {
        self.reports.acquire().await.expect("the semaphore is never closed")
    }

    /// A handler has ended.
    pub(super) fn worked(&self, took: Duration) {
        let took = micros(took);
        let mean = match self.mean_us.load(Ordering::Relaxed) {
            UNKNOWN => took,
            mean => (mean.saturating_mul(7).saturating_add(took)) / 8,
        };
        self.mean_us.store(mean, Ordering::Relaxed);
    }

    /// A job waited too long for a handler: nothing more is taken ahead until jobs are seen to be short again.
    pub(super) fn waited_in_vain(&self) {
        self.mean_us.store(UNKNOWN, Ordering::Relaxed);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_taken_ahead_only_while_they_are_short() {
        let room = Room::new(4);
        assert_eq!(room.n_free(), 4);
        (0..4).for_each(|_| room.take());
        assert_eq!(room.n_free(), 0, "nothing is known of them");
        room.worked(Duration::from_millis(1));
        assert_eq!(room.n_free(), 4);
        (0..3).for_each(|_| room.take());
        assert_eq!(room.n_free(), 0, "one is not worth a request");
        drop(room.place());
        assert_eq!(room.n_free(), 2);
        (0..3).for_each(|_| room.worked(Duration::from_secs(60)));
        assert_eq!(room.n_free(), 0);
        (0..5).for_each(|_| drop(room.place()));
        assert_eq!(room.n_free(), 3, "as many as handlers are free");
    }

    #[test]
    fn a_job_that_waited_in_vain_ends_the_taking_ahead() {
        let room = Room::new(1);
        room.take();
        room.worked(Duration::from_millis(1));
        assert_eq!(room.n_free(), 1);
        room.waited_in_vain();
        assert_eq!(room.n_free(), 0);
    }
}
