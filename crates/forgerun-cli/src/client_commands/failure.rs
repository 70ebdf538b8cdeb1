//! Explains a failure: what happened, whether and when a retry makes sense, and where to read more.

use forgerun_problem::Problem;
use serde_json::Value;
use url::Url;

use crate::terminal::clean;

/// A failed job in a few lines.
pub(super) fn explain(job: &Value, problem: &Problem, base: &Url) -> String {
    let job_id = job["job_id"].as_str().unwrap_or_default();
    let spent = job["retries_left"] == 0;
    let extension = |name: &str| problem.extensions().get(name).and_then(Value::as_str);
    let status = problem.job().status().map_or("FAILED", |status| status.as_str());
    let title = problem.title().unwrap_or("The job ended badly");
    let code = extension("code").map(|code| format!(" ({code})")).unwrap_or_default();
    let mut text = format!("{}\n", clean(&format!("{status}: {title}{code}")));
    let details = [problem.detail(), extension("message")];
    let mut said: Vec<&str> = details.into_iter().flatten().filter(|detail| *detail != title).collect();
    said.dedup();
    for line in said.iter().flat_map(|detail| detail.lines()) {
        text += &format!("  {}\n", clean(line));
    }
    text += &match (problem.job().retryable(), problem.job().retry_after_s()) {
        (Some(true), _) if spent => {
            "  Worth another try, but its retries are used up: submit it again.\n".to_owned()
        }
        (Some(true), Some(after)) => {
            format!("  Worth another try, in {after} s: forgerun retry {job_id}\n")
        }
        (Some(true), None) => format!("  Worth another try: forgerun retry {job_id}\n"),
        (Some(false), _) | (None, _) if status == "CANCELLED" => String::new(),
        (Some(false), _) | (None, _) => "  Another try would most likely fail in the same way.\n".to_owned(),
    };
    if let Ok(page) = base.join(problem.type_uri())
        && matches!(page.scheme(), "http" | "https")
    {
        text += &format!("  About it: {page}\n");
    }
    text
}

/// The `error` of a job in one line.
pub(super) fn one_line(error: &Value) -> String {
    let text = |name: &str| error[name].as_str().unwrap_or_default();
    let (message, detail) = (text("message"), text("detail"));
    let said = if detail.is_empty() || detail == message {
        message.to_owned()
    } else {
        format!("{message}: {detail}")
    };
    clean(&format!("{said} ({})", text("errorCode")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(body: &str) -> String {
        let problem = serde_json::from_str(body).unwrap();
        explain(&serde_json::json!({"job_id": "7"}), &problem, &Url::parse("http://a:8080/").unwrap())
    }

    #[test]
    fn a_failure_says_what_happened_whether_to_try_again_and_where_to_read() {
        let text = explained(
            r#"{"type":"/problems/job-failed-transient","title":"Job Failed Temporarily","status":503,"detail":"no paper",
                "code":"RFA_EXEC_JOB_FAILED","message":"no paper","jobStatus":"FAILED","retryable":true,"retryAfter":5}"#,
        );
        assert_eq!(
            text,
            "FAILED: Job Failed Temporarily (RFA_EXEC_JOB_FAILED)\n  no paper\n  Worth another try, in 5 s: forgerun retry 7\n  \
             About it: http://a:8080/problems/job-failed-transient\n"
        );
    }

    #[test]
    fn a_job_without_retries_is_not_to_be_retried() {
        let problem =
            serde_json::from_str(r#"{"jobStatus":"FAILED","retryable":true,"retryAfter":5}"#).unwrap();
        let job = serde_json::json!({"job_id": "7", "retries_left": 0});
        let text = explain(&job, &problem, &Url::parse("http://a/").unwrap());
        assert!(text.contains("submit it again") && !text.contains("forgerun retry"), "{text}");
    }

    #[test]
    fn what_will_fail_again_is_said_to() {
        let text =
            explained(r#"{"title":"X","jobStatus":"FAILED","retryable":false,"detail":"a\u001b[2Jb"}"#);
        assert_eq!(text, "FAILED: X\n  a [2Jb\n  Another try would most likely fail in the same way.\n");
        assert_eq!(
            explained(r#"{"title":"Job Cancelled","jobStatus":"CANCELLED"}"#),
            "CANCELLED: Job Cancelled\n"
        );
    }
}
