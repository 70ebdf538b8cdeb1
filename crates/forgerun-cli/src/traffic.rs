//! `forgerun traffic`: plays a scenario, shows how it goes, and writes what it showed.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use forgerun_client::raw::Connector;
use forgerun_client::{Clock, SystemClock};
use forgerun_probe::limits::{CONNECTIONS_DEFAULT, DRAIN_DEFAULT};
use forgerun_probe::traffic::{Options, OwnServerOptions, Scenario, Summary, Tick, TrafficError, run};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::Exit;
use crate::client_commands::{TlsFlags, given, parse_duration};
use crate::terminal::{complain, print, say};

const AFTER_HELP: &str = "\
Scenarios: steady, burst, mixed, failures, idempotency-storm, cancel-race, webhook-storm, slow-consumers, batches, abuse, key-rotation,
workers. `forgerun traffic list` says what each is for.

Rates hold whatever the server does, and latencies count from the moment at which a request was meant to be sent.
Exit codes: 0 clean, 1 a promise was broken or an expectation not met, 6 unreachable.";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = AFTER_HELP)]
pub struct TrafficFlags {
    #[command(subcommand)]
    command: Option<TrafficCommand>,
    /// A scenario by its name (`forgerun traffic list`), or a file
    #[arg(required = true, value_name = "SCENARIO|FILE")]
    scenario: Option<String>,
    /// Seed of all random choices [default: the scenario's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Total duration; phases keep their proportions [default: the scenario's]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Maximum jobs per second; phases keep their proportions [default: the scenario's]
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Start a server for the run, on a free port, with temporary data
    #[arg(long = "self", conflicts_with_all = ["url", "key", "admin_token"])]
    own: bool,
    /// Kill and restart that server so many times, and check that nothing acknowledged is lost
    #[arg(long, value_name = "N", default_value_t = 0, requires = "own", value_parser = clap::value_parser!(u32).range(..=1000))]
    kill: u32,
    /// Write a page with plots
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write measurements and violations as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Maximum concurrent requests
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS_DEFAULT)]
    connections: usize,
    /// Wait for open jobs after the last phase [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    drain: Option<Duration>,
    /// Allow a server on another machine, whose owner agrees
    #[arg(long)]
    yes_remote: bool,
    /// The server [env: FORGERUN_URL] [default: http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", help_heading = "Server")]
    url: Option<String>,
    /// One key for all requests, instead of new clients [env: FORGERUN_API_KEY]
    #[arg(long, value_name = "KEY", help_heading = "Server")]
    key: Option<String>,
    /// The operator's token, if creating clients needs it [env: FORGERUN_ADMIN_TOKEN]
    #[arg(long, value_name = "TOKEN", help_heading = "Server")]
    admin_token: Option<String>,
    #[command(flatten)]
    tls: TlsFlags,
    /// Print only the summary
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum TrafficCommand {
    /// List the built-in scenarios and their purposes
    List,
    /// Print a scenario as TOML: a template for your own
    Show {
        /// Its name
        name: String,
    },
}

/// Plays a scenario and prints the summary; exit code 0 without violations.
pub fn traffic(flags: &TrafficFlags) -> Exit {
    match &flags.command {
        Some(TrafficCommand::List) => return list(),
        Some(TrafficCommand::Show { name }) => {
            return match Scenario::built_in_text(name) {
                Some(text) => print(text, Exit::Done),
                None => say(&unknown(name), Exit::Usage),
            };
        }
        None => {}
    }
    let scenario = match scenario(flags) {
        Ok(scenario) => scenario,
        Err(reason) => return say(&reason, Exit::Usage),
    };
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, Exit::Failure),
    };
    let folder = std::env::temp_dir().join(format!("forgerun-traffic-{:032x}", SystemClock.random()));
    let connector = match flags.tls.connector() {
        Ok(connector) => connector,
        Err(error) => return complain(&error, Exit::Usage),
    };
    let options = match options(flags, connector, scenario, &folder) {
        Ok(options) => options,
        Err(error) => return complain(&error, Exit::Failure),
    };
    let rows = io::stderr().is_terminal() && !flags.quiet;
    let ended = runtime.block_on(until_stopped(run(&options, move |tick| {
        if rows {
            row(tick);
        }
    })));
    // The remaining data are worthless.
    let _ = fs::remove_dir_all(&folder);
    match ended {
        None => say("stopped before the end", Exit::Failure),
        Some(Ok(summary)) => print_summary(flags, &summary),
        Some(Err(error)) => {
            let exit = match error {
                TrafficError::Usage(_) => Exit::Usage,
                TrafficError::NotAuthorised(_) => Exit::NotAuthorised,
                TrafficError::Unreachable(_) => Exit::Unreachable,
                TrafficError::OwnServer(_) => Exit::Failure,
            };
            complain(&error, exit)
        }
    }
}

