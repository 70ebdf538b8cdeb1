//! Waiting for a result as a value.

use std::time::Duration;

use forgerun_client::Error;
use serde_json::{Value, json};

use crate::foreign::{Foreign, Hurried, Reply};

const MINUTE: Duration = Duration::from_secs(60);

fn job(state: &str, status: &str) -> Value {
    json!({"job_id": "7", "type": "EXECUTE", "state": state, "jobStatus": status, "created_at": "2026-01-01T00:00:00.000Z",
        "updated_at": "2026-01-01T00:00:00.000Z", "jobId": "7", "submittedAt": "2026-01-01T00:00:00.000Z", "attempt": 1,
        "queue": "default", "simulated": false})
}

/// What the job left.
#[derive(Clone, Copy)]
enum Left {
    Json(&'static str),
    Nothing,
}

/// A server whose job ends like this after `n_questions` that were held or not.
async fn server(
    n_questions: usize,
    held: bool,
    state: &'static str,
    status: &'static str,
    result: Left,
) -> Foreign {
    Foreign::start(move |request, n| {
        let wants_problem = request.header("accept").is_some_and(|accept| accept.contains("problem"));
        match request.path.as_str() {
            "/v1/jobs/7/result" => match result {
                Left::Json(text) => Reply::new(200, &[("content-type", "application/json")], text.as_bytes()),
                Left::Nothing => {
                    let problem = json!({"type": "/problems/result-not-found", "code": "RFA_JOB_NOT_FOUND"});
                    Reply::new(
                        404,
                        &[("content-type", "application/problem+json")],
                        problem.to_string().as_bytes(),
                    )
                }
            },
            _ if wants_problem => {
                let problem =
                    json!({"code": "RFA_EXEC_TIMEOUT", "ojs_code": "HANDLER_TIMEOUT", "message": "too slow"});
                Reply::new(
                    200,
                    &[("content-type", "application/problem+json")],
                    problem.to_string().as_bytes(),
                )
            }
            _ if n < n_questions => {
                let applied: &[(&str, &str)] = if held { &[("preference-applied", "wait=30")] } else { &[] };
                Reply::json(200, applied, job("RUNNING", "PROCESSING"))
            }
            _ => Reply::json(200, &[], job(state, status)),
        }
    })
    .await
}

#[tokio::test]
async fn a_server_that_holds_the_question_is_not_waited_for_besides() {
    let server = server(2, true, "SUCCEEDED", "COMPLETED", Left::Json(r#"{"pages":3}"#)).await;
    let clock = Hurried::new();
    let result: Value = server.client(&clock).forge().outcome("7", MINUTE).await.unwrap();
    assert_eq!(result, json!({"pages": 3}));
    assert_eq!(clock.waits_ms(), [0_u128; 0]);
    let asked = server.requests();
    assert_eq!(asked[0].header("prefer"), Some("wait=30"));
    assert_eq!(asked.len(), 4, "three questions and the result");
}

#[tokio::test]
async fn a_server_that_does_not_is_asked_by_the_schedule_until_the_time_is_over() {
    let server = server(99, false, "SUCCEEDED", "COMPLETED", Left::Nothing).await;
    let clock = Hurried::new();
    let error =
        server.client(&clock).forge().outcome::<Value>("7", Duration::from_secs(20)).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { ref job_id, .. } if job_id == "7"), "{error}");
    assert_eq!(clock.waits_s(), [2, 4, 8]);
    assert_eq!(server.requests()[3].header("prefer"), Some("wait=6"), "no longer than what is left");
}

#[tokio::test]
async fn a_job_that_left_nothing_has_null_as_its_result() {
    let server = server(0, true, "SUCCEEDED", "COMPLETED", Left::Nothing).await;
    let client = server.client(&Hurried::new());
    assert_eq!(client.forge().outcome::<Option<u8>>("7", MINUTE).await.unwrap(), None);
    let error = client.forge().outcome::<u8>("7", MINUTE).await.unwrap_err();
    assert!(matches!(error, Error::Protocol(_)), "{error}");
}

#[tokio::test]
async fn a_job_that_failed_is_an_error_of_execution_with_its_class() {
    let server = server(0, true, "FAILED", "FAILED", Left::Nothing).await;
    let error = server.client(&Hurried::new()).forge().outcome::<Value>("7", MINUTE).await.unwrap_err();
    let Error::Execution(failure) = &error else { panic!("{error:?}") };
    assert_eq!((failure.class(), failure.message.as_str()), ("JobTimedOut", "too slow"));
}
