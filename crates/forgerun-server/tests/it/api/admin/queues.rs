//! Queues as the operator sees them.

use std::time::Duration;

use forgerun_core::Command;
use serde_json::{Value, json};

use super::{get, operator, post, server};

fn named<'a>(page: &'a Value, name: &str) -> &'a Value {
    page["items"].as_array().unwrap().iter().find(|queue| queue["name"] == name).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn queues_of_one_name_are_listed_together_whoever_owns_them() {
    let server = server().await;
    for _ in 0..2 {
        let client = server.client().await;
        client.job_like(json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "queue": "mail"})).await;
        let real = json!({"type": "mail.send", "args": [], "options": {"queue": "mail"}});
        client.call("POST", "/ojs/v1/jobs").json(real).send().await.expect(201);
    }
    let page = get(&server, "/admin/v1/queues").await;
    let mail = named(&page, "mail");
    assert_eq!((&mail["waiting"], &mail["n_queues"]), (&json!(4), &json!(3)));
    assert!(mail["oldest_waiting_s"].as_u64().is_some(), "{mail}");
    assert!(mail["last_minute"]["submitted_per_s"].as_f64().unwrap() > 0.0, "{mail}");
    assert_eq!(named(&page, "default")["waiting"], 0);
    assert_eq!(named(&page, "default")["oldest_waiting_s"], Value::Null);
}

#[tokio::test]
async fn pages_of_queues_follow_each_other() {
    let server = server().await;
    let client = server.client().await;
    for queue in ["a", "b", "c"] {
        client.job_like(json!({"type": "EXECUTE", "queue": queue})).await;
    }
    let (mut seen, mut path) = (Vec::new(), "/admin/v1/queues?limit=2".to_owned());
    loop {
        let page = get(&server, &path).await;
        seen.extend(page["items"].as_array().unwrap().iter().map(|queue| queue["name"].clone()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/admin/v1/queues?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, ["a", "b", "c", "default"]);
}

#[tokio::test]
async fn the_operator_pauses_resumes_and_bounds_every_queue_of_a_name() {
    let server = server().await;
    let client = server.client().await;
    let typo = post(&server, "/admin/v1/queues/mail/pause", json!({})).await.expect(404);
    assert_eq!(named(&get(&server, "/admin/v1/queues").await, "mail"), &Value::Null, "{typo}");
    // A queue that a worker asks for is known.
    let fetch = json!({"queues": ["mail"], "worker_id": "w"});
    client.call("POST", "/ojs/v1/workers/fetch").json(fetch).send().await.expect(200);
    let paused = post(&server, "/admin/v1/queues/mail/pause", json!({})).await.expect(200);
    assert_eq!((&paused["name"], &paused["paused"]), (&json!("mail"), &json!(true)));
    let typo = post(&server, "/admin/v1/queues/mial/pause", json!({})).await.expect(404);
    assert!(typo["detail"].as_str().unwrap().contains("did you mean `mail`?"), "{typo}");
    // Its owner cannot lift it.
    client.call("POST", "/ojs/v1/queues/mail/resume").send().await.expect(200);
    let page = get(&server, "/admin/v1/queues").await;
    assert_eq!(named(&page, "mail")["paused"], true);
    let resumed = post(&server, "/admin/v1/queues/mail/resume", json!({})).await.expect(200);
    assert_eq!((&resumed["paused"], &resumed["paused_at"]), (&json!(false), &Value::Null));

    let put = async |body: Value| operator(&server, "PUT", "/admin/v1/queues/mail").json(body).send().await;
    let bounded = put(json!({"max_waiting": 1, "max_active": 7})).await.expect(200);
    assert_eq!(bounded["limits"], json!({"max_waiting": 1, "max_active": 7, "rate_per_s": null}));
    let job = json!({"type": "EXECUTE", "queue": "mail"});
    client.submit(job.clone()).await.expect(202);
    client.submit(job.clone()).await.refused(503, "RFA_EXEC_QUEUE_FULL");
    let lifted = put(json!({"max_waiting": null})).await.expect(200);
    assert_eq!(lifted["limits"], json!({"max_waiting": null, "max_active": 7, "rate_per_s": null}));
    client.submit(job).await.expect(202);
    for wrong in [json!({}), json!({"max_active": 0}), json!({"max_waiting": "3"}), json!({"rate_per_s": 0})]
    {
        assert!([400, 422].contains(&put(wrong.clone()).await.status), "{wrong}");
    }
    let odd = operator(&server, "POST", "/admin/v1/queues/No%20Name/pause").send().await;
    assert!([400, 422].contains(&odd.status));
}

#[tokio::test]
async fn jobs_are_handed_out_at_the_rate_that_the_operator_sets() {
    let server = server().await;
    server.clock.stop();
    let client = server.client().await;
    for _ in 0..4 {
        let job = json!({"type": "t", "args": [], "options": {"queue": "mail"}});
        client.call("POST", "/ojs/v1/jobs").json(job).send().await.expect(201);
    }
    let put = async |body: Value| operator(&server, "PUT", "/admin/v1/queues/mail").json(body).send().await;
    let bounded = put(json!({"rate_per_s": 2})).await.expect(200);
    assert_eq!(bounded["limits"], json!({"max_waiting": null, "max_active": null, "rate_per_s": 2.0}));
    let fetch = async || {
        let fetch = json!({"queues": ["mail"], "worker_id": "w", "count": 10});
        let fetched = client.call("POST", "/ojs/v1/workers/fetch").json(fetch).send().await.expect(200);
        fetched["jobs"].as_array().unwrap().len()
    };
    assert_eq!((fetch().await, fetch().await), (2, 0), "those of a second, then none");
    server.clock.advance(Duration::from_millis(500));
    // As the timers do, which sleep by the real clock.
    server.app.engine.run(Command::Due(10)).await.unwrap();
    assert_eq!((fetch().await, fetch().await), (1, 0));
    put(json!({"rate_per_s": null})).await.expect(200);
    assert_eq!(fetch().await, 1);
}

fn problem<'a>(overview: &'a Value, kind: &str) -> Option<&'a Value> {
    overview["problems"].as_array().unwrap().iter().find(|problem| problem["kind"] == kind)
}

