//! Standard error of a program: progress, and the last lines, which are the message of a failure.

use std::collections::VecDeque;

/// Lines kept for the message.
const LINES_MAX: usize = 20;

/// Bytes of a line that are examined; the rest is skipped.
const LINE_BYTES_MAX: usize = 1000;

/// Progress reported by a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) percent: u8,
    pub(super) text: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    last: VecDeque<String>,
}

impl Lines {
    /// Adds bytes; returns the newest progress in them.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<Progress> {
        let mut newest = None;
        for &byte in bytes {
            if byte == b'\n' {
                newest = self.end().or(newest);
            } else if self.line.len() < LINE_BYTES_MAX {
                self.line.push(byte);
            }
        }
        newest
    }

    fn end(&mut self) -> Option<Progress> {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).trim_end().to_owned();
        if let Some(progress) = parse(&line) {
            return Some(progress);
        }
        if !line.trim().is_empty() {
            if self.last.len() == LINES_MAX {
                self.last.pop_front();
            }
            self.last.push_back(line);
        }
        None
    }

    /// The last lines, including the unfinished one.
    pub(super) fn message(mut self) -> String {
        self.end();
        self.last.make_contiguous().join("\n")
    }
}

/// `forgerun: progress N [text]`.
pub(super) fn parse(line: &str) -> Option<Progress> {
    let rest = line.strip_prefix("forgerun: progress ")?.trim_start();
    let (number, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let percent =
        number.trim_end_matches('%').parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent))?;
    let text = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    Some(Progress { percent: percent as u8, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_lines_are_progress_and_the_others_are_kept() {
        let mut lines = Lines::default();
        let first = lines.take(b"begin\nforgerun: progress 10\nforgerun: prog");
        assert_eq!(first, Some(Progress { percent: 10, text: None }));
        let second = lines.take(b"ress 55% half way\nforgerun: progress 200\nthe end");
        assert_eq!(second, Some(Progress { percent: 55, text: Some("half way".into()) }));
        assert_eq!(lines.message(), "begin\nforgerun: progress 200\nthe end");
    }

    #[test]
    fn only_the_last_lines_are_kept_and_no_line_grows_without_end() {
        let mut lines = Lines::default();
        for n in 0..100 {
            lines.take(format!("line {n}\n\n").as_bytes());
        }
        lines.take(&vec![b'x'; 1_000_000]);
        let message = lines.message();
        assert_eq!(message.lines().count(), LINES_MAX);
        assert!(message.starts_with("line 81") && message.len() < 2000, "{message}");
    }
}
