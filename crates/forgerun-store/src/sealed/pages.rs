//! Answers to questions, opened. A content that was asked for and cannot be opened is [`Fault::Sealed`]; a list goes on
//! without it, and a text within a row says why it is missing.

use std::sync::Arc;

use forgerun_core::codec::Corrupt;
use forgerun_core::command::Content;
use forgerun_core::id::{ExecutionId, JobId};
use forgerun_core::job::{Input, Job};
use forgerun_core::rows::{Object, Outcome};
use forgerun_core::webhook::Webhook;

use super::Seals;
use super::contents::Task;
use super::keys::{KeyRing, Subject};
use crate::error::readable;
use crate::{Error, LogChunk, Page, StoredResult};

/// What a question is about, where its answer does not say it.
#[derive(Clone, Copy, Debug)]
pub(super) enum About {
    Execution(ExecutionId),
    Job(JobId),
    /// One webhook, whose secrets are needed.
    Webhook,
    Anything,
}

impl Seals {
    pub(super) fn open_page(&self, about: About, mut page: Page) -> Result<Page, Error> {
        match (&mut page, about) {
            (Page::Job(job), _) => job.iter_mut().for_each(|job| self.show_shared(job)),
            (Page::Jobs(jobs), _) => jobs.iter_mut().for_each(|job| self.show(job)),
            (Page::JobList(list), _) => list.rows.iter_mut().for_each(|job| self.show(job)),
            (Page::Inputs(inputs), _) => {
                inputs.iter_mut().try_for_each(|(job, input)| self.open_input(*job, input))?;
            }
            (Page::Outcome(outcome), _) => {
                outcome.iter_mut().try_for_each(|outcome| self.outcome(outcome))?
            }
            (Page::Outcomes(outcomes), _) => {
                let opened = std::mem::take(outcomes)
                    .into_iter()
                    .map(|mut outcome| readable(self.outcome(&mut outcome).map(|()| Some(outcome))));
                *outcomes = opened.filter_map(Result::transpose).collect::<Result<_, _>>()?;
            }
            (Page::Result(Some(result)), About::Execution(execution)) => self.result(execution, result)?,
            (Page::Items(Some(ends)), About::Execution(execution)) => {
                self.worker(Task::Show, Subject::Items, &execution.to_bytes()).items(ends);
            }
            (Page::Record(record), _) => record.iter_mut().for_each(|record| self.record(record, Task::Open)),
            (Page::Records(records), _) => {
                records.iter_mut().for_each(|record| self.record(record, Task::Open));
            }
            (Page::Webhook(Some(webhook)), about) => {
                self.webhook(webhook);
                if matches!(about, About::Webhook) {
                    self.check_secret(webhook)?;
                }
            }
            (Page::Webhooks(webhooks), _) => webhooks.iter_mut().for_each(|webhook| self.webhook(webhook)),
            (Page::Delivery(Some(delivery)), _) => {
                let row = delivery.id.to_bytes();
                self.worker(Task::Show, Subject::Delivery, &row).delivery(delivery);
            }
            (Page::DeliveryList(list), _) => list.rows.iter_mut().for_each(|delivery| {
                let row = delivery.id.to_bytes();
                self.worker(Task::Show, Subject::Delivery, &row).delivery(delivery);
            }),
            (Page::SigningKeys(keys), _) => keys.iter_mut().for_each(|key| {
                self.worker(Task::Open, Subject::SigningSeed, &key.id.to_bytes()).bytes(&mut key.seed);
            }),
            (Page::Logs(chunks), About::Job(job)) => {
                chunks.iter_mut().try_for_each(|chunk| self.log(job, chunk))?;
            }
            // Nothing in these is sealed.
            _ => {}
        }
        Ok(page)
    }

    fn show(&self, job: &mut Job) {
        self.reveal(job);
        self.job(job, Task::Show);
    }

    /// Stores share jobs that they have in memory: only one with something to open is copied.
    fn show_shared(&self, job: &mut Arc<Job>) {
        let uploads = job.lease.as_ref().is_some_and(|lease| lease.upload.is_some());
        let speaks = job.message.is_some() || !job.errors.is_empty() || job.cancel.is_some() || uploads;
        if speaks || job.head.unique_hidden {
            self.show(Arc::make_mut(job));
        }
    }

    pub(super) fn open_input(&self, job: JobId, input: &mut Input) -> Result<(), Error> {
        if let Some(clear) = self.ring.open(Subject::Input, &job.to_bytes(), &input.payload)? {
            *input = Input::decode(&clear)?;
        }
        Ok(())
    }

    pub(super) fn outcome(&self, outcome: &mut Outcome) -> Result<(), Error> {
        let row = outcome.execution.to_bytes();
        if let Some(clear) = self.ring.open(Subject::Outcome, &row, &outcome.object.bytes)? {
            let (digest, bytes) = clear.split_first_chunk().ok_or(Corrupt)?;
            outcome.object = Object { bytes: bytes.to_vec(), digest: *digest };
        }
        Ok(())
    }

    pub(super) fn result(&self, execution: ExecutionId, result: &mut StoredResult) -> Result<(), Error> {
        let Some(Content::Inline(bytes)) = &mut result.content else { return Ok(()) };
        if let Some(clear) = self.ring.open(Subject::Result, &execution.to_bytes(), bytes)? {
            *bytes = clear;
        }
        Ok(())
    }

    fn webhook(&self, webhook: &mut Webhook) {
        let row = webhook.id.to_bytes();
        self.worker(Task::Open, Subject::WebhookSecret, &row).webhook(webhook);
    }

    /// Nothing may be signed with the sealed form of a secret.
    fn check_secret(&self, webhook: &Webhook) -> Result<(), Error> {
        let secrets = &webhook.secrets;
        let previous = secrets.previous.as_ref().map(|(secret, _)| secret);
        let sealed =
            std::iter::once(&secrets.current).chain(previous).find(|secret| KeyRing::is_sealed(secret));
        match sealed {
            Some(secret) => self.ring.open(Subject::WebhookSecret, &webhook.id.to_bytes(), secret).map(drop),
            None => Ok(()),
        }
    }

    pub(super) fn log(&self, job: JobId, chunk: &mut LogChunk) -> Result<(), Error> {
        if let Some(clear) = self.ring.open(Subject::Log, &job.to_bytes(), &chunk.content)? {
            chunk.content = clear;
        }
        Ok(())
    }
}
