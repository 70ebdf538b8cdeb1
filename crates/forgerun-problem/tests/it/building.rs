//! What can be built, and what can not.

use forgerun_problem::limits::DEPTH_MAX;
use forgerun_problem::{
    BuildError, CorrelationId, ExtensionError, ItemOutcome, ItemStatus, JOB_NAMES, Job, JobError, JobStatus,
    Problem, STANDARD_NAMES, StatusError, Timestamp, UriError,
};
use serde_json::{Value, json};

#[test]
fn an_extension_can_not_shadow_a_defined_member() {
    for name in STANDARD_NAMES.into_iter().chain(JOB_NAMES) {
        let refused = Problem::untyped().extension(name, "x").build();
        assert_eq!(refused, Err(BuildError::Extension(ExtensionError::Shadows(name.into()))));
    }
}

#[test]
fn type_and_instance_must_be_uri_references() {
    let not_a_reference = || UriError::NotAReference("not a uri".into());
    assert_eq!(Problem::builder("not a uri").build(), Err(BuildError::Type(not_a_reference())));
    assert_eq!(
        Problem::untyped().instance("not a uri").build(),
        Err(BuildError::Instance(not_a_reference()))
    );
}

#[test]
fn a_status_must_be_one() {
    assert_eq!(Problem::untyped().status(600).build(), Err(BuildError::Status(StatusError(600))));
    assert_eq!(Problem::untyped().status(99).build(), Err(BuildError::Status(StatusError(99))));
}

#[test]
fn a_running_job_can_not_be_complete() {
    let time = Timestamp::parse("2026-02-26T10:00:00Z").unwrap();
    let refused =
        Problem::untyped().job(Job::builder().status(JobStatus::Processing).completed_at(time)).build();
    assert_eq!(refused, Err(BuildError::Job(JobError::CompletedWhileRunning(JobStatus::Processing))));
}

#[test]
fn an_extension_must_be_something_every_reader_understands() {
    let deep = (0..DEPTH_MAX).fold(json!(1), |inner, _| json!({ "inner": inner }));
    let refused = Problem::untyped().extension("deep", deep).build();
    assert_eq!(refused, Err(BuildError::Extension(ExtensionError::TooDeep("deep".into()))));
    let refused = Problem::untyped().extension("large", u64::MAX).build();
    assert_eq!(refused, Err(BuildError::Extension(ExtensionError::UnsafeInteger("large".into()))));
}

#[test]
fn the_first_refusal_is_told() {
    let refused = Problem::builder("a b").status(1).extension("type", 1).build();
    assert!(matches!(refused, Err(BuildError::Type(_))));
    let told = refused.unwrap_err().to_string();
    assert_eq!(
        told,
        "could not set type: \"a b\" is not a URI reference; percent-encode blanks and letters outside ASCII"
    );
}

#[test]
fn the_job_members_stand_at_the_top_level() {
    let job = Job::builder()
        .id("j1")
        .status(JobStatus::CompletedWithErrors)
        .results([ItemOutcome::at_index(0, ItemStatus::Failed).with_retryable(true)]);
    let problem = Problem::untyped().status(207).job(job).extension("own", true).build().unwrap();
    assert_eq!(
        problem.to_json(),
        r#"{"status":207,"jobId":"j1","jobStatus":"COMPLETED_WITH_ERRORS","results":[{"itemId":"0","status":"FAILED","retryable":true}],"own":true}"#
    );
}

#[test]
fn extensions_keep_their_order_and_canonical_json_sorts_them() {
    let problem =
        Problem::untyped().extension("zeta", 1).extension("alpha", 2).extension("zeta", 3).build().unwrap();
    assert_eq!(problem.to_json(), r#"{"zeta":3,"alpha":2}"#);
    assert_eq!(problem.to_canonical_json(), r#"{"alpha":2,"zeta":3}"#);
}

#[test]
fn a_correlation_id_is_sanitised_before_it_gets_in() {
    let hostile = CorrelationId::sanitize("a\r\nSet-Cookie: x=1\u{1b}[31m<script>");
    let job = Job::builder().correlation_id(hostile).build().unwrap();
    assert_eq!(job.correlation_id().unwrap().as_str(), "aSet-Cookiex131mscript");
    let nothing = Job::builder().correlation_id(CorrelationId::sanitize("\r\n")).build().unwrap();
    assert!(nothing.is_empty());
}

#[test]
fn a_problem_can_be_edited() {
    let problem =
        Problem::builder("/types/1").title("Out of credit").extension("balance", 3).build().unwrap();
    let edited =
        problem.into_builder().title("Kein Guthaben").without("balance").without("type").build().unwrap();
    assert_eq!(edited.to_json(), r#"{"title":"Kein Guthaben"}"#);
}

#[test]
fn a_digest_is_that_of_the_canonical_bytes() {
    let problem = Problem::default();
    // SHA-256 of `{}`.
    let expected = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    assert_eq!(problem.digest().to_string(), expected);
    assert_eq!(problem.digest(), forgerun_problem::Digest::of(b"{}"));
}

#[test]
fn serde_writes_what_the_library_writes() {
    let problem = crate::samples::full_failure();
    let by_serde: Value = serde_json::to_value(&problem).unwrap();
    let by_us: Value = serde_json::from_str(&problem.to_json()).unwrap();
    assert_eq!(by_serde, by_us);
    assert_eq!(serde_json::from_value::<Problem>(by_serde).unwrap(), problem);
}
