//! Starting, answering, stopping.

use std::io::{Read, Write};
use std::net::TcpListener;

use forgerun_wire::forge::read_submit;
use forgerun_wire::members::UnknownMembers;

use crate::process::{Server, forgerun, run};

fn serve() -> Server {
    Server::start(&mut forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", "memory:"]))
}

#[test]
fn serve_announces_its_address_answers_and_stops_on_sigterm_and_sigint() {
    for signal in ["TERM", "INT"] {
        let server = serve();
        assert_eq!(server.first_line, format!("forgerun listening on http://{}\n", server.address));
        assert_ne!(server.address.port(), 0);
        let answer = server.get("/health");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n{\"status\":\"ok\"}\n"), "{answer}");
        server.signal(signal);
        let ended = server.wait();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    }
}

#[test]
fn idle_connections_do_not_hold_up_the_stop() {
    let server = serve();
    let mut used = server.connect();
    used.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = [0; 15];
    used.read_exact(&mut answer).unwrap();
    let _fresh = server.connect();
    server.signal("TERM");
    let ended = server.wait();
    assert_eq!(ended.code, Some(0));
    assert!(!ended.stderr.contains("still open"), "{}", ended.stderr);
}

#[test]
fn a_second_signal_does_not_wait_for_an_unfinished_request() {
    let mut server = serve();
    let mut unfinished = server.connect();
    unfinished.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
    // Connections are accepted in order, so an answer on a later one shows that this one is in
    // hand.
    server.get("/health");
    server.signal("TERM");
    server.wait_for_log("\"stopping\"");
    server.signal("TERM");
    let ended = server.wait();
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.contains("stopped at once"), "{}", ended.stderr);
}

#[test]
fn logs_are_json_on_standard_error() {
    let server = serve();
    server.signal("TERM");
    let log = server.wait().stderr;
    assert!(log.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{log}");
    assert!(log.contains("\"message\":\"listening\""), "{log}");
}

#[test]
fn dev_prints_commands_to_try_after_the_first_line() {
    let server = Server::start(&mut forgerun(&["dev", "--listen", "127.0.0.1:0"]));
    assert!(server.get("/health").starts_with("HTTP/1.1 200 OK\r\n"));
    let submit =
        format!("curl -i http://{}/v1/jobs -H 'Content-Type: application/json' -d '", server.address);
    server.signal("TERM");
    let ended = server.wait();
    assert_eq!(ended.code, Some(0));
    let body = ended.stdout.split(&submit).nth(1).and_then(|rest| rest.split('\'').next());
    let body = body.unwrap_or_else(|| panic!("no submission in {}", ended.stdout));
    read_submit(body.as_bytes(), UnknownMembers::Refuse)
        .expect("what it prints can be submitted as it stands");
    assert!(!ended.stderr.starts_with('{'), "{}", ended.stderr);
}

#[test]
fn an_address_that_is_taken_ends_with_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = run(&mut forgerun(&["serve", "--listen", &address, "--database-url", "memory:"]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains(&format!("could not listen on {address}")), "{}", ended.stderr);
    assert!(ended.stderr.contains("--listen"), "{}", ended.stderr);
}

#[test]
fn a_second_server_on_one_sqlite_file_says_so_and_works() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let start = || Server::start(&mut forgerun(&["serve", "--listen", "127.0.0.1:0", "--data", data]));
    let first = start();
    let second = start();
    assert!(second.get("/ready").starts_with("HTTP/1.1 200"));
    let ended = |server: Server| {
        server.signal("KILL");
        server.wait().stderr
    };
    let told = "database file shared: another server uses it, too";
    assert!(!ended(first).contains(told));
    assert!(ended(second).contains(told));
    let third = start();
    assert!(!ended(third).contains(told), "the others were killed, and are not there any more");
}

#[cfg(unix)]
#[test]
fn what_the_server_keeps_is_for_its_own_user_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("deep").join("data");
    let mut command = Command::new("sh");
    let start = "umask 000; exec \"$0\" serve --listen 127.0.0.1:0 --data \"$1\"";
    command.args(["-c", start, env!("CARGO_BIN_EXE_forgerun")]).arg(&data);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let server = Server::start(&mut command);
    assert!(server.get("/ready").starts_with("HTTP/1.1 200"));
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(data.parent().unwrap()), 0o700);
    let mut n_files = 0;
    for file in std::fs::read_dir(&data).unwrap() {
        let path = file.unwrap().path();
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
        n_files += 1;
    }
    assert!(n_files >= 2, "the database and its log");
}
