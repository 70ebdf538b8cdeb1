//! `forgerun prove`: a short run is judged well, and its judge names every promise that a falsified
//! history breaks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use forgerun_probe::prove::history::{AnswerKind, Event, JobEvent, Span, read};
use forgerun_probe::prove::judge::{Rule, judge};
use forgerun_store::testing::{Cluster, connect};

use crate::crash::{first_key, start};
use crate::process::{Ended, forgerun, run};

fn prove(folder: &Path, arguments: &[&str]) -> Ended {
    run(forgerun(&["prove", "--seed", "7"]).args(arguments).current_dir(folder))
}

fn span(at_ms: f64) -> Span {
    Span { from_ms: at_ms, at_ms, answer: AnswerKind::Ok }
}

/// The place of the first event that fits.
fn place(history: &[Event], fits: impl Fn(&Event) -> bool) -> usize {
    history.iter().position(fits).expect("the run has such an event")
}

/// A job with an accepted result, its token, and when it was claimed and acknowledged.
fn acked(history: &[Event]) -> (String, String, f64, f64) {
    let found = history.iter().find_map(|event| match event {
        Event::Ack { job, token, span, .. } if span.answer == AnswerKind::Ok => {
            let claimed = history.iter().find_map(|other| match other {
                Event::Claim { token: own, at_ms, .. } if own == token => Some(*at_ms),
                _ => None,
            })?;
            Some((job.clone(), token.clone(), claimed, span.from_ms))
        }
        _ => None,
    });
    found.expect("a worker acknowledged a job")
}

/// Changes what was read of a job at the end.
fn change_final(history: &mut [Event], id: &str, change: impl Fn(&mut Event)) {
    let n = place(history, |event| matches!(event, Event::Final { job, .. } if job == id));
    change(&mut history[n]);
}

/// The history of a server that breaks one promise.
fn falsified(sound: &[Event], rule: Rule) -> Vec<Event> {
    let mut history = sound.to_vec();
    let (job, _, claimed_ms, acked_ms) = acked(sound);
    let of_job = |event: &Event| matches!(event, Event::Final { job: id, .. } if *id == job);
    let is_tick = |event: &Event| matches!(event, Event::Final { tick: Some(_), .. });
    match rule {
        Rule::EarlyAcknowledgement => history.retain(|event| !of_job(event)),
        Rule::NotEnded => change_final(&mut history, &job, |end| {
            if let Event::Final { state, .. } = end {
                *state = "QUEUED".to_owned();
            }
        }),
        Rule::IllegalOrder => change_final(&mut history, &job, |end| {
            if let Event::Final { events, .. } = end {
                events.remove(1);
            }
        }),
        Rule::EndedTwice => change_final(&mut history, &job, |end| {
            if let Event::Final { events, .. } = end {
                let last: JobEvent = events.last().unwrap().clone();
                events.push(last);
            }
        }),
        Rule::DoubledSubmission => {
            let mut copy = history[place(&history, of_job)].clone();
            if let Event::Final { job, .. } = &mut copy {
                *job = "another".to_owned();
            }
            history.push(copy);
        }
        Rule::UniqueTwice => {
            for (op, job, at_ms) in [(1, "a", 1.0), (2, "b", 2.0)] {
                let (key, unique, job) = (format!("k{op}"), Some("u".to_owned()), Some(job.to_owned()));
                history.push(Event::Submit {
                    op,
                    key,
                    dialect: "v1".to_owned(),
                    unique,
                    job,
                    span: span(at_ms),
                });
            }
        }
        Rule::UnknownJob => change_final(&mut history, &job, |end| {
            if let Event::Final { op, .. } = end {
                *op = Some(u64::MAX);
            }
        }),
        Rule::LostAck => change_final(&mut history, &job, |end| {
            if let Event::Final { value, .. } = end {
                *value = None;
            }
        }),
        Rule::NoFencing => {
            let at_ms = f64::midpoint(claimed_ms, acked_ms);
            history.push(Event::Claim { worker: 9, job, token: "later".to_owned(), from_ms: at_ms, at_ms });
        }
        Rule::LostCancel => history.push(Event::Cancel { job, span: span(acked_ms) }),
        Rule::DoubleTick => {
            let mut copy = history[place(&history, is_tick)].clone();
            if let Event::Final { job, .. } = &mut copy {
                *job = "another".to_owned();
            }
            history.push(copy);
        }
        Rule::LostTick => {
            let ticks = history.iter().filter(|event| is_tick(event)).map(|event| match event {
                Event::Final { tick: Some(tick), .. } => tick.clone(),
                _ => unreachable!("they are ticks"),
            });
            let ticks: BTreeSet<_> = ticks.collect();
            // Neither the first nor the last of its schedule.
            let gone = ticks.into_iter().nth(1).unwrap();
            history.retain(|event| !matches!(event, Event::Final { tick: Some(tick), .. } if *tick == gone));
        }
        Rule::LostSignal | Rule::LostStep => {
            let signalled = sound.iter().find_map(|event| match event {
                Event::Signal { workflow, span, .. } if span.answer == AnswerKind::Ok => {
                    Some(workflow.clone())
                }
                _ => None,
            });
            let signalled = signalled.expect("a signal was accepted");
            let n = place(
                &history,
                |event| matches!(event, Event::WorkflowFinal { workflow, .. } if *workflow == signalled),
            );
            if let Event::WorkflowFinal { value, steps, .. } = &mut history[n] {
                match rule {
                    Rule::LostSignal => *value = None,
                    _ => "WAITING".clone_into(&mut steps[1].state),
                }
            }
        }
        Rule::LostDelivery | Rule::ReorderedDelivery => {
            let is_ours = |event: &Event| matches!(event, Event::Delivery { job: id, .. } if *id == job);
            let first = place(&history, is_ours);
            let moved = history.remove(first);
            if rule == Rule::ReorderedDelivery {
                history.push(moved);
            }
        }
        Rule::DamagedStore => history.push(Event::Check { findings: vec!["counts: …".to_owned()] }),
    }
    history
}

