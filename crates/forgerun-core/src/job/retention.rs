//! Retention of results, and a summary of a job's result.

use alloc::string::String;
use core::time::Duration;

use super::is_json;
use crate::command::Output;
use crate::limits;
use crate::time::Time;

/// Retention of results, counted from the job's end. Fixed at submission, so that a changed
/// configuration never shortens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultRetention {
    /// JSON of up to [`limits::SMALL_RESULT_BYTES_MAX`].
    pub small: Duration,
    /// Other results of up to [`limits::MEDIUM_RESULT_BYTES_MAX`].
    pub medium: Duration,
    pub large: Duration,
}

impl ResultRetention {
    pub(crate) fn of(&self, output: &Output) -> Duration {
        match output.content.size() {
            size if size <= limits::SMALL_RESULT_BYTES_MAX && is_json(&output.media_type) => self.small,
            size if size <= limits::MEDIUM_RESULT_BYTES_MAX => self.medium,
            _ => self.large,
        }
    }
}

/// Summary of a result, so that a status need not read the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultNote {
    /// As the worker gave it.
    pub media_type: String,
    /// In bytes.
    pub size: u64,
    /// When the content is deleted; `None` if with the job.
    pub expires_at: Option<Time>,
}
