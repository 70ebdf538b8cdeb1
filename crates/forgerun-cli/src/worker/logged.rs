//! Output of a program on its way to the log of the job.

use forgerun_client::limits::LOG_LINE_BYTES_MAX;
use forgerun_client::worker::{Context, LogLine};

use super::lines;

/// Splits output into lines and logs them. The rest without an end is logged when it is dropped.
pub(super) struct LoggedLines {
    context: Context,
    stream: &'static str,
    line: Vec<u8>,
}

impl LoggedLines {
    pub(super) fn new(context: &Context, stream: &'static str) -> LoggedLines {
        LoggedLines { context: context.clone(), stream, line: Vec::new() }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = LOG_LINE_BYTES_MAX - self.line.len();
            let end = rest.iter().take(room).position(|byte| *byte == b'\n');
            let n = end.unwrap_or(rest.len().min(room));
            self.line.extend_from_slice(&rest[..n]);
            rest = &rest[n + usize::from(end.is_some())..];
            if end.is_some() || self.line.len() >= LOG_LINE_BYTES_MAX {
                self.end();
            }
        }
    }

    fn end(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned();
        // Progress is reported in its own way.
        if lines::parse(&text).is_none() {
            self.context.log_line(LogLine::new(text).stream(self.stream));
        }
    }
}

impl Drop for LoggedLines {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.end();
        }
    }
}
