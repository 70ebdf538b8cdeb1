//! Which form a status comes in, for every dialect, every way to end, and every `Accept` (C-08).

use forgerun_core::catalog::Kind;
use forgerun_problem::check::{Carrier, Level, inspect_on};
use serde_json::json;

use super::denied;
use crate::api::server::Server;

const JSON: &str = "json";
const PROBLEM: &str = "application/problem+json";
const XML: &str = "application/problem+xml";
const OJS: &str = "application/openjobspec+json";
const REFUSED: &str = "406";

/// `Accept`, and what an execution that ended badly comes as on `/v1` and `/ojs/v1`, and on
/// `/api/v1`. The empty one is not sent.
const ACCEPTS: &[(&str, &str, &str)] = &[
    ("", JSON, PROBLEM),
    ("*/*", JSON, PROBLEM),
    ("application/*", JSON, PROBLEM),
    ("text/html, */*;q=0.1", JSON, PROBLEM),
    ("application/json", JSON, JSON),
    ("application/json; charset=utf-8", JSON, JSON),
    ("APPLICATION/JSON", JSON, JSON),
    ("application/json, */*", JSON, JSON),
    ("application/problem+json", PROBLEM, PROBLEM),
    ("application/problem+xml", XML, XML),
    ("application/problem+json, application/json", PROBLEM, PROBLEM),
    ("application/json, application/problem+json", JSON, JSON),
    ("application/json;q=0.5, application/problem+json", PROBLEM, PROBLEM),
    ("application/problem+xml;q=0.9, application/json;q=0.1", XML, XML),
    ("application/problem+json;q=0, */*", JSON, JSON),
    ("application/problem+json;q=0, application/problem+xml", XML, XML),
    ("text/html", REFUSED, REFUSED),
    ("application/xml", REFUSED, REFUSED),
    ("application/json;q=0", REFUSED, REFUSED),
    ("*/*;q=0", REFUSED, REFUSED),
];

#[tokio::test]
async fn every_accept_gets_its_form_of_every_end_in_every_dialect() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut ended = Vec::new();
    for end in ["live", "completed", "failed", "timed out", "cancelled"] {
        let id = client.begun("SUCCESS_FAST").await;
        match end {
            "completed" => drop(server.succeed().await),
            "failed" => drop(server.fail(Kind::HandlerError).await),
            "timed out" => {
                // Automatic retries would go on.
                let job = server.claim(true).await;
                client.call("DELETE", &format!("/api/v1/jobs/{id}")).send().await.expect(200);
                assert_eq!(job.id.to_string(), id);
                let body = json!({"type": "a", "work_kind": "RUNS_OVER_TIMEOUT", "maxRetries": 0});
                let id = client.begin(body).await.expect(202)["jobId"].as_str().unwrap().to_owned();
                server.fail(Kind::HandlerTimeout).await;
                ended.push((end, id));
                continue;
            }
            "cancelled" => {
                drop(client.call("DELETE", &format!("/api/v1/jobs/{id}")).send().await.expect(200))
            }
            _ => drop(server.claim(true).await),
        }
        ended.push((end, id));
    }
    for (end, id) in &ended {
        let badly = !matches!(*end, "live" | "completed");
        for (accept, on_v1, on_api) in ACCEPTS {
            for (path, expected) in [
                (format!("/v1/jobs/{id}"), on_v1),
                (format!("/api/v1/jobs/{id}"), on_api),
                (format!("/ojs/v1/jobs/{id}"), on_v1),
            ] {
                let call = client.call("GET", &path);
                let call = if accept.is_empty() { call } else { call.header("accept", accept) };
                let answer = call.send().await;
                let what = format!("{end} {path} with {accept:?}");
                if *expected == REFUSED {
                    assert_eq!(answer.status, 406, "{what}");
                    continue;
                }
                let takes_ojs = accept.is_empty() || accept.contains('*');
                let json_type = match path.split('/').nth(1) {
                    Some("api") => "application/json; charset=utf-8",
                    Some("ojs") if takes_ojs || !accept.to_lowercase().contains("/json") => OJS,
                    _ => "application/json",
                };
                let form = if badly { *expected } else { JSON };
                let content_type = if form == JSON { json_type } else { form };
                assert_eq!(answer.header("content-type"), Some(content_type), "{what}");
                assert_eq!(answer.header("vary"), Some("Accept"), "{what}");
                let live = *end == "live" && path.starts_with("/api");
                assert_eq!(answer.status, if live { 202 } else { 200 }, "{what}");
                let has_field = badly && form == JSON && !path.starts_with("/ojs");
                assert_eq!(answer.header("problem").is_some(), has_field, "{what}");
                assert_eq!(answer.header("content-digest").is_some(), form == PROBLEM, "{what}");
            }
        }
    }
}

