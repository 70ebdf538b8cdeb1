//! Checks of well-formed submissions by this server's rules. All violations are reported at once,
//! in the dialect's form.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::job::{BadQueueName, Head, Name};
use forgerun_core::time::Time;
use forgerun_schema::Misfit;
use forgerun_wire::problem::{RefusedRequest, Violation};

use super::{Checked, Submission};
use crate::app::App;
use crate::config::{Limits, PrivateTargets};
use crate::http::ApiError;
use crate::limits::{ENVELOPE_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX};
use crate::schemas;
use crate::webhooks::Target;

/// Tolerated difference between the clocks of client and server (C-58).
const SKEW: Duration = Duration::from_secs(1);

/// The constraint that past moments violate.
const FUTURE: &str = "future";

/// The member names of a dialect, and its refusals.
#[derive(Clone, Copy)]
pub struct SubmissionTerms {
    pub queue: &'static str,
    /// Callback URL.
    pub callback: &'static str,
    pub key: &'static str,
    /// Earliest start; `None` if a past one means at once.
    pub execution_at: Option<&'static str>,
    /// Deadline.
    pub deadline: &'static str,
    pub payload: &'static str,
    pub work_kind: &'static str,
    /// The job type, if adding it would make a simulated job real; `None` if omitting the work kind
    /// does.
    pub job_type: Option<&'static str>,
    /// Maximum payload.
    pub payload_bytes_max: fn(&Limits) -> usize,
    /// A refusal with all violations.
    pub refused: fn(Kind, Vec<Violation>) -> Box<RefusedRequest>,
}

/// The context of a submission, besides the job itself.
#[derive(Clone, Copy)]
pub struct SubmissionContext<'a> {
    /// The effective idempotency key.
    pub key: Option<&'a str>,
    /// Size of the whole request. Members besides the payload are small, so a request far above
    /// their bound is a payload in disguise. 0 if only the payload counts.
    pub bytes: usize,
    /// Whether its callback may lead to a private address.
    pub private: PrivateTargets,
}

/// The violations of a submission.
#[derive(Default)]
pub struct Violations(Vec<(Kind, Violation)>);

impl Violations {
    /// Adds a violation of a member.
    pub fn add(&mut self, kind: Kind, member: &str, detail: impl Into<String>, constraint: &'static str) {
        let violation = Violation { pointer: format!("#/{member}"), detail: detail.into(), constraint };
        self.0.push((kind, violation));
    }

    /// A refusal of the kind of the first violation; `None` without violations.
    fn refusal(self, terms: &SubmissionTerms) -> Option<Box<RefusedRequest>> {
        let (kind, _) = self.0.first()?;
        let kind = *kind;
        Some((terms.refused)(kind, self.0.into_iter().map(|(_, violation)| violation).collect()))
    }

    /// Whether the only violations are past moments.
    fn is_only_late(&self) -> bool {
        self.0.iter().all(|(_, violation)| violation.constraint == FUTURE)
    }
}

impl Submission {
    /// Checks the submission. `wrong` has the dialect's own violations.
    ///
    /// A job with a past start is refused, unless it has an idempotency key: then it may repeat one
    /// that was in time, which the engine decides.
    pub async fn check(
        mut self,
        app: &App,
        terms: &SubmissionTerms,
        context: SubmissionContext<'_>,
        mut wrong: Violations,
    ) -> Result<Checked, ApiError> {
        let now = self.head.created_at;
        // The items of a batch are many small payloads; the bound on bodies is theirs.
        let sent_bytes = if self.input.items.is_empty() { context.bytes } else { 0 };
        if let Some(queue) = self.queue.take().and_then(|name| wrong.queue(terms, &name)) {
            self.head.queue = queue;
        }
        self.head.callback = self.head.callback.and_then(|url| wrong.callback(context.private, terms, &url));
        wrong.key(terms, context.key);
        wrong.payload(
            (terms.payload_bytes_max)(&app.config.limits),
            terms,
            self.input.payload.len(),
            sent_bytes,
        );
        wrong.execution_at(terms, self.head.execution_at, now);
        wrong.deadline(terms, &self.head);
        wrong.schema(terms, schemas::misfits(app, &self).await?);
        wrong.simulated(app, terms, &self);
        let may_repeat = context.key.is_some() && wrong.is_only_late();
        match wrong.refusal(terms) {
            Some(refused) if !may_repeat => Err(refused.into()),
            too_late => Ok(Checked { submission: self, too_late }),
        }
    }
}

