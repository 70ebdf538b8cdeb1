//! The one way from what somebody has read to jobs of the engine, whoever submits: a dialect,
//! another protocol, a schedule.
//!
//! ```text
//!   dialect: words ──► Submission ──check──► Checked ──submit──► engine
//!                      head, input           rules of this       defaults, id,
//!                                            server hold         idempotency
//! ```
//!
//! A dialect writes what it has read into a [`Head`] and an [`Input`]; what it leaves out is the
//! server's default. It owns the words, both of the request and of the refusal
//! ([`SubmissionTerms`]); the rules are here, and those about other jobs in the engine.

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
use crate::edge::ApiError;

pub use checks::{SubmissionContext, SubmissionTerms, Violations, check_key};

/// A job that somebody wants done, before it is held to the rules.
pub struct Submission {
    /// Its id, where the client chose it.
    pub id: Option<JobId>,
    /// The queue, by name; `None` for that of the head.
    pub queue: Option<String>,
    /// All that is fixed from now on. What the server adds may be left out: retention, the number
    /// of items, the idempotency key.
    pub head: Head,
    /// The raw bytes that go with it.
    pub input: Arc<Input>,
}

impl Submission {
    /// Whether the built-in worker would do the work.
    fn is_simulated(&self) -> bool {
        self.head.is_simulated() || summary(&self.input).is_some_and(|items| items.simulated)
    }
}

/// A job that satisfies the rules of this server.
pub struct Checked {
    submission: Submission,
    /// Why it is refused unless it repeats a request that was in time.
    too_late: Option<Box<RefusedRequest>>,
}

/// What makes a repetition harmless.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Keys of one operation meet no keys of others (C-65).
    pub operation: &'a str,
    /// What the client calls the request.
    pub key: &'a str,
    /// The digest of the request.
    pub fingerprint: [u8; 32],
}

impl Checked {
    /// Submits the job: the job as it stands, and whether it was there before.
    pub async fn submit(self, app: &App, key: Option<Key<'_>>) -> Result<(Job, bool), ApiError> {
        let (jobs, existing) = submit_all(app, vec![self], key).await?;
        Ok((jobs.into_iter().next().expect("a submission of one job is answered with one"), existing))
    }

    /// What every job of a schedule begins with.
    pub fn into_template(self, app: &App) -> (Head, Arc<Input>) {
        let NewJob { head, input, .. } = self.into_job(app, None);
        (Arc::unwrap_or_clone(head), input)
    }

    /// The job as the engine takes it.
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

/// Submits jobs of one client, all or none: the jobs as they stand, and whether they were there
/// before.
pub async fn submit_all(
    app: &App,
    checked: Vec<Checked>,
    key: Option<Key<'_>>,
) -> Result<(Vec<Job>, bool), ApiError> {
    let has_key = key.is_some();
    let too_late = checked.iter().find_map(|checked| checked.too_late.clone());
    let submitted = app.engine.submit(command(app, checked, key)).await;
    let (jobs, existing) = match (submitted, too_late) {
        // What is wrong with the request itself is said first.
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

/// The command that submits jobs of one client, all or none; for whoever looks at the engine's
/// answer itself.
pub fn command(app: &App, checked: Vec<Checked>, key: Option<Key<'_>>) -> Submit {
    let client = checked.first().map(|checked| checked.submission.head.client);
    let too_late = checked.iter().any(|checked| checked.too_late.is_some());
    // OJS's catalogue refuses jobs for a paused queue; its published cases let them wait, and so do
    // the other dialects.
    let of_ojs = checked.iter().any(|checked| checked.submission.head.dialect == Dialect::Ojs);
    let refuse_paused = of_ojs && app.config.ojs.strict_catalog;
    let idempotency = client.zip(key).map(|(client, key)| Idempotency {
        key: IdempotencyKey { client, operation: key.operation.into(), key: key.key.into() },
        fingerprint: key.fingerprint,
        too_late,
    });
    // Of a list, only the first job carries the key.
    let mut carried = idempotency.as_ref().map(|idempotency| idempotency.key.clone());
    let jobs = checked.into_iter().map(|checked| checked.into_job(app, carried.take())).collect();
    Submit { jobs, idempotency, queue_max: Some(app.config.limits.queue_size), refuse_paused }
}

/// Fills in the server's defaults for what a head leaves open.
pub fn complete(app: &App, head: &mut Head) {
    head.result_retention.get_or_insert(app.result_retention());
    head.retention.get_or_insert(app.config.retention.jobs);
    let exec = &app.config.exec;
    let most = if head.is_simulated() { Some(exec.max_runtime) } else { exec.real_max_runtime };
    most.into_iter().for_each(|most| head.cap_timeout(most));
}

/// What a batch knows of its items. One that is simulated tells of all of them.
fn summary(input: &Input) -> Option<Items> {
    let simulated = input.items.first()?.work_kind.is_some();
    Some(Items { n: input.items.len() as u32, simulated })
}
