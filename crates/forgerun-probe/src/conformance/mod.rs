//! Checks a server from outside, by four contracts: problem details, members for asynchronous jobs,
//! the async-operations pattern, the core of Open Job Spec.
//!
//! Works with any server. The little that must be known beforehand is in a [`Description`]: where
//! jobs are submitted, and bodies that succeed, fail or are refused. The default is ForgeRun
//! itself.
//!
//! Only visible behaviour is checked. A check for which the server gave no opportunity is
//! *skipped*, with the reason; violations of a SHOULD are reported and do not affect the verdict.

mod description;
mod finding;
mod follow;
mod members;
mod ojs;
mod operations;
mod print;
mod problem;
mod rule;
mod run;
mod trace;

use std::fmt;
use std::str::FromStr;

use forgerun_client::Unreachable;
use forgerun_client::raw::Connector;
use forgerun_problem::check::Level;

pub use description::{Description, DescriptionError};
pub use finding::{CheckResult, Evidence, Outcome, Verdict};
pub use rule::Severity;

use crate::Running;
use run::ConformanceRun;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contract {
    /// Problem details: RFC 9457, and the header field of draft-ietf-httpapi-rfc7807bis-04.
    Problem,
    /// Members for asynchronous jobs: draft-ratnawat-httpapi-async-problem-details-00.
    AsyncMembers,
    /// The async-operations pattern: submit, poll, result, gone.
    Operations,
    /// The core of Open Job Spec over HTTP.
    Ojs,
}

impl Contract {
    /// In the order of the checks.
    pub const ALL: [Contract; 4] =
        [Contract::Problem, Contract::AsyncMembers, Contract::Operations, Contract::Ojs];

    pub fn as_str(self) -> &'static str {
        match self {
            Contract::Problem => "problem",
            Contract::AsyncMembers => "async-members",
            Contract::Operations => "operations",
            Contract::Ojs => "ojs",
        }
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Contract {
    type Err = String;

    fn from_str(text: &str) -> Result<Contract, String> {
        let found = Contract::ALL.into_iter().find(|contract| contract.as_str() == text);
        found.ok_or_else(|| {
            format!("{text:?} is no contract; it is problem, async-members, operations or ojs")
        })
    }
}

/// Server and contracts to check.
#[derive(Clone, Debug)]
pub struct Options {
    /// Base URL, such as `http://127.0.0.1:8080`.
    pub url: String,
    /// Contracts to check; if empty all, but Open Job Spec only if there is a manifest.
    pub contracts: Vec<Contract>,
    pub key: Option<String>,
    pub description: Description,
    /// What makes connections, with the certificates to trust.
    pub connector: Connector,
}

/// Why a run is impossible.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    #[error("{0}")]
    Usage(String),
    #[error("the server does not accept the key: {0}")]
    NotAuthorised(String),
    #[error("{0}")]
    Unreachable(Unreachable),
}

impl From<Unreachable> for ConformanceError {
    fn from(error: Unreachable) -> ConformanceError {
        ConformanceError::Unreachable(error)
    }
}

/// Checks a server.
///
/// # Errors
/// If it cannot be reached, does not accept the key, or the address is invalid.
pub fn judge(options: &Options) -> Running<'_, Result<Verdict, ConformanceError>> {
    Box::pin(judged(options))
}

async fn judged(options: &Options) -> Result<Verdict, ConformanceError> {
    let mut run = ConformanceRun::new(options)?;
    let contracts = match options.contracts.as_slice() {
        [] => &Contract::ALL[..],
        some => some,
    };
    let mut level = None;
    for contract in contracts {
        run.begin(*contract);
        match contract {
            Contract::Problem => problem::judge(&mut run).await?,
            Contract::AsyncMembers => level = Some(members::judge(&mut run).await?),
            Contract::Operations => operations::judge(&mut run).await?,
            Contract::Ojs if options.contracts.is_empty() && !ojs::is_there(&run).await? => {
                run.skip_all("there is no /ojs/manifest; --contract ojs judges all the same");
            }
            Contract::Ojs => ojs::judge(&mut run).await?,
        }
    }
    let contract = match contracts {
        [one] => one.as_str().to_owned(),
        _ => "all".to_owned(),
    };
    Ok(Verdict { target: options.url.clone(), contract, level, checks: run.into_checks() })
}

/// The level as a word.
pub(crate) fn level_word(level: Level) -> &'static str {
    match level {
        Level::None => "none",
        Level::Basic => "basic",
        Level::Full => "full",
    }
}
