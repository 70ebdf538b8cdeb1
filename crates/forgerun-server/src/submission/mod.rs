//! The single way from parsed input to jobs of the engine, for dialects, other protocols and
//! schedules.
//!
//! ```text
//!   dialect: words ──► Submission ──check──► Checked ──submit──► engine
//!                      head, input           rules of this       defaults, id,
//!                                            server hold         idempotency
//! ```
//!
//! A dialect converts its input into a [`Head`] and an [`Input`]; missing values are the server's
//! defaults. It defines the wording of requests and refusals ([`SubmissionTerms`]); the rules are
//! here, and those about other jobs in the engine.

mod checks;

use std::sync::Arc;

use forgerun_core::Refusal;
use forgerun_core::command::{Idempotency, NewJob, Submit};
use forgerun_core::id::JobId;
use forgerun_core::item::Items;
use forgerun_core::job::{Dialect, Head, IdempotencyKey, Input, Job};
use forgerun_engine::Error;
use forgerun_wire::problem::RefusedRequest;

use crate::app::App;
use crate::http::ApiError;

pub use checks::{SubmissionContext, SubmissionTerms, Violations, check_key};

/// A job before the checks.
pub struct Submission {
    /// The client's id for it, if any.
    pub id: Option<JobId>,
    /// Queue name; `None` for that of the head.
    pub queue: Option<String>,
    /// Fixed from now on. The server adds retention, the number of items, and the idempotency key.
    pub head: Head,
    /// Raw bytes of the job.
    pub input: Arc<Input>,
}

impl Submission {
    /// Whether the built-in worker would do the work.
    fn is_simulated(&self) -> bool {
        self.head.is_simulated() || summary(&self.input).is_some_and(|items| items.simulated)
    }
}

/// A job that has passed the checks.
pub struct Checked {
    submission: Submission,
    /// Why it is refused unless it repeats a request that was in time.
    too_late: Option<Box<RefusedRequest>>,
}

/// The idempotency key of a request.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Scope of the key (C-65).
    pub operation: &'a str,
    /// The client's key.
    pub key: &'a str,
    /// Digest of the request.
    pub fingerprint: [u8; 32],
}

impl Checked {
    /// Submits the job: returns it, and whether it existed.
    pub async fn submit(self, app: &App, key: Option<Key<'_>>) -> Result<(Job, bool), ApiError> {
        let (jobs, existing) = submit_all(app, vec![self], key).await?;
        Ok((jobs.into_iter().next().expect("a submission of one job is answered with one"), existing))
    }

    /// The template for jobs of a schedule.
    pub fn into_template(self, app: &App) -> (Head, Arc<Input>) {
        let NewJob { head, input, .. } = self.into_job(app, None);
        (Arc::unwrap_or_clone(head), input)
    }

    /// The job in the engine's form.
    pub fn into_job(self, app: &App, idempotency: Option<IdempotencyKey>) -> NewJob {
        let Submission { id, mut head, input, queue: _ } = self.submission;
        head.items = summary(&input);
        complete(app, &mut head);
        head.idempotency = idempotency;
        head.place = id.map(|_| app.engine.job_id());
        NewJob {
            id: id.unwrap_or_else(|| app.engine.job_id()),
            id_given: id.is_some(),
            head: Arc::new(head),
            input,
        }
    }
}

/// Submits jobs of one client, all or nothing: returns them, and whether they existed.
pub async fn submit_all(
    app: &App,
    checked: Vec<Checked>,
    key: Option<Key<'_>>,
) -> Result<(Vec<Job>, bool), ApiError> {
    let has_key = key.is_some();
    let too_late = checked.iter().find_map(|checked| checked.too_late.clone());
    let submitted = app.engine.submit(command(app, checked, key)).await;
    let (jobs, existing) = match (submitted, too_late) {
        // Errors in the request itself come first.
        (Err(Error::Refused(Refusal::TooLate | Refusal::IdempotencyConflict(_))), Some(refused)) => {
            return Err(refused.into());
        }
        (submitted, _) => submitted?,
    };
    if has_key {
        app.metrics.idempotency(existing);
    }
    Ok((jobs, existing))
}

/// The command that submits jobs of one client, all or nothing; for callers that handle the
/// engine's answer themselves.
pub fn command(app: &App, checked: Vec<Checked>, key: Option<Key<'_>>) -> Submit {
    let client = checked.first().map(|checked| checked.submission.head.client);
    let too_late = checked.iter().any(|checked| checked.too_late.is_some());
    // OJS's catalogue refuses jobs for a paused queue; its published suite lets them wait, and so
    // do the other dialects.
    let of_ojs = checked.iter().any(|checked| checked.submission.head.dialect == Dialect::Ojs);
    let refuse_paused = of_ojs && app.config.ojs.strict_catalog;
    let idempotency = client.zip(key).map(|(client, key)| Idempotency {
        key: IdempotencyKey { client, operation: key.operation.into(), key: key.key.into() },
        fingerprint: key.fingerprint,
        too_late,
    });
    // Of a list, only the first job has the key.
    let mut carried = idempotency.as_ref().map(|idempotency| idempotency.key.clone());
    let jobs = checked.into_iter().map(|checked| checked.into_job(app, carried.take())).collect();
    Submit { jobs, idempotency, queue_max: Some(app.config.limits.queue_size), refuse_paused }
}

/// Sets the server's defaults.
pub fn complete(app: &App, head: &mut Head) {
    head.result_retention.get_or_insert(app.result_retention());
    head.retention.get_or_insert(app.config.retention.jobs);
    let exec = &app.config.exec;
    let most = if head.is_simulated() { Some(exec.max_runtime) } else { exec.real_max_runtime };
    most.into_iter().for_each(|most| head.cap_timeout(most));
}

/// The item properties of a batch. If one item is simulated, all are.
fn summary(input: &Input) -> Option<Items> {
    let simulated = input.items.first()?.work_kind.is_some();
    Some(Items { n: input.items.len() as u32, simulated })
}
