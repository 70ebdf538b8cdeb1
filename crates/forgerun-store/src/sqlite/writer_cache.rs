//! The jobs that workers hold, as they were last written: what a worker holds it will soon report on, and then the job
//! need not be read and put together again.
//!
//! Only a copy. It is right because only the writer writes; should another process have written, or a transaction have
//! failed, the writer clears it and the jobs are read again.

use forgerun_core::Changes;
use forgerun_core::id::JobId;
use forgerun_core::job::Job;

use super::JobMap;

/// Jobs kept, of about a kilobyte each. When there are more, it starts over.
const JOBS_MAX: usize = 4096;

/// Jobs with their row numbers.
#[derive(Default)]
pub(super) struct WriterCache(JobMap<(i64, Job)>);

impl WriterCache {
    /// Hands the job out: whatever is decided about it is written and noted again.
    pub(super) fn take(&mut self, id: JobId) -> Option<(i64, Job)> {
        self.0.remove(&id)
    }

    /// Notes what was committed. `numbers` are the row numbers of these jobs.
    pub(super) fn note(&mut self, changes: &Changes, numbers: &JobMap<i64>) {
        // A job may be in a worker's hands from birth.
        let born = changes.inserted.iter().map(|(job, _)| job).filter(|job| job.state.is_active());
        for job in changes.updated.iter().chain(born) {
            match numbers.get(&job.id) {
                Some(&n) if job.state.is_active() => self.put(n, job),
                Some(_) | None => drop(self.0.remove(&job.id)),
            }
        }
        for forgotten in &changes.forgotten {
            self.0.remove(&forgotten.job);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn put(&mut self, n: i64, job: &Job) {
        if self.0.len() >= JOBS_MAX {
            self.0.clear();
        }
        self.0.insert(job.id, (n, job.clone()));
    }
}
