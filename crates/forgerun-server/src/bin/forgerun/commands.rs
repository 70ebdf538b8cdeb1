//! The implementation of each command.

use std::env;
use std::path::PathBuf;

use forgerun_cli::Exit;
use forgerun_cli::prove::ProveFlags;
use forgerun_cli::terminal::{complain, print, say};
use forgerun_core::audit::AuditVerdict;
use forgerun_engine::{Clock, SystemClock};
use forgerun_server::config::{CommandMode, Config, File, Flag, Invalid, MANUAL, Sources};
use forgerun_server::{
    BackupError, BackupSummary, CheckReport, ProveStore, Ready, Renewed, SchemaStatus, ServeError,
    ServerAddresses, telemetry,
};
use tokio::runtime::Runtime;

use crate::cli::{
    BackupFlags, CheckFlags, ConfigFlags, DatabaseFlags, DevFlags, MigrateFlags, RestoreFlags, ServeFlags,
};

pub(crate) fn serve(flags: &ServeFlags) -> Exit {
    let mode = CommandMode::Serve;
    run(load(flags.given(), &flags.database.config, mode), mode, Box::new(announce))
}

pub(crate) fn dev(flags: &DevFlags) -> Exit {
    let mode = CommandMode::Dev;
    let ready = |addresses: ServerAddresses| {
        announce(addresses);
        print(&first_steps(addresses), Exit::Done);
    };
    run(load(flags.given(), &flags.config, mode), mode, Box::new(ready))
}

/// 256 random bits in hexadecimal.
pub(crate) fn token() -> Exit {
    print(&format!("{:032x}{:032x}\n", SystemClock.random(), SystemClock.random()), Exit::Done)
}

pub(crate) fn config(flags: &ConfigFlags) -> Exit {
    if flags.defaults {
        return print(MANUAL, Exit::Done);
    }
    let mode = if flags.dev { CommandMode::Dev } else { CommandMode::Serve };
    match load(flags.serve.given(), &flags.serve.database.config, mode) {
        Ok(config) => print(&config.to_toml(), Exit::Done),
        Err(invalid) => complain(&invalid, Exit::Usage),
    }
}

pub(crate) fn cleanup(flags: &DatabaseFlags) -> Exit {
    let config = match load(flags.given(), &flags.config, CommandMode::Serve) {
        Ok(config) => config,
        Err(invalid) => return complain(&invalid, Exit::Usage),
    };
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, Exit::Failure),
    };
    match runtime.block_on(forgerun_server::cleanup(&config)) {
        Ok(removed) => {
            print(&format!("removed {} jobs and {} old rows\n", removed.n_jobs, removed.n_rows), Exit::Done)
        }
        Err(error) => complain(&error, Exit::Failure),
    }
}

pub(crate) fn reencrypt(flags: &DatabaseFlags) -> Exit {
    let (config, runtime) = match on_database(flags) {
        Ok(ready) => ready,
        Err(exit) => return exit,
    };
    if !config.encryption.has_keys() {
        return say("encryption.keys is empty; expected the key to encrypt with as its first", Exit::Usage);
    }
    match runtime.block_on(forgerun_server::reencrypt(&config)) {
        Ok(Renewed { n_jobs, n_contents, n_lost, n_busy }) => {
            let rest = match (n_lost, n_busy) {
                (0, 0) => "older keys are not needed any more".to_owned(),
                (0, n) => format!("{n} belong to running jobs: run it again when these have ended"),
                (n, _) => format!("{n} cannot be decrypted with these keys"),
            };
            let line = format!("encrypted {n_contents} contents again, of {n_jobs} jobs; {rest}\n");
            print(&line, if n_lost + n_busy == 0 { Exit::Done } else { Exit::Failure })
        }
        Err(error) => failed(&error),
    }
}

pub(crate) fn check(flags: &CheckFlags) -> Exit {
    let (config, runtime) = match on_database(&flags.database) {
        Ok(ready) => ready,
        Err(exit) => return exit,
    };
    let report = match runtime.block_on(forgerun_server::check(&config)) {
        Ok(report) => report,
        Err(error) => return failed(&error),
    };
    let CheckReport { n_jobs, n_outcomes, n_events, n_deliveries, n_records, n_findings, .. } = report;
    let mut lines: String = report.findings.iter().map(|finding| format!("{finding}\n")).collect();
    let seen = format!(
        "{n_jobs} jobs, {n_outcomes} outcomes, {n_events} events, {n_deliveries} deliveries, {n_records} records"
    );
    match n_findings {
        0 => lines += &format!("the store is sound: {seen}\n"),
        n => lines += &format!("the store has {n} faults: {seen}\n"),
    }
    print(&lines, if n_findings == 0 { Exit::Done } else { Exit::Failure })
}

