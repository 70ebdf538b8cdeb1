//! What is under `deploy/`, checked by programs that are not ours.

use std::path::{Path, PathBuf};
use std::process::Command;

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
