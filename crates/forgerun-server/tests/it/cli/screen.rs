//! Terminals: none, and one of 80 columns. And what is made from the grammar.

use std::process::{Command, Stdio};

use super::{ask, command, dev};
use crate::process::{forgerun, run};

/// Runs a command on a terminal of 80 columns and gives what the screen got. `script` makes the
/// terminal.
fn on_a_terminal(server: &crate::process::Server, line: &str) -> String {
    let program = env!("CARGO_BIN_EXE_forgerun");
    let shell = format!("stty cols 80 rows 24; {program} {line}");
    let mut script = Command::new("script");
    script
        .args(["-qec", &shell, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR");
    script.env("FORGERUN_URL", format!("http://{}", server.address)).stdin(Stdio::null());
    String::from_utf8_lossy(&script.output().expect("`script` of util-linux").stdout).into_owned()
}

#[test]
fn a_table_fits_into_80_columns_with_colours_and_a_heading() {
    let server = dev();
    let queue = "a-queue-with-a-rather-long-name.and-even-more";
    let id = ask(&server, &["submit", "--type", "thumbnail", "--queue", queue]).expect(0).to_owned();
    let failed = ask(&server, &["submit", "--kind", "FAIL_IMMEDIATE", "--wait", "--json"]).json(3);
    let screen = on_a_terminal(&server, "list");
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[0].starts_with("ID") && lines[0].contains("STATE"), "{screen}");
    // The end of an id is enough for every command, and leaves room for names.
    let failed = failed["job_id"].as_str().unwrap();
    assert!(screen.contains(&id[24..]) && screen.contains(&failed[24..]), "{screen}");
    assert!(screen.contains("FAIL_IMMEDIATE") && screen.contains(&queue[..13]), "{screen}");
    assert!(screen.contains("\u{1b}[31mFAILED"), "{screen:?}");
    for line in lines {
        assert!(console::measure_text_width(line) <= 80, "{line:?}");
    }
}

#[test]
fn without_a_terminal_there_are_no_tables_colours_or_progress() {
    let server = dev();
    ask(&server, &["submit", "--kind", "FAIL_IMMEDIATE", "--wait"]).expect(3);
    for arguments in [
        &["list"][..],
        &["submit", "--kind", "FAIL_IMMEDIATE", "--wait"],
        &["submit", "--kind", "SUCCESS_FAST", "--wait"],
    ] {
        let ended = ask(&server, arguments);
        assert!(!(ended.stdout + &ended.stderr).contains('\u{1b}'), "{arguments:?}");
    }
    let listed = ask(&server, &["list"]);
    let fields: Vec<&str> = listed.expect(0).lines().next().unwrap().split('\t').collect();
    assert_eq!((fields.len(), fields[1]), (6, "SUCCEEDED"), "values between tabs, no heading");
}

#[test]
fn progress_is_shown_on_a_terminal_and_gone_at_the_end() {
    let server = dev();
    let screen = on_a_terminal(&server, "submit --kind SUCCESS_FAST --wait");
    assert!(screen.contains('\u{1b}'), "{screen:?}");
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = run(&mut forgerun(&["completions", shell]));
        assert!(ended.expect(0).contains("submit") && ended.stdout.contains("webhook"), "{shell}");
    }
    assert!(run(&mut forgerun(&["man"])).expect(0).contains(".TH forgerun 1"));
    assert!(run(&mut forgerun(&["man", "keys", "issue"])).expect(0).contains("rotate"));
    let folder = tempfile::tempdir().unwrap();
    run(&mut forgerun(&["man", "--dir", folder.path().to_str().unwrap()])).expect(0);
    assert!(folder.path().join("forgerun-submit.1").exists());
    assert!(folder.path().join("forgerun-worker-exec.1").exists());
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let about_help: Vec<_> = names.filter(|name| name.to_string_lossy().contains("help")).collect();
    assert!(about_help.is_empty(), "{about_help:?}");
}

#[test]
fn a_quiet_command_prints_nothing_but_the_answer() {
    let server = dev();
    let ended = run(&mut command(&server, &["submit", "--kind", "SUCCESS_FAST", "--quiet"]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn token_prints_another_long_token_each_time() {
    let token = || {
        let ended = run(&mut forgerun(&["token"]));
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        ended.stdout.trim().to_owned()
    };
    let first = token();
    assert!(first.len() == 64 && first.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");
    assert_ne!(first, token());
}