pub(crate) fn prove(flags: &ProveFlags) -> Exit {
    let url = flags.database_url.clone();
    let given = url.map(|value| Flag { key: "server.database_url", name: "--database-url", value });
    let config = match load(given.into_iter().collect(), &None, CommandMode::Serve) {
        Ok(config) => config,
        Err(invalid) => return complain(&invalid, Exit::Usage),
    };
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, Exit::Failure),
    };
    let database = flags.database_url.as_ref().map(|_| &config.server.database);
    let (made, store) = match runtime.block_on(ProveStore::prepare(database)) {
        Ok(ready) => ready,
        Err(error) => return complain(&error, Exit::Usage),
    };
    let exit = forgerun_cli::prove::prove(flags, store);
    match runtime.block_on(made.remove()) {
        Ok(()) => exit,
        Err(error) => complain(&error, Exit::Failure),
    }
}

pub(crate) fn backup(flags: &BackupFlags) -> Exit {
    let (config, runtime) = match on_database(&flags.database) {
        Ok(ready) => ready,
        Err(exit) => return exit,
    };
    copied("backup", &flags.to, runtime.block_on(forgerun_server::backup(&config, &flags.to)))
}

pub(crate) fn restore(flags: &RestoreFlags) -> Exit {
    let (config, runtime) = match on_database(&flags.database) {
        Ok(ready) => ready,
        Err(exit) => return exit,
    };
    copied("restored from", &flags.from, runtime.block_on(forgerun_server::restore(&config, &flags.from)))
}

fn copied(done: &str, place: &str, copied: Result<BackupSummary, BackupError>) -> Exit {
    match copied {
        Ok(BackupSummary { n_files, n_bytes }) => {
            print(&format!("{done} {place}: {n_files} files, {n_bytes} bytes\n"), Exit::Done)
        }
        Err(error) if error.is_usage() => complain(&error, Exit::Usage),
        Err(error) => complain(&error, Exit::Failure),
    }
}

/// The configuration of a command on a database, and a runtime for it.
fn on_database(flags: &DatabaseFlags) -> Result<(Config, Runtime), Exit> {
    let config = load(flags.given(), &flags.config, CommandMode::Serve);
    let config = config.map_err(|invalid| complain(&invalid, Exit::Usage))?;
    let runtime = Runtime::new().map_err(|error| complain(&error, Exit::Failure))?;
    Ok((config, runtime))
}

fn failed(error: &ServeError) -> Exit {
    complain(error, if error.is_unreachable() { Exit::Unreachable } else { Exit::Failure })
}

pub(crate) fn verify_audit(flags: &DatabaseFlags) -> Exit {
    let (config, runtime) = match on_database(flags) {
        Ok(ready) => ready,
        Err(exit) => return exit,
    };
    let verdict = match runtime.block_on(forgerun_server::verify_audit(&config)) {
        Ok(verdict) => verdict,
        Err(error) => return failed(&error),
    };
    let AuditVerdict { n_entries, n_chains, n_removed, faults } = verdict;
    let seen = format!("{n_entries} entries in {n_chains} chains, {n_removed} removed by retention");
    let mut lines: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
    match faults.len() {
        0 => lines += &format!("the audit trail is whole: {seen}\n"),
        n => lines += &format!("the audit trail has {n} faults: {seen}\n"),
    }
    print(&lines, if faults.is_empty() { Exit::Done } else { Exit::Failure })
}

pub(crate) fn export_audit(flags: &DatabaseFlags) -> Exit {
    let (config, runtime) = match on_database(flags) {
        Ok(ready) => ready,
        Err(exit) => return exit,
    };
    let mut exit = Exit::Done;
    let exported = runtime.block_on(forgerun_server::export_audit(&config, |line| {
        exit = print(line, Exit::Done);
        exit == Exit::Done
    }));
    match exported {
        Ok(()) => exit,
        Err(error) => failed(&error),
    }
}

