//! Makes the report of a failed job and prints it in every form.
//!
//! `cargo run -p forgerun-problem --example make`

use forgerun_problem::{
    CorrelationId, FIELD_NAME, FieldType, FieldWriter, Job, JobStatus, Problem, Timestamp,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job = Job::builder()
        .id("0198c0de-7e57-7000-8000-000000000001")
        .status(JobStatus::TimedOut)
        .submitted_at(Timestamp::parse("2026-02-26T09:00:00Z")?)
        .completed_at(Timestamp::parse("2026-02-26T09:05:00Z")?)
        .retryable(true)
        .retry_after_s(60)
        .processing_stage("processing")
        .correlation_id(CorrelationId::sanitize("monthly report\r\n2026-02"));
    let problem = Problem::builder("https://api.example.com/problems/job-timed-out")
        .title("Job Timed Out")
        .status(504)
        .detail("The job ran longer than the 300 s it was given.")
        .instance("/jobs/0198c0de-7e57-7000-8000-000000000001")
        .job(job)
        .extension("code", "HANDLER_TIMEOUT")
        .build()?;

    println!("JSON       {}\n", problem.to_json());
    println!("canonical  {}\n", problem.to_canonical_json());
    println!("SHA-256    {}\n", problem.digest());
    println!("XML        {}\n", problem.to_xml());
    let writer = FieldWriter::new(200).job_members().extension("code", FieldType::String);
    println!("{FIELD_NAME}: {}", writer.write(&problem).unwrap_or_default());
    Ok(())
}
