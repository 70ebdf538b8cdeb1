//! Workflows on two nodes with one PostgreSQL, of which one is killed: every step is done, and what
//! follows them comes once.

use std::collections::BTreeSet;
use std::time::Duration;

use forgerun_store::testing::{Cluster, Durability};
use serde_json::{Value, json};

use crate::crash::{Connection, first_key, start};
use crate::rabbitmq::pause;

const N_WORKFLOWS: usize = 12;
const N_STEPS: usize = 10;

/// Steps that all run at once, one that follows their end, and one that follows a failure.
fn description(n: usize) -> String {
    let step = |kind: &str| json!({"work_kind": kind, "options": {"retry": {"max_attempts": 20, "initial_interval_ms": 10}}});
    let jobs: Vec<Value> = (0..N_STEPS).map(|_| step("SUCCESS_FAST")).collect();
    let callbacks = json!({"on_complete": step("SUCCESS_FAST"), "on_failure": step("SUCCESS_FAST")});
    json!({"type": "batch", "name": format!("w-{n}"), "jobs": jobs, "callbacks": callbacks}).to_string()
}

#[test]
fn workflows_end_once_when_a_node_is_killed_under_them() {
    let cluster = Cluster::start(Durability::Full);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = runtime.block_on(cluster.database());
    let (first, second) = (start(&url), start(&url));
    let key = first_key(first.address);
    let mut submitting = Connection::open(first.address, &key).unwrap();
    let begun: Vec<String> = (0..N_WORKFLOWS)
        .map(|n| {
            let (status, view) = submitting.ask("POST", "/v1/workflows", &description(n)).unwrap();
            assert_eq!(status, 202, "{view}");
            view["workflow_id"].as_str().unwrap().to_owned()
        })
        .collect();
    first.signal("KILL");
    let mut looking = Connection::open(second.address, &key).unwrap();
    let mut jobs = BTreeSet::new();
    for id in &begun {
        let ended = wait_for_end(&mut looking, id);
        assert_eq!(ended["state"], "SUCCEEDED", "{ended}");
        let steps = ended["steps"].as_array().unwrap();
        assert_eq!(steps[N_STEPS + 1]["state"], "SKIPPED", "nothing failed");
        jobs.extend(steps.iter().filter_map(|step| step["job_id"].as_str()).map(str::to_owned));
    }
    assert_eq!(jobs.len(), N_WORKFLOWS * (N_STEPS + 1), "every step has a job of its own");
    let expected: BTreeSet<String> = jobs.into_iter().chain(begun).collect();
    assert_eq!(all_jobs(&mut looking), expected, "and there is no other");
}

fn wait_for_end(connection: &mut Connection, id: &str) -> Value {
    for _ in 0..600 {
        let (status, view) = connection.ask("GET", &format!("/v1/workflows/{id}"), "").unwrap();
        assert_eq!(status, 200, "{view}");
        if view["state"] != "RUNNING" {
            return view;
        }
        pause(Duration::from_millis(100));
    }
    panic!("workflow {id} does not end");
}

pub(crate) fn all_jobs(connection: &mut Connection) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut cursor = String::new();
    loop {
        let (_, page) = connection.ask("GET", &format!("/v1/jobs?limit=200{cursor}"), "").unwrap();
        let jobs = page["jobs"].as_array().unwrap().iter();
        found.extend(jobs.map(|job| job["job_id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}
