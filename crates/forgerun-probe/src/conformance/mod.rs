//! Judging a server from outside, by four contracts: problem details, members for asynchronous jobs, the async-operations pattern,
//! the core of Open Job Spec.
//!
//! Works on anybody's server. What has to be known of it beforehand is little and stands in a [`Description`]: where jobs are submitted,
//! a body that ends well, one that fails, one that is refused. Without one, ForgeRun's own addresses are used.
//!
//! Only what can be seen is judged. A check for which the server gave no opportunity is *skipped*, with the reason; a rule of strength
//! SHOULD is told of and does not make the verdict.

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
use forgerun_problem::check::Level;

pub use description::{Description, DescriptionError};
pub use finding::{CheckResult, Evidence, Outcome, Verdict};
pub use rule::Severity;

use crate::Running;
use run::ConformanceRun;

/// What a server is judged by.
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
    /// All of them, in the order in which they are judged.
    pub const ALL: [Contract; 4] =
        [Contract::Problem, Contract::AsyncMembers, Contract::Operations, Contract::Ojs];

    /// Its name on the command line.
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

/// Whom to judge, and by what.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server, such as `http://127.0.0.1:8080`.
    pub url: String,
    /// By what; everything if there is nothing in it, but Open Job Spec only where there is a manifest.
    pub contracts: Vec<Contract>,
    /// The key that the server knows us by.
    pub key: Option<String>,
    /// What is particular to the server.
    pub description: Description,
}

/// Why nothing can be said about a server.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// The server does not accept the key.
    #[error("the server does not accept the key: {0}")]
    NotAuthorised(String),
    /// Nobody answers.
    #[error("{0}")]
    Unreachable(Unreachable),
}

impl From<Unreachable> for ConformanceError {
    fn from(error: Unreachable) -> ConformanceError {
        ConformanceError::Unreachable(error)
    }
}

/// Judges a server.
///
/// # Errors
/// If it cannot be reached, does not accept the key, or the address is none.
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

/// A level in one word.
pub(crate) fn level_word(level: Level) -> &'static str {
    match level {
        Level::None => "none",
        Level::Basic => "basic",
        Level::Full => "full",
    }
}
