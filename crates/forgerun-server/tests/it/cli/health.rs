//! `health`, as probes of containers call it, and `--version`.

use super::faults::breaking;
use super::{ask, dev};
use crate::process::{forgerun, run};

#[test]
fn a_server_that_works_is_healthy_and_ready() {
    let server = dev();
    assert_eq!(ask(&server, &["health"]).expect(0), "ok");
    assert_eq!(ask(&server, &["health", "--ready"]).expect(0), "ready");
    assert_eq!(ask(&server, &["health", "--ready", "--json"]).json(0)["status"], "ready");
    assert_eq!(ask(&server, &["health", "--key", "wrong"]).expect(0), "ok");
}

#[test]
fn a_server_that_is_not_ready_ends_the_probe_with_1_and_says_why() {
    let address = breaking(
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 68\r\n\r\n\
          {\"status\":\"not ready\",\"reason\":\"store\",\"code\":\"STORAGE_UNAVAILABLE\"}",
    );
    let ended = run(forgerun(&["health", "--ready"]).env("FORGERUN_URL", format!("http://{address}")));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("not ready: store"), "{}", ended.stderr);
}

#[test]
fn something_else_at_the_address_ends_the_probe_with_1() {
    let address = breaking(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n{\"status\":\"up\"}",
    );
    let ended = run(forgerun(&["health"]).env("FORGERUN_URL", format!("http://{address}")));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("/health did not answer"), "{}", ended.stderr);
}

#[test]
fn the_version_names_commit_and_features() {
    let ended = run(&mut forgerun(&["--version"]));
    let begin = format!("forgerun {} (commit: ", env!("CARGO_PKG_VERSION"));
    let version = ended.expect(0);
    assert!(version.starts_with(&begin), "{version}");
    assert_eq!(
        version.contains("; features: amqp grpc kafka nats s3)"),
        cfg!(feature = "kafka"),
        "{version}"
    );
}
