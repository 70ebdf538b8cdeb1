//! The user's own work, as the README shows it; queues and workers.

use std::io::{Read, Write};

use std::process::Command;

use forgerun_store::testing::free_port;

use super::worker::Worker;
use super::{ask, dev};
use crate::process::{Server, forgerun, send};

const INVOICE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/invoice.sh");

#[test]
fn the_first_example_makes_an_invoice_and_explains_why_it_cannot() {
    let server = dev();
    let arguments =
        ["worker", "exec", "--queue", "invoices", "--result-type", "application/pdf", "--json", "--"];
    let _worker = Worker::start(&server, &[&arguments[..], &[INVOICE]].concat());
    let submit = ["submit", "--type", "invoice", "--queue", "invoices", "--wait=60s", "--payload"];
    let done = ask(&server, &[&submit[..], &[r#"{"customer":"Ada (Lovelace)","amount":"42.00"}"#]].concat());
    let pdf = done.expect(0);
    assert!(pdf.starts_with("%PDF-1.4") && pdf.ends_with("%%EOF"), "{pdf}");
    let table: usize = pdf.lines().rev().nth(1).unwrap().parse().unwrap();
    assert!(pdf[table..].starts_with("xref"), "{pdf}");
    assert!(pdf.contains("(Customer: Ada Lovelace)"), "{pdf}");
    let failed = ask(&server, &[&submit[..], &["{}"]].concat());
    assert_eq!(failed.expect(3), "");
    assert!(failed.stderr.contains("\"customer\" and \"amount\""), "{}", failed.stderr);
}

#[test]
fn a_wait_for_a_queue_that_no_worker_asks_for_says_so() {
    let server = dev();
    let submit = ["submit", "--type", "t", "--queue", "lonely", "--wait=7s"];
    let words = "no worker has asked for queue lonely yet";
    let alone = ask(&server, &submit);
    alone.expect(4);
    assert!(alone.stderr.contains(words), "{}", alone.stderr);
    let _worker =
        Worker::start(&server, &["worker", "exec", "--queue", "lonely", "--json", "--", "sleep", "60"]);
    // The first job keeps the only worker busy, so the second waits.
    let attended = ask(&server, &submit);
    attended.expect(4);
    assert!(!attended.stderr.contains(words), "{}", attended.stderr);
}

#[test]
fn the_worker_in_python_outlives_its_server_and_stops_when_asked() {
    let address = format!("127.0.0.1:{}", free_port());
    let start = || Server::start(&mut forgerun(&["dev", "--listen", &address]));
    let server = start();
    let path = format!("{}/../../examples/worker.py", env!("CARGO_MANIFEST_DIR"));
    let mut worker =
        Command::new("python3").arg(path).env("FORGERUN_URL", format!("http://{address}")).spawn().unwrap();
    let upper = |server: &Server, args: &str| {
        let body =
            format!(r#"{{"type":"text.upper","args":{args},"options":{{"retry":{{"max_attempts":1}}}}}}"#);
        let mut stream = server.connect();
        let length = body.len();
        let head = "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nPrefer: wait=30";
        write!(stream, "{head}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let done = upper(&server, r#"["hello"]"#);
    assert!(done.contains(r#""state":"completed""#) && done.contains("HELLO"), "{done}");
    server.signal("KILL");
    server.wait();
    let server = start();
    let done = upper(&server, r#"["again"]"#);
    assert!(done.contains(r#""state":"completed""#) && done.contains("AGAIN"), "{done}");
    // An object is no text: a failure, and no wrong result.
    let failed = upper(&server, r#"[{"text":"hello"}]"#);
    assert!(failed.contains(r#""state":"discarded""#), "{failed}");
    send("TERM", worker.id());
    assert_eq!(worker.wait().unwrap().code(), Some(0));
}

#[test]
fn the_readme_shows_the_example_as_it_is_tested() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    for words in [
        "examples/invoice.sh",
        "worker exec --queue invoices --result-type application/pdf",
        "submit --type invoice",
    ] {
        assert!(readme.contains(words), "{words}");
    }
    let first = readme.find("forgerun dev").unwrap();
    let second = readme.find("forgerun worker exec").unwrap();
    assert!(first < second && second < readme.find("forgerun submit").unwrap());
}

#[test]
fn queues_are_listed_paused_and_resumed_and_workers_listed() {
    let server = dev();
    ask(&server, &["submit", "--type", "t", "--queue", "q"]).expect(0);
    let queues = ask(&server, &["queues", "--json"]).json(0);
    let found = queues["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "q").cloned();
    assert_eq!(found.unwrap()["stats"]["available"], 1, "{queues}");
    let typo = ask(&server, &["queues", "pause", "qq"]);
    assert!(typo.expect(1).is_empty() && typo.stderr.contains("there are"), "{}", typo.stderr);
    assert_eq!(ask(&server, &["queues", "pause", "q"]).expect(0), "paused");
    let mut worker = Worker::exec(&server, &[], "echo 1");
    let listed = ask(&server, &["queues"]);
    assert!(listed.expect(0).lines().any(|line| line.starts_with("q\tpaused\t1")), "{}", listed.stdout);
    assert_eq!(ask(&server, &["queues", "resume", "q", "--json"]).json(0)["paused"], false);
    worker.wait_for("succeeded");
    let workers = ask(&server, &["workers", "--json"]).json(0);
    assert_eq!(workers["workers"][0]["queues"], serde_json::json!(["q"]), "{workers}");
    assert!(ask(&server, &["workers"]).expect(0).contains("running"));
}

#[test]
fn a_program_is_told_the_trace_of_whoever_submitted() {
    let server = dev();
    let _worker = Worker::exec(&server, &[], r#"printf '"%s"' "$FORGERUN_TRACEPARENT""#);
    let body = r#"{"type":"t","queue":"q"}"#;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut connection = server.connect();
    write!(
        connection,
        "POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntraceparent: {trace}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let id = answer.split("\"jobId\":\"").nth(1).and_then(|rest| rest.get(..36)).unwrap();
    ask(&server, &["wait", id, "--timeout", "60s"]).expect(0);
    let told = ask(&server, &["result", id]);
    assert!(told.expect(0).contains("0af7651916cd43dd8448eb211c80319c"), "{}", told.stdout);
}

#[test]
fn a_refused_cron_expression_names_its_field() {
    let set = ["schedules", "set", "s", "--type", "t", "--cron", "0 0 32 * *"];
    let refused = ask(&dev(), &set);
    assert!(
        refused.expect(1).is_empty() && refused.stderr.contains("day of month `32`"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_submission_takes_a_deadline_and_tags() {
    let server = dev();
    for more in [&[][..], &["--unique", "k"]] {
        let submit =
            ["submit", "--type", "t", "--tag", "eu", "--tag", "order:7", "--deadline", "300ms", "--wait=30s"];
        let over = ask(&server, &[&submit[..], more].concat());
        assert!(over.stderr.contains("deadline"), "{}", over.stderr);
        assert_ne!(over.code, Some(0));
    }
    let found = ask(&server, &["list", "--json"]).json(0);
    assert_eq!(found["jobs"][0]["tags"], serde_json::json!(["eu", "order:7"]), "{found}");
    let wrong = ask(&server, &["submit", "--type", "t", "--deadline", "soon"]);
    assert!(wrong.expect(2).is_empty() && wrong.stderr.contains("1h30m"), "{}", wrong.stderr);
    let past = ask(&server, &["submit", "--type", "t", "--deadline", "1999-01-01T00:00:00Z"]);
    assert!(past.expect(1).is_empty() && past.stderr.contains("in the past"), "{}", past.stderr);
}
