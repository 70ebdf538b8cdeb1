//! What `/metrics` tells after a few jobs: the names of the specification, and numbers that fit
//! what happened.

use std::io::{Read, Write};

use crate::process::{Server, forgerun};

fn post(server: &Server, path: &str, body: &str) -> String {
    let mut connection = server.connect();
    let length = body.len();
    write!(
        connection,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

/// Submits a job and waits for its end.
fn whole_job(server: &Server, kind: &str) -> String {
    let answer = post(server, "/v1/jobs", &format!("{{\"type\":\"EXECUTE\",\"work_kind\":\"{kind}\"}}"));
    let id = answer.split("\"job_id\":\"").nth(1).unwrap()[..36].to_owned();
    let mut connection = server.connect();
    let request = format!(
        "GET /v1/jobs/{id} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nprefer: wait=30\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(!answer.contains("\"outcome\":null"), "{answer}");
    id
}

/// The sum of a metric over its labels.
fn sum(text: &str, name: &str) -> f64 {
    let lines = text.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
    });
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[test]
fn metrics_have_the_names_of_the_specification_and_fit_what_happened() {
    let server = Server::start(
        forgerun(&["dev", "--listen", "127.0.0.1:0"])
            .env("FORGERUN_SIM__TIME_SCALE", "0")
            .env("FORGERUN_LOG__LEVEL", "error"),
    );
    let ids = [
        whole_job(&server, "SUCCESS_FAST"),
        whole_job(&server, "FAIL_IMMEDIATE"),
        whole_job(&server, "RUNS_OVER_TIMEOUT"),
    ];
    post(&server, &format!("/v1/jobs/{}/retry", ids[1]), "");
    let text = server.get("/metrics");
    let expected = [
        ("jobs_submitted_total", 3.0),
        ("jobs_queued_total", 4.0),
        ("jobs_succeeded_total", 1.0),
        ("jobs_timed_out_total", 1.0),
        ("jobs_canceled_total", 0.0),
        ("job_retries_total", 1.0),
    ];
    for (name, value) in expected {
        assert_eq!(sum(&text, name), value, "{name} in {text}");
    }
    for name in ["jobs_running_total", "jobs_failed_total", "job_queue_wait_seconds_count"] {
        assert!(sum(&text, name) >= 2.0, "{name} in {text}");
    }
    for name in ["job_execution_seconds_count", "commit_seconds_count", "commit_commands_count"] {
        assert!(sum(&text, name) >= 3.0, "{name} in {text}");
    }
    assert!(sum(&text, "http_request_seconds_count") >= 6.0, "{text}");
    for name in ["job_queue_depth", "jobs_active", "worker_places", "worker_busy"] {
        assert!(text.contains(&format!("\n{name} ")), "{name} in {text}");
    }
    assert!(text.contains("scenario=\"SUCCESS_FAST\""), "{text}");
    let pair = "queue=\"default\",type=\"EXECUTE\"";
    for line in [
        "forgerun_queue_jobs{queue=\"default\",state=\"SUCCEEDED\"} 1".to_owned(),
        "forgerun_queue_unattended{queue=\"default\"} 0".to_owned(),
        format!("forgerun_jobs_ended_total{{{pair},outcome=\"SUCCESS\"}} 1"),
        format!("forgerun_jobs_ended_total{{{pair},outcome=\"CANCELED\"}} 0"),
        format!("forgerun_job_retries_total{{{pair}}} 1"),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    for name in ["forgerun_job_wait_seconds_count", "forgerun_job_run_seconds_count"] {
        assert!(sum(&text, name) >= 3.0, "{name} in {text}");
    }
    for id in &ids {
        assert!(!text.contains(id.as_str()), "no label names a job");
    }
}
