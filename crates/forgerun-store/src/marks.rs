//! Marks: what lists find jobs by that is no column of theirs. A job is marked with each of its tags, and while it waits for
//! another attempt after a failure.

use std::collections::BTreeSet;

use forgerun_core::job::Job;

use crate::Filter;

/// The mark of a job that failed and is tried again. Marks of tags begin with another letter.
pub(crate) const RETRYING: &[u8] = b"r";

fn of_tag(tag: &str) -> Vec<u8> {
    [b"t", tag.as_bytes()].concat()
}

/// The marks of a job that is new, or that was written before there were marks.
pub(crate) fn all(job: &Job) -> BTreeSet<Vec<u8>> {
    let retrying = job.is_retrying().then(|| RETRYING.to_vec());
    job.head.tags.iter().map(|tag| of_tag(tag)).chain(retrying).collect()
}

/// What a change of a job may do to its mark [`RETRYING`]. `None` if it never had the mark.
pub(crate) fn is_retrying_now(job: &Job) -> Option<bool> {
    job.last_error().filter(|error| error.wait.is_some()).map(|_| job.is_retrying())
}

impl Filter {
    /// The marks of the jobs that pass. Few jobs have the first.
    pub(crate) fn marks(&self) -> Vec<Vec<u8>> {
        let retrying = self.retrying.then(|| RETRYING.to_vec());
        retrying.into_iter().chain(self.tags.iter().map(|tag| of_tag(tag))).collect()
    }
}
