//! Objects shared by tests and benchmarks.

use forgerun_problem::{CorrelationId, Job, JobStatus, Problem, Timestamp};
use serde_json::json;

/// A failure as a job server would store it: every standard and job member but `results`, and some
/// extensions.
pub(crate) fn full_failure() -> Problem {
    let id = "0198c0de-7e57-7000-8000-000000000001";
    let job = Job::builder()
        .id(id)
        .status(JobStatus::Failed)
        .submitted_at(Timestamp::parse("2026-02-26T18:00:00.000Z").unwrap())
        .completed_at(Timestamp::parse("2026-02-26T18:00:01.250Z").unwrap())
        .retryable(true)
        .retry_after_s(60)
        .processing_stage("processing")
        .correlation_id(CorrelationId::sanitize("4bf92f3577b34da6a3ce929d0e0e4736"));
    Problem::builder("https://jobs.example.com/problems/downstream-unavailable")
        .title("Downstream Service Temporarily Unavailable")
        .status(503)
        .detail("The data warehouse has no free connections; it is expected to recover within 60 seconds.")
        .instance(format!("https://jobs.example.com/v1/jobs/{id}"))
        .job(job)
        .extension("code", "BACKEND_UNAVAILABLE")
        .extension("message", "data warehouse unavailable")
        .extension("job_id", id)
        .extension("attempt", 4)
        .extension("details", json!({"queue": "reports", "limit": 16, "share": 0.75}))
        .build()
        .unwrap()
}
