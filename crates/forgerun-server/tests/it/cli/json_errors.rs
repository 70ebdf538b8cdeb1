//! With `--json` an error is one problem object on standard error, whatever went wrong.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use forgerun_store::testing::free_port;
use serde_json::Value;

use super::{ask, dev};
use crate::process::{Ended, forgerun, run};

/// The problem object of a command that ended with this code and printed nothing else.
#[track_caller]
fn problem(ended: &Ended, code: u8) -> Value {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(code.into()), ""), "{}", ended.stderr);
    let problem: Value =
        serde_json::from_str(&ended.stderr).unwrap_or_else(|error| panic!("{error} in {}", ended.stderr));
    assert_eq!(problem["exit_code"], code, "{problem}");
    for member in ["type", "title", "detail"] {
        assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member} in {problem}");
    }
    assert!(problem["status"].as_u64().is_some_and(|status| (400..600).contains(&status)), "{problem}");
    problem
}

#[test]
fn every_error_is_one_problem_object() {
    let server = dev();
    let missing = problem(&ask(&server, &["get", "019a0000-0000-7000-8000-000000000000", "--json"]), 1);
    assert_eq!((&missing["status"], &missing["code"]), (&404.into(), &"RFA_JOB_NOT_FOUND".into()));
    for (arguments, status) in [
        (&["submit", "--queue", "q", "--json"][..], 400),
        (&["submit", "--payload", "@/nowhere.json", "--type", "t", "--json"], 400),
        (&["workflows", "submit", "nowhere.json", "--json"], 400),
        (&["list", "--limit", "0", "--json"], 400),
        (&["list", "--json", "--url", "ftp://a"], 400),
        (&["worker", "exec", "--json", "--", "/no/such/program"], 400),
        (&["sevre", "--json"], 400),
    ] {
        assert_eq!(problem(&ask(&server, arguments), 2)["status"], status, "{arguments:?}");
    }
    assert_eq!(problem(&ask(&server, &["queues", "pause", "nowhere", "--json"]), 1)["status"], 404);
    let late = problem(&ask(&server, &["submit", "--type", "t", "--wait=1s", "--json"]), 4);
    assert!(late["job_id"].as_str().is_some_and(|id| id.len() == 36), "{late}");
    let free = format!("http://127.0.0.1:{}", free_port());
    for arguments in [&["list", "--json"][..], &["worker", "exec", "--json", "--", "cat"]] {
        let away = problem(&run(forgerun(arguments).env("FORGERUN_URL", &free)), 6);
        assert_eq!((&away["status"], &away["retryable"]), (&503.into(), &true.into()));
    }
    // What a program of a worker takes is no flag of ours.
    let ended = ask(&server, &["worker", "exec", "--", "/no/such/program", "--json"]);
    assert!(ended.stderr.starts_with("forgerun: "), "{}", ended.stderr);
}

#[test]
fn the_server_of_another_scheme_is_named() {
    let server = dev();
    let ended = run(forgerun(&["list"]).env("FORGERUN_URL", format!("https://{}", server.address)));
    assert_eq!(ended.code, Some(6), "{}", ended.stderr);
    let address = server.address;
    let words = format!("the server at {address} answers plain http; use http://{address}");
    assert!(ended.stderr.contains(&words), "{}", ended.stderr);

    // Where TLS is expected, plain http is answered with an alert.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((mut connection, _)) = listener.accept() {
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(&[0x15, 3, 3, 0, 2, 2, 0x46]);
        }
    });
    let ended = run(forgerun(&["list"]).env("FORGERUN_URL", format!("http://{address}")));
    assert_eq!(ended.code, Some(6), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("use https://{address}")), "{}", ended.stderr);
}
