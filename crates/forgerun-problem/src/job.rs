//! The async-job members of a problem object, typed.
//!
//! A [`Job`] can hold any subset of the members, and none that contradict each other: there is no
//! `completedAt` beside a state the job may still leave. The members stand at the top level of the
//! problem object; they may also stand in plain JSON, for example in the status of a job that went
//! well, so a `Job` can be serialised on its own.

use serde::{Serialize, Serializer};

use crate::correlation::CorrelationId;
use crate::item::ItemOutcome;
use crate::job_status::JobStatus;
use crate::limits::SAFE_INTEGER_MAX;
use crate::member::{JOB_NAMES, Member, Node, serialize_members};
use crate::timestamp::Timestamp;

/// The async-job members of a problem object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Job {
    id: Option<String>,
    status: Option<JobStatus>,
    submitted_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    retryable: Option<bool>,
    retry_after_s: Option<u64>,
    processing_stage: Option<String>,
    correlation_id: Option<CorrelationId>,
    results: Option<Vec<ItemOutcome>>,
}

impl Job {
    /// Starts an empty job. With `id`, `status` and `submitted_at` it is fully conformant; all else
    /// is optional.
    #[must_use]
    pub fn builder() -> JobBuilder {
        JobBuilder::default()
    }

    /// The opaque id the server gave the job. Compare it, store it, never look into it.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The job's state.
    #[must_use]
    pub fn status(&self) -> Option<&JobStatus> {
        self.status.as_ref()
    }

    /// When the server accepted the job.
    #[must_use]
    pub fn submitted_at(&self) -> Option<Timestamp> {
        self.submitted_at
    }

    /// When the job reached a terminal state.
    #[must_use]
    pub fn completed_at(&self) -> Option<Timestamp> {
        self.completed_at
    }

    /// Whether submitting the job again with the same input may help; `None` if the server did not
    /// say, which by this draft means no.
    #[must_use]
    pub fn retryable(&self) -> Option<bool> {
        self.retryable
    }

    /// Seconds to wait before submitting again. Zero does not mean at once: see [`crate::advice`].
    #[must_use]
    pub fn retry_after_s(&self) -> Option<u64> {
        self.retry_after_s
    }

    /// The stage of the server's pipeline at which the job ended.
    #[must_use]
    pub fn processing_stage(&self) -> Option<&str> {
        self.processing_stage.as_deref()
    }

    /// The client's own id for the request.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&CorrelationId> {
        self.correlation_id.as_ref()
    }

    /// The outcomes of a batch's items; `None` if the job lists none.
    #[must_use]
    pub fn results(&self) -> Option<&[ItemOutcome]> {
        self.results.as_deref()
    }

    /// Whether no member is set: the problem is not about a job.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members().next().is_none()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = Member<'_>> {
        let [id, status, submitted, completed, retryable, retry_after, stage, correlation, results] =
            JOB_NAMES;
        let members = [
            self.id.as_deref().map(|text| (id, Node::Text(text))),
            self.status.as_ref().map(|value| (status, Node::Text(value.as_str()))),
            self.submitted_at.map(|time| (submitted, Node::Time(time))),
            self.completed_at.map(|time| (completed, Node::Time(time))),
            self.retryable.map(|flag| (retryable, Node::Flag(flag))),
            self.retry_after_s.map(|seconds| (retry_after, Node::Whole(seconds))),
            self.processing_stage.as_deref().map(|text| (stage, Node::Text(text))),
            self.correlation_id.as_ref().map(|value| (correlation, Node::Text(value.as_str()))),
            self.results.as_deref().map(|items| (results, Node::Items(items))),
        ];
        members.into_iter().flatten()
    }
}

impl Serialize for Job {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_members(self.members(), serializer)
    }
}

/// Gathers the members of a [`Job`] and checks them together.
#[derive(Debug, Clone, Default)]
pub struct JobBuilder(Job);

