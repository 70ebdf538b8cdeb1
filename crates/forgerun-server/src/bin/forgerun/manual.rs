//! Completions and manual pages, generated from the grammar.

use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use forgerun_cli::Exit;
use forgerun_cli::terminal::{complain, print, say};

use crate::cli::Cli;

#[derive(Debug, Args)]
pub(crate) struct CompletionsFlags {
    /// Which shell
    shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManFlags {
    /// The command, such as `submit` or `worker exec`; the whole program otherwise
    command: Vec<String>,
    /// Write all pages into this folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

pub(crate) fn completions(flags: &CompletionsFlags) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "forgerun", &mut script);
    print(&String::from_utf8_lossy(&script), Exit::Done)
}

pub(crate) fn man(flags: &ManFlags) -> Exit {
    let mut command = without_help(Cli::command());
    command.build();
    if let Some(dir) = &flags.dir {
        let made = std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(command, dir));
        return match made {
            Ok(()) => Exit::Done,
            Err(error) => say(&format!("could not write to {}: {error}", dir.display()), Exit::Failure),
        };
    }
    let mut page = &command;
    for name in &flags.command {
        match page.find_subcommand(name) {
            Some(found) => page = found,
            None => return say(&format!("there is no command {name:?}"), Exit::Usage),
        }
    }
    let mut text = Vec::new();
    match Man::new(page.clone()).render(&mut text) {
        Ok(()) => print(&String::from_utf8_lossy(&text), Exit::Done),
        Err(error) => complain(&error, Exit::Failure),
    }
}

/// The grammar without `help`, which exists for every command and would be a page for each.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}
