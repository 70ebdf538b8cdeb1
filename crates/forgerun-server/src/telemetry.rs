//! Logs on standard error. Standard output belongs to scripts.

mod dev_log;

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{CommandMode, Log, LogFormat, LogLevel};

/// Starts logging for the whole process. A second call is a bug and panics.
pub fn start_logs(log: &Log, mode: CommandMode) {
    let logs = tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(filter(log.level));
    // If standard error is closed, the library would panic in whatever part logs.
    let logs = logs.log_internal_errors(false);
    let is_terminal = io::stderr().is_terminal();
    match (log.format, mode) {
        (LogFormat::Json, _) => logs.json().flatten_event(true).finish().with(ours(log.level)).init(),
        (LogFormat::Text, CommandMode::Serve) => {
            logs.with_target(false).with_ansi(is_terminal).finish().with(ours(log.level)).init();
        }
        (LogFormat::Text, CommandMode::Dev) => {
            let logs = logs.with_ansi(is_terminal).event_format(dev_log::DevLog);
            logs.finish().with(ours(log.level)).init();
        }
    }
}

/// All targets at this level, except RabbitMQ's client library: its errors reach us anyway, and it
/// logs whole messages.
fn ours(level: LogLevel) -> Targets {
    Targets::new().with_default(filter(level)).with_target("lapin", LevelFilter::OFF)
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
