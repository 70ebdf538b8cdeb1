//! `forgerun conformance` on our own server.

use std::fs;

use super::{serve, url};
use crate::cli::ask;
use crate::process::{forgerun, run};

#[test]
fn our_own_server_passes_all_four_contracts() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&folder.path().join("data"));
    let client = ask(&server, &["clients", "create"]).expect(0).to_owned();
    let key = ask(&server, &["keys", "issue", &client]).expect(0).to_owned();
    let junit = folder.path().join("junit.xml");
    let verdict = run(&mut forgerun(&[
        "conformance",
        &url(&server),
        "--key",
        &key,
        "--json",
        "--junit",
        junit.to_str().unwrap(),
    ]));
    let verdict = verdict.json(0);
    assert_eq!(verdict["findings"], serde_json::json!([]), "{verdict:#}");
    assert_eq!((&verdict["ok"], &verdict["level"]), (&true.into(), &"full".into()), "{verdict:#}");
    assert!(verdict["passed"].as_u64() > Some(60), "{verdict:#}");
    let junit = fs::read_to_string(junit).unwrap();
    for contract in ["problem", "async-members", "operations", "ojs"] {
        assert!(junit.contains(&format!("<testsuite name=\"conformance.{contract}\"")), "{junit}");
        let one = run(&mut forgerun(&["conformance", &url(&server), "--key", &key, "--contract", contract]));
        assert!(one.expect(0).ends_with("conforms"), "{}", one.stdout);
    }
    run(&mut forgerun(&["conformance", &url(&server), "--key", "wrong", "--contract", "operations"]))
        .expect(5);
}

#[test]
fn what_cannot_be_judged_ends_with_its_exit_code() {
    run(&mut forgerun(&["conformance", "http://127.0.0.1:9"])).expect(6);
    run(&mut forgerun(&["conformance", "ftp://example.org"])).expect(2);
    let unknown = run(&mut forgerun(&["conformance", "http://127.0.0.1:9", "--contract", "soap"]));
    unknown.expect(2);
    assert!(unknown.stderr.contains("async-members"), "{}", unknown.stderr);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    fs::write(&file, "[operations]\nsubmit = \"/tasks\"\nsucceed = {}\n").unwrap();
    let mistaken =
        run(&mut forgerun(&["conformance", "http://127.0.0.1:9", "--describe", file.to_str().unwrap()]));
    mistaken.expect(2);
    assert!(mistaken.stderr.contains("line 3, column 1"), "{}", mistaken.stderr);
}