/// Plays to the end; `None` if interrupted. A started server ends with it.
pub(crate) async fn until_stopped<T>(playing: impl Future<Output = T>) -> Option<T> {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return Some(playing.await);
    };
    tokio::select! {
        ended = playing => Some(ended),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
    }
}

fn list() -> Exit {
    let lines = Scenario::built_in().map(|scenario| {
        let about = scenario.about.trim().replace('\n', "\n  ");
        format!("{} ({} s)\n  {about}\n\n", scenario.name, scenario.duration().as_secs())
    });
    print(&lines.collect::<String>(), Exit::Done)
}

fn unknown(name: &str) -> String {
    let names: Vec<String> = Scenario::built_in().map(|scenario| scenario.name).collect();
    format!("there is no scenario and no file {name:?}; scenarios are {}", names.join(", "))
}

fn scenario(flags: &TrafficFlags) -> Result<Scenario, String> {
    let name = flags.scenario.as_deref().unwrap_or_default();
    let mut scenario = match Scenario::built_in().find(|scenario| scenario.name == name) {
        Some(scenario) => scenario,
        None if !Path::new(name).exists() => return Err(unknown(name)),
        None => {
            let text = fs::read_to_string(name).map_err(|error| format!("could not read {name}: {error}"))?;
            Scenario::parse(&text).map_err(|error| format!("{name}: {error}"))?
        }
    };
    if let Some(duration) = flags.duration {
        scenario.stretch(duration);
    }
    if let Some(rate) = flags.rate {
        scenario.scale_rate(rate);
    }
    Ok(scenario)
}

fn options(
    flags: &TrafficFlags,
    connector: Connector,
    scenario: Scenario,
    folder: &Path,
) -> io::Result<Options> {
    let own = match flags.own {
        true => {
            fs::create_dir_all(folder)?;
            Some(OwnServerOptions { program: std::env::current_exe()?, data: folder.to_owned() })
        }
        false => None,
    };
    let or_default = |text: Option<String>| text.unwrap_or_else(|| "http://127.0.0.1:8080".to_owned());
    Ok(Options {
        seed: flags.seed.unwrap_or(scenario.seed),
        scenario,
        url: or_default(given(&flags.url, "FORGERUN_URL")),
        key: given(&flags.key, "FORGERUN_API_KEY").filter(|_| own.is_none()),
        admin_token: given(&flags.admin_token, "FORGERUN_ADMIN_TOKEN").filter(|_| own.is_none()),
        remote: flags.yes_remote,
        own,
        n_kills: flags.kill,
        n_connections: flags.connections,
        drain: flags.drain.unwrap_or(DRAIN_DEFAULT),
        connector,
    })
}

/// One second, as a row of a table.
fn row(tick: &Tick) {
    let mut out = io::stderr().lock();
    if tick.at_s % 20 == 1 {
        let _ = writeln!(
            out,
            "   s  phase         requests  accepted  succeeded  failed  canceled  errors  under way  submit p50/p99 ms  poll p99 ms  violations"
        );
    }
    let submit = tick.submit_ms.map_or("–".to_owned(), |(p50, p99)| format!("{p50:.1}/{p99:.1}"));
    let poll = tick.poll_ms.map_or("–".to_owned(), |(_, p99)| format!("{p99:.1}"));
    let phase: String = tick.phase.chars().take(12).collect();
    let _ = writeln!(
        out,
        "{:4}  {phase:12}  {:8}  {:8}  {:9}  {:6}  {:8}  {:6}  {:9}  {submit:>17}  {poll:>11}  {:10}",
        tick.at_s,
        tick.requests,
        tick.accepted,
        tick.succeeded,
        tick.failed,
        tick.canceled,
        tick.errors,
        tick.in_flight,
        tick.violations
    );
}

fn print_summary(flags: &TrafficFlags, summary: &Summary) -> Exit {
    let write = |path: &Path, text: String| {
        fs::write(path, text).map_err(|error| format!("could not write {}: {error}", path.display()))
    };
    let to_stdout = flags.json.as_deref() == Some(Path::new("-"));
    let json = flags.json.as_deref().filter(|_| !to_stdout);
    let written = [
        json.map(|path| write(path, format!("{:#}\n", summary.to_json()))),
        flags.report.as_deref().map(|path| write(path, summary.to_html())),
    ];
    if let Some(reason) = written.into_iter().flatten().find_map(Result::err) {
        return say(&reason, Exit::Failure);
    }
    let text = match to_stdout {
        true => format!("{}\n", summary.to_json()),
        false => summary.to_text(),
    };
    print(&text, if summary.is_ok() { Exit::Done } else { Exit::Failure })
}
