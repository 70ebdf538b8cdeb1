//! How long what a job leaves behind is kept, and what a job that succeeded left.

use alloc::string::String;
use core::time::Duration;

use super::is_json;
use crate::command::Output;
use crate::limits;
use crate::time::Time;

/// How long what a job leaves is kept, counted from its end. Fixed at submission, so that a changed configuration never
/// takes away what a client was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultRetention {
    /// A JSON document of up to [`limits::SMALL_RESULT_BYTES_MAX`].
    pub small: Duration,
    /// Anything else of up to [`limits::MEDIUM_RESULT_BYTES_MAX`].
    pub medium: Duration,
    /// Anything larger.
    pub large: Duration,
}

impl ResultRetention {
    /// How long an output is kept.
    pub(crate) fn of(&self, output: &Output) -> Duration {
        match output.content.size() {
            size if size <= limits::SMALL_RESULT_BYTES_MAX && is_json(&output.media_type) => self.small,
            size if size <= limits::MEDIUM_RESULT_BYTES_MAX => self.medium,
            _ => self.large,
        }
    }
}

/// What a job that succeeded left, in a few words: enough for a status without a look at the result itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultNote {
    /// The media type, as the worker gave it.
    pub media_type: String,
    /// How many bytes.
    pub size: u64,
    /// When the content goes; `None` where it stays as long as the job.
    pub expires_at: Option<Time>,
}
