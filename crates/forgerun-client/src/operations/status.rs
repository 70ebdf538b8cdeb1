//! Where an operation stands, as any server of the pattern says it.

use forgerun_problem::read::Reader;
use forgerun_problem::{JobStatus, Problem};
use serde_json::{Map, Value};

use crate::client::read;
use crate::codes::Report;
use crate::error::{ApiError, Error};

/// The words of the pattern. They are compared without regard to case, and both spellings of *cancelled* are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OperationStatus {
    /// Waits.
    #[default]
    Queued,
    /// Is being done.
    Running,
    /// Done.
    Completed,
    /// Failed.
    Failed,
    /// Called off.
    Cancelled,
    /// A batch of which some items failed.
    PartiallyCompleted,
    /// A word that only some servers have. Not an end.
    Other(String),
}

impl OperationStatus {
    /// Reads a word.
    pub fn new(word: &str) -> OperationStatus {
        match word.to_ascii_lowercase().as_str() {
            "queued" => OperationStatus::Queued,
            "running" => OperationStatus::Running,
            "completed" => OperationStatus::Completed,
            "failed" => OperationStatus::Failed,
            "cancelled" | "canceled" => OperationStatus::Cancelled,
            "partiallycompleted" => OperationStatus::PartiallyCompleted,
            _ => OperationStatus::Other(word.to_owned()),
        }
    }

    fn of_job_status(status: &JobStatus) -> OperationStatus {
        match status {
            JobStatus::Accepted => OperationStatus::Queued,
            JobStatus::Processing => OperationStatus::Running,
            JobStatus::Completed => OperationStatus::Completed,
            JobStatus::Failed | JobStatus::TimedOut => OperationStatus::Failed,
            JobStatus::Cancelled => OperationStatus::Cancelled,
            JobStatus::CompletedWithErrors => OperationStatus::PartiallyCompleted,
            JobStatus::Other(_) => OperationStatus::Other(status.as_str().to_owned()),
        }
    }

    /// Whether the job has ended.
    pub fn is_terminal(&self) -> bool {
        match self {
            OperationStatus::Completed
            | OperationStatus::Failed
            | OperationStatus::Cancelled
            | OperationStatus::PartiallyCompleted => true,
            OperationStatus::Queued | OperationStatus::Running | OperationStatus::Other(_) => false,
        }
    }
}

/// A job as its status shows it.
#[derive(Clone, Debug, Default)]
pub struct Operation {
    /// Which job; opaque.
    pub job_id: String,
    /// Where it stands.
    pub status: OperationStatus,
    /// Percent done.
    pub progress: Option<f64>,
    /// What the worker says about it.
    pub message: Option<String>,
    /// Where what it left is.
    pub result_url: Option<String>,
    /// Why it failed.
    pub error: Option<Box<ApiError>>,
    /// All that the server said.
    pub members: Map<String, Value>,
}

impl Operation {
    /// Reads a status: the JSON of the pattern, or the problem object of a job that failed. A 200 with a problem in it is a
    /// report that was fetched, not a request that failed.
    pub(crate) fn read(body: &[u8]) -> Result<Operation, Error> {
        let members: Map<String, Value> = read(body)?;
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        let problem = Reader::new().json(body).map(|reading| reading.problem).unwrap_or_default();
        let status = match (text("status"), problem.job().status()) {
            (Some(word), _) => OperationStatus::new(word),
            (None, Some(status)) => OperationStatus::of_job_status(status),
            (None, None) => return Err(Error::Protocol("the status of a job names no status".to_owned())),
        };
        let failed = matches!(status, OperationStatus::Failed | OperationStatus::PartiallyCompleted);
        let id = text("jobId").or(text("id")).or(text("job_id"));
        Ok(Operation {
            job_id: id.unwrap_or_default().to_owned(),
            progress: members.get("progress").and_then(Value::as_f64),
            message: text("message").map(str::to_owned),
            result_url: text("resultUrl").map(str::to_owned),
            error: failed.then(|| Box::new(failure(&members, problem))),
            status,
            members,
        })
    }
}

fn failure(members: &Map<String, Value>, problem: Problem) -> ApiError {
    let report = Report::from_json(&Value::Object(members.clone()));
    let retry_after = report.retry_after;
    ApiError { problem, retry_after, ..ApiError::of_report(report, None) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Operation {
        Operation::read(body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_least_that_a_server_may_say_is_enough() {
        let operation = read(&json!({"status": "Running"}));
        assert_eq!(
            (operation.status, operation.progress, operation.result_url),
            (OperationStatus::Running, None, None)
        );
    }

    #[test]
    fn words_are_read_in_any_case_and_unknown_ones_are_no_end() {
        for (word, terminal) in [
            ("Queued", false),
            ("RUNNING", false),
            ("Validating", false),
            ("Completed", true),
            ("failed", true),
            ("Canceled", true),
            ("Cancelled", true),
            ("PartiallyCompleted", true),
        ] {
            assert_eq!(OperationStatus::new(word).is_terminal(), terminal, "{word}");
        }
    }

    #[test]
    fn a_fetched_failure_report_is_a_status_too() {
        let report = json!({"type": "https://a.example/p", "status": 504, "jobId": "7", "jobStatus": "TIMED_OUT",
            "code": "HANDLER_TIMEOUT", "message": "too slow", "retryable": true, "retryAfter": 5});
        let operation = read(&report);
        assert_eq!((operation.job_id.as_str(), &operation.status), ("7", &OperationStatus::Failed));
        let error = operation.error.unwrap();
        assert_eq!((error.code.as_str(), error.retryable), ("HANDLER_TIMEOUT", true));
        assert_eq!(error.problem.type_uri(), "https://a.example/p");
    }

    #[test]
    fn the_error_of_the_pattern_is_read() {
        let operation = read(&json!({"jobId": "7", "status": "Failed",
            "error": {"type": "X", "message": "broken", "errorCode": "HANDLER_ERROR", "retryable": false}}));
        let error = operation.error.unwrap();
        assert_eq!(
            (error.message.as_str(), error.canonical.as_deref(), error.retryable),
            ("broken", Some("HANDLER_ERROR"), false)
        );
    }

    #[test]
    fn what_says_no_status_is_not_understood() {
        for body in ["{}", "[]", "<html>", r#"{"status":500}"#] {
            assert!(matches!(Operation::read(body.as_bytes()), Err(Error::Protocol(_))), "{body}");
        }
    }
}
