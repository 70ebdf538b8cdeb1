//! Encryption at rest from outside: nothing of what clients and workers sent is found in files, and
//! a lost key costs contents alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use forgerun_store::testing::{Cluster, Durability};
use serde_json::{Value, json};

use crate::crash::{Connection, first_key};
use crate::process::{Server, forgerun, run};

/// In every content.
const MARK: &str = "nobody-shall-find-this-4711";

/// How many bytes of a large result have the mark.
const LARGE: usize = 300_000;

fn key(id: &str) -> String {
    format!("{id}:{}", STANDARD.encode([id.as_bytes()[0]; 32]))
}

fn keys(ids: &[&str]) -> String {
    ids.iter().map(|id| key(id)).collect::<Vec<_>>().join(",")
}

fn with_keys(arguments: &[&str], url: &str, ids: &[&str]) -> Command {
    let mut command = forgerun(arguments);
    command.args(["--database-url", url]).env("FORGERUN_ENCRYPTION__KEYS", keys(ids));
    command
}

fn serve(url: &str, ids: &[&str]) -> Server {
    let mut command = with_keys(&["serve", "--listen", "127.0.0.1:0"], url, ids);
    // A full pipe of a log that is not read would stop the server.
    command.env("FORGERUN_LIMITS__RATE_PER_MINUTE", "1000000").env("FORGERUN_LOG__LEVEL", "error");
    Server::start(&mut command)
}

fn stop(server: Server) {
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));
}

/// A client and its worker.
struct Client {
    connection: Connection,
}

impl Client {
    fn of(server: &Server, key: &str) -> Client {
        Client { connection: Connection::open(server.address, key).unwrap() }
    }

    fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.connection.ask(method, path, &body).unwrap()
    }

    fn done(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(method, path, body);
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }

    fn submit(&mut self, queue: &str) -> String {
        let job = json!({"type": "test.echo", "args": [MARK], "options": {"queue": queue}});
        let answer = self.done("POST", "/ojs/v1/jobs", &job);
        answer["job"]["id"].as_str().unwrap().to_owned()
    }

    /// The id and the lease token of the next job.
    fn fetch(&mut self, queue: &str) -> (String, String) {
        let request = json!({"queues": [queue], "worker_id": "w", "count": 1});
        let answer = self.done("POST", "/ojs/v1/workers/fetch", &request);
        let job = &answer["jobs"][0];
        let text = |name: &str| job[name].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        (text("id"), text("lease_token"))
    }

    fn ack(&mut self, queue: &str, result: &Value) -> String {
        let id = self.submit(queue);
        let (_, token) = self.fetch(queue);
        let done = json!({"job_id": id, "lease_token": token, "result": result});
        self.done("POST", "/ojs/v1/workers/ack", &done);
        id
    }
}

/// Jobs of which something is read again.
struct Filled {
    client_key: String,
    waiting: String,
    small: String,
    large: String,
    failed: String,
}

/// Leaves contents by every road.
fn fill(server: &Server) -> Filled {
    let client_key = first_key(server.address);
    let mut client = Client::of(server, &client_key);
    let hook = json!({"url": "http://127.0.0.1:9/hook", "events": ["job.succeeded"], "secret": Value::Null});
    let hooks = client.ask("POST", "/v1/webhooks", &hook);
    assert!(hooks.0 < 500, "{hooks:?}");
    let small = client.ack("small", &json!(MARK));
    let large = client.ack("large", &json!(MARK.repeat(LARGE / MARK.len())));
    let failed = client.submit("failing");
    let (_, token) = client.fetch("failing");
    client.done("PUT", &format!("/ojs/v1/jobs/{failed}/checkpoint"), &json!({"state": {"at": MARK}}));
    let step = json!({"lease_token": token, "result": MARK});
    client.ask("PUT", &format!("/ojs/v1/jobs/{failed}/checkpoint/charge"), &step);
    let lines = json!({"job_id": failed, "lease_token": token, "lines": [{"text": MARK}]});
    client.done("POST", "/ojs/v1/workers/logs", &lines);
    let progress = json!({"percent": 10, "progress": 10, "message": MARK, "lease_token": token});
    client.ask("POST", &format!("/ojs/v1/jobs/{failed}/progress"), &progress);
    let error =
        json!({"code": "handler_error", "message": MARK, "retryable": false, "details": {"of": MARK}});
    let nack = json!({"job_id": failed, "lease_token": token, "error": error});
    client.done("POST", "/ojs/v1/workers/nack", &nack);
    let steps = json!({"name": "w", "steps": [
        {"id": "ask", "wait": {"signal": "approved", "timeout": "2h"}},
        {"id": "act", "type": "test.echo", "args": [MARK], "depends_on": ["ask"], "options": {"queue": "later"}},
    ]});
    let (status, workflow) = client.ask("POST", "/v1/workflows", &steps);
    assert!(status < 300, "{status} {workflow}");
    let id = workflow["workflow_id"].as_str().or(workflow["id"].as_str()).unwrap().to_owned();
    client.done("POST", &format!("/v1/workflows/{id}/signals/approved"), &json!({"by": MARK}));
    let cron = json!({"name": "nightly", "cron": "0 3 * * *", "type": "report.make", "args": [MARK]});
    client.done("POST", "/ojs/v1/cron", &cron);
    let waiting = client.submit("waiting");
    client.submit("waiting");
    Filled { client_key, waiting, small, large, failed }
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path(), found),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