impl Violations {
    /// Parses the queue name.
    fn queue(&mut self, terms: &SubmissionTerms, name: &str) -> Option<Name> {
        let bad = match Name::queue(name) {
            Ok(queue) if queue.as_str() == forgerun_core::workflow::QUEUE => {
                let detail = "is the queue of workflows themselves; choose another name";
                self.add(Kind::InvalidQueue, terms.queue, detail, "reserved");
                return None;
            }
            Ok(queue) => return Some(queue),
            Err(BadQueueName::TooLong) => Kind::QueueNameTooLong,
            Err(BadQueueName::Form) => Kind::InvalidQueue,
        };
        self.add(bad, terms.queue, BadQueueName::RULE, "format");
        None
    }

    /// The normalised URL, if callbacks to it are allowed. Webhooks have the same normal form, so
    /// that one place gets an event once.
    fn callback(&mut self, private: PrivateTargets, terms: &SubmissionTerms, url: &str) -> Option<String> {
        match Target::parse_new(url, private) {
            Ok(target) => Some(target.as_str().to_owned()),
            Err(objection) => {
                self.add(Kind::InvalidCallbackUrl, terms.callback, objection.to_string(), "format");
                None
            }
        }
    }

    /// Checks whether a simulated job is allowed.
    fn simulated(&mut self, app: &App, terms: &SubmissionTerms, submission: &Submission) {
        if app.config.sim.enabled || !submission.is_simulated() {
            return;
        }
        let real = match terms.job_type {
            Some(member) => format!("name a `{member}` for work that your workers do"),
            None => "leave it out for work that your workers do".to_owned(),
        };
        let detail = format!(
            "would be simulated, and simulation is off on this server: {real}, or turn simulation on with `sim.enabled = true`"
        );
        self.add(Kind::InvalidArgs, terms.work_kind, detail, "simulation");
    }

    /// Checks the idempotency key.
    fn key(&mut self, terms: &SubmissionTerms, key: Option<&str>) {
        if let Err(detail) = key.map_or(Ok(()), check_key) {
            self.add(Kind::InvalidArgs, terms.key, detail, "format");
        }
    }

    fn payload(
        &mut self,
        bytes_max: usize,
        terms: &SubmissionTerms,
        payload_bytes: usize,
        sent_bytes: usize,
    ) {
        if payload_bytes > bytes_max || sent_bytes > bytes_max + ENVELOPE_BYTES_MAX {
            let detail = format!("is larger than {} KB", bytes_max / 1024);
            self.add(Kind::JobPayloadTooLarge, terms.payload, detail, "maxLength");
        }
    }

    /// Adds violations of the schema of its type.
    fn schema(&mut self, terms: &SubmissionTerms, misfits: Vec<Misfit>) {
        for Misfit { pointer, detail } in misfits {
            self.add(Kind::SchemaMismatch, &format!("{}{pointer}", terms.payload), detail, "schema");
        }
    }

    fn execution_at(&mut self, terms: &SubmissionTerms, moment: Option<Time>, now: Time) {
        let Some(member) = terms.execution_at else { return };
        if moment.is_some_and(|moment| moment + SKEW < now) {
            self.add(Kind::ScheduleInPast, member, "lies in the past", FUTURE);
        }
    }

    fn deadline(&mut self, terms: &SubmissionTerms, head: &Head) {
        let Some(deadline) = head.deadline else { return };
        if deadline <= head.created_at {
            self.add(Kind::InvalidArgs, terms.deadline, "lies in the past", FUTURE);
        } else if head.execution_at.is_some_and(|start| deadline <= start) {
            let detail = "lies before the moment at which the job is to begin";
            self.add(Kind::InvalidArgs, terms.deadline, detail, "order");
        }
    }
}
/// Checks the idempotency key of a job or workflow; returns what it must be.
pub fn check_key(key: &str) -> Result<(), String> {
    if key.len() > IDEMPOTENCY_KEY_BYTES_MAX || key.chars().any(char::is_control) {
        let detail = format!("must have at most {IDEMPOTENCY_KEY_BYTES_MAX} bytes and no control characters");
        return Err(detail);
    }
    Ok(())
}
