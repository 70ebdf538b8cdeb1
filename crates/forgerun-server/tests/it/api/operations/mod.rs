//! `/api/v1`, the async-operations dialect.

mod batches;
mod declared;
mod events;
mod executions;
mod flow;
mod forms;
mod refusals;
mod status;
mod submitting;

use serde_json::{Value, json};

use super::http::Answer;
use super::server::Client;

/// The body of a refusal, which must be a whole problem with the codes of this dialect.
#[track_caller]
pub(crate) fn denied(answer: &Answer, status: u16, ojs_code: &str) -> Value {
    let problem = answer.expect(status);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(
        (&problem["status"], &problem["code"], &problem["ojs_code"]),
        (&json!(status), &json!(ojs_code), &json!(ojs_code)),
        "{problem}"
    );
    assert!(problem["rfa_code"].as_str().unwrap().starts_with("RFA_"), "{problem}");
    for member in ["type", "title", "detail", "instance", "message", "doc_url"] {
        assert!(problem[member].is_string(), "{member} in {problem}");
    }
    let trace: Vec<&str> = problem["traceId"].as_str().unwrap().split('-').collect();
    assert_eq!(trace.iter().map(|part| part.len()).collect::<Vec<_>>(), [2, 32, 16, 2], "{problem}");
    problem
}

impl Client {
    /// Submits on `/api/v1/jobs`.
    pub(crate) async fn begin(&self, body: Value) -> Answer {
        self.call("POST", "/api/v1/jobs").json(body).send().await
    }

    /// Submits simulated work; its id.
    pub(crate) async fn begun(&self, work_kind: &str) -> String {
        let answer = self.begin(json!({"type": "test", "work_kind": work_kind})).await;
        answer.expect(202)["jobId"].as_str().unwrap().to_owned()
    }

    /// Looks at an execution, as a client of the pattern does: with `Accept: application/json`.
    pub(crate) async fn poll(&self, id: &str) -> Answer {
        self.call("GET", &format!("/api/v1/jobs/{id}")).header("accept", "application/json").send().await
    }
}

/// The names of the members.
fn members(body: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}
