//! Checks and their results.

use forgerun_problem::check::Level;

use super::Contract;
use super::rule::Severity;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub target: String,
    /// The name of the contract, or `all`.
    pub contract: String,
    /// How far failure reports use the members for asynchronous jobs; `None` if not checked.
    pub level: Option<Level>,
    /// All checks in order.
    pub checks: Vec<CheckResult>,
}

#[derive(Clone, Debug)]
pub struct CheckResult {
    pub contract: Contract,
    pub id: &'static str,
    pub severity: Severity,
    /// The expected behaviour.
    pub title: String,
    pub outcome: Outcome,
}

#[derive(Clone, Debug)]
pub enum Outcome {
    Passed,
    /// The requirement is violated.
    Failed(Evidence),
    /// The server gave no opportunity, for this reason.
    Skipped(String),
}

/// Request and answer of a violation.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub sent: String,
    pub got: String,
    pub mend: String,
}

impl Verdict {
    /// Failed checks of any severity.
    pub fn findings(&self) -> impl Iterator<Item = (&CheckResult, &Evidence)> {
        self.checks.iter().filter_map(|check| match &check.outcome {
            Outcome::Failed(evidence) => Some((check, evidence)),
            Outcome::Passed | Outcome::Skipped(_) => None,
        })
    }

    /// Whether no MUST is violated.
    pub fn is_ok(&self) -> bool {
        self.findings().all(|(check, _)| check.severity == Severity::Should)
    }

    pub fn n_passed(&self) -> usize {
        self.checks.iter().filter(|check| matches!(check.outcome, Outcome::Passed)).count()
    }

    /// Number of skipped checks.
    pub fn n_skipped(&self) -> usize {
        self.checks.iter().filter(|check| matches!(check.outcome, Outcome::Skipped(_))).count()
    }
}
