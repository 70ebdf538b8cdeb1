//! The job log: one line per change of a job's state, per disabled webhook and per sweep.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forgerun_core::history::{Event, EventKind, EventName, JournalSubject};
use forgerun_core::id::ClientId;
use forgerun_core::job::{AttemptError, Job};
use forgerun_core::webhook::Notice;
use forgerun_core::work::{End, WorkKind};
use forgerun_engine::observer::{Commit, Observer};
use forgerun_store::{Fault, Swept};

use crate::metrics::{events, scenario};

/// Logs commits, and passes them on to another observer.
#[derive(Debug)]
pub(crate) struct JobLog {
    observer: Arc<dyn Observer>,
    /// Jobs deleted by retention since the last log line.
    n_jobs_expired: AtomicU64,
}

impl JobLog {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> JobLog {
        JobLog { observer, n_jobs_expired: AtomicU64::new(0) }
    }
}

impl Observer for JobLog {
    fn committed(&self, commit: &Commit<'_>) {
        self.observer.committed(commit);
        for (job, event) in events(commit.changes) {
            log_change(job, event);
        }
        let expired = commit.changes.forgotten.iter().filter(|forgotten| forgotten.kept.is_some());
        self.n_jobs_expired.fetch_add(expired.count() as u64, Ordering::Relaxed);
        for entry in &commit.changes.journal {
            if let JournalSubject::Webhook(notice) = &entry.about {
                log_disabled(entry.client, notice);
            }
        }
    }

    fn failed(&self, fault: Fault, n_commands: usize) {
        self.observer.failed(fault, n_commands);
    }

    fn dropped(&self, sink: &str, n_events: u64) {
        self.observer.dropped(sink, n_events);
    }

    fn logged(&self, n_lines: u64) {
        self.observer.logged(n_lines);
    }

    /// Logs the number of deleted rows since the last line, if any. Jobs are deleted by timers, the
    /// rest by a sweep.
    fn swept(&self, swept: &Swept) {
        self.observer.swept(swept);
        let jobs = self.n_jobs_expired.swap(0, Ordering::Relaxed);
        if jobs == 0 && swept.total() == 0 {
            return;
        }
        let Swept { journal_rows, tombstones, revoked_keys, deliveries, results, limits, blobs, log_chunks } =
            *swept;
        tracing::info!(
            event = "cleanup",
            jobs,
            results,
            limits,
            blobs,
            log_chunks,
            tombstones,
            revoked_keys,
            deliveries,
            journal_rows,
            "sweep finished: expired rows removed"
        );
    }
}

/// One line per change of state, with the fields of the specification.
fn log_change(job: &Job, event: &Event) {
    let EventKind::Moved { from, to, .. } = event.kind else { return };
    let error = job.last_error().filter(|_| matches!(event.name(), EventName::Failed | EventName::TimedOut));
    let simulated = job.head.definition.filter(|_| event.name() == EventName::Started);
    tracing::info!(
        job_id = %job.id,
        client_id = %job.head.client,
        event = forgerun_wire::words::event_name(event),
        current_state = from.map(forgerun_wire::words::forge_state),
        next_state = forgerun_wire::words::forge_state(to),
        attempt = event.attempt,
        scenario = scenario(job),
        duration_ms = simulated.map(|definition| definition.duration_ms),
        expected_outcome = simulated.map(|definition| expected_outcome(definition.work_kind, event.attempt)),
        correlation_id = job.head.correlation_id.as_deref(),
        error_code = error.map(|error| error.kind.entry().rfa),
        error_message = error.map(reason),
        "job changed state"
    );
}

/// The worker's reason for a failure, or the catalog's.
fn reason(error: &AttemptError) -> &str {
    let own = error.message.lines().next().unwrap_or_default();
    if own.is_empty() { error.kind.entry().title } else { own }
}

fn log_disabled(client_id: ClientId, notice: &Notice) {
    tracing::warn!(
        webhook_id = %notice.webhook,
        %client_id,
        event = forgerun_wire::words::WEBHOOK_DISABLED,
        reason = forgerun_wire::words::disabled_reason(notice.disabled.reason),
        "webhook disabled"
    );
}

/// The planned end of a simulated attempt.
fn expected_outcome(kind: WorkKind, attempt: u32) -> &'static str {
    match kind.end(attempt) {
        End::Success => "SUCCEEDED",
        End::Failure { .. } => "FAILED",
        End::Timeout => "TIMED_OUT",
    }
}
