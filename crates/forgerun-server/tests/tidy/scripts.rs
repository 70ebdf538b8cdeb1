//! The scripts that a fresh machine runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::repo;

/// Runs `apt-get-patiently` with an `apt-get` that does what `script` says, and counts its calls in
/// the file `calls`.
fn with_apt_get(folder: &Path, script: &str) -> Output {
    let apt_get = folder.join("apt-get");
    fs::write(&apt_get, format!("#!/bin/sh\necho x >>{}/calls\n{script}\n", folder.display())).unwrap();
    fs::set_permissions(&apt_get, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(repo::root().join("scripts/apt-get-patiently"));
    command
        .args(["install", "x"])
        .env("PATH", path)
        .env("APT_PAUSE_S", "0")
        .env("APT_TRIES", "5")
        .output()
        .unwrap()
}

fn n_calls(folder: &Path) -> usize {
    fs::read_to_string(folder.join("calls")).unwrap().lines().count()
}

#[test]
fn an_installation_waits_for_another_package_manager() {
    let folder = tempfile::tempdir().unwrap();
    let busy = format!(
        "[ $(wc -l <{}/calls) -ge 3 ] || {{ echo 'E: Could not get lock /var/lib/apt/lists/lock' >&2; exit 100; }}",
        folder.path().display()
    );
    assert!(with_apt_get(folder.path(), &busy).status.success());
    assert_eq!(n_calls(folder.path()), 3);
}

#[test]
fn an_installation_gives_up_in_the_end_and_at_once_on_anything_else() {
    for (complaint, expected) in [("E: Could not get lock", 5), ("E: Unable to locate package x", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let output = with_apt_get(folder.path(), &format!("echo '{complaint}' >&2; exit 100"));
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(complaint));
        assert_eq!(n_calls(folder.path()), expected, "{complaint}");
    }
}

/// What `count-tests` says of a log, and whether it is content.
fn counted(log: &str) -> (String, bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, log).unwrap();
    let output = Command::new(repo::root().join("scripts/count-tests")).arg(path).output().unwrap();
    (String::from_utf8(output.stdout).unwrap().trim_end().to_owned(), output.status.success())
}

#[test]
fn the_tests_of_every_language_are_counted() {
    for (log, expected, is_good) in [
        (
            "test result: ok. 48 passed; 0 failed; 2 ignored; 0 measured",
            "48 passed, 0 failed, 2 skipped",
            true,
        ),
        ("=== 1 failed, 12 passed, 3 warnings in 3.21s ===", "12 passed, 1 failed", false),
        ("12 passed in 3.21s", "12 passed, 0 failed", true),
        ("3 passed, 1 error in 63.21s (0:01:03)", "3 passed, 1 failed", false),
        ("# tests 4\n# pass 4\n# fail 0\n# skipped 0", "4 passed, 0 failed", true),
        ("\u{2139} pass 4\n\u{2139} fail 1", "4 passed, 1 failed", false),
        (
            "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/b (0.00s)",
            "1 passed, 0 failed",
            true,
        ),
        ("--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)", "1 passed, 1 failed", false),
        ("FAIL\texample.org/a [build failed]", "0 passed, 1 failed", false),
        ("SDK go: 5 passed, 0 failed in 7 s", "0 passed, 0 failed", false),
    ] {
        assert_eq!(counted(log), (expected.to_owned(), is_good), "{log}");
    }
}
