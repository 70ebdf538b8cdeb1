//! `logs`, `pause` and `resume`, and what `worker exec` sends to the log.

use serde_json::{Value, json};

use super::worker::Worker;
use super::{ask, dev};
use crate::process::Server;

const SCRIPT: &str = "echo begin >&2; echo 'forgerun: progress 50' >&2; echo one; echo two; printf end >&2";

fn run_one(server: &Server, flags: &[&str]) -> String {
    let mut worker = Worker::exec(server, flags, SCRIPT);
    let id = ask(server, &["submit", "--type", "t", "--queue", "q"]).expect(0).to_owned();
    assert_eq!(worker.wait_for("succeeded")["job_id"], *id);
    id
}

#[test]
fn standard_error_of_a_program_is_the_log_of_its_job() {
    let server = dev();
    let id = run_one(&server, &[]);
    assert_eq!(ask(&server, &["logs", &id]).expect(0), "begin\nend");
    assert_eq!(ask(&server, &["logs", &id, "-f"]).expect(0), "begin\nend", "it has ended");
    assert_eq!(ask(&server, &["logs", &id[30..], "--grep", "eg"]).expect(0), "begin");
    let line = ask(&server, &["logs", &id, "--json", "--grep", "end"]).json(0);
    assert_eq!((&line["seq"], &line["stream"], &line["attempt"]), (&json!(2), &json!("stderr"), &json!(1)));
    assert_eq!(ask(&server, &["logs", "01965000-0000-7000-8000-000000000000"]).code, Some(1));
}

#[test]
fn standard_output_is_streamed_and_logs_are_left_out_on_request() {
    let server = dev();
    let id = run_one(&server, &["--stream"]);
    assert_eq!(ask(&server, &["logs", &id, "--stream", "output"]).expect(0), "one\ntwo");
    assert_eq!(ask(&server, &["result", &id]).expect(0), "one\ntwo", "it is the result all the same");
    let quiet = run_one(&server, &["--no-logs"]);
    assert_eq!(ask(&server, &["logs", &quiet]).expect(0), "");
}

#[test]
fn a_log_is_followed_while_the_program_runs() {
    let server = dev();
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let gate = gate.to_str().unwrap();
    assert!(std::process::Command::new("mkfifo").arg(gate).status().unwrap().success());
    let mut worker =
        Worker::exec(&server, &[], &format!("echo before >&2; read line < {gate}; echo after >&2"));
    let id = ask(&server, &["submit", "--type", "t", "--queue", "q"]).expect(0).to_owned();
    let mut following = super::command(&server, &["logs", &id, "-f", "--json"]).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(following.stdout.take().unwrap()));
    let mut text = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(text()["text"], "before");
    std::fs::write(gate, "go\n").unwrap();
    assert_eq!(text()["text"], "after");
    worker.wait_for("succeeded");
    assert_eq!(following.wait().unwrap().code(), Some(0));
}

#[test]
fn a_job_is_paused_and_resumed() {
    let server = dev();
    let id = ask(&server, &["submit", "--type", "t", "--queue", "q"]).expect(0).to_owned();
    let paused = ask(&server, &["pause", &id, "--json"]).json(0);
    assert_eq!((&paused["state"], &paused["paused"]), (&json!("QUEUED"), &json!(true)));
    assert_eq!(ask(&server, &["resume", &id]).expect(0), "QUEUED");
    let mut worker = Worker::exec(&server, &[], SCRIPT);
    worker.wait_for("succeeded");
    assert_eq!(ask(&server, &["pause", &id]).code, Some(1), "it has ended");
}