#[tokio::test]
async fn a_queue_that_no_worker_asks_for_is_unattended() {
    let server = server().await;
    let client = server.client().await;
    let real = json!({"type": "mail.send", "args": [], "options": {"queue": "mail"}});
    for _ in 0..2 {
        client.call("POST", "/ojs/v1/jobs").json(real.clone()).send().await.expect(201);
    }
    let unattended = async || named(&get(&server, "/admin/v1/queues").await, "mail")["unattended"].clone();
    let gauge = async || {
        let answer = server.call("GET", "/metrics").send().await;
        let text = answer.text();
        let line = text.lines().find(|line| line.starts_with("forgerun_queue_unattended{queue=\"mail\"}"));
        line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
    };
    assert_eq!((unattended().await, gauge().await.as_deref()), (json!(false), Some("0")), "not yet");
    server.clock.advance(Duration::from_secs(61));
    assert_eq!((unattended().await, gauge().await.as_deref()), (json!(true), Some("1")));
    let overview = get(&server, "/admin/v1/overview").await;
    let found = problem(&overview, "queue_unattended").expect("it is a problem");
    assert!(found["what"].as_str().unwrap().contains("2 jobs wait in queue mail"), "{found}");
    assert!(found["since"].is_string() && found["link"] == "/dashboard/queues", "{found}");

    // A worker that asks is alive, also once it is busy with a job of the queue and does not ask.
    let fetch = json!({"queues": ["mail"], "worker_id": "w", "count": 1});
    let taken = client.call("POST", "/ojs/v1/workers/fetch").json(fetch).send().await.expect(200);
    assert_eq!((unattended().await, gauge().await.as_deref()), (json!(false), Some("0")));
    server.clock.advance(Duration::from_secs(20));
    assert_eq!(unattended().await, false, "it holds a job");
    let ack = json!({"job_id": taken["jobs"][0]["id"]});
    client.call("POST", "/ojs/v1/workers/ack").json(ack).send().await.expect(200);
    server.clock.advance(Duration::from_secs(61));
    assert_eq!(unattended().await, true, "it is gone");
    assert!(problem(&get(&server, "/admin/v1/overview").await, "webhook_failing").is_none());
}

#[tokio::test]
async fn every_list_of_the_operator_takes_limit_and_cursor() {
    let server = server().await;
    let document = server.call("GET", "/openapi.json").send().await.expect(200);
    let is_list = |path: &&String| {
        let single = ["/admin/v1/overview", "/admin/v1/events"];
        path.starts_with("/admin/v1/") && !path.contains('{') && !single.contains(&path.as_str())
    };
    let paths = document["paths"].as_object().unwrap();
    let lists: Vec<&String> = paths
        .iter()
        .filter(|(_, of)| of.get("get").is_some())
        .map(|(path, _)| path)
        .filter(is_list)
        .collect();
    assert!(lists.len() >= 10, "{lists:?}");
    for path in lists {
        let page = get(&server, &format!("{path}?limit=1")).await;
        assert!(page["items"].as_array().unwrap().len() <= 1, "{path}: {page}");
        for bad in ["limit=0", "limit=201", "limit=1&colour=red", "cursor=%00"] {
            operator(&server, "GET", &format!("{path}?{bad}")).send().await.expect(400);
        }
        let named: Vec<&Value> = paths[path]["get"]["parameters"].as_array().unwrap().iter().collect();
        let documented = |name: &str| {
            named.iter().any(|of| {
                of["name"] == name || of["$ref"].as_str().is_some_and(|of| of.to_lowercase().ends_with(name))
            })
        };
        assert!(documented("limit") && documented("cursor"), "{path} documents {named:?}");
    }
}