#[test]
fn a_run_on_sqlite_keeps_every_promise_and_each_broken_one_would_be_named() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--duration", "8s", "--report", "report.html", "--history", "history.jsonl"];
    let proved = prove(folder.path(), &arguments);
    assert_eq!(proved.code, Some(0), "{}{}", proved.stdout, proved.stderr);
    assert!(proved.stdout.ends_with("every promise was kept\n"), "{}", proved.stdout);
    let report = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(report.contains("class=\"kill\"") && report.contains("</html>"), "{report}");

    let sound = read(&fs::read_to_string(folder.path().join("history.jsonl")).unwrap()).unwrap();
    let verdict = judge(&sound);
    let figures = verdict.figures;
    assert!(verdict.is_ok(), "{:?}", verdict.violations);
    assert!(figures.kills > 0 && figures.acknowledged > 20 && figures.ticks > 4, "{figures:?}");
    assert!(figures.acks > 10 && figures.deliveries > 100, "{figures:?}");
    is_linearizable(&folder.path().join("history.jsonl"));
    for rule in Rule::ALL {
        let verdict = judge(&falsified(&sound, *rule));
        let named: BTreeSet<Rule> = verdict.violations.iter().map(|violation| violation.rule).collect();
        assert!(named.contains(rule), "{rule:?}: {:?}", verdict.violations);
    }
}

/// Judged by porcupine.
fn is_linearizable(history: &Path) {
    let judged = Command::new("go")
        .args(["run", "."])
        .arg(history)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/check"))
        .output()
        .expect("scripts/install-test-tools installs Go");
    let shown = String::from_utf8_lossy(&judged.stdout);
    assert!(judged.status.success(), "{shown}{}", String::from_utf8_lossy(&judged.stderr));
    assert_eq!(shown.matches(": Ok").count(), 3, "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_holds_data_is_refused_and_a_database_of_its_own_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    fs::write(&path, "").unwrap();
    let file = prove(folder.path(), &["--database-url", &format!("sqlite:{}", path.display())]);
    assert!(file.code == Some(2) && file.stderr.contains("is there already"), "{}", file.stderr);

    let url = Cluster::shared().database().await;
    let used = Cluster::shared().database().await;
    let server = start(&used);
    first_key(server.address);
    let refused = prove(folder.path(), &["--database-url", &used]);
    assert!(refused.code == Some(2) && refused.stderr.contains("holds a store"), "{}", refused.stderr);
    let arguments = ["--duration", "2s", "--database-url", &url, "--history", "pg.jsonl"];
    let proved = prove(folder.path(), &arguments);
    assert_eq!(proved.code, Some(0), "{}{}", proved.stdout, proved.stderr);
    let left = "SELECT count(*) FROM pg_database WHERE datname LIKE 'forgerun\\_prove\\_%'";
    let row = connect(&url).await.query_one(left, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
}
