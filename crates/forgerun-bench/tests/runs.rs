//! Each benchmark that needs no broker runs to its end, shortly. The figures are not judged.

use std::process::Command;

#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_forgerun-bench"))
        .args(arguments)
        .env_remove("FORGERUN_BIN")
        .output();
    let run = run.expect("the program starts");
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{out}\n{err}");
    assert!(!out.contains("refused"), "{out}");
    out.into_owned()
}

#[test]
fn http_compares_with_handlers_that_store_nothing_and_with_the_least_durable_ones() {
    let table = printed(&["http", "--seconds", "1", "--rounds", "1", "--jobs", "640"]);
    for row in ["| submit | 64 |", "| submit, of the least that is durable | 256 |", "640 whole jobs"] {
        assert!(table.contains(row), "{row} is not in\n{table}");
    }
}

#[test]
fn ojs_measures_external_workers() {
    let table = printed(&["ojs", "--seconds", "1", "--rounds", "1", "--jobs", "50"]);
    assert!(table.contains("whole jobs"), "{table}");
}

#[test]
fn grpc_measures_streams() {
    let table = printed(&["grpc", "--seconds", "1", "--rounds", "1", "--jobs", "50"]);
    assert!(table.contains("jobs streamed and acknowledged"), "{table}");
}

#[test]
fn a_large_result_is_downloaded_and_resumed() {
    let lines = printed(&["result", "--mb", "4", "--rounds", "1"]);
    assert!(lines.contains("the digest is that of the whole"), "{lines}");
}

#[test]
fn a_binary_that_does_not_exist_is_named() {
    let run = Command::new(env!("CARGO_BIN_EXE_forgerun-bench"))
        .args(["ojs", "--seconds", "1"])
        .env("FORGERUN_BIN", "/nowhere/forgerun")
        .output()
        .expect("the program starts");
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains("/nowhere/forgerun"), "{run:?}");
}
