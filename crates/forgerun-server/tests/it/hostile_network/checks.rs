//! What must hold when all is over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use forgerun_engine::{Clock, SystemClock};
use forgerun_store::testing::Cluster;
use forgerun_wire::time;
use serde_json::Value;

use super::{Arrivals, TOKEN};
use crate::crash::Connection;
use crate::load::Load;
use crate::process::Server;
use crate::schedules::ticks;
use crate::sinks::nats::NatsServer;
use crate::sinks::wait_for;

/// What `started` gives nodes.
const LEASE: Duration = Duration::from_secs(2);
/// How much later than lease + 1 s work may go on: this machine has other things to do.
const SLACK: Duration = Duration::from_secs(30);

/// What the reports of acknowledged jobs say.
pub(super) struct Reports(Vec<Report>);

struct Report {
    job: String,
    /// The number of the submission.
    n: usize,
    events: Vec<Value>,
}

impl Reports {
    pub(super) fn read(node: &Server, load: &Load) -> Reports {
        let mut connection = Connection::open(node.address, &load.key).unwrap();
        let heard = load.heard.lock().unwrap();
        let report = |(job, n): (&String, &usize)| {
            let (_, report) = connection.ask("GET", &format!("/v1/jobs/{job}/report"), "").unwrap();
            Report { job: job.clone(), n: *n, events: report["events"].as_array().unwrap().clone() }
        };
        Reports(heard.iter().map(report).collect())
    }
}

/// A job whose worker was lost went on soon after its lease, by the times that its own report has.
pub(super) fn check_lost_attempts(reports: &Reports) {
    let mut spans = Vec::new();
    let at = |event: &Value| time::parse(event["timestamp"].as_str().unwrap()).unwrap();
    for pair in reports.0.iter().flat_map(|report| report.events.windows(2)) {
        let reason = pair[1]["reason"].as_str().unwrap_or_default();
        if ["runner_lost", "lease_expired"].contains(&reason) {
            spans.push(at(&pair[1]).since(at(&pair[0])));
        }
    }
    spans.sort_unstable();
    let middle = spans.get(spans.len() / 2).copied().unwrap_or_default();
    let longest = spans.last().copied().unwrap_or_default();
    println!("{} attempts were lost, and noticed after {middle:?}, {longest:?} at most", spans.len());
    assert!(longest < LEASE + Duration::from_secs(1) + SLACK, "{longest:?}");
}

/// Each event of a job was delivered, in order, those that arrive again aside.
pub(super) fn check_deliveries(reports: &Reports, arrivals: &Arrivals) {
    wait_for("all deliveries", || {
        let mut distinct: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for (n, id) in arrivals.lock().unwrap().iter() {
            distinct.entry(*n).or_default().insert(id.clone());
        }
        let n_of = |report: &Report| distinct.get(&report.n).map_or(0, BTreeSet::len);
        reports.0.iter().all(|report| n_of(report) == report.events.len()).then_some(())
    });
    let mut known: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let arrivals = arrivals.lock().unwrap();
    for (n, id) in arrivals.iter() {
        let before = known.entry(*n).or_default();
        if before.contains(&id.as_str()) {
            continue;
        }
        // Ids of deliveries begin with the time of their event and its number.
        assert!(before.last().is_none_or(|last| *last < id.as_str()), "{id} arrived after {before:?}");
        before.push(id);
    }
    let n_distinct: usize = known.values().map(Vec::len).sum();
    println!("{} deliveries, of which {} arrived again", arrivals.len(), arrivals.len() - n_distinct);
}

/// What an operator sees of the sink; null before it was used.
pub(super) fn sink(node: &Server) -> Value {
    let mut connection = Connection::open(node.address, TOKEN).unwrap();
    let (status, sinks) = connection.ask("GET", "/admin/v1/sinks", "").unwrap();
    assert_eq!(status, 200, "{sinks}");
    sinks["items"][0].clone()
}

/// Each event of a job is in the broker, in order, those that are there again aside.
pub(super) fn check_sink(node: &Server, reports: &Reports, broker: &NatsServer) {
    let sink = wait_for("the sink to send everything", || {
        let sink = sink(node);
        (sink["state"] == "ok" && sink["lag_events"] == 0).then_some(sink)
    });
    let messages = broker.read();
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for message in &messages {
        let value = message.json();
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        let events = known.entry(text("job_id")).or_default();
        let event = text("event_id");
        if !events.contains(&event) {
            events.push(event);
        }
    }
    for Report { job, events, .. } in &reports.0 {
        let told: Vec<&str> = events.iter().map(|event| event["event_id"].as_str().unwrap()).collect();
        assert_eq!(
            known.get(job).map_or(&[][..], |events| events),
            told,
            "events of job {job} in the broker"
        );
    }
    let n_distinct: usize = known.values().map(Vec::len).sum();
    println!("{n_distinct} events in the broker, which was sent {}", sink["sent"]);
}

/// No second is missing, and none is there twice.
pub(super) async fn check_ticks(node: &Server, key: &str) {
    let ticks = ticks(node, key, "each-second").await;
    assert!(ticks.len() > 5, "{ticks:?}");
    let odd = ticks.windows(2).filter(|pair| pair[1].since(pair[0]).as_secs() != 1).count();
    assert_eq!(odd, 0, "each second once: {ticks:?}");
    println!("{} ticks made one job each", ticks.len());
}

/// The database forgets sessions whose node hung up without its knowing. It must be told to; by
/// itself it takes hours.
pub(super) async fn check_sessions(cluster: &Cluster, n_usual: i64) {
    let mut waited = Duration::ZERO;
    while cluster.n_sessions().await > n_usual {
        assert!(waited < Duration::from_secs(120), "sessions are left in the database");
        SystemClock.sleep(Duration::from_secs(1)).await;
        waited += Duration::from_secs(1);
    }
}
