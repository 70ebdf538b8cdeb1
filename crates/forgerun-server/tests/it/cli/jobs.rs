//! Submitting, looking, waiting, fetching.

use std::io::Write;
use std::process::Stdio;

use super::{ask, command, dev};
use crate::process::{Server, forgerun, run};

#[test]
fn a_job_is_submitted_waited_for_and_fetched() {
    let server = dev();
    let submitted = ask(&server, &["submit", "--kind", "SUCCESS_FAST"]);
    let id = submitted.expect(0).to_owned();
    assert_eq!((id.len(), submitted.stderr.as_str()), (36, ""), "the id alone");
    assert_eq!(ask(&server, &["wait", &id]).expect(0), "SUCCEEDED");
    let job = ask(&server, &["get", &id, "--json"]).json(0);
    assert_eq!((job["job_id"].as_str(), job["state"].as_str()), (Some(id.as_str()), Some("SUCCEEDED")));
    let shown = ask(&server, &["get", &id]);
    assert!(shown.expect(0).contains("SUCCESS_FAST") && shown.stdout.contains("Z  ("), "{}", shown.stdout);
    let listed = ask(&server, &["list", "--state", "succeeded", "--json"]).json(0);
    assert_eq!(listed["jobs"][0]["job_id"], id.as_str());
    let report = ask(&server, &["report", &id, "--json"]).json(0);
    assert_eq!((&report["outcome"], &report["attempts"]), (&"SUCCESS".into(), &1.into()));
    let told = ask(&server, &["report", &id]);
    assert!(told.expect(0).lines().next().unwrap().ends_with(", 1 attempt"), "{}", told.stdout);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let saved = ask(&server, &["result", &id, "-o", file.to_str().unwrap()]);
    assert_eq!(saved.expect(0), "");
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(ask(&server, &["result", &id]).stdout.as_bytes(), bytes);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn submit_and_wait_prints_what_came_out() {
    let server = dev();
    let done = ask(&server, &["submit", "--kind", "SUCCESS_FAST", "--wait=60s"]);
    let id = done.stderr.lines().next().unwrap().to_owned();
    assert_eq!(done.expect(0), ask(&server, &["result", &id]).expect(0));
    let job = ask(&server, &["submit", "--kind", "SUCCESS_FAST", "--wait", "--json"]).json(0);
    assert_eq!(job["state"], "SUCCEEDED");
    let quiet = ask(&server, &["submit", "--kind", "SUCCESS_FAST", "--wait", "--quiet"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(0), ""));
    let report = ask(
        &server,
        &["submit", "--operation", "reports/generate", "--payload", "{\"type\":\"x\"}", "--wait"],
    );
    assert!(report.expect(0).contains("reportId"), "{}", report.stdout);
}

#[test]
fn a_failure_is_explained_and_ends_with_3() {
    let server = dev();
    let failed = ask(&server, &["submit", "--kind", "FAIL_IMMEDIATE", "--wait"]);
    assert_eq!(failed.expect(3), "");
    for words in ["FAILED: ", "Another try would", &format!("http://{}/problems/", server.address)] {
        assert!(failed.stderr.contains(words), "{words} in {}", failed.stderr);
    }
    let object = ask(&server, &["submit", "--kind", "FAIL_AFTER_RETRYABLE", "--wait", "--json"]).json(3);
    assert_eq!((&object["jobStatus"], &object["retryable"]), (&"FAILED".into(), &true.into()));
    let id = object["job_id"].as_str().unwrap();
    let waited = ask(&server, &["wait", id]);
    assert_eq!(waited.expect(3), "FAILED");
    assert!(waited.stderr.contains(&format!("forgerun retry {id}")), "{}", waited.stderr);
    assert_eq!(ask(&server, &["retry", id]).expect(0), "QUEUED");
}

#[test]
fn a_wait_that_takes_too_long_ends_with_4_and_cancel_ends_the_job() {
    let server = dev();
    let id = ask(&server, &["submit", "--kind", "SUCCESS_FAST", "--at", "+1h"]).expect(0).to_owned();
    assert!(ask(&server, &["wait", &id, "--timeout", "50ms"]).stderr.contains("did not end"));
    ask(&server, &["wait", &id, "--timeout", "50ms"]).expect(4);
    assert_eq!(ask(&server, &["cancel", &id]).expect(0), "CANCELED");
    assert_eq!(ask(&server, &["cancel", &id, "--json"]).json(0)["state"], "CANCELED");
    ask(&server, &["wait", &id]).expect(3);
    for timeout in ["0s", "1ms"] {
        assert_eq!(ask(&server, &["wait", &id, "--timeout", timeout]).expect(3), "CANCELED");
    }
    ask(&server, &["wait", "019a0000-0000-7000-8000-000000000000", "--timeout", "0s"]).expect(1);
    ask(&server, &["result", &id]).expect(1);
}

#[test]
fn watch_follows_a_job_to_its_end() {
    let server = dev();
    let id = ask(&server, &["submit", "--kind", "SUCCESS_FAST"]).expect(0).to_owned();
    let watched = ask(&server, &["watch", &id]);
    let names: Vec<&str> =
        watched.expect(0).lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(names.first(), Some(&"created"));
    assert_eq!(names.last(), Some(&"completed"));
    let lines = ask(&server, &["watch", &id, "--json"]);
    assert!(lines.expect(0).lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
}

#[test]
fn the_same_key_is_the_same_job_and_payloads_come_from_anywhere() {
    let server = dev();
    let submit =
        ["submit", "--type", "thumbnail", "--queue", "images", "--idempotency-key", "k", "--payload"];
    let direct = ask(&server, &[&submit[..], &[r#"{"a":1}"#]].concat()).expect(0).to_owned();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("payload.json");
    std::fs::write(&file, r#"{"a":1}"#).unwrap();
    let at = format!("@{}", file.display());
    assert_eq!(ask(&server, &[&submit[..], &[&at]].concat()).expect(0), direct);
    let mut piped = command(&server, &[&submit[..], &["-"]].concat());
    let mut child = piped.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(br#"{"a":1}"#).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(ended.stdout).unwrap().trim_end(), direct);
    let job = ask(&server, &["get", &direct, "--json"]).json(0);
    assert_eq!(
        (&job["queue"], &job["state"]),
        (&"images".into(), &"QUEUED".into()),
        "real work waits for a worker"
    );
}

#[test]
fn named_keys_are_made_listed_replaced_and_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve =
        forgerun(&["serve", "--listen", "127.0.0.1:0", "--data", folder.path().to_str().unwrap()]);
    let server = Server::start(&mut serve);
    let client = ask(&server, &["clients", "create"]).expect(0).to_owned();
    let primary = ask(&server, &["keys", "issue", &client]).expect(0).to_owned();
    let issue = ["keys", "issue", &client, "--name", "ci", "--scopes", "submit,read", "--key", &primary];
    let made = ask(&server, &[&issue[..], &["--expires", "30d", "--json"]].concat()).json(0);
    assert_eq!(made["scopes"], serde_json::json!(["submit", "read"]));
    let secret = made["api_key"].as_str().unwrap();
    ask(&server, &["list", "--key", secret]).expect(0);
    let denied = ask(&server, &["schedules", "set", "s", "--cron", "@daily", "--type", "t", "--key", secret]);
    denied.expect(5);
    assert!(denied.stderr.contains("manage"), "{}", denied.stderr);
    ask(&server, &issue).expect(1);
    let rotated = ask(&server, &[&issue[..], &["--rotate", "--overlap", "1h"]].concat());
    rotated.expect(0);
    ask(&server, &["list", "--key", secret]).expect(0);
    let listed = ask(&server, &["keys", "list", &client, "--key", &primary]);
    assert!(
        listed.expect(0).contains("replaced") && listed.stdout.contains("submit,read"),
        "{}",
        listed.stdout
    );
    assert!(!listed.stdout.contains(&primary));
    let key_id = made["key_id"].as_str().unwrap();
    ask(&server, &["keys", "revoke", &client, key_id, "--key", &primary]).expect(0);
    ask(&server, &["list", "--key", secret]).expect(5);
    let renewed = ask(&server, &["keys", "renew", &client, "--overlap", "1h", "--key", &primary]);
    renewed.expect(0);
    ask(&server, &["list", "--key", &primary]).expect(0);
    ask(&server, &["keys", "issue", &client, "--scopes", "read"]).expect(2);
    ask(&server, &["keys", "issue", &client, "--name", "x", "--scopes", "root", "--key", &primary]).expect(1);
}

#[test]
fn clients_and_keys_are_made_and_a_bad_key_ends_with_5() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve =
        forgerun(&["serve", "--listen", "127.0.0.1:0", "--data", folder.path().to_str().unwrap()]);
    let server = Server::start(&mut serve);
    let client = ask(&server, &["clients", "create"]).expect(0).to_owned();
    let issued = ask(&server, &["keys", "issue", &client]);
    let key = issued.expect(0).to_owned();
    assert!(key.starts_with("frk_") && issued.stderr.contains("not shown again"), "{key} {}", issued.stderr);
    ask(&server, &["list"]).expect(5);
    ask(&server, &["list", "--key", "frk_wrong"]).expect(5);
    ask(&server, &["list", "--key", &key]).expect(0);
    let renewed = ask(&server, &["keys", "renew", &client, "--key", &key, "--json"]).json(0);
    let (secret, key_id) = (renewed["api_key"].as_str().unwrap(), renewed["key_id"].as_str().unwrap());
    let mut revoke = command(&server, &["keys", "revoke", &client, key_id]);
    assert_eq!(run(revoke.env("FORGERUN_API_KEY", secret)).code, Some(0));
    let denied = ask(&server, &["list", "--key", secret]);
    denied.expect(5);
    assert!(
        denied.stderr.contains("FORGERUN_API_KEY") && !denied.stderr.contains(secret),
        "{}",
        denied.stderr
    );
}

#[test]
fn what_cannot_be_meant_ends_with_2() {
    let server = dev();
    for (arguments, words) in [
        (&["submit", "--payload", "{", "--type", "t"][..], "is no JSON"),
        (&["submit", "--payload", "@/nowhere.json"], "/nowhere.json"),
        (&["submit", "--type", "t", "--at", "tomorrow"], "+10m"),
        (&["submit", "--queue", "q"], "--operation"),
        (&["schedules", "set", "s", "--cron", "@daily"], "--type"),
        (&["submit", "--wait=soon"], "1h30m"),
        (&["submit", "--operation", "a/b", "--kind", "K"], "--kind"),
        (&["wait", "x", "--timeout", "5"], "500ms"),
        (&["list", "--limit", "0"], "1..="),
        (&["get"], "<ID>"),
        (&["list", "--url", "ftp://a"], "http://"),
        (&["list", "--url", "127.0.0.1:8080"], "must begin with http://"),
        (&["get", ""], "<ID>"),
        (&["watch", ""], "[ID]"),
        (&["schedules", "show", ""], "<NAME>"),
        (&["workflows", "show", ""], "<ID>"),
        (&["queues", "pause", ""], "<QUEUE>"),
        (&["failures", "show", ""], "<GROUP>"),
        (&["keys", "issue", ""], "<CLIENT_ID>"),
        (&["man", "nothing"], "nothing"),
    ] {
        let ended = ask(&server, arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?} {}", ended.stderr);
        assert!(ended.stderr.contains(words), "{words} in {}", ended.stderr);
    }
    let unknown = ask(&server, &["submit", "--operation", "reports/nope"]);
    assert!(unknown.expect(1).is_empty());
    assert!(unknown.stderr.contains("no operation \"reports/nope\""), "{}", unknown.stderr);
    let missing = ask(&server, &["get", "019a0000-0000-7000-8000-000000000000"]);
    assert!(
        missing.expect(1).is_empty() && missing.stderr.contains("RFA_JOB_NOT_FOUND"),
        "{}",
        missing.stderr
    );
}
