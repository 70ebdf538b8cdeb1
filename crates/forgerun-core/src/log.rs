//! Log lines of jobs: what a worker prints while it works.
//!
//! Lines are stored in chunks, one per batch of lines, beside the rows of their job: appending
//! changes neither the job nor the journal. Lines of a job are numbered from 1, over all attempts.
//! An attempt keeps a bounded number of bytes; beyond it the oldest chunks are deleted.
//!
//! ```text
//!   chunk 1      chunk 2      chunk 3
//!   lines 1–40   lines 41–44  lines 45–60     `last` of each: 40, 44, 60
//!   0 … 5000     … 5600       … 9000          bytes of the job so far: `start`, `end`
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::{Corrupt, Fields, Writer};
use crate::id::{ClientId, JobId};
use crate::limits::{LOG_CHUNK_OVERHEAD, LOG_JOB_FACTOR};
use crate::time::Time;

/// The level of a line that names none.
pub const LEVEL: &str = "info";

/// The stream of a line that names none.
pub const STREAM: &str = "log";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub at: Time,
    pub level: String,
    /// `output` is for partial results.
    pub stream: String,
    pub text: String,
}

/// Encodes the lines of a chunk.
pub fn encode_lines(lines: &[LogLine]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(lines.iter().map(|line| line.text.len() + 32).sum());
    let mut out = Writer(&mut bytes);
    for line in lines {
        out.group(1, |out| {
            out.time(1, Some(line.at));
            if line.level != LEVEL {
                out.text(2, Some(&line.level));
            }
            if line.stream != STREAM {
                out.text(3, Some(&line.stream));
            }
            out.text(4, Some(&line.text));
        });
    }
    bytes
}

/// Decodes the bytes of [`encode_lines`].
pub fn decode_lines(bytes: &[u8]) -> Result<Vec<LogLine>, Corrupt> {
    let mut lines = Vec::new();
    for field in Fields(bytes) {
        let field = field?;
        if field.tag == 1 {
            lines.push(decode_line(field.bytes)?);
        }
    }
    Ok(lines)
}

fn decode_line(bytes: &[u8]) -> Result<LogLine, Corrupt> {
    let mut line =
        LogLine { at: Time::ZERO, level: LEVEL.into(), stream: STREAM.into(), text: String::new() };
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => line.at = field.time()?,
            2 => line.level = field.text()?,
            3 => line.stream = field.text()?,
            4 => line.text = field.text()?,
            _ => {}
        }
    }
    Ok(line)
}

/// Lines of one attempt, to be appended as one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBatch {
    pub job: JobId,
    pub client: ClientId,
    pub attempt: u32,
    pub n_lines: u32,
    /// The lines, as [`encode_lines`] writes them.
    pub content: Vec<u8>,
}

impl LogBatch {
    pub fn new(job: JobId, client: ClientId, attempt: u32, lines: &[LogLine]) -> LogBatch {
        LogBatch { job, client, attempt, n_lines: lines.len() as u32, content: encode_lines(lines) }
    }

    /// What the chunk counts towards bounds.
    pub fn n_bytes(&self) -> u64 {
        self.content.len() as u64 + LOG_CHUNK_OVERHEAD
    }

    /// Adds the lines of another batch, if both are of one attempt and together within the bound.
    /// Otherwise returns it.
    pub fn absorb(&mut self, other: LogBatch, bytes_max: usize) -> Option<LogBatch> {
        let fits = (self.job, self.attempt) == (other.job, other.attempt)
            && self.content.len() + other.content.len() <= bytes_max;
        if !fits {
            return Some(other);
        }
        self.content.extend_from_slice(&other.content);
        self.n_lines += other.n_lines;
        None
    }
}

/// The place of a chunk among those of its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPlace {
    pub attempt: u32,
    /// Number of its last line.
    pub last: u64,
    pub n_lines: u32,
    /// Bytes of the job's log before it, deleted ones included.
    pub start: u64,
    /// The same including it.
    pub end: u64,
    /// Number of the last line before those of its attempt.
    pub attempt_after: u64,
    /// Bytes of the job's log before those of its attempt.
    pub attempt_start: u64,
}

impl LogPlace {
    /// The place of a new chunk behind the last one of its job.
    pub fn next(last: Option<&LogPlace>, batch: &LogBatch) -> LogPlace {
        let before = last.copied().unwrap_or_default();
        let goes_on = before.attempt == batch.attempt;
        LogPlace {
            attempt: batch.attempt,
            last: before.last + u64::from(batch.n_lines),
            n_lines: batch.n_lines,
            start: before.end,
            end: before.end + batch.n_bytes(),
            attempt_after: if goes_on { before.attempt_after } else { before.last },
            attempt_start: if goes_on { before.attempt_start } else { before.end },
        }
    }