impl JobBuilder {
    /// The id the server gave the job when it accepted it; best a UUID of version 7.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.0.id = Some(id.into());
        self
    }

    /// The job's state.
    #[must_use]
    pub fn status(mut self, status: JobStatus) -> Self {
        self.0.status = Some(status);
        self
    }

    /// When the server accepted the job.
    #[must_use]
    pub fn submitted_at(mut self, time: Timestamp) -> Self {
        self.0.submitted_at = Some(time);
        self
    }

    /// When the job reached a terminal state.
    #[must_use]
    pub fn completed_at(mut self, time: Timestamp) -> Self {
        self.0.completed_at = Some(time);
        self
    }

    /// Whether submitting the job again with the same input may help.
    #[must_use]
    pub fn retryable(mut self, retryable: bool) -> Self {
        self.0.retryable = Some(retryable);
        self
    }

    /// Seconds to wait before submitting again.
    #[must_use]
    pub fn retry_after_s(mut self, seconds: u64) -> Self {
        self.0.retry_after_s = Some(seconds);
        self
    }

    /// The stage at which the job ended; see [`crate::RECOMMENDED_STAGES`].
    #[must_use]
    pub fn processing_stage(mut self, stage: impl Into<String>) -> Self {
        self.0.processing_stage = Some(stage.into());
        self
    }

    /// The client's own id for the request; an `Option`, because sanitising may leave nothing of
    /// it.
    #[must_use]
    pub fn correlation_id(mut self, id: impl Into<Option<CorrelationId>>) -> Self {
        self.0.correlation_id = id.into();
        self
    }

    /// The outcomes of a batch's items, or of those that failed.
    #[must_use]
    pub fn results(mut self, items: impl IntoIterator<Item = ItemOutcome>) -> Self {
        self.0.results = Some(items.into_iter().collect());
        self
    }

    /// Checks the members together.
    ///
    /// # Errors
    /// When `completedAt` stands beside a state the job may still leave, a registered state is
    /// misspelt, or `retryAfter` is not a number JSON readers agree on.
    pub fn build(self) -> Result<Job, JobError> {
        if let Some(status) = self.0.status.as_ref().filter(|status| status.is_misspelt()) {
            return Err(JobError::MisspeltStatus(status.clone()));
        }
        self.build_as_read()
    }

    pub(crate) fn status_so_far(&self) -> Option<&JobStatus> {
        self.0.status.as_ref()
    }

    /// For readers, which take the states of others as they are spelled.
    pub(crate) fn build_as_read(self) -> Result<Job, JobError> {
        if let (Some(status), Some(_)) = (&self.0.status, self.0.completed_at)
            && !status.is_terminal()
        {
            return Err(JobError::CompletedWhileRunning(status.clone()));
        }
        match self.0.retry_after_s {
            Some(seconds) if seconds > SAFE_INTEGER_MAX => Err(JobError::RetryAfterTooLarge(seconds)),
            _ => Ok(self.0),
        }
    }
}

/// Why members can not stand together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A completion time on a job that is not complete.
    #[error("completedAt beside jobStatus {0}, which is not terminal; leave completedAt out")]
    CompletedWhileRunning(JobStatus),
    /// A registered state in other letters, which every consumer would take for an unknown one.
    #[error("jobStatus {0} is a registered state misspelt; write it in capitals")]
    MisspeltStatus(JobStatus),
    /// Longer than JSON readers can tell exactly.
    #[error("retryAfter of {0} s is beyond 2^53 - 1; leave it out")]
    RetryAfterTooLarge(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time() -> Timestamp {
        Timestamp::parse("2026-02-26T10:00:03Z").unwrap()
    }

    #[test]
    fn completed_at_beside_a_state_that_is_not_terminal_is_an_error() {
        for status in [JobStatus::Accepted, JobStatus::Processing, JobStatus::new("VALIDATING")] {
            let refused = Job::builder().status(status.clone()).completed_at(time()).build();
            assert_eq!(refused, Err(JobError::CompletedWhileRunning(status)));
        }
    }

    #[test]
    fn completed_at_beside_a_terminal_state_or_none_is_fine() {
        for status in JobStatus::REGISTERED.into_iter().filter(JobStatus::is_terminal) {
            assert!(Job::builder().status(status).completed_at(time()).build().is_ok());
        }
        let documented = JobStatus::documented_as_terminal("ARCHIVED");
        assert!(Job::builder().status(documented).completed_at(time()).build().is_ok());
        assert!(Job::builder().completed_at(time()).build().is_ok());
    }

    #[test]
    fn a_registered_state_in_other_letters_is_an_error() {
        let failed = JobStatus::new("failed");
        assert_eq!(Job::builder().status(failed.clone()).build(), Err(JobError::MisspeltStatus(failed)));
    }

    #[test]
    fn any_subset_of_the_members_is_a_job() {
        assert!(Job::builder().build().unwrap().is_empty());
        let job = Job::builder().processing_stage("rendering").build().unwrap();
        assert!(!job.is_empty());
        assert_eq!((job.id(), job.status(), job.processing_stage()), (None, None, Some("rendering")));
    }

    #[test]
    fn a_job_that_went_well_can_be_written_as_plain_json() {
        let job =
            Job::builder().id("a1b2").status(JobStatus::Completed).completed_at(time()).build().unwrap();
        let json = serde_json::to_string(&job).unwrap();
        assert_eq!(json, r#"{"jobId":"a1b2","jobStatus":"COMPLETED","completedAt":"2026-02-26T10:00:03Z"}"#);
    }
}
