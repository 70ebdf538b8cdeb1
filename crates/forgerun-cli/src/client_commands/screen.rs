//! Output: results on standard output, progress and notes for terminals.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, SystemTime};

use console::{Style, Term};
use forgerun_client::{Clock, SystemClock};
use forgerun_problem::Timestamp;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::connection::Connection;
use super::duration::short;
use crate::terminal::clean_lines;

/// Default width of a terminal.
const COLUMNS: usize = 80;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) json: bool,
    quiet: bool,
    /// Whether standard output is a terminal.
    pub(crate) tables: bool,
    progress: bool,
    colours: bool,
}

impl Screen {
    pub(crate) fn of(connection: &Connection) -> Screen {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let tables = io::stdout().is_terminal();
        let progress = io::stderr().is_terminal() && !connection.quiet;
        Screen { json: connection.json, quiet: connection.quiet, tables, progress, colours: tables && !plain }
    }

    pub(crate) fn json(&self, value: &Value) -> io::Result<()> {
        self.line(&value.to_string())
    }

    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()
    }

    /// A line on standard error; not with `--json`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet && !self.json {
            let _ = writeln!(io::stderr().lock(), "{}", clean_lines(text));
        }
    }

    /// Maximum width of a table.
    pub(crate) fn columns(&self) -> usize {
        let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let found = Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
        said.or(found).unwrap_or(COLUMNS).max(40)
    }

    /// A state in its colour.
    pub(crate) fn state(&self, state: &str, text: &str) -> String {
        let style = match state {
            "SUCCEEDED" | "SUCCESS" | "job_succeeded" => Style::new().green(),
            "FAILED" | "job_failed" | "job_timed_out" => Style::new().red(),
            "RUNNING" | "ASSIGNED" | "job_started" | "job_progress" => Style::new().cyan(),
            "CANCELED" | "job_canceled" => Style::new().yellow(),
            _ => return text.to_owned(),
        };
        if self.colours { style.force_styling(true).apply_to(text).to_string() } else { text.to_owned() }
    }

    /// A spinner; hidden without a terminal.
    pub(crate) fn spinner(&self, text: String) -> ProgressBar {
        if !self.progress {
            return ProgressBar::hidden();
        }
        let style =
            ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("the template is right");
        let bar = ProgressBar::new_spinner().with_style(style).with_message(text);
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }

    /// A progress bar of bytes; hidden without a terminal.
    pub(crate) fn bytes(&self, size: Option<u64>) -> ProgressBar {
        if !self.progress {
            return ProgressBar::hidden();
        }
        let template = "{bar:30} {bytes}/{total_bytes} {bytes_per_sec}";
        let style = ProgressStyle::with_template(template).expect("the template is right");
        size.map_or_else(ProgressBar::no_length, ProgressBar::new).with_style(style)
    }
}

/// A relative time: `3 m ago`, `in 2 h 0 m`. Unchanged if it is not a time.
pub(crate) fn relative(text: &str, now: SystemTime) -> String {
    let Ok(at) = Timestamp::parse(text) else { return text.to_owned() };
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros() as i64;
    let apart = now - at.unix_micros();
    let span = Duration::from_micros(apart.unsigned_abs());
    match apart {
        0.. if span < Duration::from_secs(1) => "just now".to_owned(),
        0.. => format!("{} ago", short(span)),
        _ => format!("in {}", short(span)),
    }
}

pub(crate) fn now() -> SystemTime {
    SystemClock.now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_from_the_present() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        for (text, expected) in [
            ("2026-01-01T00:00:00.000Z", "just now"),
            ("2025-12-31T23:57:00.000Z", "3 m ago"),
            ("2026-01-01T02:00:00Z", "in 2 h 0 m"),
            ("never", "never"),
        ] {
            assert_eq!(relative(text, now), expected);
        }
    }
}
