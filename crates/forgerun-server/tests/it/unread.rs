//! Answers that nobody reads: what they cost the server, and that they end.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use super::process::{Server, forgerun};

const CONNECTIONS: usize = 100;

/// What one connection may cost, in kB: its buffers, and nothing of the document.
const EACH_KB: u64 = 200;

/// What the process has in memory, in kB.
fn resident_kb(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn n_open(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

#[expect(clippy::disallowed_methods, reason = "waits for another process, which announces nothing")]
fn pause() {
    thread::sleep(Duration::from_millis(50));
}

/// Waits until it holds, a minute at most.
fn until(holds: impl Fn() -> bool) -> bool {
    (0..1200).any(|_| {
        let held = holds();
        if !held {
            pause();
        }
        held
    })
}

#[test]
fn answers_that_nobody_reads_cost_little_and_end_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
    command.env("FORGERUN_LIMITS__WRITE_STALL_S", "10").env("FORGERUN_LOG__LEVEL", "error");
    let server = Server::start(&mut command);
    let document = server.get("/openapi.json").len();
    assert!(document > 200_000, "{document} bytes are enough to notice a copy");
    let (before_kb, n_before) = (resident_kb(server.id()), n_open(server.id()));
    let unread: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut connection = server.connect();
            // More than the kernel takes for a reader that does not read.
            let asked = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(30);
            connection.write_all(asked.as_bytes()).unwrap();
            connection
        })
        .collect();
    // A connection from before may have been counted that is closed by now.
    assert!(until(|| n_open(server.id()) + 5 >= n_before + CONNECTIONS), "all are taken in");
    // Still able to answer others, by when all of them wait.
    server.get("/openapi.json");
    let grown_kb = resident_kb(server.id()).saturating_sub(before_kb);
    assert!(grown_kb < CONNECTIONS as u64 * EACH_KB, "{grown_kb} kB for {CONNECTIONS} connections");
    assert!(until(|| n_open(server.id()) <= n_before), "{} are left", n_open(server.id()) - n_before);
    drop(unread);
}
