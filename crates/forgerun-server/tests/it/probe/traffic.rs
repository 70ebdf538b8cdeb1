//! `forgerun traffic` on servers of its own: every scenario comes out clean, also while the server
//! is killed.

use std::fs;
use std::thread;

use serde_json::Value;

use crate::process::{forgerun, run};

/// A short run of a scenario, with a server of its own.
fn play(scenario: &str, more: &[&str]) -> Value {
    let mut arguments = vec!["traffic", scenario, "--self", "--duration", "1500ms", "--json", "-"];
    arguments.extend(more);
    let ended = run(&mut forgerun(&arguments));
    let summary = ended.json(0);
    assert_eq!(summary["ok"], true, "{summary:#}");
    let jobs = &summary["jobs"];
    let n = |name: &str| jobs[name].as_u64().unwrap();
    assert!(n("accepted") > 0 && n("unfinished") == 0, "{summary:#}");
    summary
}

#[test]
fn every_scenario_comes_out_clean() {
    let scenarios = [
        ("steady", "40"),
        ("burst", "100"),
        ("mixed", "40"),
        ("failures", "40"),
        ("idempotency-storm", "20"),
        ("cancel-race", "40"),
        ("webhook-storm", "30"),
        ("slow-consumers", "20"),
        ("batches", "10"),
        ("abuse", "40"),
        ("key-rotation", "10"),
        ("workers", "30"),
        ("flows", "10"),
    ];
    // Most of the time is waiting, as clients do that obey Retry-After.
    for four in scenarios.chunks(4) {
        thread::scope(|scope| {
            for (name, rate) in four {
                scope.spawn(move || play(name, &["--rate", rate]));
            }
        });
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let summary = play("steady", &["--rate", "60", "--kill", "2"]);
    assert_eq!(summary["kills"], 2, "{summary:#}");
    assert_eq!(
        (&summary["jobs"]["lost"], &summary["jobs"]["doubled"]),
        (&0.into(), &0.into()),
        "{summary:#}"
    );
}

#[test]
fn a_run_is_written_as_json_and_as_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let (json, page) = (folder.path().join("run.json"), folder.path().join("run.html"));
    let ended = run(&mut forgerun(&[
        "traffic",
        "steady",
        "--self",
        "--duration",
        "1s",
        "--rate",
        "20",
        "--seed",
        "99",
        "--json",
        json.to_str().unwrap(),
        "--report",
        page.to_str().unwrap(),
    ]));
    assert!(ended.expect(0).ends_with("clean"), "{}", ended.stdout);
    let summary: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    for name in [
        "scenario",
        "seed",
        "started_at",
        "duration_s",
        "requests",
        "jobs",
        "latency_ms",
        "phases",
        "violations",
        "ok",
    ] {
        assert!(!summary[name].is_null(), "{name} in {summary:#}");
    }
    assert_eq!((&summary["scenario"], &summary["seed"]), (&"steady".into(), &99.into()));
    for latency in ["submit", "poll", "end_to_end"] {
        assert!(summary["latency_ms"][latency]["p99"].is_number(), "{summary:#}");
    }
    let page = fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<svg ").count(), 5, "{page}");
    assert!(!page.contains("http://www") && !page.contains("<script") && !page.contains(" src="), "{page}");
}

#[test]
fn what_cannot_be_played_ends_with_its_exit_code() {
    let expect = |arguments: &[&str], code, words: &str| {
        let ended = run(&mut forgerun(&[&["traffic"], arguments].concat()));
        ended.expect(code);
        assert!(ended.stderr.contains(words), "{words} in {}", ended.stderr);
    };
    expect(&["steady", "--url", "http://127.0.0.1:9"], 6, "could not reach");
    expect(&["steady", "--url", "http://jobs.example"], 2, "--yes-remote");
    let server = super::serve(&tempfile::tempdir().unwrap().path().join("data"));
    expect(&["steady", "--url", &super::url(&server), "--key", "wrong"], 5, "does not accept the key");
    expect(&["stedy"], 2, "idempotency-storm");
    expect(&["steady", "--kill", "1"], 2, "--self");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    fs::write(&file, "name = \"mine\"\n[[phase]]\nname = \"a\"\nduration = \"1s\"\nrate = 10\n[phase.behaviour]\ncancel = 2\n")
        .unwrap();
    expect(&[file.to_str().unwrap(), "--self"], 2, "line 7, column 1");
    fs::write(&file, "name = \"mine\"\n[[phase]]\nname = \"a\"\nduration = \"500ms\"\nrate = 10\n[expect]\nsubmit_p99_ms = 0.0001\n")
        .unwrap();
    let unmet = run(&mut forgerun(&["traffic", file.to_str().unwrap(), "--self"]));
    assert!(unmet.expect(1).contains("UNMET submit_p99_ms"), "{}", unmet.stdout);
}

#[test]
fn scenarios_are_listed_and_shown() {
    let list = run(&mut forgerun(&["traffic", "list"]));
    let names = list.expect(0).lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).count();
    assert_eq!(names, 13, "{}", list.stdout);
    let shown = run(&mut forgerun(&["traffic", "show", "abuse"]));
    assert!(shown.expect(0).starts_with("name = \"abuse\""), "{}", shown.stdout);
    run(&mut forgerun(&["traffic", "show", "nothing"])).expect(2);
}
