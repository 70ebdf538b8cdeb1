//! `forgerun prove`: breaks servers of its own on an empty store, and prints which promises were
//! kept.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use forgerun_client::{Clock, SystemClock};
use forgerun_probe::prove::{Options, Progress, Summary, run};
use tokio::runtime::Builder;

use crate::Exit;
use crate::client_commands::parse_duration;
use crate::terminal::{complain, print, say};
use crate::traffic::until_stopped;

const AFTER_HELP: &str = "\
It starts nodes on a store of their own, kills, freezes and restarts them under load, and compares the end with every answer.
Without --database-url the store is SQLite in a temporary folder. The history is a file that other checkers can read.
Exit codes: 0 every promise was kept, 1 one was broken or there is no verdict, 2 usage, or the store holds data.";

/// Nodes on one SQLite file take turns; PostgreSQL is for several.
const NODES_ON_SQLITE: usize = 2;
const NODES_ON_POSTGRES: usize = 3;

/// How often a line is printed where there is no terminal.
const PLAIN_EVERY_S: u64 = 10;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ProveFlags {
    /// An empty store: sqlite:PATH, or postgres://…, where it makes a database and removes it
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,
    /// How long to cause trouble
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10m")]
    duration: Duration,
    /// Seed of clients, workers and faults [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write a page with the time line of faults, and the figures
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the history here [default: forgerun-prove-SEED.jsonl]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// The store of a run, once it is known to be empty.
pub enum EmptyStore {
    /// In a folder that is removed afterwards.
    Temporary,
    Sqlite(String),
    Postgres(String),
}

/// Runs, shows how it goes, and prints the verdict.
pub fn prove(flags: &ProveFlags, store: EmptyStore) -> Exit {
    // The upper half of a seed is left to the numbers of clients and nodes.
    let seed = flags.seed.unwrap_or_else(|| u64::from(SystemClock.random() as u32));
    let folder = std::env::temp_dir().join(format!("forgerun-prove-{:032x}", SystemClock.random()));
    let ended = proved(flags, store, seed, &folder);
    // Made by this run.
    let _ = fs::remove_dir_all(&folder);
    ended
}

fn proved(flags: &ProveFlags, store: EmptyStore, seed: u64, folder: &Path) -> Exit {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return complain(&error, Exit::Failure),
    };
    let (database_url, name, n_nodes) = match store {
        EmptyStore::Temporary => {
            (format!("sqlite:{}", folder.join("jobs.db").display()), "SQLite", NODES_ON_SQLITE)
        }
        EmptyStore::Sqlite(url) => (url, "SQLite", NODES_ON_SQLITE),
        EmptyStore::Postgres(url) => (url, "PostgreSQL", NODES_ON_POSTGRES),
    };
    let history = flags.history.clone().unwrap_or_else(|| format!("forgerun-prove-{seed}.jsonl").into());
    let options = Options {
        program,
        database_url,
        store: name.to_owned(),
        n_nodes,
        duration: flags.duration,
        seed,
        history,
    };
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, Exit::Failure),
    };
    let is_terminal = io::stderr().is_terminal();
    let running = run(&options, move |progress| show(progress, is_terminal));
    let ended = runtime.block_on(until_stopped(running));
    if is_terminal {
        let _ = write!(io::stderr().lock(), "\r\x1b[2K");
    }
    match ended {
        None => say("stopped before the end", Exit::Failure),
        Some(Err(error)) => complain(&error, Exit::Failure),
        Some(Ok(summary)) => finish(flags, &summary),
    }
}

/// One line that is rewritten on a terminal, or a line now and then.
fn show(progress: &Progress, is_terminal: bool) {
    let Progress { at_s, acknowledged, claimed, delivered, faults, is_over } = progress;
    let phase = if *is_over { "waiting for the rest" } else { "causing trouble" };
    let line = format!(
        "{at_s:4} s  {phase}: {acknowledged} jobs acknowledged, {claimed} claimed, {delivered} events delivered, {faults} faults"
    );
    let mut out = io::stderr().lock();
    let _ = match is_terminal {
        true => write!(out, "\r\x1b[2K{line}").and_then(|()| out.flush()),
        false if at_s % PLAIN_EVERY_S == 0 => writeln!(out, "{line}"),
        false => Ok(()),
    };
}

fn finish(flags: &ProveFlags, summary: &Summary) -> Exit {
    if let Some(path) = &flags.report
        && let Err(error) = fs::write(path, summary.to_html())
    {
        return say(&format!("could not write {}: {error}", path.display()), Exit::Failure);
    }
    print(&summary.to_text(), if summary.verdict.is_ok() { Exit::Done } else { Exit::Failure })
}
