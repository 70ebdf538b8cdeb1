//! `forgerun`: the command line. Parses, loads the configuration, calls the library, returns an
//! exit code.

mod cli;
mod commands;
mod docs;
mod manual;
mod outbox;
mod webhook;

use std::io::{self, Write};

use clap::Parser;
use forgerun_cli::terminal::{printed, say};
use forgerun_cli::{Exit, client_commands, conformance, init, terminal, traffic, worker};

use cli::{Audit, Cli, Command};

/// Requests make many small allocations on two or more threads; the system's allocator costs a
/// tenth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Exit {
    terminal::follow_json_flag(std::env::args_os().skip(1));
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match cli.command {
        Command::Serve(flags) => commands::serve(&flags),
        Command::Dev(flags) => commands::dev(&flags),
        Command::Config(flags) => commands::config(&flags),
        Command::Token => commands::token(),
        Command::Cleanup(flags) => commands::cleanup(&flags),
        Command::Reencrypt(flags) => commands::reencrypt(&flags),
        Command::Backup(flags) => commands::backup(&flags),
        Command::Restore(flags) => commands::restore(&flags),
        Command::Check(flags) => commands::check(&flags),
        Command::Audit(Audit::Verify(flags)) => commands::verify_audit(&flags),
        Command::Audit(Audit::Export(flags)) => commands::export_audit(&flags),
        Command::Migrate(flags) => commands::migrate(&flags),
        Command::Webhook(command) => webhook::webhook(&command),
        Command::ClientCommand(command) => client_commands::run(&command),
        Command::Outbox(command) => outbox::outbox(&command),
        Command::Worker(command) => worker::run(&command, webhook::sign_with),
        Command::Init(flags) => init::init(&flags),
        Command::Conformance(flags) => conformance::conformance(&flags),
        Command::Traffic(flags) => traffic::traffic(&flags),
        Command::Prove(flags) => commands::prove(&flags),
        Command::Docs(flags) => docs::docs(&flags),
        Command::Completions(flags) => manual::completions(&flags),
        Command::Man(flags) => manual::man(&flags),
    }
}

/// Help and version are "errors" too, but not failures.
fn usage(error: &clap::Error) -> Exit {
    if error.use_stderr() && terminal::errors_are_json() {
        let text = error.to_string();
        return say(text.trim_start_matches("error: ").trim_end(), Exit::Usage);
    }
    let shown = error.print().and_then(|()| io::stdout().flush());
    if error.use_stderr() { Exit::Usage } else { printed(shown, Exit::Done) }
}
