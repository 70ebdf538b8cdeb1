//! What was checked, and how it went.

use forgerun_problem::check::Level;

use super::Contract;
use super::rule::Severity;

/// What a server was found to be like.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The server.
    pub target: String,
    /// By what it was judged: a contract's name, or `all`.
    pub contract: String,
    /// How far failure reports use the members for asynchronous jobs; `None` if that was not judged.
    pub level: Option<Level>,
    /// All checks, in the order in which they were made.
    pub checks: Vec<CheckResult>,
}

/// One check.
#[derive(Clone, Debug)]
pub struct CheckResult {
    /// The contract it belongs to.
    pub contract: Contract,
    /// The requirement's id.
    pub id: &'static str,
    /// How strong the requirement is.
    pub severity: Severity,
    /// What a right server does.
    pub title: String,
    /// How it went.
    pub outcome: Outcome,
}

/// How a check went.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// As it should.
    Passed,
    /// Not as it should.
    Failed(Evidence),
    /// The server gave no opportunity, for this reason.
    Skipped(String),
}

/// What shows that a requirement is broken.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The request.
    pub sent: String,
    /// The answer.
    pub got: String,
    /// How to mend it.
    pub mend: String,
}

impl Verdict {
    /// Checks that failed, whatever their strength.
    pub fn findings(&self) -> impl Iterator<Item = (&CheckResult, &Evidence)> {
        self.checks.iter().filter_map(|check| match &check.outcome {
            Outcome::Failed(evidence) => Some((check, evidence)),
            Outcome::Passed | Outcome::Skipped(_) => None,
        })
    }

    /// Whether no MUST is broken.
    pub fn is_ok(&self) -> bool {
        self.findings().all(|(check, _)| check.severity == Severity::Should)
    }

    /// How many checks passed.
    pub fn n_passed(&self) -> usize {
        self.checks.iter().filter(|check| matches!(check.outcome, Outcome::Passed)).count()
    }

    /// How many checks had no opportunity.
    pub fn n_skipped(&self) -> usize {
        self.checks.iter().filter(|check| matches!(check.outcome, Outcome::Skipped(_))).count()
    }
}
