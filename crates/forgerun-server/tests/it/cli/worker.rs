//! `worker exec` and `worker http` with programs that behave, and with those that do not.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use forgerun_core::time::Time;
use forgerun_engine::{Clock, SystemClock};
use forgerun_store::testing::free_port;
use serde_json::Value;

use super::{ask, command, dev};
use crate::process::{Server, forgerun, run};

/// A worker that runs until the test ends.
pub(super) struct Worker {
    child: Child,
    notes: std::io::BufReader<std::process::ChildStdout>,
}

impl Worker {
    /// `worker exec --queue q` with these flags, and a script for the shell.
    pub(super) fn exec(server: &Server, flags: &[&str], script: &str) -> Worker {
        let arguments =
            [&["worker", "exec", "--queue", "q", "--json"], flags, &["--", "sh", "-c", script]].concat();
        Worker::start(server, &arguments)
    }

    pub(super) fn start(server: &Server, arguments: &[&str]) -> Worker {
        let mut child = command(server, arguments).stderr(Stdio::null()).spawn().unwrap();
        let notes = std::io::BufReader::new(child.stdout.take().unwrap());
        Worker { child, notes }
    }

    /// Waits for a note of this kind.
    pub(super) fn wait_for(&mut self, event: &str) -> Value {
        loop {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut self.notes, &mut line).unwrap();
            assert!(!line.is_empty(), "the worker ended without {event}");
            let note: Value = serde_json::from_str(&line).unwrap();
            if note["event"] == event {
                return note;
            }
        }
    }

    fn signal(&self, name: &str) {
        crate::process::send(name, self.child.id());
    }

    fn end(mut self) -> Option<i32> {
        self.signal("TERM");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn submit_and_wait(server: &Server, more: &[&str]) -> crate::process::Ended {
    let base = ["submit", "--type", "t", "--queue", "q", "--wait=60s"];
    ask(server, &[&base[..], more].concat())
}

/// The failure object of a job that this script fails.
fn failure_of(script: &str, flags: &[&str]) -> Value {
    let server = dev();
    let _worker = Worker::exec(&server, flags, script);
    // Once is enough to see how it fails; some of these would be tried again.
    let id = ask(&server, &["submit", "--type", "t", "--queue", "q"]).expect(0).to_owned();
    loop {
        let job = ask(&server, &["get", &id, "--json"]).json(0);
        if job["errors"].as_array().is_some_and(|errors| !errors.is_empty()) {
            return job;
        }
        thread::yield_now();
    }
}

#[test]
fn a_program_gets_its_input_and_its_output_is_the_result() {
    let server = dev();
    let script = r#"printf '{"input":%s,"type":"%s","queue":"%s","attempt":"%s","id":"%s"}' "$(cat)" "$FORGERUN_JOB_TYPE" "$FORGERUN_QUEUE" "$FORGERUN_ATTEMPT" "$FORGERUN_JOB_ID""#;
    let worker = Worker::exec(&server, &[], script);
    let done = submit_and_wait(&server, &["--payload", r#"{"a":[1,2.5]}"#]);
    let id = done.stderr.lines().next().unwrap().to_owned();
    let expected = format!(r#"{{"input":{{"a":[1,2.5]}},"type":"t","queue":"q","attempt":"1","id":"{id}"}}"#);
    assert_eq!(done.expect(0), expected);
    assert_eq!(worker.end(), Some(0));
}

#[test]
fn json_that_a_program_prints_is_kept_to_the_byte() {
    let server = dev();
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    for printed in [r#"{"b":1,  "a":2.10, "n":123456789012345678901234567890,"e":1E2}"#, &deep] {
        let _worker = Worker::exec(&server, &[], &format!("cat > /dev/null; printf '%s' '{printed}'"));
        assert_eq!(submit_and_wait(&server, &[]).expect(0), printed);
    }
}

#[test]
fn a_job_whose_result_no_reader_may_like_ends_all_the_same() {
    let server = dev();
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for printed in [r#""\ud800""#, "[1e400]", &deep] {
        let _worker = Worker::exec(&server, &[], &format!("cat > /dev/null; printf '%s' '{printed}'"));
        let ended = submit_and_wait(&server, &[]);
        assert_eq!(ended.code, Some(3), "{printed}: {}", ended.stderr);
        assert!(ended.stderr.contains("the result was not taken"), "{printed}: {}", ended.stderr);
    }
}

#[test]
fn output_that_is_not_json_has_the_type_that_is_said() {
    let server = dev();
    let _worker = Worker::exec(&server, &["--result-type", "text/csv"], "cat > /dev/null; echo a,b");
    let done = submit_and_wait(&server, &[]);
    assert_eq!(done.expect(0), "a,b");
    let id = done.stderr.lines().next().unwrap();
    let answer = server.get(&format!("/v1/jobs/{id}/result"));
    assert!(answer.to_lowercase().contains("content-type: text/csv"), "{answer}");
}

#[test]
fn large_output_arrives_whole() {
    let server = dev();
    let _worker = Worker::exec(&server, &[], "head -c 30000000 /dev/zero | tr '\\0' x");
    let done = submit_and_wait(&server, &[]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.stdout.len(), 30_000_000);
    assert!(done.stdout.bytes().all(|byte| byte == b'x'));
}

#[test]
fn exit_codes_say_whether_to_try_again_and_the_last_words_are_the_message() {
    for (script, code, retryable) in [
        ("echo first >&2; echo 'no paper' >&2; exit 65", "65", Some(false)),
        ("echo busy >&2; exit 75", "75", Some(true)),
        ("exit 3", "3", None),
        ("kill -9 $$", "signal", None),
    ] {
        let job = failure_of(script, &[]);
        let error = &job["errors"][0];
        let said = format!("{} {}", error["message"], error["detail"]);
        match code {
            "65" => assert!(said.contains("first") && said.contains("no paper"), "{job}"),
            "75" => assert!(said.contains("busy"), "{job}"),
            "3" => assert!(said.contains("exit code 3"), "{job}"),
            _ => assert!(said.contains("signal 9"), "{job}"),
        }
        if let Some(retryable) = retryable {
            assert_eq!(error["retryable"], retryable, "{job}");
        }
    }
}

#[test]
fn progress_lines_are_progress() {
    let server = dev();
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let script = format!(
        "echo 'forgerun: progress 40 half of it' >&2; while [ ! -e {} ]; do sleep 0.05; done",
        go.display()
    );
    let _worker = Worker::exec(&server, &[], &script);
    let id = ask(&server, &["submit", "--type", "t", "--queue", "q"]).expect(0).to_owned();
    while ask(&server, &["get", &id, "--json"]).json(0)["progress"] != 40 {
        thread::yield_now();
    }
    fs::write(&go, "").unwrap();
    assert_eq!(ask(&server, &["wait", &id, "--timeout", "60s"]).expect(0), "SUCCEEDED");
}

#[test]
fn a_program_that_reads_nothing_closes_its_input_or_prints_without_end_on_stderr_is_no_trouble() {
    let server = dev();
    let payload = format!(r#"{{"a":"{}"}}"#, "x".repeat(200_000));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("payload.json");
    fs::write(&file, payload).unwrap();
    let at = format!("@{}", file.display());
    for script in ["true", "exec <&-; echo 1", "head -c 3000000 /dev/zero >&2; echo 1"] {
        let _worker = Worker::exec(&server, &["--quiet"], script);
        submit_and_wait(&server, &["--payload", &at]).expect(0);
    }
}

#[test]
fn what_a_program_leaves_running_is_ended_with_its_job() {
    let server = dev();
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    // The grandchild keeps the pipe open.
    let script = format!("sleep 600 & echo $! > {}; echo 1", pid.display());
    let _worker = Worker::exec(&server, &[], &script);
    assert_eq!(submit_and_wait(&server, &[]).expect(0), "1");
    gone(&pid);
}

/// Waits until the process whose id is in this file is gone.
fn gone(file: &Path) {
    let pid = fs::read_to_string(file).unwrap();
    let stat = format!("/proc/{}/stat", pid.trim());
    // A zombie is gone as well: whoever should bury it is not ours.
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        thread::yield_now();
    }
}

#[test]
fn a_cancelled_job_is_stopped_and_one_that_ignores_it_is_killed() {
    let server = dev();
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("trap '' TERM; echo $$ > {}; while true; do sleep 1; done", pid.display());
    let mut worker = Worker::exec(&server, &["--lease", "5s", "--grace", "200ms"], &script);
    let id = ask(&server, &["submit", "--type", "t", "--queue", "q"]).expect(0).to_owned();
    worker.wait_for("took");
    while fs::read_to_string(&pid).map_or(true, |text| !text.ends_with('\n')) {
        thread::yield_now();
    }
    assert_eq!(ask(&server, &["cancel", &id]).expect(0), "CANCELED");
    worker.wait_for("lost");
    gone(&pid);
    assert_eq!(ask(&server, &["get", &id, "--json"]).json(0)["state"], "CANCELED");
}

#[test]
fn a_worker_that_is_asked_to_stop_finishes_what_it_has() {
    let server = dev();
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done; echo 7", go.display());
    let mut worker = Worker::exec(&server, &[], &script);
    let id = ask(&server, &["submit", "--type", "t", "--queue", "q"]).expect(0).to_owned();
    worker.wait_for("took");
    worker.signal("TERM");
    worker.wait_for("draining");
    let waits = ask(&server, &["submit", "--type", "t", "--queue", "q"]).expect(0).to_owned();
    fs::write(&go, "").unwrap();
    worker.wait_for("succeeded");
    assert_eq!(worker.child.wait().unwrap().code(), Some(0));
    assert_eq!(ask(&server, &["result", &id]).expect(0), "7");
    assert_eq!(ask(&server, &["get", &waits, "--json"]).json(0)["state"], "QUEUED");
}

#[test]
fn a_worker_that_stops_hands_back_what_does_not_end() {
    let server = dev();
    let mut worker = Worker::exec(&server, &["--drain", "100ms", "--grace", "100ms"], "sleep 600");
    let id = ask(&server, &["submit", "--type", "t", "--queue", "q"]).expect(0).to_owned();
    worker.wait_for("took");
    assert_eq!(worker.end(), Some(0));
    let job = ask(&server, &["get", &id, "--json"]).json(0);
    assert_eq!((&job["state"], &job["attempt"]), (&"QUEUED".into(), &1.into()), "{job}");
    let _next = Worker::exec(&server, &[], "echo 8");
    ask(&server, &["wait", &id, "--timeout", "60s"]).expect(0);
}

#[test]
fn a_program_that_cannot_be_found_and_a_server_that_is_not_there_stop_the_start() {
    let server = dev();
    let missing = ask(&server, &["worker", "exec", "--queue", "q", "--", "no-such-program"]);
    assert!(missing.expect(2).is_empty() && missing.stderr.contains("no-such-program"), "{}", missing.stderr);
    let mut away = forgerun(&["worker", "exec", "--", "/bin/true"]);
    assert_eq!(run(away.env("FORGERUN_URL", format!("http://127.0.0.1:{}", free_port()))).code, Some(6));
    assert_eq!(ask(&server, &["worker", "exec"]).code, Some(2));
    assert_eq!(ask(&server, &["worker", "http", "--url", "ftp://x"]).code, Some(2));
}

#[test]
fn a_url_does_the_work_and_is_told_whose_it_is() {
    let server = dev();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = std::sync::mpsc::sync_channel(8);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            while let Ok(n @ 1..) = connection.read(&mut piece) {
                request.extend_from_slice(&piece[..n]);
                if request.windows(9).any(|window| window == br#"{"a":"b"}"#) {
                    break;
                }
            }
            let _ = connection
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello");
            let _ = tell.try_send(String::from_utf8_lossy(&request).to_lowercase());
        }
    });
    let url = format!("http://{address}/work");
    let secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";
    let arguments = ["worker", "http", "--queue", "q", "--url", &url, "--secret", secret, "--json"];
    let _worker = Worker::start(&server, &arguments);
    let done = submit_and_wait(&server, &["--payload", r#"{"a":"b"}"#]);
    assert_eq!(done.expect(0), "hello");
    let request = told.recv_timeout(Duration::from_secs(60)).unwrap();
    for words in [
        "post /work",
        "forgerun-job-type: t",
        "forgerun-queue: q",
        "forgerun-attempt: 1",
        "webhook-signature: v1,",
    ] {
        assert!(request.contains(words), "{words} in {request}");
    }
    assert!(
        request.contains(&format!("forgerun-job-id: {}", done.stderr.lines().next().unwrap())),
        "{request}"
    );
}

/// Answers the requests that come with these texts, in turn, and tells when each came and what it
/// brought.
fn answering(answers: &'static [&'static str]) -> (String, std::sync::mpsc::Receiver<(Time, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/work", listener.local_addr().unwrap());
    let (tell, told) = std::sync::mpsc::sync_channel(8);
    thread::spawn(move || {
        for (connection, answer) in listener.incoming().zip(answers) {
            let mut connection = connection.unwrap();
            let mut request = vec![0; 64 * 1024];
            let mut n_read = 0;
            // Head and body come one after the other, and bodies of these tests end with a brace.
            while !request[..n_read].ends_with(b"}") {
                n_read += connection.read(&mut request[n_read..]).unwrap();
            }
            let _ =
                tell.try_send((SystemClock.now(), String::from_utf8_lossy(&request[..n_read]).into_owned()));
            connection.write_all(answer.as_bytes()).unwrap();
        }
    });
    (url, told)
}

#[test]
fn a_handler_that_names_a_wait_is_asked_again_after_it() {
    const LATER: &str =
        "HTTP/1.1 503 Later\r\nretry-after: 2\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n42";
    let server = dev();
    let (url, told) = answering(&[LATER, DONE]);
    let _worker = Worker::start(&server, &["worker", "http", "--queue", "q", "--url", &url, "--json"]);
    assert_eq!(submit_and_wait(&server, &["--payload", "{}"]).expect(0), "42");
    let [(first, _), (second, _)] = [told.recv().unwrap(), told.recv().unwrap()];
    assert!(second.since(first) >= Duration::from_millis(1900));
}

#[test]
fn results_of_the_steps_before_reach_programs_and_urls() {
    const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n42";
    let server = dev();
    let step = |queue: &str| serde_json::json!({"type": "t", "args": [], "options": {"queue": queue}});
    let chain = serde_json::json!({"type": "chain", "steps": [step("q"), step("q"), step("posted")]});
    let script = "if [ -n \"$FORGERUN_PARENT_RESULTS\" ]; then cat $FORGERUN_PARENT_RESULTS; else echo '{\"n\": 1.50}'; fi";
    let _program = Worker::exec(&server, &[], script);
    let (url, told) = answering(&[DONE]);
    let _url = Worker::start(
        &server,
        &["worker", "http", "--queue", "posted", "--url", &url, "--envelope", "--json"],
    );
    ask(&server, &["workflows", "submit", &chain.to_string()]).expect(0);
    let (_, request) = told.recv_timeout(Duration::from_secs(60)).unwrap();
    let body: Value = serde_json::from_str(request.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["parents"], serde_json::json!({"1": {"0": {"n": 1.5}}}));
    assert_eq!((&body["job"]["queue"], &body["input"]), (&"posted".into(), &serde_json::json!([])));
}

#[test]
fn a_program_gets_the_results_of_a_long_list_and_of_a_large_step_in_its_file() {
    let server = dev();
    let step = |id: &str, after: &[&str]| serde_json::json!({"id": id, "type": id, "args": [], "depends_on": after, "options": {"queue": "q"}});
    let mut each = step("each", &["list"]);
    each["args"] = serde_json::json!(["$index"]);
    each["for_each"] = serde_json::json!({"step": "list"});
    let flow = serde_json::json!({"steps": [step("list", &[]), step("large", &[]), each, step("last", &["each", "large"])]});
    let script = "case $FORGERUN_JOB_TYPE in \
        list) echo '[1,2,3]';; \
        large) printf '[\"'; head -c 200000 /dev/zero | tr '\\0' x; printf '\"]';; \
        each) echo 7;; \
        last) grep -o '\"each\":\\[7,7,7\\]' $FORGERUN_PARENT_RESULTS >&2 && wc -c < $FORGERUN_PARENT_RESULTS;; \
        esac";
    let _program = Worker::exec(&server, &[], script);
    let submitted = ask(&server, &["workflows", "submit", &flow.to_string()]);
    let id = submitted.expect(0);
    ask(&server, &["wait", id, "--timeout", "60s"]).expect(0);
    let shown = ask(&server, &["workflows", "show", id, "--json"]).json(0);
    assert_eq!(shown["steps"][2]["elements"]["succeeded"], 3);
    let last = shown["steps"][3]["job_id"].as_str().unwrap();
    let size: usize = ask(&server, &["result", last]).expect(0).trim().parse().unwrap();
    assert!(size > 200_000, "{size}");
    let table = ask(&server, &["workflows", "show", id]);
    assert!(table.expect(0).contains("for_each 3/3"), "{}", table.stdout);
    let named = ask(&server, &["workflows", "--name", "no such", "--json"]).json(0);
    assert_eq!(named["workflows"], serde_json::json!([]));
}

#[test]
fn a_program_names_the_media_type_of_its_result() {
    let server = dev();
    let _worker = Worker::exec(&server, &[], "echo text/csv > $FORGERUN_RESULT_TYPE_FILE; echo a,b");
    let id =
        ask(&server, &["submit", "--type", "t", "--queue", "q", "--wait=60s", "--json"]).json(0)["job_id"]
            .as_str()
            .unwrap()
            .to_owned();
    let answer = server.get(&format!("/v1/jobs/{id}/result"));
    assert!(answer.to_lowercase().contains("content-type: text/csv"), "{answer}");
}

#[test]
fn a_program_may_call_us_and_does_not_see_what_a_server_is_configured_with() {
    let server = dev();
    let forgerun = env!("CARGO_BIN_EXE_forgerun");
    let script =
        format!("{forgerun} config > /dev/null || exit 65; env | grep ^FORGERUN_ | cut -d= -f1 | sort");
    let arguments = ["worker", "exec", "--queue", "q", "--json", "--", "sh", "-c", &script];
    let mut worker = command(&server, &arguments);
    for (name, value) in [
        ("FORGERUN_WORKER_SECRET", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"),
        ("FORGERUN_AUTH__ADMIN_TOKEN", "a-token-of-the-operator"),
        ("FORGERUN_SERVER__DATABASE_URL", "postgres://forge:hunter2@db.example/jobs"),
        ("FORGERUN_TRACEPARENT", "of somebody else"),
    ] {
        worker.env(name, value);
    }
    let mut child = worker.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let done = submit_and_wait(&server, &[]);
    let _ = child.kill();
    let _ = child.wait();
    let seen: Vec<&str> = done.expect(0).lines().collect();
    assert_eq!(
        seen,
        [
            "FORGERUN_ATTEMPT",
            "FORGERUN_JOB_ID",
            "FORGERUN_JOB_TYPE",
            "FORGERUN_QUEUE",
            "FORGERUN_RESULT_TYPE_FILE",
            "FORGERUN_URL"
        ]
    );
}

/// A worker that a shell starts with this before it.
fn under(server: &Server, prefix: &str, program: &[&str]) -> Worker {
    let line = format!("{prefix} {} worker exec --queue q --json -- \"$@\"", env!("CARGO_BIN_EXE_forgerun"));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &line, "sh"]).args(program).env("FORGERUN_URL", format!("http://{}", server.address));
    let mut child = shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let notes = std::io::BufReader::new(child.stdout.take().unwrap());
    Worker { child, notes }
}

#[test]
fn a_terminal_that_goes_away_stops_a_worker_like_sigterm_unless_it_was_told_not_to_mind() {
    let server = dev();
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done; echo 7", go.display());
    // The tests themselves may run under nohup, and a child inherits what is ignored.
    let mut worker = under(&server, "exec env --default-signal=HUP", &["sh", "-c", &script]);
    let id = ask(&server, &["submit", "--type", "t", "--queue", "q"]).expect(0).to_owned();
    worker.wait_for("took");
    worker.signal("HUP");
    worker.wait_for("draining");
    fs::write(&go, "").unwrap();
    worker.wait_for("succeeded");
    assert_eq!(worker.child.wait().unwrap().code(), Some(0));
    assert_eq!(ask(&server, &["result", &id]).expect(0), "7");

    let mut worker = under(&server, "trap '' HUP; exec", &["echo", "8"]);
    for _ in 0..2 {
        ask(&server, &["submit", "--type", "t", "--queue", "q"]).expect(0);
        worker.wait_for("succeeded");
        worker.signal("HUP");
    }
    assert_eq!(worker.end(), Some(0));
}

#[test]
fn a_type_that_no_job_can_have_and_a_result_type_that_is_none_stop_the_start() {
    let server = dev();
    for (flags, words) in [(["--type", "an invoice"], "no spaces"), (["--result-type", "foo"], "text/csv")] {
        let refused = ask(&server, &[&["worker", "exec"][..], &flags, &["--", "/bin/true"]].concat());
        assert!(refused.expect(2).is_empty() && refused.stderr.contains(words), "{}", refused.stderr);
    }
}
