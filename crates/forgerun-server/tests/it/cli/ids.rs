//! Ids: the end of one is enough wherever a job or a workflow is named.

use std::io::{Read, Write};

use super::{ask, dev};

#[test]
fn the_end_of_an_id_names_a_job_wherever_an_id_does() {
    let server = dev();
    let waiting = ask(&server, &["submit", "--type", "t", "--queue", "q"]).expect(0).to_owned();
    let done = ask(&server, &["submit", "--kind", "SUCCESS_FAST", "--json"]).json(0);
    let done = done["job_id"].as_str().unwrap();
    assert_eq!(ask(&server, &["wait", &done[24..]]).expect(0), "SUCCEEDED");
    let shown = ask(&server, &["get", &waiting[28..].to_uppercase(), "--json"]).json(0);
    assert_eq!(shown["job_id"], *waiting);
    assert!(ask(&server, &["report", &done[24..]]).expect(0).starts_with("SUCCESS"));
    assert!(ask(&server, &["watch", &done[24..]]).expect(0).contains(done));
    ask(&server, &["result", &done[24..]]).expect(0);
    assert_eq!(ask(&server, &["cancel", &waiting[20..]]).expect(0), "CANCELED");
    let failed = ask(&server, &["submit", "--kind", "FAIL_IMMEDIATE", "--json"]).json(0);
    let failed = failed["job_id"].as_str().unwrap();
    ask(&server, &["wait", failed]).expect(3);
    assert_eq!(ask(&server, &["retry", &failed[24..]]).expect(0), "QUEUED");
    let chain = r#"{"type":"chain","steps":[{"type":"a.b","args":[]}]}"#;
    let flow = ask(&server, &["workflows", "submit", chain]).expect(0).to_owned();
    assert_eq!(ask(&server, &["workflows", "show", &flow[24..], "--json"]).json(0)["workflow_id"], *flow);
    assert_eq!(ask(&server, &["workflows", "cancel", &flow[24..]]).expect(0), "CANCELED");

    // No job has such an id; five characters are too few to look for one.
    for missing in ["000000000000", &waiting[31..]] {
        let ended = ask(&server, &["get", missing]);
        assert!(ended.expect(1).is_empty() && ended.stderr.contains("RFA_JOB_NOT_FOUND"), "{}", ended.stderr);
    }
}

#[test]
fn an_end_that_two_ids_have_is_refused_with_both() {
    let server = dev();
    let ids = ["019a0000-0000-7000-8000-00aaaabbbbcc", "019b0000-0000-7000-8000-00aaaabbbbcc"];
    for id in ids {
        let body = format!(r#"{{"id":"{id}","type":"t","args":[]}}"#);
        let head = "POST /ojs/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
        let (mut connection, n_bytes) = (server.connect(), body.len());
        write!(connection, "{head}connection: close\r\ncontent-length: {n_bytes}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }
    let ended = ask(&server, &["cancel", "bbbbcc"]);
    assert!(ended.expect(2).is_empty());
    assert!(ids.iter().all(|id| ended.stderr.contains(id)), "{}", ended.stderr);
    let problem: serde_json::Value =
        serde_json::from_str(&ask(&server, &["get", "bbbbcc", "--json"]).stderr).unwrap();
    assert_eq!(problem["candidates"].as_array().map(Vec::len), Some(2), "{problem}");
    assert_eq!(
        ask(&server, &["get", "b0000-0000-7000-8000-00aaaabbbbcc", "--json"]).json(0)["job_id"],
        ids[1]
    );
}
