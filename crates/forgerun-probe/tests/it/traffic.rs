//! A run on servers with one fault each: the fault is found by its id, and nothing is found on a
//! right one.

use std::time::Duration;

use forgerun_client::raw::Connector;
use forgerun_probe::traffic::{Options, Scenario, Summary, TrafficError, run};

use crate::faulty::{Fault, serve};

const SCENARIO: &str = r#"
name = "short"
[[phase]]
name = "one"
duration = "300ms"
rate = 60
poll_every = "1ms"
[phase.kinds]
SUCCESS_FAST = 1
FAIL_IMMEDIATE = 1
[phase.behaviour]
repeat = 0.5
abandon = 0.1
cancel = 0.3
"#;

fn options(url: String, scenario: &str) -> Options {
    Options {
        scenario: Scenario::parse(scenario).unwrap(),
        seed: 7,
        url,
        key: None,
        admin_token: None,
        remote: false,
        own: None,
        n_kills: 0,
        n_connections: 16,
        drain: Duration::from_secs(5),
        connector: Connector::new(None),
    }
}

async fn play(fault: Fault) -> Summary {
    run(&options(serve(fault).await, SCENARIO), |_| {}).await.unwrap()
}

fn ids(summary: &Summary) -> Vec<&'static str> {
    let mut found: Vec<_> = summary.violations.iter().map(|violation| violation.id).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[tokio::test]
async fn a_right_server_comes_out_clean_with_every_job_accounted_for() {
    let summary = play(Fault::None).await;
    assert!(summary.is_ok(), "{}", summary.to_text());
    let jobs = &summary.jobs;
    assert!(jobs.submitted > 5 && jobs.submitted == jobs.accepted, "{}", summary.to_text());
    assert_eq!(jobs.succeeded + jobs.failed + jobs.canceled, jobs.accepted, "{}", summary.to_text());
    assert!(summary.submit.p99.is_some() && summary.end_to_end.p50.is_some());
}

#[tokio::test]
async fn faults_are_found_by_their_ids() {
    for (fault, expected) in [
        (Fault::LosesJobs, &["FR-STO-06"][..]),
        (Fault::StateGoesBack, &["FR-STM-21"]),
        (Fault::OutcomeIsWrong, &["FR-STA-02"]),
        (Fault::OtherBytesElsewhere, &["C-96"]),
        (Fault::ChainIsBroken, &["FR-STM-21"]),
        (Fault::EndsTwice, &["FR-STM-19"]),
        (Fault::TwoJobsForOneKey, &["FR-IDM-03"]),
        (Fault::KeyTakesAnyBody, &["FR-IDM-04"]),
        (Fault::RefusesPlainly, &["FR-SUB-02", "PD-ERR-01"]),
        (Fault::CancelLies, &["FR-CAN-06"]),
        (Fault::SameIdTwice, &["FR-SUB-15"]),
        (Fault::NoReport, &["FR-EXE-05"]),
        (Fault::BusyWithoutAnHour, &["OJS-COD-11"]),
    ] {
        let summary = play(fault).await;
        let found = ids(&summary);
        assert!(expected.iter().all(|id| found.contains(id)), "{fault:?} {found:?}\n{}", summary.to_text());
        assert!(!summary.is_ok(), "{fault:?}");
        let violation = summary.violations.iter().find(|violation| expected.contains(&violation.id)).unwrap();
        assert!(
            violation.curl.starts_with("curl -i -X ") && !violation.curl.contains("right"),
            "{}",
            violation.curl
        );
    }
}

#[tokio::test]
async fn an_end_that_is_undone_is_seen_by_the_audit() {
    let summary = play(Fault::EndIsUndone).await;
    let found = ids(&summary);
    assert!(found.contains(&"FR-STM-19"), "{found:?}");
    assert!(summary.jobs.doubled > 0, "what the violations say is counted\n{}", summary.to_text());
    assert!(!summary.to_text().contains("Some("), "{}", summary.to_text());
}

#[tokio::test]
async fn lost_and_doubled_jobs_are_counted() {
    assert!(play(Fault::LosesJobs).await.jobs.lost > 0);
    assert!(play(Fault::TwoJobsForOneKey).await.jobs.doubled > 0);
    assert!(play(Fault::EndsTwice).await.jobs.doubled > 0);
}

#[tokio::test]
async fn expectations_that_are_not_met_are_no_clean_run() {
    let expecting = format!(
        "{SCENARIO}[expect]\nerror_share_max = 0.01\nsucceeded_share_min = 1.0\nsubmit_p99_ms = 0.0\n"
    );
    let summary = run(&options(serve(Fault::FailsAtTimes).await, &expecting), |_| {}).await.unwrap();
    let unmet = summary.unmet.join("; ");
    assert!(
        unmet.contains("share of errors") && unmet.contains("succeeded") && unmet.contains("submit_p99_ms"),
        "{unmet}"
    );
    assert!(!summary.is_ok() && summary.errors > 0);
    assert_eq!(summary.to_json()["ok"], false);
}

#[tokio::test]
async fn a_slow_server_is_charged_for_the_wait_of_those_who_could_not_be_sent() {
    // One connection, and all journeys at once: whoever is last has waited for all others.
    let crowd =
        SCENARIO.replace("duration = \"300ms\"", "duration = \"20ms\"").replace("rate = 60", "rate = 5000");
    let mut options = options(serve(Fault::None).await, &crowd);
    options.n_connections = 1;
    let summary = run(&options, |_| {}).await.unwrap();
    let (p50, max) = (summary.submit.p50.unwrap(), summary.submit.max.unwrap());
    assert!(summary.jobs.accepted > 20 && max > p50, "{}", summary.to_text());
}

#[tokio::test]
async fn servers_elsewhere_are_not_touched_by_accident() {
    let refused = |url: &str| {
        let options = options(url.to_owned(), SCENARIO);
        async move { run(&options, |_| {}).await }
    };
    for url in ["http://jobs.example", "http://192.0.2.1:8080", "https://[2001:db8::1]"] {
        let Err(TrafficError::Usage(reason)) = refused(url).await else { panic!("{url}") };
        assert!(reason.contains("--yes-remote"), "{reason}");
    }
    assert!(matches!(refused("http://127.0.0.1:9").await, Err(TrafficError::Unreachable(_))));
}
