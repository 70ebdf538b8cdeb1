//! The stream of a job's log: the lines that are there, then new ones, until the job ends.
//!
//! Lines that this node writes are sent at once; those of other nodes are found by looking.

use std::sync::Arc;

use bytes::Bytes;
use forgerun_core::id::JobId;
use forgerun_wire::words::forge_state;
use serde_json::json;
use tokio::sync::broadcast;

use super::printer;
use crate::app::App;
use crate::job_logs::{LogFilter, scan};
use crate::limits::{LOG_LOOK_EVERY, LOG_PIECE_LINES};

pub(super) struct LogFollow {
    filter: LogFilter,
    /// The last line that was looked at.
    after: u64,
    news: broadcast::Receiver<Arc<[JobId]>>,
    /// Whether everything was sent, the end included.
    ended: bool,
}

impl LogFollow {
    pub(super) fn new(app: &App, filter: LogFilter, after: u64) -> LogFollow {
        LogFollow { filter, after, news: app.engine.log_news(), ended: false }
    }

    /// The next lines; `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self, app: &App) -> Result<Option<Bytes>, forgerun_engine::Error> {
        let store = &**app.engine.store();
        while !self.ended {
            if app.is_stopping() {
                return Err(forgerun_engine::Error::Stopped);
            }
            // Before the lines: a job that has ended gets no more.
            let job = store.job(self.filter.job).await?;
            let scanned = scan(store, &self.filter, self.after, LOG_PIECE_LINES).await?;
            let mut out = Vec::new();
            if scanned.n_missing > 0 {
                let data = json!({"dropped": scanned.n_missing}).to_string();
                out.extend_from_slice(&printer::lines("dropped", None::<u64>, data.as_bytes()));
            }
            for line in &scanned.lines {
                let data = serde_json::to_vec(line).expect("a line is JSON");
                out.extend_from_slice(&printer::lines("log", Some(line.seq), &data));
            }
            self.after = scanned.until;
            if !scanned.more && job.as_ref().is_none_or(|job| job.state.is_final()) {
                self.ended = true;
                let state = job.map(|job| forge_state(job.state));
                let data = json!({"state": state}).to_string();
                out.extend_from_slice(&printer::lines("end", None::<u64>, data.as_bytes()));
            }
            if !out.is_empty() {
                return Ok(Some(out.into()));
            }
            if !scanned.more {
                self.wait(app).await;
            }
        }
        Ok(None)
    }

    /// Returns when there may be new lines.
    async fn wait(&mut self, app: &App) {
        let look = app.clock.sleep(LOG_LOOK_EVERY);
        let news = async {
            // Missed news may have been about this job.
            while let Ok(jobs) = self.news.recv().await {
                if jobs.contains(&self.filter.job) {
                    return;
                }
            }
        };
        tokio::select! {
            () = news => {}
            () = look => {}
        }
    }
}
