//! What is under `deploy/`, checked by programs that are not ours.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::{Server, forgerun};
use crate::rabbitmq::python;

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

#[test]
fn the_manifests_are_what_kubernetes_knows() {
    let mut command = Command::new(python().with_file_name("kubernetes-validate"));
    let output = command.arg("--strict").arg(deploy("kubernetes.yaml")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for kind in ["deployment", "service", "poddisruptionbudget"] {
        assert!(said.contains(&format!("passed for resource {kind}/forgerun")), "{said}");
    }
}

/// What a checker of compose files says about this one, and whether it is content. It knows the
/// schema of the Compose Specification.
fn judge(file: &Path) -> (bool, String) {
    let dclint = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tools/node_modules/.bin/dclint");
    assert!(dclint.exists(), "{} is missing: run `make tools`", dclint.display());
    let output = Command::new(dclint).args(["--quiet", "--color=false"]).arg(file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said.into_owned())
}

#[test]
fn the_compose_file_is_one_and_names_what_it_uses() {
    let (is_good, said) = judge(&deploy("compose.yml"));
    assert!(is_good, "{said}");
    let text = std::fs::read_to_string(deploy("compose.yml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("compose.yml");
    std::fs::write(&wrong, text.replace("restart:", "restrat:")).unwrap();
    let (is_good, said) = judge(&wrong);
    assert!(!is_good && said.contains("invalid-schema"), "the checker sees mistakes: {said}");
    for node in ["node-1", "node-2", "node-3"] {
        assert!(text.contains(&format!("server {node} {node}:8080")), "the balancer knows {node}");
    }
}

/// Runs promtool in a folder; returns whether it is content, and what it says.
fn promtool(folder: &Path, arguments: &[&str], input: &str) -> (bool, String) {
    let mut command = Command::new("promtool");
    command.current_dir(folder).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool is missing: run `scripts/install-test-tools`");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said.into_owned())
}

#[test]
fn prometheus_takes_the_alert_rules_and_they_fire_when_they_should() {
    let folder = tempfile::tempdir().unwrap();
    let rules = std::fs::read_to_string(deploy("alerts.yml")).unwrap();
    let (file, tests) = (folder.path().join("alerts.yml"), include_str!("deploy/alerts.test.yml"));
    std::fs::write(folder.path().join("test.yml"), tests).unwrap();
    std::fs::write(&file, &rules).unwrap();
    std::fs::copy(deploy("prometheus.yml"), folder.path().join("prometheus.yml")).unwrap();
    for arguments in [
        &["check", "rules", "alerts.yml"],
        &["check", "config", "prometheus.yml"],
        &["test", "rules", "test.yml"],
    ] {
        let (is_good, said) = promtool(folder.path(), arguments, "");
        assert!(is_good, "{arguments:?}: {said}");
    }
    std::fs::write(
        &file,
        rules.replace("(forgerun_queue_unattended) == 1", "(forgerun_queue_unattended) == 0"),
    )
    .unwrap();
    let (is_good, said) = promtool(folder.path(), &["test", "rules", "test.yml"], "");
    assert!(!is_good && said.contains("ForgeRunWorkersGone"), "the tests see mistakes: {said}");
}

#[test]
fn prometheus_can_read_a_scrape() {
    let server =
        Server::start(forgerun(&["dev", "--listen", "127.0.0.1:0"]).env("FORGERUN_LOG__LEVEL", "error"));
    let answer = server.get("/metrics");
    let (_, text) = answer.split_once("\r\n\r\n").expect("a response has a head");
    let (is_good, said) = promtool(Path::new("."), &["check", "metrics"], text);
    assert!(is_good, "{said}");
}
