//! Every route of a job's life, with the exact shape of what it answers.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Extend, NewJob, Note, Submit};
use forgerun_core::job::{Conflict, Head, Name, Unique};
use forgerun_core::work::{Definition, WorkKind};
use serde_json::{Value, json};

use super::http::shape;
use super::server::{Client, Server};

#[tokio::test]
async fn a_submission_is_answered_with_id_state_and_time_and_where_to_look() {
    let server = Server::start().await;
    let client = server.client().await;
    let answer = client.submit(json!({"type": "EXECUTE"})).await;
    let body = answer.expect(202);
    let expected = json!({"job_id": "<id>", "state": "QUEUED", "created_at": "<ms>", "simulated": true});
    assert_eq!(shape(body.clone()), expected);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let path = format!("/v1/jobs/{}", body["job_id"].as_str().unwrap());
    assert_eq!(answer.header("location"), Some(path.as_str()));
    assert_eq!(answer.header("link"), Some(format!("<{path}>; rel=\"status\"").as_str()));
    assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    client.get(&path).await.expect(200);
}

#[tokio::test]
async fn links_are_absolute_where_the_public_address_is_known() {
    let server = Server::with(&[("server.public_base_url", "https://jobs.example.org/forge/")]).await;
    let client = server.client().await;
    let answer = client.submit(json!({"type": "EXECUTE"})).await;
    let id = answer.expect(202)["job_id"].as_str().unwrap().to_owned();
    let expected = format!("https://jobs.example.org/forge/v1/jobs/{id}");
    assert_eq!(answer.header("location"), Some(expected.as_str()));
    let problem = client.get("/v1/jobs/none").await.refused(404, "RFA_JOB_NOT_FOUND");
    assert_eq!(problem["type"], "https://jobs.example.org/forge/problems/job-not-found");
}

#[tokio::test]
async fn each_type_is_accepted_and_echoed_in_its_canonical_spelling() {
    let server = Server::start().await;
    let client = server.client().await;
    let future = "2999-01-01T00:00:00Z";
    for (body, form, state, execution_at) in [
        (json!({"type": "EXECUTE"}), "EXECUTE", "QUEUED", Value::Null),
        (json!({"type": "execute"}), "EXECUTE", "QUEUED", Value::Null),
        (json!({"type": "DEFERRED", "execution_at": future}), "DEFERRED", "CREATED", json!("<ms>")),
        (json!({"type": "EMIT_EVENT"}), "EMIT_EVENT", "QUEUED", Value::Null),
        (json!({"type": "EMIT_EVENT", "execution_at": future}), "EMIT_EVENT", "CREATED", json!("<ms>")),
    ] {
        let id = client.job_like(body.clone()).await;
        let job = shape(client.get(&format!("/v1/jobs/{id}")).await.expect(200));
        assert_eq!((&job["type"], &job["state"]), (&json!(form), &json!(state)), "{body}");
        assert_eq!(job["execution_at"], execution_at, "{body}");
    }
}

#[tokio::test]
async fn a_job_shows_every_member_of_the_contract_and_its_definition() {
    let server = Server::start().await;
    let client = server.client().await;
    let body = json!({"type": "EXECUTE", "work_kind": "SUCCESS_NORMAL", "callback": "http://127.0.0.1:9/hook",
                      "queue": "slow", "priority": 3, "correlation_id": "order 66"});
    let id = client.job_like(body).await;
    let answer = client.get(&format!("/v1/jobs/{id}")).await;
    assert_eq!(
        shape(answer.expect(200)),
        json!({
            "job_id": "<id>", "type": "EXECUTE", "state": "QUEUED", "outcome": null, "created_at": "<ms>",
            "execution_at": null, "updated_at": "<ms>", "attempt": 1, "callback": "http://127.0.0.1:9/hook",
            "queue": "slow",
            "simulated": true,
            "definition": {"work_kind": "SUCCESS_NORMAL", "duration_ms": 10000, "should_fail": false,
                           "payload_size": 16},
            "jobId": "<id>", "jobStatus": "ACCEPTED", "submittedAt": "<ms>", "correlationId": "order66",
        })
    );
    assert!(answer.header("retry-after").is_some());
}

