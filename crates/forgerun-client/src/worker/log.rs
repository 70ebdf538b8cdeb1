//! Log lines of a handler, sent in batches while it runs. What cannot be sent is lost: logging never fails a job.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forgerun_problem::Timestamp;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::handler::Context;
use super::report::away;
use crate::client::Client;
use crate::limits::{
    LOG_BATCH_BYTES, LOG_BATCH_LINES, LOG_BATCH_WAIT, LOG_FINISH, LOG_LINE_BYTES_MAX, LOG_LINES_WAITING,
    LOG_TRIES,
};
use crate::ojs::{ClaimedJob, Ojs};

/// A line of a job's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// When it was printed; set when it is logged, unless it is given.
    pub at: Option<String>,
    /// `info` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// `log` by default; `output` is for partial results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The line, without its end.
    pub text: String,
}

impl LogLine {
    /// A line of the default level and stream.
    pub fn new(text: impl Into<String>) -> LogLine {
        LogLine { text: text.into(), ..LogLine::default() }
    }

    /// The stream.
    #[must_use]
    pub fn stream(mut self, stream: impl Into<String>) -> LogLine {
        self.stream = Some(stream.into());
        self
    }

    /// The level.
    #[must_use]
    pub fn level(mut self, level: impl Into<String>) -> LogLine {
        self.level = Some(level.into());
        self
    }
}

impl Context {
    /// Logs a line. It is sent soon, together with others; if the server falls behind, lines are dropped. Lines are shown as
    /// long as the job is kept.
    pub fn log(&self, text: impl Into<String>) {
        self.log_line(LogLine::new(text));
    }

    /// The same for a line with a level or a stream.
    pub fn log_line(&self, line: LogLine) {
        let now = self.client.clock().now();
        let at = line.at.or_else(|| {
            let since = now.duration_since(std::time::UNIX_EPOCH).ok()?;
            let millis = i64::try_from(since.as_millis()).ok()?;
            Timestamp::from_unix_millis(millis).ok().map(|at| at.to_string())
        });
        let mut rest = line.text.as_str();
        loop {
            let (now, later) = rest.split_at(rest.floor_char_boundary(LOG_LINE_BYTES_MAX.min(rest.len())));
            let piece =
                LogLine { at: at.clone(), text: now.to_owned(), ..line_head(&line.level, &line.stream) };
            self.logs.put(&self.client, &self.job, piece);
            if later.is_empty() {
                break;
            }
            rest = later;
        }
    }
}

fn line_head(level: &Option<String>, stream: &Option<String>) -> LogLine {
    LogLine { level: level.clone(), stream: stream.clone(), ..LogLine::default() }
}

/// The lines of one attempt on their way.
#[derive(Default)]
pub(crate) struct JobLog(Mutex<State>);

#[derive(Default)]
enum State {
    /// Nothing was logged.
    #[default]
    Idle,
    Open {
        lines: mpsc::Sender<LogLine>,
        sending: JoinHandle<()>,
    },
    /// The attempt is over: further lines are dropped.
    Closed,
}

impl JobLog {
    fn put(&self, client: &Client, job: &Arc<ClaimedJob>, line: LogLine) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Idle = *state {
            let (lines, queue) = mpsc::channel(LOG_LINES_WAITING);
            let sending = tokio::spawn(send_lines(client.clone(), job.clone(), queue));
            *state = State::Open { lines, sending };
        }
        if let State::Open { lines, .. } = &*state {
            // Dropped if too many wait.
            let _ = lines.try_send(line);
        }
    }

    /// Sends what waits, for a bounded time. Called before the end is reported: afterwards the server accepts none.
    pub(super) async fn finish(&self) {
        let state = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::Closed)
        };
        if let State::Open { lines, mut sending } = state {
            drop(lines);
            if timeout(LOG_FINISH, &mut sending).await.is_err() {
                sending.abort();
            }
        }
    }
}

impl Drop for JobLog {
    fn drop(&mut self) {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let State::Open { sending, .. } = state {
            sending.abort();
        }
    }
}

async fn send_lines(client: Client, job: Arc<ClaimedJob>, mut queue: mpsc::Receiver<LogLine>) {
    let Some(token) = job.lease_token.clone() else { return };
    while let Some(first) = queue.recv().await {
        let batch = gather(first, &mut queue).await;
        for tries in 0..LOG_TRIES {
            match (Ojs { client: &client }).log(&job.id, &token, &batch).await {
                Ok(()) => break,
                Err(error) if error.is_retryable() => client.clock().sleep(wait(tries)).await,
                // The job is no longer ours, or the server has no logs.
                Err(error) => {
                    tracing::debug!(job_id = %job.id, %error, "log lines refused: no more are sent");
                    return;
                }
            }
        }
    }
}

fn wait(tries: u32) -> Duration {
    away(tries)
}

/// The lines that go out together: those of a moment, or as many as a request holds.
async fn gather(first: LogLine, queue: &mut mpsc::Receiver<LogLine>) -> Vec<LogLine> {
    let mut n_bytes = first.text.len();
    let mut batch = vec![first];
    let more = async {
        while batch.len() < LOG_BATCH_LINES && n_bytes < LOG_BATCH_BYTES {
            let Some(line) = queue.recv().await else { return };
            n_bytes += line.text.len();
            batch.push(line);
        }
    };
    let _ = timeout(LOG_BATCH_WAIT, more).await;
    batch
}
