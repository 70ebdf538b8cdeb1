//! Starting `forgerun` and waiting for it, without sleeping and without waiting for ever.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Far more than anything here takes, so that only a hang fails.
const PATIENCE: Duration = Duration::from_secs(300);

/// A process that ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// `forgerun` with these arguments, none of our own variables, and the folder of golden files to
/// work in.
pub(crate) fn forgerun(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forgerun"));
    command.args(arguments).env_clear().current_dir(golden());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn golden() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/golden"))
}

/// Runs to the end.
pub(crate) fn run(command: &mut Command) -> Ended {
    let mut child = command.spawn().unwrap();
    let stdout = collect(child.stdout.take().unwrap());
    let stderr = collect(child.stderr.take().unwrap());
    let status = wait(child);
    Ended { code: status.code(), stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// A server that said that it is ready.
pub(crate) struct Server {
    child: Option<Child>,
    stdout: BufReader<ChildStdout>,
    /// `None` once nobody reads it any more.
    stderr: Option<BufReader<ChildStderr>>,
    pub(crate) first_line: String,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(command: &mut Command) -> Server {
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut first_line = String::new();
        stdout.read_line(&mut first_line).unwrap();
        let address = first_line.trim_end().rsplit("://").next().and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let mut log = String::new();
            child.kill().unwrap();
            stderr.read_to_string(&mut log).unwrap();
            panic!("the first line is {first_line:?}, the log:\n{log}");
        };
        Server { child: Some(child), stdout, stderr: Some(stderr), first_line, address }
    }

    /// One request on a connection of its own; the whole answer.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut connection = self.connect();
        write!(connection, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let connection = TcpStream::connect(self.address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().expect("still running").id()
    }

    pub(crate) fn signal(&self, name: &str) {
        send(name, self.id());
    }

    fn log(&mut self) -> &mut BufReader<ChildStderr> {
        self.stderr.as_mut().expect("the log is not closed")
    }

    /// Stops reading the log, as a program that collects logs and dies.
    pub(crate) fn close_log(&mut self) {
        self.stderr = None;
    }

    /// Reads the log up to the first line with these words, which it gives.
    pub(crate) fn wait_for_log(&mut self, words: &str) -> String {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            let n_bytes = self.log().read_line(&mut line).unwrap();
            assert!(n_bytes > 0, "the log ended without {words}");
        }
        line
    }

    /// Reads standard output up to the first line with these words, which it gives.
    pub(crate) fn wait_for_output(&mut self, words: &str) -> String {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            let n_bytes = self.stdout.read_line(&mut line).unwrap();
            assert!(n_bytes > 0, "the output ended without {words}");
        }
        line
    }

    /// Waits for the end; what was on standard output after the first line.
    pub(crate) fn wait(mut self) -> Ended {
        let status = wait(self.child.take().expect("still running"));
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        if let Some(mut log) = self.stderr.take() {
            log.read_to_string(&mut stderr).unwrap();
        }
        Ended { code: status.code(), stdout, stderr }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A failed test must not leave a server behind.
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn wait(mut child: Child) -> ExitStatus {
    let id = child.id();
    let (ended, end) = mpsc::sync_channel(1);
    let waiting = thread::spawn(move || {
        let status = child.wait().unwrap();
        let _ = ended.send(());
        status
    });
    if end.recv_timeout(PATIENCE).is_err() {
        send("KILL", id);
        panic!("process {id} did not end");
    }
    waiting.join().unwrap()
}

fn collect(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    })
}

pub(crate) fn send(signal: &str, process: u32) {
    let sent = Command::new("kill").arg(format!("-{signal}")).arg(process.to_string()).status().unwrap();
    assert!(sent.success(), "could not send {signal}");
}
