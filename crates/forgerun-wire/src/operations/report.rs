//! The small document that a simulated operation leaves: what the pattern's own example shows.

use forgerun_core::command::Output;
use forgerun_core::job::Job;
use forgerun_core::time::Time;
use serde_json::json;

use crate::time;

/// What a job that was submitted as an operation leaves at this moment; `None` for any other, which leaves what its kind of work
/// says, and for an operation whose result has a size of its own.
pub fn report(job: &Job, now: Time) -> Option<Output> {
    let operation = job.head.operation.as_deref()?;
    job.head.definition.filter(|definition| definition.payload_kb == 0)?;
    // Numbers that follow from the job, so that its result is the same however often it is made.
    let seed = job.id.as_u128() as u64;
    let document = json!({
        "reportId": job.execution.to_string(),
        "type": job.head.job_type,
        "generatedAt": time::millis(now),
        "data": {
            "summary": format!("A simulated result of {operation}."),
            "metrics": {"records": seed % 10_000, "pages": seed / 10_000 % 40 + 1},
        },
    });
    Some(Output::inline("application/json", document.to_string()))
}

#[cfg(test)]
mod tests {
    use forgerun_core::command::Content;
    use std::sync::Arc;

    use forgerun_core::id::{ClientId, JobId};
    use forgerun_core::job::{Head, Name};
    use forgerun_core::work::{Definition, WorkKind};
    use serde_json::Value;

    use super::*;

    fn job(operation: Option<&str>, payload_kb: u16) -> Job {
        let definition = Definition { payload_kb, ..Definition::of(WorkKind::SuccessNormal, 125_000) };
        let head = Head {
            operation: operation.map(Into::into),
            job_type: "market \"analysis\"".into(),
            definition: Some(definition),
            ..Head::new(ClientId::from_u128(1), Name::new("a").unwrap(), Time::ZERO)
        };
        let body = Job::decode(JobId::v7(1, 7), Arc::new(head), &[]);
        body.unwrap()
    }

    #[test]
    fn a_simulated_operation_leaves_a_document_and_other_work_does_not() {
        let output = report(&job(Some("reports/generate"), 0), Time::from_millis(1_700_000_000_000)).unwrap();
        let Content::Inline(bytes) = output.content else { panic!("it is small") };
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(document["reportId"], JobId::v7(1, 7).to_string());
        assert_eq!(document["type"], "market \"analysis\"");
        assert_eq!(document["generatedAt"], "2023-11-14T22:13:20.000Z");
        assert!(document["data"]["summary"].is_string());
        assert_eq!(report(&job(None, 0), Time::ZERO), None);
        assert_eq!(report(&job(Some("reports/generate"), 8), Time::ZERO), None, "it has a size of its own");
    }
}