    /// Which chunks to delete, once this one is written, so that an attempt has at most `max` bytes
    /// and a job [`LOG_JOB_FACTOR`] times as many. Deletes an eighth at once, so that this is
    /// seldom.
    pub fn trim(&self, max: u64) -> Option<LogTrim> {
        let attempt = over(self.start - self.attempt_start, self.end - self.attempt_start, max);
        let job = over(self.start, self.end, max * LOG_JOB_FACTOR);
        let trim = LogTrim {
            attempt_start: self.attempt_start,
            attempt_before: self.attempt_start + attempt.unwrap_or(0),
            job_before: job.unwrap_or(0),
        };
        (attempt.is_some() || job.is_some()).then_some(trim)
    }
}

/// If the bytes grow past `max` and into another eighth of it: the bytes up to which to delete.
fn over(start: u64, end: u64, max: u64) -> Option<u64> {
    let step = (max / 8).max(1);
    // Of the last byte: to end at a boundary is not to grow past it.
    let eighth = |bytes: u64| bytes.saturating_sub(1) / step;
    (end > max && eighth(start) != eighth(end)).then(|| end - (max - step))
}

/// Chunks to delete, by their `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTrim {
    pub attempt_start: u64,
    /// Those of the attempt that start before this.
    pub attempt_before: u64,
    /// Those of the job that start before this.
    pub job_before: u64,
}

impl LogTrim {
    pub fn deletes(&self, chunk: &LogPlace) -> bool {
        chunk.start < self.job_before
            || (chunk.start >= self.attempt_start && chunk.start < self.attempt_before)
    }
}

/// How much there is of a job's log, or of that of one attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// Number of the last line; 0 if there was none.
    pub last: u64,
    /// Lines that were deleted because of the bounds.
    pub dropped: u64,
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use proptest::prelude::*;

    use super::*;

    fn line(text: &str) -> LogLine {
        LogLine { at: Time::from_millis(5), level: LEVEL.into(), stream: "stderr".into(), text: text.into() }
    }

    fn batch(attempt: u32, n_bytes: usize) -> LogBatch {
        LogBatch {
            job: JobId::from_u128(1),
            client: ClientId::from_u128(2),
            attempt,
            n_lines: 2,
            content: vec![0; n_bytes],
        }
    }

    #[test]
    fn lines_are_read_back_as_they_were_written() {
        let mut other = line("");
        other.level = "error".into();
        other.stream = STREAM.into();
        let lines = [line("a\u{0}b\n\u{1F600}"), other, line(&"x".repeat(300))];
        let first = LogBatch::new(JobId::from_u128(1), ClientId::from_u128(2), 1, &lines[..1]);
        let mut both = first.clone();
        let rest = LogBatch::new(JobId::from_u128(1), ClientId::from_u128(2), 1, &lines[1..]);
        assert_eq!(both.absorb(rest, 1000), None);
        assert_eq!((both.n_lines, decode_lines(&both.content).unwrap()), (3, lines.to_vec()));
        assert_eq!(decode_lines(&both.content[..9]), Err(Corrupt));
    }

    #[test]
    fn batches_of_two_attempts_or_too_many_bytes_stay_apart() {
        assert!(batch(1, 10).absorb(batch(2, 10), 100).is_some());
        assert!(batch(1, 60).absorb(batch(1, 60), 100).is_some());
    }

    #[test]
    fn a_later_attempt_has_a_bound_of_its_own() {
        let first = LogPlace::next(None, &batch(1, 800));
        assert_eq!((first.last, first.attempt_after, first.attempt_start), (2, 0, 0));
        let second = LogPlace::next(Some(&first), &batch(2, 800));
        assert_eq!((second.last, second.attempt_after, second.start), (4, 2, first.end));
        assert_eq!((second.attempt_start, second.trim(1000)), (first.end, None));
    }

    proptest! {
        #[test]
        fn an_attempt_never_keeps_more_than_its_bound(sizes in prop::collection::vec((1u32..4, 1usize..300), 1..200)) {
            let max = 4096;
            let mut kept: Vec<LogPlace> = Vec::new();
            let mut attempt = 1;
            for (step, size) in sizes {
                attempt += step / 3;
                let place = LogPlace::next(kept.last(), &batch(attempt, size));
                kept.push(place);
                if let Some(trim) = place.trim(max) {
                    kept.retain(|chunk| !trim.deletes(chunk));
                }
                let bytes = |chunk: &LogPlace| chunk.end - chunk.start;
                let of_attempt = kept.iter().filter(|chunk| chunk.attempt == attempt);
                prop_assert!(of_attempt.map(bytes).sum::<u64>() <= max);
                prop_assert!(kept.iter().map(bytes).sum::<u64>() <= max * LOG_JOB_FACTOR);
                prop_assert_eq!(kept.last(), Some(&place));
            }
        }
    }
}
