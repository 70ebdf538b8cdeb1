//! The commands for people, as the binary runs them: what they print where, and their exit codes.

mod audit;
mod backup;
pub(crate) mod check;
mod docs;
mod faults;
mod health;
mod ids;
mod jobs;
mod json_errors;
mod logs;
mod operator;
mod own_work;
mod screen;
mod worker;
mod workflows;

use std::process::Command;

use serde_json::Value;

use crate::process::{Ended, Server, forgerun, run};

/// A server that needs no keys, with quick work.
pub(crate) fn dev() -> Server {
    Server::start(forgerun(&["dev", "--listen", "127.0.0.1:0"]).env("FORGERUN_SIM__TIME_SCALE", "0.01"))
}

/// A command that talks to this server.
pub(crate) fn command(server: &Server, arguments: &[&str]) -> Command {
    let mut command = forgerun(arguments);
    command.env("FORGERUN_URL", format!("http://{}", server.address));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// Runs a command to its end.
pub(crate) fn ask(server: &Server, arguments: &[&str]) -> Ended {
    run(&mut command(server, arguments))
}

impl Ended {
    /// What it printed, without the line break, if it ended with this code.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.stdout.trim_end()
    }

    /// What it printed as JSON.
    #[track_caller]
    pub(crate) fn json(&self, code: i32) -> Value {
        serde_json::from_str(self.expect(code)).unwrap_or_else(|error| panic!("{error} in {}", self.stdout))
    }
}
