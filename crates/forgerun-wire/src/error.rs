//! Why a job ended badly, as its status shows it: the `error` object of the async-operations pattern, which `/v1` has too.

use std::borrow::Cow;

use forgerun_core::catalog::{ErrorLevel, Kind};
use forgerun_core::job::{AttemptError, Dialect, Job};
use forgerun_problem::Problem;
use serde::{Deserialize, Serialize};

use crate::outcome::{self, said};
use crate::{status, time};

/// Why a job ended badly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "JobError"))]
pub struct ErrorView<'a> {
    /// The kind of failure.
    #[serde(rename = "type")]
    pub kind: Cow<'a, str>,
    /// In English.
    pub message: Cow<'a, str>,
    /// More about it.
    pub detail: String,
    /// The canonical code.
    #[serde(rename = "errorCode")]
    pub error_code: Cow<'a, str>,
    /// Whether submitting it again is worth it.
    pub retryable: bool,
    /// When it happened.
    pub timestamp: String,
}

impl ErrorView<'static> {
    /// What ended the execution of `job` that is or was under way last, and ended badly.
    pub fn new(job: &Job) -> ErrorView<'static> {
        let (kind, detail) = outcome::what_went_wrong(job);
        let at = time::millis(job.finished_at.unwrap_or(job.updated_at));
        ErrorView::of(kind, detail, outcome::retryable(job, kind), at)
    }

    /// The same, from the last word on any execution that ended badly.
    pub fn from_last_word(problem: &Problem) -> ErrorView<'static> {
        let slug = problem.type_uri().rsplit('/').next().unwrap_or_default();
        let of_jobs = |kind: &&Kind| kind.entry().level == ErrorLevel::Job && kind.entry().slug == slug;
        let kind = Kind::ALL.iter().find(of_jobs).copied().unwrap_or(Kind::HandlerError);
        let detail = problem.detail().unwrap_or_default().to_owned();
        let at = problem.job().completed_at().map(|at| at.to_string()).unwrap_or_default();
        ErrorView::of(kind, detail, problem.job().retryable().unwrap_or(false), at)
    }

    fn of(kind: Kind, detail: String, retryable: bool, timestamp: String) -> ErrorView<'static> {
        ErrorView {
            kind: kind.name().into(),
            message: kind.entry().title.into(),
            detail,
            error_code: status::code(kind, Dialect::Ojs).into(),
            retryable,
            timestamp,
        }
    }
}

/// Why one attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FailedAttempt"))]
pub struct FailedAttemptView<'a> {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Which execution it was part of; unknown of failures that an older version kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub execution: Option<String>,
    /// Why.
    #[serde(flatten)]
    pub error: ErrorView<'a>,
}

impl FailedAttemptView<'static> {
    /// All that are known of a job, oldest first.
    pub fn all(job: &Job) -> Vec<FailedAttemptView<'static>> {
        let view = |error: &AttemptError| FailedAttemptView {
            attempt: error.attempt,
            execution: job.execution_id(error.execution).map(|id| id.to_string()),
            error: ErrorView::of(error.kind, said(error), error.retryable, time::millis(error.at)),
        };
        job.errors.iter().map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_job_problem_tells_its_kind() {
        for &kind in Kind::ALL.iter().filter(|kind| kind.entry().level == ErrorLevel::Job) {
            let problem = Problem::builder(format!("https://a.example/problems/{}", kind.entry().slug));
            let view = ErrorView::from_last_word(&problem.build().unwrap());
            assert_eq!((&*view.kind, &*view.message), (kind.name(), kind.entry().title));
        }
    }
}
