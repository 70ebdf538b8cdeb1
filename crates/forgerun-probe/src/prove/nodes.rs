//! The nodes of a run: processes of the same program on one store. They are killed, frozen, stopped
//! and started again.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use forgerun_client::raw::Connector;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::history::{Event, History};
use crate::clock::sleep;
use crate::own_process::launch;
use crate::pool::Pool;

/// A node that takes longer to stop is killed.
const STOP_MAX: Duration = Duration::from_secs(20);

/// How often a node is started again that does not start, such as while the store recovers.
const STARTS_MAX: u32 = 20;
const START_PAUSE: Duration = Duration::from_millis(250);

/// Short leases and retries, so that what a fault delays comes soon.
const SETTINGS: [(&str, &str); 14] = [
    ("limits.rate_per_minute", "0"),
    ("limits.max_active_jobs", "1000000"),
    ("limits.queue_size", "1000000"),
    ("log.level", "error"),
    ("retry.base_ms", "20"),
    ("retry.max_ms", "500"),
    ("sim.time_scale", "0.01"),
    ("webhooks.private_targets", "allow"),
    ("webhooks.base_ms", "100"),
    ("webhooks.max_ms", "1000"),
    ("webhooks.max_retries", "20"),
    ("workers.concurrency", "8"),
    ("workers.heartbeat_s", "1"),
    ("workers.lease_s", "2"),
];

/// Something to be done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// SIGKILL, and a start after this time.
    Kill(Duration),
    /// SIGSTOP, and SIGCONT after this time.
    Freeze(Duration),
    /// SIGTERM, and a start after it has stopped.
    Restart,
}

impl Fault {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Fault::Kill(_) => "kill",
            Fault::Freeze(_) => "freeze",
            Fault::Restart => "restart",
        }
    }
}

pub(super) struct Node {
    program: PathBuf,
    database_url: String,
    address: String,
    child: RefCell<Option<Child>>,
    pub(super) pool: Pool,
}

impl Node {
    pub(super) async fn start(
        program: PathBuf,
        database_url: String,
        n_connections: usize,
    ) -> io::Result<Node> {
        let (child, address) = start(&program, &database_url, "127.0.0.1:0").await?;
        let uri = format!("http://{address}").parse().map_err(io::Error::other)?;
        let pool = Pool::new(Connector::new(None), uri, n_connections);
        Ok(Node { program, database_url, address, child: RefCell::new(Some(child)), pool })
    }

    /// Does something to the node, and undoes it.
    pub(super) async fn suffer(&self, number: usize, fault: Fault, history: &History) -> io::Result<()> {
        let from_ms = history.ms();
        match fault {
            Fault::Kill(pause) => {
                self.kill().await?;
                sleep(pause).await;
                self.start_again().await?;
            }
            Fault::Freeze(pause) => {
                self.signal(Signal::STOP)?;
                sleep(pause).await;
                self.signal(Signal::CONT)?;
            }
            Fault::Restart => {
                self.stop().await?;
                self.start_again().await?;
            }
        }
        history.add(Event::Fault {
            fault: fault.name().to_owned(),
            node: number,
            from_ms,
            at_ms: history.ms(),
        });
        Ok(())
    }

    async fn kill(&self) -> io::Result<()> {
        let child = self.child.borrow_mut().take();
        match child {
            Some(mut child) => child.kill().await,
            None => Ok(()),
        }
    }

    /// Lets it finish what it has begun.
    pub(super) async fn stop(&self) -> io::Result<()> {
        self.signal(Signal::TERM)?;
        let child = self.child.borrow_mut().take();
        if let Some(mut child) = child
            && timeout(STOP_MAX, child.wait()).await.is_err()
        {
            child.kill().await?;
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let process = self.child.borrow().as_ref().and_then(Child::id).and_then(|id| i32::try_from(id).ok());
        match process.and_then(Pid::from_raw) {
            Some(process) => Ok(kill_process(process, signal)?),
            None => Ok(()),
        }
    }

    async fn start_again(&self) -> io::Result<()> {
        let mut n_starts = 1;
        loop {
            match start(&self.program, &self.database_url, &self.address).await {
                Ok((child, _)) => {
                    *self.child.borrow_mut() = Some(child);
                    return Ok(());
                }
                Err(error) if n_starts == STARTS_MAX => return Err(error),
                Err(_) => {
                    n_starts += 1;
                    sleep(START_PAUSE).await;
                }
            }
        }
    }

    /// What `forgerun check` finds in the store.
    pub(super) async fn check(&self) -> io::Result<Vec<String>> {
        let mut command = Command::new(&self.program);
        command.args(["check", "--database-url", &self.database_url]);
        let checked = command.env_clear().kill_on_drop(true).output().await?;
        let lines =
            |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect::<Vec<_>>();
        Ok(match checked.status.code() {
            Some(0) => Vec::new(),
            _ => lines(&checked.stdout).into_iter().chain(lines(&checked.stderr)).collect(),
        })
    }
}

async fn start(program: &std::path::Path, database_url: &str, listen: &str) -> io::Result<(Child, String)> {
    let database = [OsString::from("--database-url"), OsString::from(database_url)];
    let settings = SETTINGS.map(|(key, value)| (key.to_owned(), value.to_owned()));
    launch(program, &database, listen, settings).await
}
