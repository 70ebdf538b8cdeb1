//! Servers that are not there, or go away in the middle; readers who have had enough.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::thread;

use forgerun_store::testing::free_port;

use super::{ask, command, dev};
use crate::process::{forgerun, run};

/// Every command that talks to a server.
const COMMANDS: [&[&str]; 15] = [
    &["submit", "--operation", "a/b"],
    &["submit", "--kind", "SUCCESS_FAST", "--wait"],
    &["submit", "--type", "t", "--queue", "q"],
    &["get", "7"],
    &["list"],
    &["wait", "7"],
    &["watch"],
    &["watch", "7"],
    &["cancel", "7"],
    &["retry", "7"],
    &["report", "7"],
    &["clients", "create"],
    &["keys", "issue", "7"],
    &["health"],
    &["health", "--ready"],
];

#[test]
fn a_server_that_is_not_there_ends_every_command_with_6() {
    let free = format!("127.0.0.1:{}", free_port());
    for arguments in COMMANDS {
        let ended = run(forgerun(arguments).env("FORGERUN_URL", format!("http://{free}")));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(6), ""), "{arguments:?} {}", ended.stderr);
        assert!(ended.stderr.contains(&format!("could not reach {free}")), "{}", ended.stderr);
        assert!(ended.stderr.contains("FORGERUN_URL"), "{}", ended.stderr);
    }
}

/// Answers every request with these bytes and breaks the connection.
pub(super) fn breaking(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let mut request = [0; 4096];
            let _ = connection.read(&mut request);
            let _ = connection.write_all(answer);
        }
    });
    address
}

#[test]
fn a_server_that_goes_away_in_the_middle_ends_every_command_with_6() {
    let address =
        breaking(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"job_");
    for arguments in COMMANDS {
        // A stream that is none is looked for by asking, which breaks as well.
        let ended = run(forgerun(arguments).env("FORGERUN_URL", format!("http://{address}")));
        assert!(matches!(ended.code, Some(6 | 1)), "{arguments:?} {:?} {}", ended.code, ended.stderr);
        assert_eq!(ended.stdout, "", "{arguments:?}");
        assert!(!ended.stderr.is_empty() && !ended.stderr.contains("panicked"), "{}", ended.stderr);
        let streams = arguments == ["watch"] || arguments == ["watch", "7"];
        assert!(streams || ended.code == Some(6), "{arguments:?} {}", ended.stderr);
    }
}

#[test]
fn a_broken_download_leaves_no_file_and_ends_with_6() {
    let address = breaking(b"HTTP/1.1 200 OK\r\netag: \"a\"\r\ncontent-length: 500\r\n\r\nhalf of it");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.bin");
    let arguments = ["result", "7", "-o", file.to_str().unwrap()];
    let ended = run(forgerun(&arguments).env("FORGERUN_URL", format!("http://{address}")));
    // What comes next has no `Content-Range`: it is not the rest of the same thing.
    assert!(matches!(ended.code, Some(6 | 1)), "{:?} {}", ended.code, ended.stderr);
    assert!(!file.exists());
    let address = breaking(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nhalf of it");
    let ended = run(forgerun(&arguments).env("FORGERUN_URL", format!("http://{address}")));
    assert_eq!(ended.code, Some(6), "{}", ended.stderr);
    assert!(!file.exists());
}

#[test]
fn a_reader_who_has_had_enough_is_no_trouble() {
    let server = dev();
    for _ in 0..3 {
        ask(&server, &["submit", "--kind", "SUCCESS_FAST"]).expect(0);
    }
    for arguments in [&["list"][..], &["list", "--json"], &["completions", "bash"], &["man"]] {
        let mut child = command(&server, arguments).spawn().unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn without_any_standard_stream_a_command_still_works() {
    let server = dev();
    let mut submit = command(&server, &["submit", "--kind", "SUCCESS_FAST", "--wait"]);
    let status = submit.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn output_that_cannot_be_written_ends_with_1() {
    let server = dev();
    ask(&server, &["submit", "--kind", "SUCCESS_FAST"]).expect(0);
    for arguments in [
        &["list"][..],
        &["config"],
        &["config", "--defaults"],
        &["traffic", "list"],
        &["traffic", "show", "steady"],
        &["--version"],
        &["help"],
        &["completions", "bash"],
        &["man"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let child = command(&server, arguments).stdout(full).spawn().unwrap();
        let ended = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?} {stderr}");
        assert!(stderr.contains("could not write the output"), "{arguments:?} {stderr}");
    }
}

#[test]
fn a_server_that_asks_for_patience_is_waited_for_and_people_are_told_once() {
    const BUSY: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-type: application/json\r\n\
        connection: close\r\n\r\n{\"code\":\"BACKEND_UNAVAILABLE\",\"message\":\"Later\"}";
    let address = breaking(BUSY);
    for (flags, n_told) in [(&["list"][..], 1), (&["list", "--quiet"], 0)] {
        let ended = run(forgerun(flags).env("FORGERUN_URL", format!("http://{address}")));
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let told = ended
            .stderr
            .lines()
            .filter(|line| line.contains("Later (BACKEND_UNAVAILABLE); trying again in 1 s"));
        assert_eq!(told.count(), n_told, "{}", ended.stderr);
    }
}

#[test]
fn what_others_wrote_does_not_draw_on_the_screen() {
    let address = breaking(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
          {\"job_id\":\"7\",\"state\":\"FAILED\",\"job_type\":\"a\\u202eb\\u001b[2Jc\",\"queue\":\"q\\u2066\"}",
    );
    let ended = run(forgerun(&["get", "7"]).env("FORGERUN_URL", format!("http://{address}")));
    assert!(ended.expect(0).contains("a b [2Jc"), "{:?} {}", ended.stdout, ended.stderr);
}
