//! Servers with one fault each: the fault is found by its id and nothing else is; a right server
//! has no finding.

use forgerun_client::raw::Connector;
use forgerun_probe::conformance::{
    ConformanceError, Contract, Description, Options, Outcome, Verdict, judge,
};
use forgerun_problem::check::Level;

use crate::faulty::{Fault, serve};

const POLL: &str =
    "[operations]\ngone = \"DELETE /api/v1/jobs/{id}\"\n[poll]\nevery = \"1ms\"\npatience = \"2s\"\n";

async fn verdict(fault: Fault, contract: Contract) -> Verdict {
    let url = serve(fault).await;
    let options = Options {
        connector: Connector::new(None),
        url,
        contracts: vec![contract],
        key: Some("right".to_owned()),
        description: Description::parse(POLL).unwrap(),
    };
    judge(&options).await.unwrap()
}

/// Judges a server with this fault; the ids of what is found must be these.
async fn check(contract: Contract, fault: Fault, expected: &[&str]) {
    let verdict = verdict(fault, contract).await;
    let mut found: Vec<&str> = verdict.findings().map(|(check, _)| check.id).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, expected, "{fault:?}\n{}", verdict.to_text());
}

#[tokio::test]
async fn a_right_server_has_no_finding_by_any_contract() {
    for contract in Contract::ALL {
        let verdict = verdict(Fault::None, contract).await;
        assert!(verdict.findings().next().is_none(), "{}", verdict.to_text());
        assert!(verdict.is_ok() && verdict.n_passed() >= 8, "{}", verdict.to_text());
    }
}

#[tokio::test]
async fn faults_of_problem_details_are_found_by_their_ids() {
    for (fault, expected) in [
        (Fault::ErrorsArePlainJson, &["PD-ERR-01"][..]),
        (Fault::ErrorsAreText, &["PD-ERR-01"]),
        (Fault::UnknownPagesAreFine, &["PD-ERR-01"]),
        (Fault::StatusIsText, &["PD-ERR-02"]),
        (Fault::StatusDiffers, &["PD-ERR-03"]),
        (Fault::TypeIsRelative, &["PD-ERR-04"]),
        (Fault::TypeHasNoPage, &["PD-ERR-05"]),
        (Fault::TitleVaries, &["PD-ERR-08"]),
        (Fault::DetailIsATrace, &["AJ-SEC-01"]),
        (Fault::FieldIsBroken, &["PD-HDR-01"]),
        (Fault::FieldStatusDiffers, &["PD-HDR-05"]),
        (Fault::XmlWithoutNamespace, &["PD-XML-02"]),
    ] {
        check(Contract::Problem, fault, expected).await;
    }
}

#[tokio::test]
async fn faults_of_the_members_are_found_by_their_ids() {
    for (fault, expected) in [
        (Fault::NotAccepted, &["AJ-SUB-01"][..]),
        (Fault::OtherIdInLocation, &["AJ-SUB-02"]),
        (Fault::NoLink, &["AJ-SUB-03"]),
        (Fault::CompletedAtWhileRunning, &["AJ-AJM-09"]),
        (Fault::SubmittedAtIsLocal, &["AJ-AJM-07"]),
        (Fault::ReportIsPlainJson, &["AJ-STA-01"]),
        (Fault::StateIsMisspelt, &["AJ-STM-02"]),
        (Fault::EndedJobChanges, &["AJ-STM-01"]),
        (Fault::ReportSaysSuccess, &["AJ-AJM-18"]),
        (Fault::RetryAfterDiffers, &["AJ-STA-07"]),
        (Fault::NoCorrelation, &["AJ-AJM-14"]),
        (Fault::InstanceLeadsNowhere, &["AJ-AJM-17"]),
        (Fault::SuccessIsAProblem, &["AJ-AJM-24"]),
    ] {
        check(Contract::AsyncMembers, fault, expected).await;
    }
}

