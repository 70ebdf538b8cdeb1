//! Servers that are not there, or go away in the middle; readers who have had enough.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::thread;

use forge_store::testing::free_port;

use super::{ask, command, dev};
use crate::process::{forgerun, run};

/// Every command that talks to a server.
const COMMANDS: [&[&str]; 13] = [
    &["submit"],
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
fn breaking(answer: &'static [u8]) -> SocketAddr {
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
