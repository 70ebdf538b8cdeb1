//! The scripts that a fresh machine runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::repo;

/// Runs `apt-get-patiently` with an `apt-get` that does what `script` says, and counts its calls in the file `calls`.
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
