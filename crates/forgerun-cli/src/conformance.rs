//! `forgerun conformance`: judges a server and prints the verdict.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use forgerun_probe::conformance::{ConformanceError, Contract, Description, Options, Verdict, judge};
use tokio::runtime::Builder;

use crate::Exit;
use crate::client_commands::{TlsFlags, given};
use crate::terminal::{complain, print, say};

#[derive(Debug, Args)]
pub struct ConformanceFlags {
    /// The server, such as http://127.0.0.1:8080
    url: String,
    /// Contract: problem, async-members, operations or ojs; may be given several times [default:
    /// all, ojs only where it is served]
    #[arg(long = "contract", value_name = "CONTRACT")]
    contracts: Vec<Contract>,
    /// The API key [env: FORGERUN_API_KEY]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    tls: TlsFlags,
    /// Description of the server: where jobs are submitted, which bodies lead to which end, how to
    /// authenticate [default: as ForgeRun]
    #[arg(long, value_name = "FILE.toml")]
    describe: Option<PathBuf>,
    /// Write the verdict as JUnit, for continuous integration
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Checks a server and prints the verdict; exit code 0 if no MUST is violated.
pub fn conformance(flags: &ConformanceFlags) -> Exit {
    let description = match description(flags) {
        Ok(description) => description,
        Err(reason) => return say(&reason, Exit::Usage),
    };
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, Exit::Failure),
    };
    let connector = match flags.tls.connector() {
        Ok(connector) => connector,
        Err(error) => return complain(&error, Exit::Usage),
    };
    let options = Options {
        connector,
        url: flags.url.clone(),
        contracts: flags.contracts.clone(),
        key: given(&flags.key, "FORGERUN_API_KEY"),
        description,
    };
    match runtime.block_on(judge(&options)) {
        Ok(verdict) => print_verdict(flags, &verdict),
        Err(error) => {
            let exit = match error {
                ConformanceError::Usage(_) => Exit::Usage,
                ConformanceError::NotAuthorised(_) => Exit::NotAuthorised,
                ConformanceError::Unreachable(_) => Exit::Unreachable,
            };
            complain(&error, exit)
        }
    }
}

fn description(flags: &ConformanceFlags) -> Result<Description, String> {
    let Some(path) = &flags.describe else {
        return Ok(Description::default());
    };
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("could not read {shown}: {error}"))?;
    Description::parse(&text).map_err(|error| format!("{shown}: {error}"))
}

fn print_verdict(flags: &ConformanceFlags, verdict: &Verdict) -> Exit {
    if let Some(path) = &flags.junit
        && let Err(error) = fs::write(path, verdict.to_junit())
    {
        return say(&format!("could not write {}: {error}", path.display()), Exit::Failure);
    }
    let text = match flags.json {
        true => format!("{}\n", verdict.to_json()),
        false => verdict.to_text(),
    };
    print(&text, if verdict.is_ok() { Exit::Done } else { Exit::Failure })
}
