//! Log lines of a job.

use forgerun_core::log::LogLine;
use serde::{Deserialize, Serialize};

use crate::time;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LogLine"))]
pub struct LogLineView {
    /// Its number among all lines of the job, from 1.
    pub seq: u64,
    /// When it was printed, by the worker's clock if it says so.
    pub at: String,
    /// The attempt that printed it.
    pub attempt: u32,
    /// `stderr`, `output` for partial results, or another name that the worker chose; `log` by default.
    pub stream: String,
    /// `info` by default.
    pub level: String,
    /// The line, without its end.
    pub text: String,
}

impl LogLineView {
    pub fn new(seq: u64, attempt: u32, line: LogLine) -> LogLineView {
        let LogLine { at, level, stream, text } = line;
        LogLineView { seq, at: time::millis(at), attempt, stream, level, text }
    }
}

/// A page of lines, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LogPage"))]
pub struct LogsView {
    /// The lines. A page may be short, or empty, although more follow.
    pub lines: Vec<LogLineView>,
    /// Lines of the job, or of the attempt asked for, that were deleted because there were too many.
    pub dropped: u64,
    /// The `after` of the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}