pub(crate) fn migrate(flags: &MigrateFlags) -> Exit {
    let config = match load(flags.database.given(), &flags.database.config, CommandMode::Serve) {
        Ok(config) => config,
        Err(invalid) => return complain(&invalid, Exit::Usage),
    };
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, Exit::Failure),
    };
    let found = match flags.check {
        true => runtime.block_on(forgerun_server::schema(&config)),
        false => runtime.block_on(forgerun_server::migrate(&config)),
    };
    match found {
        Ok(status) => {
            let is_missing = flags.check && !status.pending.is_empty();
            print(&schema_lines(&status, flags.check), if is_missing { Exit::Failure } else { Exit::Done })
        }
        Err(error) if error.is_unreachable() => complain(&error, Exit::Unreachable),
        Err(error) => complain(&error, Exit::Failure),
    }
}

/// One line per step, and one for the whole.
fn schema_lines(status: &SchemaStatus, is_check: bool) -> String {
    let done = if is_check { "missing" } else { "applied" };
    let SchemaStatus { applied, known, pending } = status;
    let steps = pending.iter().map(|(version, name)| format!("{done} {version} {name}\n"));
    let all = match (pending.len(), is_check) {
        (0, _) if applied > known => format!(
            "the schema has version {applied}; this program knows versions up to {known} and can work with it\n"
        ),
        (0, _) => format!("nothing is missing: the schema has version {applied}\n"),
        (_, true) => format!("the schema has version {applied}; this program needs version {known}\n"),
        (_, false) => format!("the schema has version {known}\n"),
    };
    steps.chain([all]).collect()
}

pub(crate) fn load(flags: Vec<Flag>, file: &Option<PathBuf>, mode: CommandMode) -> Result<Config, Invalid> {
    let file = file.as_deref().map(File::read).transpose()?;
    Config::load(&Sources { flags, environment: env::vars_os().collect(), file, mode })
}

fn run(config: Result<Config, Invalid>, mode: CommandMode, ready: Ready) -> Exit {
    let config = match config {
        Ok(config) => config,
        Err(invalid) => return complain(&invalid, Exit::Usage),
    };
    telemetry::start_logs(&config.log, mode);
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, Exit::Failure),
    };
    match runtime.block_on(forgerun_server::serve(config, ready)) {
        Ok(()) => Exit::Done,
        Err(error) => complain(&error, Exit::Failure),
    }
}

/// The first line on standard output; scripts wait for it to read the port. A second one if gRPC is
/// served.
fn announce(addresses: ServerAddresses) {
    let url = url(addresses);
    let grpc = addresses.grpc;
    let grpc = grpc.map(|grpc| format!("forgerun listening for gRPC on {grpc}\n")).unwrap_or_default();
    // A server whose standard output is full still serves.
    print(&format!("forgerun listening on {url}\n{grpc}"), Exit::Done);
}

fn url(addresses: ServerAddresses) -> String {
    let scheme = if addresses.is_tls { "https" } else { "http" };
    format!("{scheme}://{}", addresses.http)
}

fn first_steps(addresses: ServerAddresses) -> String {
    let url = url(addresses);
    let program = env::args().next().unwrap_or_else(|| "forgerun".to_owned());
    format!(
        "
No keys needed, and nothing is kept when it stops (Ctrl-C). The dashboard is at {url}/dashboard,
the documentation at {url}/docs

In another terminal:

  # Your own work: any program that reads its input and writes a result is a worker
  {program} submit --url {url} --type greet --payload '{{\"name\":\"Ada\"}}'
  {program} worker exec --url {url} --queue default -- cat

  # Simulated work, to test your own client: submit a job that fails after five seconds, and note its job_id
  curl -i {url}/v1/jobs -H 'Content-Type: application/json' -d '{{\"type\":\"EXECUTE\",\"work_kind\":\"FAIL_AFTER_RETRYABLE\"}}'

  # Wait for its end and see why it failed, as one problem object
  curl {url}/v1/jobs/JOB_ID -H 'Prefer: wait=10' -H 'Accept: application/problem+json'

  # What is configured here, and what could be: {program} config --dev, {program} config --defaults
  {program} config --dev

"
    )
}
