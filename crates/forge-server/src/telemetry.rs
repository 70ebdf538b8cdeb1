//! What the server says about itself: logs on standard error. Standard output belongs to what scripts read.

mod dev_log;

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::LevelFilter;

use crate::config::{CommandMode, Log, LogFormat, LogLevel};

/// Starts logging for the whole process. A second call is a bug and panics.
pub fn start_logs(log: &Log, mode: CommandMode) {
    let logs = tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(filter(log.level));
    let is_terminal = io::stderr().is_terminal();
    match (log.format, mode) {
        (LogFormat::Json, _) => logs.json().flatten_event(true).init(),
        (LogFormat::Text, CommandMode::Serve) => logs.with_target(false).with_ansi(is_terminal).init(),
        (LogFormat::Text, CommandMode::Dev) => {
            logs.with_ansi(is_terminal).event_format(dev_log::DevLog).init()
        }
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