#[tokio::test]
async fn the_level_says_how_far_a_report_goes() {
    for (fault, level) in
        [(Fault::None, Level::Full), (Fault::NoSubmittedAt, Level::Basic), (Fault::NoMembers, Level::None)]
    {
        assert_eq!(verdict(fault, Contract::AsyncMembers).await.level, Some(level), "{fault:?}");
    }
    check(Contract::AsyncMembers, Fault::NoSubmittedAt, &["AJ-AJM-03"]).await;
}

#[tokio::test]
async fn faults_of_the_pattern_are_found_by_their_ids() {
    for (fault, expected) in [
        (Fault::NotAccepted, &["AO-SUB-01"][..]),
        (Fault::NoLocation, &["AO-SUB-02"]),
        (Fault::NoRetryAfter, &["AO-STA-01", "AO-SUB-03"]),
        (Fault::NoCorrelation, &["AO-SUB-04"]),
        (Fault::NoStatusUrl, &["AO-SUB-05"]),
        (Fault::FirstStatusIsRunning, &["AO-SUB-07"]),
        (Fault::UnderWayIs200, &["AO-STA-01"]),
        (Fault::EndedIs202, &["AO-STA-02"]),
        (Fault::FailedIs500, &["AO-STA-02", "AO-STA-03"]),
        (Fault::NoUpdatedAt, &["AO-STA-04", "AO-STA-05"]),
        (Fault::ProgressIsText, &["AO-STA-06"]),
        (Fault::NoResultUrl, &["AO-STA-07"]),
        (Fault::NoErrorCode, &["AO-STA-08"]),
        (Fault::NoReason, &["AO-STA-09"]),
        (Fault::GoneIs404, &["AO-STA-10"]),
        (Fault::UnknownIs400, &["AO-STA-11"]),
        (Fault::BodiesAreText, &["AO-STA-12"]),
        (Fault::OpenToAll, &["AO-RES-05", "AO-STA-13"]),
        (Fault::OwnWords, &["AO-STA-07", "AO-STM-01"]),
        (Fault::GoesBack, &["AO-STM-03"]),
        (Fault::NoResult, &["AO-RES-01"]),
        (Fault::KeyMakesANewJob, &["AO-IDM-01"]),
        (Fault::OneIdForAll, &["AO-IDM-04"]),
        (Fault::TakesAnything, &["AO-ERR-01", "AO-SUB-09"]),
        (Fault::ErrorsArePlainJson, &["AO-ERR-01", "AO-STA-10"]),
    ] {
        check(Contract::Operations, fault, expected).await;
    }
}

#[tokio::test]
async fn faults_of_open_job_spec_are_found_by_their_ids() {
    for (fault, expected) in [
        (Fault::NoManifest, &["OJS-SUB-02"][..]),
        (Fault::ArgsAreChanged, &["OJS-SUB-02"]),
        (Fault::BodiesAreText, &["OJS-SUB-02"]),
        (Fault::OwnWords, &["OJS-STM-01"]),
        (Fault::AttemptIsNotCounted, &["OJS-STM-01"]),
        (Fault::AckTwice, &["OJS-STM-03"]),
        (Fault::CancelLate, &["OJS-STM-02"]),
        (Fault::CannotCancel, &["OJS-CAN-01", "OJS-STM-02"]),
        (Fault::NeverRetries, &["OJS-EXE-01"]),
        (Fault::AlwaysRetries, &["OJS-RTY-07"]),
        (Fault::NoHistory, &["OJS-RTY-01", "OJS-RTY-03"]),
        (Fault::NoOccurredAt, &["OJS-RTY-03"]),
        (Fault::ErrorsWithoutCode, &["OJS-COD-07", "OJS-ERR-01"]),
        (Fault::EmptyMessages, &["OJS-ERR-02"]),
        (Fault::RefusalsAreRetryable, &["OJS-ERR-03"]),
        (Fault::TypeIsOptional, &["OJS-SUB-01"]),
        (Fault::AnyArgs, &["OJS-COD-03"]),
        (Fault::AnyQueue, &["OJS-QWK-01"]),
        (Fault::AnyPolicy, &["OJS-RTY-09"]),
        (Fault::UnknownIs400, &["OJS-COD-07"]),
        (Fault::OpenToAll, &["OJS-COD-06"]),
    ] {
        check(Contract::Ojs, fault, expected).await;
    }
}