#[tokio::test]
async fn a_job_that_succeeds_shows_its_outcome_report_result_and_events() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.job().await;
    server.succeed().await;
    let answer = client.get(&format!("/v1/jobs/{id}")).await;
    let job = answer.expect(200);
    assert_eq!(
        (&job["state"], &job["outcome"], &job["jobStatus"]),
        (&json!("SUCCEEDED"), &json!("SUCCESS"), &json!("COMPLETED"))
    );
    assert!(job["completedAt"].is_string() && job.get("error").is_none(), "{job}");
    assert_eq!(answer.header("link"), Some(format!("</v1/jobs/{id}/result>; rel=\"related\"").as_str()));
    assert_eq!((answer.header("retry-after"), answer.header("problem")), (None, None));

    let path = format!("/v1/jobs/{id}/report");
    let report = client.get(&path).await;
    assert_eq!(report.body, client.get(&path).await.body, "a report does not change");
    let report = report.expect(200);
    let event = |name: &str, prev: Value, next: &str, cause: &str| {
        json!({"event_id": "<id>", "job_id": "<id>", "event_name": name, "prev_state": prev, "next_state": next,
               "timestamp": "<us>", "attempt": 1, "cause": cause, "scenario": "SUCCESS_FAST"})
    };
    let events = json!([
        event("job_created", Value::Null, "CREATED", "submit"),
        event("job_queued", json!("CREATED"), "QUEUED", "due"),
        event("job_assigned", json!("QUEUED"), "ASSIGNED", "claim"),
        event("job_started", json!("ASSIGNED"), "RUNNING", "start"),
        event("job_succeeded", json!("RUNNING"), "SUCCEEDED", "finish"),
    ]);
    let millis = |name: &str| forgerun_wire::time::parse(report[name].as_str().unwrap()).unwrap().unix_ms();
    assert_eq!(report["duration_ms"], millis("finished_at") - millis("started_at"));
    let mut shaped = shape(report);
    shaped["duration_ms"] = json!(0);
    assert_eq!(
        shaped,
        json!({"job_id": "<id>", "outcome": "SUCCESS", "events": events, "started_at": "<ms>",
               "finished_at": "<ms>", "duration_ms": 0, "attempts": 1})
    );

    let page = shape(client.get(&format!("/v1/jobs/{id}/events")).await.expect(200));
    assert_eq!(page, json!({"events": events, "next_cursor": null}));

    let result = client.get(&format!("/v1/jobs/{id}/result")).await;
    assert_eq!(result.expect(200), json!({"answer": 42}));
    assert_eq!(result.header("content-type"), Some("application/json"));
    assert_eq!(result.header("x-content-type-options"), Some("nosniff"));
}

#[tokio::test]
async fn events_come_in_pages_and_no_event_twice() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.job().await;
    server.succeed().await;
    let path = format!("/v1/jobs/{id}/events");
    let all = client.get(&path).await.expect(200)["events"].as_array().unwrap().clone();
    let mut paged = Vec::new();
    let mut next = format!("{path}?limit=2");
    loop {
        let page = client.get(&next).await.expect(200);
        paged.extend(page["events"].as_array().unwrap().clone());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        next = format!("{path}?limit=2&cursor={cursor}");
    }
    assert_eq!(paged, all);
    let triples: std::collections::BTreeSet<_> =
        all.iter().map(|event| (event["timestamp"].to_string(), event["event_name"].to_string())).collect();
    assert_eq!(triples.len(), all.len());
    client.get(&format!("{path}?cursor=nonsense")).await.refused(400, "RFA_REQUEST_MALFORMED");
}

