//! Log lines of jobs: appended beside the rows, read in chunks.

use forgerun_core::id::JobId;
use forgerun_core::log::LogPlace;

/// Chunks of a job's log, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct LogQuery {
    pub job: JobId,
    /// Only those of this attempt.
    pub attempt: Option<u32>,
    /// Only chunks with lines after this one.
    pub after: u64,
    /// At most this many chunks.
    pub limit: usize,
}

/// A stored batch of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChunk {
    pub place: LogPlace,
    /// The lines, as [`encode_lines`](forgerun_core::log::encode_lines) writes them.
    pub content: Vec<u8>,
}
