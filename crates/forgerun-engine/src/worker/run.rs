//! One running attempt: its due reports, and the meaning of answers. No clock, no waiting.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{Conclude, Extend, Fail, HeldJob, LeaseProof, Note, Output, Succeed, WorkError};
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_core::time::Time;
use forgerun_core::{Answer, Command};
use forgerun_store::Fault;

use super::batch::{self, BatchItems};
use super::output::output;
use super::plan::{PlannedEnd, plan};
use super::{Compose, WorkerOptions};
use crate::{Error, IntakeError};

/// Minimum interval of lease extensions, however short the lease.
const BEAT_MIN: Duration = Duration::from_millis(10);

/// Extensions per lease, at least: so a late one costs nothing.
const BEATS_PER_LEASE: u32 = 3;

pub(super) struct Run {
    job: Job,
    compose: Compose,
    held: HeldJob,
    marks: VecDeque<(Time, Note, bool)>,
    fate: PlannedEnd,
    /// The result, once it is stored.
    output: Option<Arc<Output>>,
    ends_at: Time,
    beat_at: Time,
    beat_every: Duration,
    lease_until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunReport {
    /// A lease extension, and whether it carries the first of the planned reports.
    Sign {
        with_mark: bool,
    },
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportAnswer {
    GoesOn,
    /// The attempt goes on, but the report failed: the store has an error.
    NotHeard,
    /// The attempt is over for this worker.
    Over,
}

impl Run {
    /// The attempt of a job that was just claimed.
    pub(super) fn new(job: &Job, parts: Option<BatchItems>, options: &WorkerOptions, now: Time) -> Run {
        let plan = match parts {
            Some(parts) => batch::plan(job, parts, options),
            None => plan(&job.head, job.attempt, options.max_runtime, options.time_scale),
        };
        let began_at = job.started_at.unwrap_or(now);
        // The events of one transaction differ by microseconds, so the start may be ahead of the
        // clock; work without duration does not wait for it.
        let ends_at = if plan.length.is_zero() { now } else { began_at + plan.length };
        let (lease_until, length) =
            job.lease.as_ref().map_or((now, options.lease), |lease| (lease.until, lease.length));
        let beat_every = options.heartbeat.min(length / BEATS_PER_LEASE).max(BEAT_MIN);
        Run {
            job: job.clone(),
            compose: options.compose,
            held: HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None },
            marks: plan
                .marks
                .into_iter()
                .map(|mark| (began_at + mark.after, mark.note, mark.needed))
                .collect(),
            fate: plan.fate,
            output: None,
            ends_at,
            beat_at: began_at + beat_every,
            beat_every,
            lease_until,
        }
    }

    pub(super) fn job(&self) -> JobId {
        self.held.job
    }

    /// When the next report is due.
    pub(super) fn next_at(&self) -> Time {
        let mark_at = self.marks.front().map_or(Time::MAX, |(at, ..)| *at);
        self.ends_at.min(self.beat_at).min(mark_at)
    }

    /// The report that is due now.
    pub(super) fn report(&mut self, now: Time) -> Option<(RunReport, Command)> {
        let is_over = self.ends_at <= now;
        // Of several due progress reports only the last is sent, unless an earlier one is required.
        while let Some((_, _, needed)) = self.marks.front() {
            let overtaken = is_over || self.marks.get(1).is_some_and(|(at, ..)| *at <= now);
            if *needed || !overtaken {
                break;
            }
            self.marks.pop_front();
        }
        match self.marks.front() {
            Some((at, note, _)) if is_over || *at <= now => Some(self.sign(Some(note.clone()))),
            None if is_over => Some((RunReport::End, self.end())),
            Some(_) | None => (self.beat_at <= now).then(|| self.sign(None)),
        }
    }

    /// The result, if the attempt is over and its result is not stored yet.
    pub(super) fn result_to_keep(&self, now: Time) -> Option<Output> {
        match self.fate {
            PlannedEnd::Success { kind, payload_kb } if self.ends_at <= now && self.output.is_none() => {
                let composed = (self.compose)(&self.job, now);
                composed.or_else(|| output(self.held.job, kind, payload_kb))
            }
            PlannedEnd::Success { .. }
            | PlannedEnd::Items(_)
            | PlannedEnd::Failure(_)
            | PlannedEnd::HandBack => None,
        }
    }

    /// Processes the storing of the result. A job never succeeds without it.
    pub(super) fn kept(&mut self, kept: Result<Output, IntakeError>, now: Time) -> ReportAnswer {
        match kept {
            Ok(output) => self.output = Some(Arc::new(output)),
            Err(error @ IntakeError::TooLarge { .. }) => {
                let error = WorkError::new(Kind::ReportFailed, &error.to_string());
                self.fate = PlannedEnd::Failure(WorkError { retryable: Some(false), ..error });
            }
            Err(IntakeError::Store(error)) if matches!(error.fault, Fault::Full | Fault::Rejected) => {
                let error = WorkError::new(Kind::ReportFailed, "the store has no room for the result");
                self.fate = PlannedEnd::Failure(error);
            }
            Err(IntakeError::Store(_) | IntakeError::Broken) if now < self.lease_until => {
                return ReportAnswer::NotHeard;
            }
            // The lease is over: another worker may have the job.
            Err(IntakeError::Store(_) | IntakeError::Broken) => return ReportAnswer::Over,
        }
        ReportAnswer::GoesOn
    }

    fn sign(&self, note: Option<Note>) -> (RunReport, Command) {
        let step = RunReport::Sign { with_mark: note.is_some() };
        (step, Command::Extend(Extend { held: self.held.clone(), lease: None, note }))
    }

    fn end(&self) -> Command {
        let held = self.held.clone();
        match &self.fate {
            PlannedEnd::Success { .. } => Command::Succeed(Succeed { held, output: self.output.clone() }),
            PlannedEnd::Items(ends) => Command::Conclude(Conclude { held, ends: ends.clone() }),
            PlannedEnd::Failure(error) => Command::Fail(Fail { held, error: error.clone() }),
            PlannedEnd::HandBack => Command::HandBack(held),
        }
    }

    /// Processes the answer to a report.
    pub(super) fn settle(
        &mut self,
        step: RunReport,
        answer: Result<Answer, Error>,
        now: Time,
    ) -> ReportAnswer {
        match (answer, step) {
            (Ok(_), RunReport::End) => ReportAnswer::Over,
            (Ok(answer), RunReport::Sign { with_mark }) => {
                if let Answer::Done(job) | Answer::Unchanged(job) = answer {
                    self.lease_until = job.lease.map_or(self.lease_until, |lease| lease.until);
                }
                self.signed(with_mark, now);
                ReportAnswer::GoesOn
            }
            // Cancelled, timed out, deleted, or claimed by another worker.
            (Err(Error::Refused(_) | Error::Stopped), _) => ReportAnswer::Over,
            (Err(Error::Store(error)), step) if error.fault == Fault::Rejected => {
                self.settle_rejected(step, now)
            }
            (Err(Error::Overloaded | Error::Store(_)), _) if now < self.lease_until => ReportAnswer::NotHeard,
            // The lease is over: another worker may have the job.
            (Err(Error::Overloaded | Error::Store(_)), _) => ReportAnswer::Over,
        }
    }

    fn signed(&mut self, with_mark: bool, now: Time) {
        self.beat_at = now + self.beat_every;
        if with_mark {
            self.marks.pop_front();
        }
    }

    /// The store will never accept it, so a retry is pointless.
    fn settle_rejected(&mut self, step: RunReport, now: Time) -> ReportAnswer {
        match (step, &self.fate) {
            (RunReport::Sign { with_mark }, _) => {
                self.signed(with_mark, now);
                ReportAnswer::GoesOn
            }
            (RunReport::End, PlannedEnd::Success { .. } | PlannedEnd::Items(_)) => {
                let error = WorkError::new(Kind::ReportFailed, "the store rejected the result");
                self.fate = PlannedEnd::Failure(error);
                ReportAnswer::GoesOn
            }
            (RunReport::End, PlannedEnd::Failure(_) | PlannedEnd::HandBack) => ReportAnswer::Over,
        }
    }

    /// Extends the lease as soon as possible, to find out whether the job still is held.
    pub(super) fn ask(&mut self, now: Time) {
        self.beat_at = now;
    }

    /// Turns the run into a hand-back.
    pub(super) fn handed_back(mut self, now: Time) -> Run {
        self.give_up_unless_over_by(Time::ZERO, now);
        self
    }

    /// Hands the job back if it would end after `latest`.
    pub(super) fn give_up_unless_over_by(&mut self, latest: Time, now: Time) {
        if self.ends_at > latest {
            self.marks.clear();
            self.fate = PlannedEnd::HandBack;
            self.ends_at = now;
        }
    }

    /// The clock was set back: moves the plan, so that the attempt does not take longer.
    pub(super) fn shift_back(&mut self, span: Duration) {
        self.ends_at = self.ends_at - span;
        self.beat_at = self.beat_at - span;
        self.marks.iter_mut().for_each(|(at, ..)| *at = *at - span);
    }
}
