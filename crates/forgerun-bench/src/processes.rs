//! Child processes: the measured server, and the handlers it is compared with.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A binary of ForgeRun to measure instead of the server compiled into this program.
const BINARY: &str = "FORGERUN_BIN";

/// A server in a process of its own. Killed when dropped.
pub(crate) struct ServerProcess {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    /// The address for gRPC, if the server has one.
    pub(crate) grpc: Option<SocketAddr>,
}

impl ServerProcess {
    /// Starts the measured server: this program, or the binary that `FORGERUN_BIN` names.
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> io::Result<ServerProcess> {
        let mut command = match std::env::var_os(BINARY) {
            Some(binary) => Command::new(binary),
            None => Command::new(std::env::current_exe()?),
        };
        ServerProcess::announced(command.args(arguments).envs(environment.iter().copied()))
    }

    /// Starts the bare handlers, which this program serves too.
    pub(crate) fn start_bare(data: &Path, database_url: Option<&str>) -> io::Result<ServerProcess> {
        let mut command = Command::new(std::env::current_exe()?);
        ServerProcess::announced(command.arg("bare").arg(data).args(database_url))
    }

    /// Starts a program that prints its address in its first line.
    fn announced(command: &mut Command) -> io::Result<ServerProcess> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| io::Error::other(format!("{program}: {error}")))?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
        let mut stdout = BufReader::new(stdout);
        stdout.read_line(&mut line)?;
        let address = line.trim().rsplit("http://").next().and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| io::Error::other(format!("{program} printed {line:?}")))?;
        // A second line about gRPC is written together with the first.
        let grpc =
            String::from_utf8_lossy(stdout.buffer()).trim().rsplit(' ').next().and_then(|at| at.parse().ok());
        Ok(ServerProcess { child, address, grpc })
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The data are thrown away, so there is nothing to stop gracefully.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
