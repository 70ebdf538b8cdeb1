//! Jobs held by gRPC streaming workers, and notifications of their release. Releases are found in
//! commits, so all causes count: an ack or nack by any protocol, a cancel, the end of a lease.
//! Commits of other nodes are not seen here; streams check for them periodically.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forgerun_core::Changes;
use forgerun_core::history::EventKind;
use forgerun_core::id::JobId;
use forgerun_engine::observer::{Commit, Observer};
use forgerun_store::{Fault, Swept};
use tokio::sync::Notify;

/// The jobs that streams watch.
#[derive(Debug, Default)]
pub struct StreamedJobs {
    /// Number of jobs: usually zero, and then a commit costs nothing here.
    n: AtomicUsize,
    jobs: Mutex<HashMap<JobId, Arc<ReleasedJobs>>>,
}

/// Collects the released jobs of one stream.
#[derive(Debug, Default)]
pub(crate) struct ReleasedJobs {
    jobs: Mutex<Vec<JobId>>,
    /// How many must be there before the stream is notified.
    worth: AtomicUsize,
    heard: Notify,
}

impl ReleasedJobs {
    /// The jobs released since the last call.
    pub(crate) fn take(&self) -> Vec<JobId> {
        std::mem::take(&mut *locked(&self.jobs))
    }

    /// Resolves once at least `worth` jobs were released. Cancel-safe.
    pub(crate) async fn heard(&self, worth: usize) {
        self.worth.store(worth, Ordering::Release);
        // They may have been released before `worth` was set.
        if locked(&self.jobs).len() < worth {
            self.heard.notified().await;
        }
    }

    fn notify(&self, job: JobId) {
        let n = {
            let mut jobs = locked(&self.jobs);
            jobs.push(job);
            jobs.len()
        };
        if n >= self.worth.load(Ordering::Acquire) {
            self.heard.notify_one();
        }
    }
}

/// A panic leaves whole entries behind.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StreamedJobs {
    /// Notifies a stream when the job is released.
    pub(crate) fn watch(&self, job: JobId, stream: &Arc<ReleasedJobs>) {
        let mut jobs = locked(&self.jobs);
        jobs.insert(job, stream.clone());
        self.n.store(jobs.len(), Ordering::Release);
    }

    /// Stops watching these jobs.
    pub(crate) fn forget<'a>(&self, gone: impl IntoIterator<Item = &'a JobId>, stream: &Arc<ReleasedJobs>) {
        let mut jobs = locked(&self.jobs);
        for job in gone {
            // Another stream may have the job by now.
            if jobs.get(job).is_some_and(|watcher| Arc::ptr_eq(watcher, stream)) {
                jobs.remove(job);
            }
        }
        self.n.store(jobs.len(), Ordering::Release);
    }

    fn committed(&self, changes: &Changes) {
        if self.n.load(Ordering::Acquire) == 0 {
            return;
        }
        let released = changes.journal.iter().filter_map(|entry| {
            let (job, event) = entry.job_event()?;
            match event.kind {
                EventKind::Moved { from: Some(from), to, .. } => {
                    (from.is_active() && !to.is_active()).then_some(job)
                }
                EventKind::Moved { .. } | EventKind::Progress(_) | EventKind::Emitted => None,
            }
        });
        let mut jobs = locked(&self.jobs);
        for job in released {
            if let Some(stream) = jobs.remove(&job) {
                stream.notify(job);
            }
        }
        self.n.store(jobs.len(), Ordering::Release);
    }
}

/// Passes commits to the metrics and to streams.
#[derive(Debug)]
pub(crate) struct StreamObserver {
    pub(crate) counts: Arc<dyn Observer>,
    pub(crate) held: Arc<StreamedJobs>,
}

impl Observer for StreamObserver {
    fn committed(&self, commit: &Commit<'_>) {
        self.counts.committed(commit);
        self.held.committed(commit.changes);
    }

    fn failed(&self, fault: Fault, n_commands: usize) {
        self.counts.failed(fault, n_commands);
    }

    fn swept(&self, swept: &Swept) {
        self.counts.swept(swept);
    }

    fn dropped(&self, sink: &str, n_events: u64) {
        self.counts.dropped(sink, n_events);
    }

    fn logged(&self, n_lines: u64) {
        self.counts.logged(n_lines);
    }
}

#[cfg(test)]
mod tests {
    use forgerun_core::history::{Event, JournalEntry, RetryStatus};
    use forgerun_core::id::ClientId;
    use forgerun_core::state::{Cause, State};
    use forgerun_core::time::Time;

    use super::*;

    fn moved(job: JobId, from: State, to: State) -> Changes {
        let kind =
            EventKind::Moved { from: Some(from), to, cause: Cause::Finish, retry_status: RetryStatus::Open };
        let event = Event { n: 1, kind, at: Time::ZERO, attempt: 1, execution: 1 };
        Changes { journal: vec![JournalEntry::of_job(job, ClientId::v4(1), event)], ..Changes::default() }
    }

    #[test]
    fn a_stream_hears_once_that_a_job_left_its_worker() {
        let (held, stream) = (StreamedJobs::default(), Arc::new(ReleasedJobs::default()));
        let [one, two] = [1, 2].map(|n| JobId::v7(1, n));
        held.watch(one, &stream);
        held.committed(&moved(two, State::Running, State::Succeeded));
        held.committed(&moved(one, State::Assigned, State::Running));
        assert_eq!(stream.take(), [], "of others, and of what it still holds, it hears nothing");
        held.committed(&moved(one, State::Running, State::Failed));
        held.committed(&moved(one, State::Running, State::Failed));
        assert_eq!(stream.take(), [one]);
        assert_eq!(held.n.load(Ordering::Acquire), 0);
    }

    #[tokio::test]
    async fn a_stream_is_woken_when_enough_were_released() {
        use std::future::Future;
        use std::pin::pin;
        use std::task::{Context, Poll, Waker};

        let stream = ReleasedJobs::default();
        let is_woken = |heard: std::pin::Pin<&mut dyn Future<Output = ()>>| {
            heard.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
        };
        let mut heard = pin!(stream.heard(2));
        assert!(!is_woken(heard.as_mut()));
        stream.notify(JobId::v7(1, 1));
        assert!(!is_woken(heard.as_mut()));
        stream.notify(JobId::v7(1, 2));
        assert!(is_woken(heard.as_mut()));
        assert!(is_woken(pin!(stream.heard(2))), "what came before counts too");
        assert_eq!(stream.take().len(), 2);
        // A stored notification may wake once for nothing, which is harmless.
        let _ = is_woken(pin!(stream.heard(1)));
        assert!(!is_woken(pin!(stream.heard(1))));
    }

    #[test]
    fn a_stream_that_leaves_takes_nothing_from_another() {
        let (held, old, new) = (StreamedJobs::default(), Arc::default(), Arc::default());
        let job = JobId::v7(1, 1);
        held.watch(job, &old);
        held.watch(job, &new);
        held.forget([&job], &old);
        held.committed(&moved(job, State::Running, State::Canceled));
        assert_eq!((old.take(), new.take()), (vec![], vec![job]));
    }
}