#[tokio::test]
async fn a_job_that_fails_tells_why_in_every_form() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.job_like(json!({"type": "EXECUTE", "work_kind": "FAIL_AFTER_RETRYABLE"})).await;
    server.fail(Kind::HandlerTransient).await;
    let path = format!("/v1/jobs/{id}");
    let answer = client.get(&path).await;
    let job = shape(answer.expect(200));
    assert_eq!(
        (&job["state"], &job["outcome"], &job["jobStatus"]),
        (&json!("FAILED"), &json!("FAILED"), &json!("FAILED"))
    );
    assert_eq!(
        job["error"],
        json!({"type": "HandlerTransient", "message": "Job Failed Temporarily", "detail": "it went wrong",
               "errorCode": "HANDLER_ERROR", "retryable": true, "timestamp": "<ms>"})
    );
    assert_eq!((&job["retryable"], &job["retryAfter"]), (&json!(true), &json!(1)));
    assert_eq!(job["processingStage"], "processing");
    // The JSON form has the pace in the member only.
    assert_eq!(answer.header("retry-after"), None);
    let field = answer.header("problem").unwrap();
    for part in [
        "type=\"/problems/job-failed-transient\"",
        "code=\"RFA_EXEC_JOB_FAILED\"",
        "ojs_code=\"HANDLER_ERROR\"",
        "retryable",
        "job_status=\"FAILED\"",
    ] {
        assert!(field.contains(part), "{part} in {field}");
    }
    assert!(!field.contains("status=503"), "{field}");

    let problem = client.call("GET", &path).header("accept", "application/problem+json").send().await;
    let body = problem.expect(200);
    assert_eq!(problem.header("content-type"), Some("application/problem+json"));
    assert_eq!((&body["status"], &body["code"]), (&json!(503), &json!("RFA_EXEC_JOB_FAILED")));
    assert_eq!((&body["jobId"], &body["job_id"]), (&json!(id), &json!(id)));
    assert_eq!(problem.header("retry-after"), Some(body["retryAfter"].to_string().as_str()));
    let stored = server.app.engine.store().outcome(id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(problem.body, stored.object.bytes, "the stored bytes are served");
    use base64::Engine as _;
    let digest = base64::engine::general_purpose::STANDARD.encode(stored.object.digest);
    assert_eq!(problem.header("content-digest"), Some(format!("sha-256=:{digest}:").as_str()));

    let xml = client.call("GET", &path).header("accept", "application/problem+xml").send().await;
    assert_eq!((xml.status, xml.header("content-type")), (200, Some("application/problem+xml")));
    assert!(xml.text().contains("<jobStatus>FAILED</jobStatus>"), "{}", xml.text());
    assert_eq!(xml.header("retry-after"), Some("1"));

    client.get(&format!("{path}/result")).await.refused(409, "RFA_JOB_CONFLICT");
    assert_eq!(client.get(&format!("{path}/report")).await.expect(200)["outcome"], "FAILED");
}

#[tokio::test]
async fn the_problem_field_and_the_status_of_reports_can_be_configured() {
    for (status, expected) in [("omit", Value::Null), ("http", json!(200)), ("equivalent", json!(500))] {
        let settings = [("problem.header_field", "false"), ("problem.job_report_status", status)];
        let server = Server::with(&settings).await;
        let client = server.client().await;
        let path = format!("/v1/jobs/{}", client.job().await);
        server.fail(Kind::HandlerError).await;
        assert_eq!(client.get(&path).await.header("problem"), None);
        let problem = client.call("GET", &path).header("accept", "application/problem+json").send().await;
        assert_eq!(problem.expect(200)["status"], expected, "{status}");
        assert_eq!(problem.header("retry-after"), None, "not worth another try");
    }
}

