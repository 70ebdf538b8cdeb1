//! What the operator asks on the command line: failures, redrives, clients; and a redrive that
//! survives the death of its server.

use serde_json::Value;

use super::{ask, dev};
use crate::process::{Server, forgerun, run};

const TOKEN: &str = "the-operator-and-nobody-else";

/// Jobs that fail for good at once.
fn fail(server: &Server, n: usize) {
    for _ in 0..n {
        ask(server, &["submit", "--kind", "FAIL_IMMEDIATE", "--wait=120s"]).expect(3);
    }
}

/// The only group of failures there is.
fn group(server: &Server) -> Value {
    let listed = ask(server, &["failures", "--since", "1h", "--json"]).json(0);
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    listed["items"][0].clone()
}

#[test]
fn failures_are_listed_shown_and_tried_again() {
    let server = dev();
    assert_eq!(ask(&server, &["failures"]).expect(0), "");
    fail(&server, 2);
    let found = group(&server);
    assert_eq!(found["count"], 2);
    let id = found["group"].as_str().unwrap();
    let table = ask(&server, &["failures"]);
    assert!(table.expect(0).starts_with(&format!("{id}\t2\t")), "{}", table.stdout);
    assert_eq!(ask(&server, &["failures", "show", id, "--json"]).json(0)["message"], found["message"]);
    assert!(ask(&server, &["failures", "show", id]).expect(0).contains("24 hours"));
    ask(&server, &["failures", "show", "0000000000000001"]).expect(1);

    let preview = ask(&server, &["redrive", id, "--dry-run", "--limit", "1"]);
    assert_eq!(preview.expect(0), "1 of 2 jobs would be tried again");
    ask(&server, &["redrive", id]).expect(2);
    let begun = ask(&server, &["redrive", id, "--yes", "--json"]).json(0);
    assert_eq!((&begun["matched"], begun["job_id"].as_str().map(str::len)), (&2.into(), Some(36)));
    let clients = ask(&server, &["clients", "--json"]).json(0);
    assert!(clients["items"].as_array().is_some_and(|clients| !clients.is_empty()), "{clients}");
}

#[test]
fn clients_are_named_and_listed_with_their_names() {
    let server = dev();
    let made = ask(&server, &["clients", "create", "--name", "Billing", "--json"]).json(0);
    assert_eq!(made["name"], "Billing");
    let id = made["client_id"].as_str().unwrap();
    let listed = ask(&server, &["clients"]);
    assert!(
        listed.expect(0).lines().any(|line| line.starts_with(id) && line.ends_with("Billing")),
        "{}",
        listed.stdout
    );
    let admin = &["clients", "name", "--admin-token", "x", id, "Shipping"];
    let refused = ask(&server, admin);
    refused.expect(5);
}

#[test]
fn the_operators_token_shows_queues_and_workers_of_all_clients() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let mut serve = forgerun(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
    let server = Server::start(serve.env("FORGERUN_AUTH__ADMIN_TOKEN", TOKEN));
    let operator =
        |arguments: &[&str]| run(super::command(&server, arguments).env("FORGERUN_ADMIN_TOKEN", TOKEN));
    let queues = operator(&["queues", "--json"]).json(0);
    assert_eq!(queues["items"][0]["name"], "default");
    assert_eq!(operator(&["queues", "pause", "default"]).expect(0), "paused");
    assert_eq!(operator(&["queues", "--json"]).json(0)["items"][0]["paused"], true);
    assert_eq!(operator(&["queues", "resume", "default"]).expect(0), "active");
    assert_eq!(operator(&["workers", "--json"]).json(0)["items"], serde_json::json!([]));
    ask(&server, &["failures"]).expect(5);
}

#[test]
fn whoever_lacks_the_operators_token_is_told_how_to_give_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve =
        forgerun(&["serve", "--listen", "127.0.0.1:0", "--data", folder.path().to_str().unwrap()]);
    let server = Server::start(serve.env("FORGERUN_AUTH__ADMIN_TOKEN", TOKEN));
    for arguments in [
        &["failures"][..],
        &["failures", "--admin-token", "another-token-than-the-right-one"],
        &["clients"],
        &["redrive", "0000000000000001", "--yes"],
        &["workers", "--admin-token", "another-token-than-the-right-one"],
    ] {
        let denied = ask(&server, arguments);
        assert!(denied.expect(5).is_empty());
        assert!(denied.stderr.contains("--admin-token or FORGERUN_ADMIN_TOKEN"), "{}", denied.stderr);
        assert!(!denied.stderr.contains("FORGERUN_API_KEY"), "{}", denied.stderr);
    }
    let denied = ask(&server, &["workers"]);
    assert!(denied.expect(5).is_empty() && denied.stderr.contains("FORGERUN_API_KEY"), "{}", denied.stderr);
}
