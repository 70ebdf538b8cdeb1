//! Schedules on two nodes of one PostgreSQL, of which one is killed: no tick is lost, and none
//! makes two jobs.

use std::collections::BTreeSet;

use forgerun_core::time::Time;
use forgerun_store::testing::{Cluster, Durability};
use forgerun_wire::time;
use serde_json::{Value, json};

use crate::api::http::Call;
use crate::crash::{first_key, start};
use crate::process::Server;

const SCHEDULES: [&str; 3] = ["one", "two", "three"];

/// Ticks of each schedule before the kill, and in all.
const N_BEFORE: u64 = 4;
const N_TICKS: u64 = 10;

async fn ask(server: &Server, key: &str, method: &str, path: &str, body: Value) -> Value {
    let call = Call::new(server.address, method, path).header("authorization", &format!("Bearer {key}"));
    let answer = if method == "GET" { call.send().await } else { call.json(body).send().await };
    assert!(answer.status < 300, "{method} {path}: {:?}", answer.json());
    answer.json()
}

async fn wait_for_runs(server: &Server, key: &str, n_runs: u64) {
    for name in SCHEDULES {
        let path = format!("/v1/schedules/{name}");
        while ask(server, key, "GET", &path, Value::Null).await["run_count"].as_u64().unwrap() < n_runs {
            tokio::task::yield_now().await;
        }
    }
}

/// The ticks that made jobs, by what the jobs say.
pub(crate) async fn ticks(server: &Server, key: &str, name: &str) -> Vec<Time> {
    let (mut ticks, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = ask(server, key, "GET", &format!("/v1/jobs?limit=200{cursor}"), Value::Null).await;
        for job in page["jobs"].as_array().unwrap() {
            let path = format!("/ojs/v1/jobs/{}", job["job_id"].as_str().unwrap());
            let meta = ask(server, key, "GET", &path, Value::Null).await["job"]["meta"].clone();
            if meta["cron_name"] == name {
                ticks.push(time::parse(meta["cron_triggered_at"].as_str().unwrap()).unwrap());
            }
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    ticks.sort_unstable();
    ticks
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tick_makes_one_job_though_one_of_two_nodes_is_killed() {
    let cluster = Cluster::start(Durability::Full);
    let url = cluster.database().await;
    let (first, second) = (start(&url), start(&url));
    let key = first_key(first.address);
    for name in SCHEDULES {
        let body = json!({
            "cron": "* * * * * *", "overlap_policy": "allow", "catch_up": "all",
            "job": {"type": "EXECUTE", "work_kind": "SUCCESS_FAST"},
        });
        ask(&first, &key, "PUT", &format!("/v1/schedules/{name}"), body).await;
    }
    wait_for_runs(&second, &key, N_BEFORE).await;
    first.signal("KILL");
    wait_for_runs(&second, &key, N_TICKS).await;
    for name in SCHEDULES {
        let path = format!("/v1/schedules/{name}/pause");
        let schedule = ask(&second, &key, "POST", &path, json!({})).await;
        assert_eq!(
            (&schedule["missed_count"], &schedule["skip_count"]),
            (&json!(0), &json!(0)),
            "{schedule}"
        );
        let ticks = ticks(&second, &key, name).await;
        assert_eq!(ticks.len() as u64, schedule["run_count"].as_u64().unwrap(), "{name}");
        assert_eq!(ticks.iter().collect::<BTreeSet<_>>().len(), ticks.len(), "{name}: no tick twice");
        let gaps = ticks.windows(2).filter(|pair| pair[1].since(pair[0]).as_secs() != 1).count();
        assert_eq!(gaps, 0, "{name}: no second is missing in {ticks:?}");
    }
}
