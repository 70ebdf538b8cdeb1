//! Telling the server how a job ended, until it has heard it or the job is no longer ours.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::handler::{Failure, Output, Suspension};
use super::run::{Note, Shared};
use crate::error::Error;
use crate::limits::{AWAY_FIRST, AWAY_LONGEST, REPORTS_MAX, UPLOAD_CHUNK_BYTES};
use crate::ojs::{AttemptEnd, ClaimedJob, HeldJob, Ojs, UploadHead};

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reported {
    Heard,
    /// Somebody else decides about the job now.
    Lost,
}

impl Shared {
    pub(super) async fn report_success(&self, job: &ClaimedJob, output: &Output) -> Result<Reported, Error> {
        let uploaded = match output {
            Output::Nothing | Output::Json(_) => Reported::Heard,
            Output::Bytes { .. } | Output::File { .. } => {
                self.insist(move || self.upload(job, output)).await?
            }
        };
        if uploaded == Reported::Lost {
            return Ok(Reported::Lost);
        }
        let result = match output {
            Output::Json(value) => Some(&**value),
            Output::Nothing | Output::Bytes { .. } | Output::File { .. } => None,
        };
        self.insist(move || self.report_end(job, AttemptEnd::Success(result))).await
    }

    pub(super) async fn report_failure(
        &self,
        job: &ClaimedJob,
        failure: &Failure,
    ) -> Result<Reported, Error> {
        let error: &Value = &failure.to_json();
        let end = AttemptEnd::Failure { error, delay: failure.retry_after };
        self.insist(move || self.report_end(job, end)).await
    }

    pub(super) async fn suspend(&self, job: &ClaimedJob, suspension: &Suspension) -> Result<Reported, Error> {
        let Suspension { delay, until_signal } = suspension;
        let end = AttemptEnd::Suspend { delay: *delay, until_signal: until_signal.as_deref() };
        self.insist(move || self.report_end(job, end)).await
    }

    pub(super) async fn hand_back(&self, job: &ClaimedJob) -> Result<Reported, Error> {
        self.insist(move || self.report_end(job, AttemptEnd::HandBack)).await
    }

    async fn report_end(&self, job: &ClaimedJob, end: AttemptEnd<'_>) -> Result<(), Error> {
        let held = self.held(job);
        if self.exchanges.load(Ordering::Relaxed) {
            self.send_end(held.end(end).to_raw()).await
        } else {
            self.ojs().report_end(held, end).await
        }
    }

    /// Tries until the server has heard it. A conflict means that the job is not ours any more.
    async fn insist<Said: Future<Output = Result<(), Error>>>(
        &self,
        say: impl Fn() -> Said,
    ) -> Result<Reported, Error> {
        for tries in 0..REPORTS_MAX {
            let error = match say().await {
                Ok(()) => return Ok(Reported::Heard),
                Err(error) => error,
            };
            match error.api() {
                Some(said) if matches!(said.status, Some(404 | 409 | 410)) => return Ok(Reported::Lost),
                _ if !error.is_retryable() => return Err(error),
                _ => {}
            }
            let wait = away(tries);
            (self.notes)(&Note::Away { error: &error, wait });
            self.client.clock().sleep(wait).await;
        }
        Ok(Reported::Lost)
    }

    async fn upload(&self, job: &ClaimedJob, output: &Output) -> Result<(), Error> {
        match output {
            Output::Bytes { content_type, file_name, bytes } => {
                let size = bytes.len() as u64;
                let head = UploadHead { content_type, file_name: file_name.as_deref(), size };
                self.ojs().upload(self.held(job), head, |to| write_bytes(bytes.clone(), to)).await
            }
            Output::File { content_type, file_name, path, .. } => {
                let trouble =
                    |error: io::Error| Error::File { path: path.clone(), reason: error.to_string() };
                let file = File::open(path).await.map_err(trouble)?;
                let size = file.metadata().await.map_err(trouble)?.len();
                let head = UploadHead { content_type, file_name: file_name.as_deref(), size };
                self.ojs().upload(self.held(job), head, |to| write_file(file, to)).await
            }
            Output::Nothing | Output::Json(_) => Ok(()),
        }
    }

    pub(super) fn ojs(&self) -> Ojs<'_> {
        Ojs { client: &self.client }
    }

    pub(super) fn held<'a>(&'a self, job: &'a ClaimedJob) -> HeldJob<'a> {
        HeldJob { worker: &self.id, job }
    }
}

/// The wait before the next try of a worker whose server is away.
pub(super) fn away(tries: u32) -> Duration {
    AWAY_FIRST.saturating_mul(1 << tries.min(16)).min(AWAY_LONGEST)
}

async fn write_bytes(bytes: Bytes, to: mpsc::Sender<io::Result<Bytes>>) {
    // A server that does not want it says so in its answer.
    let _ = to.send(Ok(bytes)).await;
}

async fn write_file(mut file: File, to: mpsc::Sender<io::Result<Bytes>>) {
    let mut buffer = vec![0; UPLOAD_CHUNK_BYTES];
    loop {
        let piece = match file.read(&mut buffer).await {
            Ok(0) => return,
            Ok(n) => Ok(Bytes::copy_from_slice(&buffer[..n])),
            Err(error) => Err(error),
        };
        let failed = piece.is_err();
        if to.send(piece).await.is_err() || failed {
            return;
        }
    }
}
