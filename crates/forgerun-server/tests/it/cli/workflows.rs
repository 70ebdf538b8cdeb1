//! Workflows on the command line.

use super::{ask, dev};

#[test]
fn a_workflow_is_submitted_shown_listed_retried_and_cancelled() {
    let server = dev();
    let good = r#"{"type":"chain","name":"good","steps":[{"work_kind":"SUCCESS_FAST"},{"work_kind":"SUCCESS_FAST"}]}"#;
    let submitted = ask(&server, &["workflows", "submit", good]);
    let id = submitted.expect(0);
    // Its own job has the same id.
    ask(&server, &["wait", id, "--timeout", "60s"]).expect(0);
    let shown = ask(&server, &["workflows", "show", id, "--json"]).json(0);
    assert_eq!((&shown["state"], &shown["steps_succeeded"]), (&"SUCCEEDED".into(), &2.into()));
    let table = ask(&server, &["workflows", "show", id]);
    assert!(table.expect(0).starts_with("0\tSUCCEEDED\t"), "{}", table.stdout);

    let bad = r#"{"type":"chain","steps":[{"work_kind":"FAIL_IMMEDIATE","options":{"retry":{"max_attempts":1}}},{"type":"a.b","args":[]}]}"#;
    let submitted = ask(&server, &["workflows", "submit", bad, "--idempotency-key", "k-1"]);
    let failing = submitted.expect(0);
    assert_eq!(ask(&server, &["workflows", "submit", bad, "--idempotency-key", "k-1"]).expect(0), failing);
    ask(&server, &["wait", failing, "--timeout", "60s"]).expect(3);
    let listed = ask(&server, &["workflows", "--state", "FAILED", "--json"]).json(0);
    assert_eq!(listed["workflows"][0]["workflow_id"], failing);
    assert_eq!(ask(&server, &["workflows", "retry", failing]).expect(0), "RUNNING");

    let real = r#"{"type":"group","jobs":[{"type":"a.b","args":[]}]}"#;
    let submitted = ask(&server, &["workflows", "submit", real]);
    let waiting = submitted.expect(0);
    assert_eq!(ask(&server, &["workflows", "cancel", waiting]).expect(0), "CANCELED");

    let undo = r#""compensate":{"type":"a.undo","args":[]}"#;
    let saga = format!(
        r#"{{"type":"chain","steps":[{{"work_kind":"SUCCESS_FAST",{undo}}},{{"type":"a.b","args":[]}}]}}"#
    );
    let submitted = ask(&server, &["workflows", "submit", &saga]);
    let saga = submitted.expect(0);
    let first_is_done = || {
        let shown = ask(&server, &["workflows", "show", saga, "--json"]).json(0);
        shown["steps"][0]["state"] == "SUCCEEDED"
    };
    // Each look is a process of its own, so this is no busy loop.
    while !first_is_done() {}
    ask(&server, &["workflows", "retry", saga, "--from", "x"]).expect(1);
    assert_eq!(ask(&server, &["workflows", "cancel", saga]).expect(0), "RUNNING");
    let table = ask(&server, &["workflows", "show", saga]);
    assert!(table.expect(0).contains("0 (compensation)\tQUEUED\ta.undo\t"), "{}", table.stdout);
    assert_eq!(ask(&server, &["workflows", "cancel", saga, "--no-compensate"]).expect(0), "CANCELED");
    assert_eq!(ask(&server, &["workflows", "retry", failing, "--from", "0"]).expect(0), "RUNNING");
    ask(&server, &["workflows", "submit", "{}"]).expect(1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.json");
    std::fs::write(&file, good).unwrap();
    let file = file.to_str().unwrap();
    for named in [file, &format!("@{file}")] {
        ask(&server, &["workflows", "submit", named]).expect(0);
    }
    for missing in ["nowhere.json", "@nowhere.json"] {
        let ended = ask(&server, &["workflows", "submit", missing]);
        assert!(ended.expect(2).is_empty());
        assert!(ended.stderr.contains("FILE: could not read nowhere.json: "), "{}", ended.stderr);
    }
}