/// C-48: a problem is a success representation of a job that ended badly, and of no other.
#[tokio::test]
async fn who_takes_anything_but_json_gets_the_failure_of_a_job_and_nothing_of_one_that_has_none() {
    let server = Server::start().await;
    let client = server.client().await;
    let failed = client.begun("SUCCESS_FAST").await;
    server.fail(Kind::HandlerError).await;
    let live = client.begun("SUCCESS_FAST").await;
    let no_json = "application/json;q=0, application/openjobspec+json;q=0";
    for dialect in ["/v1", "/api/v1", "/ojs/v1"] {
        for (accept, form) in [
            (format!("{no_json}, */*"), PROBLEM),
            (format!("{no_json}, application/*;q=0.1"), PROBLEM),
            (format!("{no_json}, application/problem+json;q=0, */*"), XML),
        ] {
            let get = async |id: &str| {
                let path = format!("{dialect}/jobs/{id}");
                client.call("GET", &path).header("accept", &accept).send().await
            };
            let answer = get(&failed).await;
            let what = format!("{dialect} {accept}");
            assert_eq!((answer.status, answer.header("content-type")), (200, Some(form)), "{what}");
            assert_eq!(get(&live).await.status, 406, "{what}");
        }
    }
    let both = format!("{OJS}, {PROBLEM}");
    let answer = client.call("GET", &format!("/ojs/v1/jobs/{failed}")).header("accept", &both).send().await;
    assert_eq!(answer.header("content-type"), Some(OJS), "the first that is named");
}

/// AJ §11.1, §11.2 and the cancelled form of it: the report of a failed execution, with our ids and
/// times.
#[tokio::test]
async fn the_reports_of_the_async_draft_come_to_whoever_asks_for_nothing_else() {
    let server = Server::with(&[("server.public_base_url", "https://api.example.com")]).await;
    let client = server.client().await;
    for (kind, slug, title, status, job_status, retryable) in [
        (Some(Kind::HandlerError), "job-failed", "Job Failed", 500, "FAILED", false),
        (Some(Kind::HandlerTimeout), "job-timed-out", "Job Processing Timed Out", 504, "TIMED_OUT", true),
        (None, "job-cancelled", "Job Cancelled", 409, "CANCELLED", false),
    ] {
        let body = json!({"type": "document", "work_kind": "SUCCESS_FAST", "maxRetries": 0});
        let call = client.call("POST", "/api/v1/jobs").header("x-correlation-id", "corr-abc-123").json(body);
        let id = call.send().await.expect(202)["jobId"].as_str().unwrap().to_owned();
        let path = format!("/api/v1/jobs/{id}");
        match kind {
            Some(kind) => drop(server.fail(kind).await),
            None => drop(client.call("DELETE", &path).send().await.expect(200)),
        }
        let answer = client.get(&path).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(PROBLEM)));
        let problem = answer.json();
        assert_eq!(problem["type"], format!("https://api.example.com/problems/{slug}"));
        assert_eq!((&problem["title"], &problem["status"]), (&json!(title), &json!(status)));
        assert_eq!(problem["instance"], format!("https://api.example.com{path}"));
        assert_eq!((&problem["jobId"], &problem["jobStatus"]), (&json!(id), &json!(job_status)));
        assert!(problem["submittedAt"].as_str().unwrap() <= problem["completedAt"].as_str().unwrap());
        assert_eq!(
            (&problem["retryable"], &problem["correlationId"]),
            (&json!(retryable), &json!("corr-abc-123"))
        );
        assert_eq!(problem["retryAfter"].is_u64(), retryable, "{problem}");
        let header = answer.header("retry-after").map(str::to_owned);
        assert_eq!(header, retryable.then(|| problem["retryAfter"].to_string()), "the header agrees");
        assert!(!problem["detail"].as_str().unwrap().is_empty());
        let report = inspect_on(problem.as_object().unwrap(), Carrier::Report);
        assert_eq!((report.level, report.findings), (Level::Full, vec![]));
    }
}

/// AJ §11.7: a success is plain JSON with the members, and no problem.
#[tokio::test]
async fn a_success_carries_the_job_members_and_none_of_a_problem() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.begun("SUCCESS_FAST").await;
    server.succeed().await;
    let answer = client.get(&format!("/api/v1/jobs/{id}")).await;
    let seen = answer.expect(200);
    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!((&seen["jobId"], &seen["jobStatus"]), (&json!(id), &json!("COMPLETED")));
    assert!(seen["submittedAt"].is_string() && seen["completedAt"].is_string());
    for member in ["title", "detail", "instance", "retryable", "processingStage"] {
        assert!(seen.get(member).is_none(), "{member} in {seen}");
    }
    let xml =
        client.call("GET", &format!("/api/v1/jobs/{id}")).header("accept", "application/xml").send().await;
    assert_eq!((xml.status, xml.header("content-type")), (406, Some(XML)));
    let refused =
        client.call("GET", &format!("/api/v1/jobs/{id}")).header("accept", "image/png").send().await;
    denied(&refused, 406, "RFA_REQUEST_NOT_ACCEPTABLE");
}
