//! Starts a server as a child process.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Starts `serve` with a database and settings, waits until it listens, and returns its address. It
/// ends with this process.
pub(crate) async fn launch(
    program: &Path,
    database: &[OsString],
    listen: &str,
    settings: impl IntoIterator<Item = (String, String)>,
) -> io::Result<(Child, String)> {
    let mut command = Command::new(program);
    command.args(["serve", "--listen", listen]).args(database);
    // Settings of the caller's environment are not meant for this server.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FORGERUN_")) {
        command.env_remove(name);
    }
    for (key, value) in settings {
        command.env(variable(&key), value);
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await?;
    match line.trim().rsplit_once("http://") {
        Some((_, address)) => Ok((child, address.to_owned())),
        None => Err(io::Error::other("the server did not start; its log says why")),
    }
}

/// The environment variable of a configuration key: `sim.time_scale` is `FORGERUN_SIM__TIME_SCALE`.
fn variable(key: &str) -> String {
    format!("FORGERUN_{}", key.to_uppercase().replace('.', "__"))
}