/// Files below a folder that have the mark. One that goes meanwhile has none.
fn marked(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    files_below(folder, &mut files);
    assert!(files.len() > 1, "{files:?}");
    let has_mark = |bytes: &[u8]| bytes.windows(MARK.len()).any(|part| part == MARK.as_bytes());
    files.retain(|file| std::fs::read(file).is_ok_and(|bytes| has_mark(&bytes)));
    files
}

fn sqlite(folder: &tempfile::TempDir) -> String {
    format!("sqlite:{}", folder.path().join("jobs.db").display())
}

#[test]
fn nothing_that_was_sent_is_found_in_files_of_sqlite() {
    for (ids, n_marked) in [(&[][..], 2), (&["a"], 0)] {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(&sqlite(&folder), ids);
        let filled = fill(&server);
        read_everything(&server, &filled);
        // While it runs, most is in the log of the database.
        let running = marked(folder.path());
        stop(server);
        let stopped = marked(folder.path());
        assert!(running.len() >= n_marked && stopped.len() >= n_marked, "{running:?} {stopped:?}");
        assert_eq!(
            (running.is_empty(), stopped.is_empty()),
            (n_marked == 0, n_marked == 0),
            "{running:?} {stopped:?}"
        );
    }
}

fn read_everything(server: &Server, filled: &Filled) {
    let mut client = Client::of(server, &filled.client_key);
    let result = client.done("GET", &format!("/v1/jobs/{}/result", filled.small), &Value::Null);
    assert_eq!(result, json!(MARK));
    let large = client.done("GET", &format!("/v1/jobs/{}/result", filled.large), &Value::Null);
    assert_eq!(large, json!(MARK.repeat(LARGE / MARK.len())));
    let failed = client.done("GET", &format!("/ojs/v1/jobs/{}", filled.failed), &Value::Null);
    assert!(failed.to_string().contains(MARK), "{failed}");
    let logs = client.done("GET", &format!("/v1/jobs/{}/logs", filled.failed), &Value::Null);
    assert_eq!(logs["lines"][0]["text"], MARK);
    let waiting = client.done("GET", &format!("/ojs/v1/jobs/{}", filled.waiting), &Value::Null);
    assert!(waiting.to_string().contains(MARK), "{waiting}");
}

#[test]
fn nothing_that_was_sent_is_found_in_files_of_postgresql() {
    let cluster = Cluster::start(Durability::None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder: String = runtime.block_on(async {
        cluster.admin().await.query_one("SHOW data_directory", &[]).await.unwrap().get(0)
    });
    let check =
        || runtime.block_on(async { cluster.admin().await.batch_execute("CHECKPOINT").await.unwrap() });
    let server = serve(&runtime.block_on(cluster.database()), &["a"]);
    let filled = fill(&server);
    read_everything(&server, &filled);
    stop(server);
    check();
    assert_eq!(marked(Path::new(&folder)), [] as [PathBuf; 0]);
    let server = serve(&runtime.block_on(cluster.database()), &[]);
    fill(&server);
    stop(server);
    check();
    assert!(!marked(Path::new(&folder)).is_empty(), "what is not encrypted is found");
}

#[test]
#[cfg(feature = "s3")]
fn nothing_that_was_sent_is_found_in_objects() {
    let (objects, folder) = (forgerun_store::testing::S3Server::start(), tempfile::tempdir().unwrap());
    let options = objects.options();
    let (id, secret) = options.key.unwrap();
    let mut command = with_keys(&["serve", "--listen", "127.0.0.1:0"], &sqlite(&folder), &["a"]);
    command.env("FORGERUN_RESULTS__STORE", format!("s3://{}/{}", options.bucket, options.prefix));
    command.env("FORGERUN_RESULTS__ENDPOINT", objects.endpoint());
    command.env("FORGERUN_RESULTS__ACCESS_KEY_ID", id).env("FORGERUN_RESULTS__SECRET_ACCESS_KEY", secret);
    let server = Server::start(&mut command);
    let filled = fill(&server);
    read_everything(&server, &filled);
    stop(server);
    let files = objects.files();
    assert!(!files.is_empty());
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(MARK.len()).any(|part| part == MARK.as_bytes()), "{}", file.display());
    }
}