#[tokio::test]
async fn failures_tell_whole_seconds_where_the_operator_wants_it() {
    for (coarse, has_fraction) in [("true", false), ("false", true)] {
        let server = Server::with(&[("problem.coarse_times", coarse)]).await;
        let client = server.client().await;
        let path = format!("/v1/jobs/{}", client.job().await);
        server.fail(Kind::HandlerError).await;
        for accept in ["application/problem+json", "application/problem+xml"] {
            let answer = client.call("GET", &path).header("accept", accept).send().await;
            let text = answer.text();
            let times: Vec<&str> = text
                .split(['"', '<', '>'])
                .filter(|part| part.ends_with('Z') && part.contains("T"))
                .collect();
            assert_eq!(times.len(), 3, "submittedAt, completedAt, timestamp: {text}");
            assert!(times.iter().all(|time| time.contains('.') == has_fraction), "{times:?}");
        }
    }
}

#[tokio::test]
async fn cancel_works_in_every_state_before_the_end_and_leaves_a_report() {
    let server = Server::start().await;
    let client = server.client().await;
    for state in ["CREATED", "QUEUED", "ASSIGNED", "RUNNING"] {
        let body = match state {
            "CREATED" => json!({"type": "DEFERRED", "execution_at": "2999-01-01T00:00:00Z"}),
            _ => json!({"type": "EXECUTE"}),
        };
        let path = format!("/v1/jobs/{}", client.job_like(body).await);
        match state {
            "ASSIGNED" => drop(server.claim(false).await),
            "RUNNING" => drop(server.claim(true).await),
            _ => {}
        }
        assert_eq!(client.get(&path).await.expect(200)["state"], state);
        let canceled = client.post(&format!("{path}/cancel")).await.expect(200);
        assert_eq!(
            shape(canceled),
            json!({"job_id": "<id>", "state": "CANCELED", "updated_at": "<ms>"}),
            "{state}"
        );
        let report = client.get(&format!("{path}/report")).await.expect(200);
        let last = report["events"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(
            (&report["outcome"], &last["event_name"], &last["prev_state"]),
            (&json!("CANCELED"), &json!("job_canceled"), &json!(state))
        );
        let job = client.get(&path).await.expect(200);
        assert_eq!(
            (&job["outcome"], &job["jobStatus"], &job["retryable"]),
            (&json!("CANCELED"), &json!("CANCELLED"), &json!(false))
        );
    }
}

#[tokio::test]
async fn cancel_on_a_job_that_has_ended_changes_nothing() {
    let server = Server::start().await;
    let client = server.client().await;
    for end in ["SUCCEEDED", "FAILED", "CANCELED"] {
        let path = format!("/v1/jobs/{}", client.job().await);
        match end {
            "SUCCEEDED" => drop(server.succeed().await),
            "FAILED" => drop(server.fail(Kind::HandlerError).await),
            _ => drop(client.post(&format!("{path}/cancel")).await.expect(200)),
        }
        let before = client.get(&format!("{path}/events")).await.body;
        let answer = client.call("POST", &format!("{path}/cancel")).json("{}").send().await.expect(200);
        assert_eq!(answer["state"], end);
        assert_eq!(client.get(&format!("{path}/events")).await.body, before);
    }
}

#[tokio::test]
async fn retry_reopens_a_failed_job_until_the_budget_is_spent() {
    let settings = [("retry.max", "2"), ("retry.base_ms", "0"), ("retry.max_ms", "0")];
    let server = Server::with(&settings).await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    for attempt in 2..=3 {
        server.fail(Kind::HandlerError).await;
        let retried = client.post(&format!("{path}/retry")).await.expect(200);
        assert_eq!(
            shape(retried),
            json!({"job_id": "<id>", "state": "QUEUED", "updated_at": "<ms>", "attempt": attempt})
        );
        let before = client.get(&format!("{path}/events")).await.body;
        let repeated = client.post(&format!("{path}/retry")).await.expect(200);
        assert_eq!((&repeated["state"], &repeated["attempt"]), (&json!("QUEUED"), &json!(attempt)));
        assert_eq!(client.get(&format!("{path}/events")).await.body, before);
        client.get(&format!("{path}/report")).await.refused(404, "RFA_JOB_NOT_FOUND");
    }
    server.fail(Kind::HandlerError).await;
    let last = client.get(&format!("{path}/events")).await.expect(200)["events"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!((&last["event_name"], &last["final"]), (&json!("job_failed"), &json!(true)));
    let refused = client.post(&format!("{path}/retry")).await.refused(409, "RFA_JOB_CONFLICT");
    assert_eq!(
        (&refused["type"], &refused["details"]["state"]),
        (&json!("/problems/retry-limit-reached"), &json!("FAILED"))
    );
    assert_eq!(client.get(&path).await.expect(200)["state"], "FAILED");
}

#[tokio::test]
async fn retry_of_a_job_that_has_not_failed_is_refused_with_its_state() {
    let server = Server::start().await;
    let client = server.client().await;
    for state in ["CREATED", "QUEUED", "SUCCEEDED", "CANCELED"] {
        let body = match state {
            "CREATED" => json!({"type": "DEFERRED", "execution_at": "2999-01-01T00:00:00Z"}),
            _ => json!({"type": "EXECUTE"}),
        };
        let path = format!("/v1/jobs/{}", client.job_like(body).await);
        match state {
            "SUCCEEDED" => drop(server.succeed().await),
            "CANCELED" => drop(client.post(&format!("{path}/cancel")).await.expect(200)),
            _ => {}
        }
        let before = client.get(&format!("{path}/events")).await.body;
        let refused = client.post(&format!("{path}/retry")).await.refused(409, "RFA_JOB_CONFLICT");
        assert_eq!(refused["details"]["state"], state);
        assert_eq!(client.get(&format!("{path}/events")).await.body, before);
        client.post(&format!("{path}/cancel")).await.expect(200);
    }
}

#[tokio::test]
async fn an_unfinished_job_has_no_report_and_no_result() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    for (path, status, slug, pause_s) in [
        (format!("{path}/report"), 404, "report-not-found", 2),
        (format!("{path}/result"), 409, "result-not-ready", 2),
        (format!("/api{path}/result"), 409, "result-not-ready", 5),
    ] {
        let answer = client.get(&path).await;
        let problem = answer.expect(status);
        assert_eq!(problem["type"], format!("/problems/{slug}"));
        // Asked again in a while, it will be answered otherwise (C-113).
        assert_eq!((&problem["retryable"], &problem["retryAfter"]), (&json!(true), &json!(pause_s)));
        assert_eq!(answer.header("retry-after"), Some(pause_s.to_string().as_str()));
    }
    server.fail(Kind::HandlerError).await;
    for path in [path.clone(), format!("/api{path}")] {
        let never = client.get(&format!("{path}/result")).await;
        assert_eq!((never.status, &never.json()["retryable"]), (409, &json!(false)));
        assert_eq!(never.header("retry-after"), None);
    }
}

#[tokio::test]
async fn a_failed_job_tells_how_many_retries_are_left() {
    let server = Server::with(&[("retry.max", "1")]).await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    let looks = async || {
        let forge = client.get(&path).await.expect(200)["retries_left"].clone();
        let call = client.call("GET", &format!("/api{path}")).header("accept", "application/json");
        (forge, call.send().await.json()["retriesLeft"].clone())
    };
    assert_eq!(looks().await, (json!(null), json!(null)), "it may yet end well");
    server.fail(Kind::HandlerTransient).await;
    assert_eq!(looks().await, (json!(1), json!(1)));
    let retried = client.post(&format!("{path}/retry")).await.expect(200);
    assert_eq!(retried["attempt"], 2);
    server.clock.advance(std::time::Duration::from_secs(60));
    server.fail(Kind::HandlerTransient).await;
    let job = client.get(&path).await.expect(200);
    assert_eq!(
        (&job["retries_left"], &job["retryable"]),
        (&json!(0), &json!(true)),
        "the work is worth it, the job is not"
    );
}

#[tokio::test]
async fn jobs_without_a_work_kind_get_one_by_the_configured_chance() {
    for (probability, should_fail) in [("0", false), ("1", true)] {
        let server = Server::with(&[("catalog.failure_probability", probability)]).await;
        let client = server.client().await;
        for _ in 0..10 {
            let id = client.job_like(json!({"type": "EXECUTE"})).await;
            let definition = client.get(&format!("/v1/jobs/{id}")).await.expect(200)["definition"].clone();
            assert_eq!(definition["should_fail"], should_fail, "{definition}");
            assert!(definition["work_kind"].is_string());
        }
    }
}

/// A job with a unique key, which no request of this dialect can ask for.
async fn unique_job(server: &Server, client: &Client) -> String {
    let now = server.app.clock.now();
    let unique =
        Unique { key: [7; 32], facets: Unique::UNFINISHED, until: None, on_conflict: Conflict::Reject };
    let definition = Some(Definition::of(WorkKind::SuccessFast, 125_000));
    let head = Head::new(client.id.parse().unwrap(), Name::new("default").unwrap(), now);
    let head = Arc::new(Head { unique: Some(unique), definition, ..head });
    let job = NewJob { id: server.app.engine.job_id(), id_given: false, head, input: Arc::default() };
    let submit = Submit { jobs: vec![job], idempotency: None, queue_max: None, refuse_paused: false };
    server.app.engine.submit(submit).await.unwrap().0[0].id.to_string()
}

#[tokio::test]
async fn a_retry_names_the_job_that_has_the_unique_key_by_now() {
    let server = Server::start().await;
    let client = server.client().await;
    let failed = unique_job(&server, &client).await;
    server.fail(Kind::HandlerError).await;
    let newer = unique_job(&server, &client).await;
    let problem = client.post(&format!("/v1/jobs/{failed}/retry")).await.refused(409, "RFA_JOB_CONFLICT");
    assert_eq!(problem["type"], "/problems/conflict");
    assert_eq!(problem["details"], json!({"existing_job_id": newer, "existing_state": "QUEUED"}));
    server.succeed().await;
    client.post(&format!("/v1/jobs/{failed}/retry")).await.expect(200);
}

#[tokio::test]
async fn that_its_runner_was_lost_is_the_reason_in_events_report_and_failure() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    server.claim(true).await;
    server.clock.advance(Duration::from_secs(60));
    server.app.engine.run(Command::Due(9)).await.unwrap();
    for list in ["events", "report"] {
        let told = client.get(&format!("{path}/{list}")).await.expect(200)["events"].clone();
        let last = told.as_array().unwrap().last().unwrap().clone();
        assert_eq!(
            (&last["cause"], &last["reason"]),
            (&json!("runner_lost"), &json!("runner_lost")),
            "{list}"
        );
        let with_reason = told.as_array().unwrap().iter().filter(|event| event["reason"].is_string());
        assert_eq!(with_reason.count(), 1, "{told}");
    }
    let failure = client.call("GET", &path).header("accept", "application/problem+json").send().await;
    assert_eq!(failure.expect(200)["reason"], "runner_lost");
}

#[tokio::test]
async fn what_succeeded_is_done_in_full_on_every_dialect() {
    let server = Server::start().await;
    let client = server.client().await;
    let job = client.job().await;
    let held = server.claim(true).await;
    let note = Some(Note::Progress { percent: 40, message: None });
    let extend = Extend { held: super::server::held(&held), lease: None, note };
    server.app.engine.act(Command::Extend(extend)).await.unwrap();
    let progress =
        async |path: &str| client.get(&format!("{path}/jobs/{job}")).await.json()["progress"].clone();
    for (dialect, some) in [("/v1", json!(40)), ("/api/v1", json!(40)), ("/ojs/v1", json!(0.4))] {
        assert_eq!(progress(dialect).await, some, "{dialect}");
    }
    server.succeed_held(&held).await;
    for (dialect, all) in [("/v1", json!(100)), ("/api/v1", json!(100)), ("/ojs/v1", json!(1.0))] {
        assert_eq!(progress(dialect).await, all, "{dialect}");
    }
}
