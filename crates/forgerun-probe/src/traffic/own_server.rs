//! A server started by this tool, as a child process with temporary data. It can be killed and
//! restarted on the same data and address.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use tokio::process::Child;

use crate::own_process;

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
    let text = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let own = settings.iter().map(|(key, value)| (key.clone(), text(value)));
    let settings = SETTINGS.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().chain(own);
    let database = [OsString::from("--data"), options.data.join("data").into_os_string()];
    own_process::launch(&options.program, &database, listen, settings).await
}
