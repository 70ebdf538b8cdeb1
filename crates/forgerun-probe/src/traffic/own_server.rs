//! A server started by this tool, as a child process with temporary data. It can be killed and
//! restarted on the same data and address.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// How to start the server.
#[derive(Clone, Debug)]
pub struct OwnServerOptions {
    pub program: PathBuf,
    /// Data folder; empty, removed by the caller.
    pub data: PathBuf,
}

pub(super) struct OwnServer {
    options: OwnServerOptions,
    settings: BTreeMap<String, toml::Value>,
    child: Child,
    /// Its address, the same after a restart.
    pub(super) address: String,
}

/// Settings for load from few clients; a scenario may override them.
const SETTINGS: [(&str, &str); 8] = [
    ("limits.rate_per_minute", "0"),
    ("limits.max_active_jobs", "1000000"),
    ("limits.queue_size", "1000000"),
    ("workers.concurrency", "16"),
    ("log.level", "error"),
    ("webhooks.private_targets", "allow"),
    // After a kill, running jobs are waited for that long.
    ("workers.lease_s", "5"),
    ("workers.heartbeat_s", "1"),
];

impl OwnServer {
    pub(super) async fn start(
        options: &OwnServerOptions,
        settings: &BTreeMap<String, toml::Value>,
    ) -> io::Result<OwnServer> {
        let (child, address) = launch(options, settings, "127.0.0.1:0").await?;
        Ok(OwnServer { options: options.clone(), settings: settings.clone(), child, address })
    }

    /// Kills it, and waits until it is dead.
    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Restarts it at the same address.
    pub(super) async fn restart(&mut self) -> io::Result<()> {
        let address = self.address.clone();
        (self.child, self.address) = launch(&self.options, &self.settings, &address).await?;
        Ok(())
    }

    pub(super) fn process(&self) -> Option<u32> {
        self.child.id()
    }
}

async fn launch(
    options: &OwnServerOptions,
    settings: &BTreeMap<String, toml::Value>,
    listen: &str,
) -> io::Result<(Child, String)> {
    let mut command = Command::new(&options.program);
    command.args(["serve", "--listen", listen, "--data"]).arg(data(&options.data));
    // Settings of the caller's environment are not meant for this server.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FORGERUN_")) {
        command.env_remove(name);
    }
    for (key, value) in SETTINGS {
        command.env(variable(key), value);
    }
    for (key, value) in settings {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        command.env(variable(key), value);
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

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// The environment variable of a configuration key: `sim.time_scale` is `FORGERUN_SIM__TIME_SCALE`.
fn variable(key: &str) -> String {
    format!("FORGERUN_{}", key.to_uppercase().replace('.', "__"))
}