#[tokio::test]
async fn a_server_without_a_manifest_is_not_judged_by_open_job_spec_unless_asked() {
    let url = serve(Fault::NoManifest).await;
    let options = Options {
        connector: Connector::new(None),
        url,
        contracts: Vec::new(),
        key: Some("right".to_owned()),
        description: Description::parse(POLL).unwrap(),
    };
    let verdict = judge(&options).await.unwrap();
    assert!(verdict.is_ok(), "{}", verdict.to_text());
    let ojs: Vec<_> = verdict.checks.iter().filter(|check| check.contract == Contract::Ojs).collect();
    assert!(matches!(ojs[..], [one] if matches!(one.outcome, Outcome::Skipped(_))), "{ojs:?}");
}

#[tokio::test]
async fn a_wrong_key_and_a_server_that_is_not_there_are_no_verdicts() {
    let url = serve(Fault::None).await;
    let options = |url: String, key: &str| Options {
        connector: Connector::new(None),
        url,
        contracts: vec![Contract::Operations],
        key: Some(key.to_owned()),
        description: Description::default(),
    };
    assert!(matches!(judge(&options(url, "wrong")).await, Err(ConformanceError::NotAuthorised(_))));
    let nobody = "http://127.0.0.1:9".to_owned();
    assert!(matches!(judge(&options(nobody, "right")).await, Err(ConformanceError::Unreachable(_))));
    assert!(matches!(judge(&options("ftp://a".to_owned(), "right")).await, Err(ConformanceError::Usage(_))));
}

#[tokio::test]
async fn a_description_leads_to_servers_with_other_addresses_and_keys() {
    let url = serve(Fault::OtherAddresses).await;
    let described = "[poll]\nevery = \"1ms\"\n[auth]\nheader = \"X-Key\"\nvalue = \"{key}\"\n[operations]\nsubmit = \"/tasks\"\nstatus = \"/tasks/{id}\"\n\
         succeeds = { do = \"succeed\" }\nfails = { do = \"fail\" }\nslow = { do = \"wait\" }\ninvalid = { do = 1 }\n\
         cancel = \"POST /tasks/{id}/cancel\"\ngone = \"DELETE /tasks/{id}\"\nidempotency_header = \"Idempotency-Key\"\n";
    let options = Options {
        connector: Connector::new(None),
        url,
        contracts: vec![Contract::Problem, Contract::AsyncMembers, Contract::Operations],
        key: Some("right".to_owned()),
        description: Description::parse(described).unwrap(),
    };
    let verdict = judge(&options).await.unwrap();
    assert!(verdict.findings().next().is_none(), "{}", verdict.to_text());
}

#[tokio::test]
async fn a_verdict_is_text_json_and_junit() {
    let verdict = verdict(Fault::NoLocation, Contract::Operations).await;
    let text = verdict.to_text();
    assert!(text.starts_with("MUST   AO-SUB-02:") && text.ends_with("does not conform\n"), "{text}");
    assert!(text.contains("  sent  POST /api/v1/jobs") && text.contains("  got   202"), "{text}");
    let json = verdict.to_json();
    assert_eq!(
        (&json["contract"], &json["ok"], &json["failed"]),
        (&"operations".into(), &false.into(), &1.into())
    );
    assert_eq!(json["findings"][0]["id"], "AO-SUB-02");
    assert!(json["findings"][0]["mend"].as_str().unwrap().contains("Location"));
    assert!(json["level"].is_null() && json["passed"].as_u64() > Some(10), "{json}");
    let junit = verdict.to_junit();
    let n_cases = junit.matches("<testcase ").count();
    assert!(junit.contains(&format!("tests=\"{n_cases}\" failures=\"1\"")), "{junit}");
    assert!(junit.contains("<failure message=") && !junit.contains("Bearer"), "{junit}");
}
