//! What the server says about itself: logs on standard error. Standard output belongs to what scripts read.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::LevelFilter;

use crate::config::{Log, LogFormat, LogLevel};

/// Starts logging for the whole process. A second call is a bug and panics.
pub fn start_logs(log: &Log) {
    let logs = tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(filter(log.level));
    match log.format {
        LogFormat::Json => logs.json().flatten_event(true).init(),
        LogFormat::Text => logs.with_target(false).with_ansi(io::stderr().is_terminal()).init(),
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