#[test]
fn a_lost_key_costs_contents_and_a_waiting_job_fails_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(&folder);
    let server = serve(&url, &["a"]);
    let filled = fill(&server);
    stop(server);
    let mut server = serve(&url, &["b"]);
    server.wait_for_log("the store is encrypted with a key that is not configured");
    let mut client = Client::of(&server, &filled.client_key);
    for path in [format!("/v1/jobs/{}/result", filled.small), format!("/v1/jobs/{}/logs", filled.failed)] {
        let (status, problem) = client.ask("GET", &path, &Value::Null);
        assert_eq!(status, 500, "{path}: {problem}");
        assert_eq!(problem["code"], "RFA_STORAGE_CONTENT_UNREADABLE", "{path}: {problem}");
    }
    let list = client.done("GET", "/v1/jobs", &Value::Null);
    assert!(list.to_string().contains(&filled.waiting), "lists go on: {list}");
    // Both waiting jobs fail, and a new one in the same queue is handed out.
    let request = json!({"queues": ["waiting"], "worker_id": "w", "count": 5});
    let handed_out = client.done("POST", "/ojs/v1/workers/fetch", &request);
    assert_eq!(handed_out["jobs"], json!([]));
    let failed = client.done("GET", &format!("/v1/jobs/{}", filled.waiting), &Value::Null);
    assert!(failed.to_string().contains("FAILED"), "{failed}");
    assert!(failed.to_string().contains("RFA_STORAGE_CONTENT_UNREADABLE"), "{failed}");
    let fresh = client.submit("waiting");
    assert_eq!(client.fetch("waiting").0, fresh);
    stop(server);
    // With its key again, everything else is there.
    let server = serve(&url, &["b", "a"]);
    let mut client = Client::of(&server, &filled.client_key);
    let result = client.done("GET", &format!("/v1/jobs/{}/result", filled.small), &Value::Null);
    assert_eq!(result, json!(MARK));
    stop(server);
}

#[test]
fn a_key_is_replaced_while_servers_run() {
    let cluster = Cluster::start(Durability::None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = runtime.block_on(cluster.database());
    let first = serve(&url, &["a", "b"]);
    let filled = fill(&first);
    // One node writes with the new key while another still writes with the old one.
    let second = serve(&url, &["b", "a"]);
    read_everything(&second, &filled);
    let (late, early) = (fill(&second), filled);
    read_everything(&first, &late);
    stop(first);
    let load = std::thread::spawn({
        let (address, key) = (second.address, early.client_key.clone());
        move || {
            let mut client = Client { connection: Connection::open(address, &key).unwrap() };
            (0..50).map(|_| client.ack("load", &json!(MARK))).collect::<Vec<_>>()
        }
    });
    let done = run(&mut with_keys(&["reencrypt"], &url, &["b", "a"]));
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("older keys are not needed any more"), "{}", done.stdout);
    let during = load.join().unwrap();
    stop(second);
    let last = serve(&url, &["b"]);
    read_everything(&last, &early);
    read_everything(&last, &late);
    let mut client = Client::of(&last, &early.client_key);
    for job in during {
        let result = client.done("GET", &format!("/v1/jobs/{job}/result"), &Value::Null);
        assert_eq!(result, json!(MARK));
    }
    stop(last);
    let again = run(&mut with_keys(&["reencrypt"], &url, &["b"]));
    assert!(again.stdout.starts_with("encrypted 0 contents again"), "{}", again.stdout);
}

#[test]
fn malformed_keys_stop_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let short = format!("k1:{}", STANDARD.encode([1; 16]));
    for (text, expected) in [
        (short.as_str(), "encryption.keys = (hidden) (from FORGERUN_ENCRYPTION__KEYS): accepted is "),
        (short.as_str(), "text 1 with the id \"k1\" has 16 bytes; expected 32"),
        (&keys(&["a", "a"]), "the id \"a\" is there twice"),
    ] {
        let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", &sqlite(&folder)]);
        let refused = run(command.env("FORGERUN_ENCRYPTION__KEYS", text));
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
        assert!(!refused.stderr.contains(&STANDARD.encode([1; 16])), "{}", refused.stderr);
    }
    let refused = run(forgerun(&["reencrypt", "--database-url", &sqlite(&folder)]).env("PATH", ""));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
}
