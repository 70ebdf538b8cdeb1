//! Which parts of a row are contents. Each walk is used in both directions, to seal and to open.

use std::cell::Cell;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use forgerun_core::command::{Content, Output};
use forgerun_core::delivery::Delivery;
use forgerun_core::item::ItemEnd;
use forgerun_core::job::Job;
use forgerun_core::record::RecordKind;
use forgerun_core::webhook::Webhook;

use super::keys::{KeyRing, Subject};
use crate::Error;

/// What happens to a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Seal,
    /// Leaves what no key opens as it is, so that it can be written back.
    Open,
    /// Says in place of a text that no key opens why it is missing.
    Show,
    /// Changes nothing, and counts what is not sealed with the key that seals now.
    Look,
}

/// Seals or opens the contents of one row.
pub(super) struct RowSealer<'a> {
    pub(super) ring: &'a KeyRing,
    pub(super) task: Task,
    pub(super) subject: Subject,
    pub(super) row: &'a [u8],
    pub(super) seen: Cell<Stale>,
}

/// Contents that are not sealed with the key that seals now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stale {
    /// Those that can be.
    pub(super) n: u64,
    /// Those that no key opens.
    pub(super) n_lost: u64,
}

/// The beginning of a sealed text, before its base64. JSON and people do not write it.
const TEXT_MARK: &str = "\u{1}forgerun:";

impl RowSealer<'_> {
    /// A content that was sealed and cannot be opened stays as it is.
    pub(super) fn bytes(&self, bytes: &mut Vec<u8>) {
        match self.task {
            Task::Seal if !KeyRing::is_sealed(bytes) => {
                *bytes = self.ring.seal(self.subject, self.row, bytes)
            }
            Task::Seal => {}
            Task::Look => self.look(bytes),
            Task::Open | Task::Show => {
                if let Ok(Some(clear)) = self.ring.open(self.subject, self.row, bytes) {
                    *bytes = clear;
                }
            }
        }
    }

    pub(super) fn look(&self, bytes: &[u8]) {
        let mut seen = self.seen.get();
        match self.ring.open(self.subject, self.row, bytes) {
            Err(_) => seen.n_lost += 1,
            Ok(_) if !self.ring.is_current(bytes) => seen.n += 1,
            Ok(_) => {}
        }
        self.seen.set(seen);
    }

    fn text(&self, text: &mut String) {
        match (self.task, text.strip_prefix(TEXT_MARK)) {
            (Task::Seal, None) => {
                let sealed = self.ring.seal(self.subject, self.row, text.as_bytes());
                *text = String::from(TEXT_MARK);
                BASE64.encode_string(sealed, text);
            }
            (Task::Look, None) => self.look(text.as_bytes()),
            (Task::Look, Some(sealed)) => self.look(&BASE64.decode(sealed).unwrap_or_default()),
            (Task::Seal, Some(_)) | (Task::Open | Task::Show, None) => {}
            (Task::Open | Task::Show, Some(sealed)) => match self.open_text(sealed) {
                Ok(Some(clear)) => *text = clear,
                Ok(None) => {}
                Err(error) if self.task == Task::Show => *text = format!("({error})"),
                Err(_) => {}
            },
        }
    }

    fn open_text(&self, sealed: &str) -> Result<Option<String>, Error> {
        let Ok(sealed) = BASE64.decode(sealed) else { return Ok(None) };
        let clear = self.ring.open(self.subject, self.row, &sealed)?;
        Ok(clear.and_then(|clear| String::from_utf8(clear).ok()))
    }

    /// Codes, classes, moments and counts of failures stay readable.
    pub(super) fn job(&self, job: &mut Job) {
        job.message.iter_mut().for_each(|text| self.text(text));
        for error in &mut job.errors {
            self.text(&mut error.message);
            if !error.details.is_empty() {
                self.bytes(&mut error.details);
            }
        }
        job.cancel.iter_mut().for_each(|cancel| self.text(&mut cancel.reason));
        if let Some(upload) = job.lease.as_mut().and_then(|lease| lease.upload.as_mut()) {
            *upload = self.output(upload);
        }
    }

    /// The output with its content sealed or opened; of a blob, only its name is here.
    pub(super) fn output(&self, output: &Arc<Output>) -> Arc<Output> {
        let Content::Inline(bytes) = &output.content else { return output.clone() };
        let mut bytes = bytes.clone();
        self.bytes(&mut bytes);
        Arc::new(Output { content: Content::Inline(bytes), ..Output::clone(output) })
    }

    pub(super) fn items(&self, ends: &mut [ItemEnd]) {
        let errors = ends.iter_mut().filter_map(|end| end.error.as_mut());
        errors.for_each(|error| self.text(&mut error.message));
    }

    pub(super) fn delivery(&self, delivery: &mut Delivery) {
        let errors = delivery.log.iter_mut().filter_map(|attempt| attempt.error.as_mut());
        errors.for_each(|error| self.text(error));
    }

    pub(super) fn webhook(&self, webhook: &mut Webhook) {
        self.bytes(&mut webhook.secrets.current);
        webhook.secrets.previous.iter_mut().for_each(|(secret, _)| self.bytes(secret));
    }
}

/// Whether records of a kind hold contents. All do but those listed, so that a new kind is sealed by default.
pub(super) const fn is_content(kind: RecordKind) -> bool {
    !matches!(
        kind,
        RecordKind::Queue
            | RecordKind::Worker
            | RecordKind::Sink
            | RecordKind::QueuePace
            | RecordKind::FailureIndex
            | RecordKind::Redrive
            | RecordKind::Node
            | RecordKind::Tally
            | RecordKind::QuotaCount
            | RecordKind::EndedSession
            | RecordKind::ClientName
            | RecordKind::SchemaIndex
            | RecordKind::ScheduleCount
            | RecordKind::AuditEntry
            | RecordKind::AuditChain
            | RecordKind::AuditCount
            | RecordKind::ClientLimits
            | RecordKind::Encryption
    )
}
