//! A worker of a server that speaks the worker protocol and nothing more: it does not hold requests, and knows no lease tokens but
//! those it hands out.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use forgerun_client::worker::{Canceled, ClaimedJob, Context, Failure, LogLine, Output, Stopped};
use forgerun_client::{Client, Error, Worker};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::foreign::{Foreign, Reply, Request};

/// Hands out `jobs` one after the other and extends all leases but those of jobs that are `lost`.
async fn server(jobs: Vec<Value>, lost: &'static [&'static str]) -> Foreign {
    let jobs = Mutex::new(jobs.into_iter());
    Foreign::start(move |request, _| match request.path.as_str() {
        "/ojs/v1/workers/fetch" => {
            let job = jobs.lock().unwrap().next();
            Reply::json(200, &[], json!({"jobs": job.into_iter().collect::<Vec<_>>()}))
        }
        "/ojs/v1/workers/heartbeat" => {
            let listed = request.json()["active_jobs"].as_array().cloned().unwrap_or_default();
            let extended: Vec<_> =
                listed.into_iter().filter(|id| !lost.contains(&id.as_str().unwrap())).collect();
            Reply::json(200, &[], json!({"state": "running", "jobs_extended": extended}))
        }
        "/ojs/v1/jobs/big/result" if request.body.len() > 100 => {
            Reply::json(413, &[], json!({"code": "PAYLOAD_TOO_LARGE"}))
        }
        "/ojs/v1/checkpoints/resumed/resume" => {
            Reply::json(200, &[], json!({"has_checkpoint": true, "state": {"charge": 5}}))
        }
        "/ojs/v1/checkpoints/single/resume" => {
            Reply::json(200, &[], json!({"has_checkpoint": true, "state": {}, "steps": {"charge": 5}}))
        }
        _ => Reply::json(200, &[], json!({})),
    })
    .await
}

fn job(id: &str, job_type: &str) -> Value {
    json!({"id": id, "type": job_type, "queue": "q", "attempt": 1, "state": "active", "args": [1, 2.50],
        "meta": {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "lease_token": format!("{id}-token")})
}

/// Runs a worker until `n_reports` acks and nacks came.
async fn work(server: &Foreign, worker: Worker, n_reports: usize) -> Stopped {
    let stop = async {
        while reports(server).len() < n_reports {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), worker.run(stop)).await.expect("in time").unwrap()
}

fn reports(server: &Foreign) -> Vec<Request> {
    let is_report = |request: &Request| request.path.ends_with("/ack") || request.path.ends_with("/nack");
    server.requests().into_iter().filter(is_report).collect()
}

fn client(server: &Foreign) -> Client {
    server.builder().build().unwrap()
}

async fn sum(job: ClaimedJob, _: Context) -> Result<Output, Failure> {
    let numbers: Vec<f64> = serde_json::from_str(job.input())?;
    Output::json(&numbers.iter().sum::<f64>())
}

#[tokio::test]
async fn each_job_goes_to_the_handler_of_its_type_and_its_end_is_reported() {
    let jobs = ["math.sum", "math.fail", "math.panic", "math.never", "unknown"];
    let server =
        server(jobs.iter().enumerate().map(|(n, name)| job(&n.to_string(), name)).collect(), &[]).await;
    let worker = Worker::builder(client(&server))
        .queue("q")
        .id("w")
        .handler("math.sum", sum)
        .handler("math.panic", async |_, _| panic!("oh"))
        .handler("math.never", async |_, _| Err(Failure::new("no").never_again().detail("why", "so")))
        .handler("math.*", async |_, _| Err(Failure::new("busy").retry().class("Busy")))
        .build()
        .unwrap();
    let stopped = work(&server, worker, 5).await;
    assert_eq!((stopped.succeeded, stopped.failed, stopped.handed_back), (1, 4, 0));
    let mut bodies: Vec<Value> = reports(&server).iter().map(Request::json).collect();
    bodies.sort_by_key(|body| body["job_id"].to_string());
    let base =
        |n: usize| json!({"job_id": n.to_string(), "worker_id": "w", "lease_token": format!("{n}-token")});
    let failed = |n: usize, error: Value| {
        let mut body = base(n);
        body["error"] = error;
        body
    };
    let mut done = base(0);
    done["result"] = json!(3.5);
    assert_eq!(
        bodies,
        [
            done,
            failed(1, json!({"code": "handler_error", "message": "busy", "type": "Busy", "retryable": true})),
            failed(2, json!({"code": "panic", "message": "the handler panicked: oh"})),
            failed(
                3,
                json!({"code": "handler_error", "message": "no", "retryable": false, "details": {"why": "so"}})
            ),
            failed(
                4,
                json!({"code": "handler_not_found", "message": "no handler for jobs of type \"unknown\""})
            ),
        ]
    );
}

#[tokio::test]
async fn a_result_is_sent_as_it_was_printed_whatever_a_value_can_hold() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let printed = [
        r#"{"b":1,  "a":2.10, "n":123456789012345678901234567890,"b":3,"e":1E2}"#,
        "[1e400]",
        r#""\ud800""#,
        &deep,
    ];
    let jobs = printed.iter().enumerate().map(|(n, _)| job(&n.to_string(), "a")).collect();
    let server = server(jobs, &[]).await;
    let results = printed.map(str::to_owned);
    let handler = move |job: ClaimedJob, _: Context| {
        let result = results[job.id.parse::<usize>().unwrap()].clone();
        async move { Ok(Output::Json(serde_json::value::RawValue::from_string(result)?)) }
    };
    let worker = Worker::builder(client(&server)).handler("*", handler).id("w").build().unwrap();
    let stopped = work(&server, worker, printed.len()).await;
    assert_eq!((stopped.succeeded, stopped.failed), (4, 0));
    for (n, result) in printed.iter().enumerate() {
        let body =
            format!(r#"{{"job_id":"{n}","worker_id":"w","lease_token":"{n}-token","result":{result}}}"#);
        let sent = reports(&server).iter().any(|report| report.body == body.as_bytes());
        assert!(sent, "{body}");
    }
}

/// Charges, then ships; says which of the two it did.
async fn order(_: ClaimedJob, context: Context) -> Result<Output, Failure> {
    let did = Mutex::new(Vec::new());
    let charged: u64 = context
        .step("charge", async || {
            did.lock().unwrap().push("charge");
            Ok(7)
        })
        .await?;
    let shipped: bool = context
        .step("ship", async || {
            did.lock().unwrap().push("ship");
            Ok(true)
        })
        .await?;
    Output::json(&json!({"charged": charged, "shipped": shipped, "did": *did.lock().unwrap()}))
}

#[tokio::test]
async fn a_step_that_is_recorded_is_not_done_again() {
    let server = server(vec![job("new", "order"), job("resumed", "order")], &[]).await;
    let worker = Worker::builder(client(&server)).queue("q").id("w").handler("order", order).build().unwrap();
    work(&server, worker, 2).await;
    let mut results: Vec<Value> = reports(&server).iter().map(|ack| ack.json()["result"].clone()).collect();
    results.sort_by_key(|result| result["charged"].as_u64());
    let expected = [
        json!({"charged": 5, "shipped": true, "did": ["ship"]}),
        json!({"charged": 7, "shipped": true, "did": ["charge", "ship"]}),
    ];
    assert_eq!(results, expected);
    let records: Vec<Request> =
        server.requests().into_iter().filter(|request| request.method == "PUT").collect();
    let states = |id: &str| -> Vec<Value> {
        let of_job = records.iter().filter(|record| record.path.ends_with(id));
        of_job.map(|record| record.json()["state"].clone()).collect()
    };
    assert_eq!(states("new"), [json!({"charge": 7}), json!({"charge": 7, "ship": true})]);
    assert_eq!(states("resumed"), [json!({"charge": 5, "ship": true})]);
    assert!(records.iter().all(|record| record.header("lease-token").is_some()));
}

#[tokio::test]
async fn steps_are_recorded_one_by_one_where_the_server_does_that() {
    let server = server(vec![job("single", "order")], &[]).await;
    let worker = Worker::builder(client(&server)).queue("q").id("w").handler("order", order).build().unwrap();
    work(&server, worker, 1).await;
    assert_eq!(reports(&server)[0].json()["result"]["did"], json!(["ship"]));
    let records: Vec<Request> =
        server.requests().into_iter().filter(|request| request.method == "PUT").collect();
    let told = records.iter().map(|record| (&*record.path, record.json())).collect::<Vec<_>>();
    assert_eq!(told, [("/ojs/v1/jobs/single/checkpoint/ship", json!({"result": true}))]);
    assert_eq!(records[0].header("lease-token"), Some("single-token"));
}

#[tokio::test]
async fn lines_that_a_handler_logs_are_sent_together_before_its_end_is_reported() {
    let server = server(vec![job("1", "a")], &[]).await;
    let worker = Worker::builder(client(&server))
        .queue("q")
        .handler("a", async |_, context: Context| {
            context.log("one");
            context.log_line(LogLine::new("two").stream("output").level("warn"));
            context.log("x".repeat(20_000));
            Ok(Output::Nothing)
        })
        .build()
        .unwrap();
    work(&server, worker, 1).await;
    let requests = server.requests();
    let place = |end: &str| requests.iter().position(|request| request.path.ends_with(end)).unwrap();
    assert!(place("/workers/logs") < place("/ack"));
    let logged = requests[place("/workers/logs")].json();
    assert_eq!((&logged["job_id"], &logged["lease_token"]), (&json!("1"), &json!("1-token")));
    let lines = logged["lines"].as_array().unwrap();
    let texts: Vec<usize> = lines.iter().map(|line| line["text"].as_str().unwrap().len()).collect();
    assert_eq!(texts, [3, 3, 16 * 1024, 20_000 - 16 * 1024], "a long line comes in pieces");
    assert_eq!((&lines[1]["stream"], &lines[1]["level"]), (&json!("output"), &json!("warn")));
    assert!(lines.iter().all(|line| line["at"].is_string()), "{logged}");
}

#[tokio::test]
async fn a_panic_outside_of_the_handler_is_reported_and_ends_the_heartbeats_about_the_job() {
    let server = server(vec![job("1", "a"), job("2", "a")], &[]).await;
    let worker = Worker::builder(client(&server))
        .handler("*", async |_, _| Ok(Output::Nothing))
        .notes(|note| match note {
            forgerun_client::worker::Note::Took(job) if job.id == "1" => panic!("no log"),
            _ => {}
        })
        .lease(Duration::from_secs(1))
        .build()
        .unwrap();
    // Both are reported, so the handler was free again; and a heartbeat after that names neither of them.
    let stop = async {
        while reports(&server).len() < 2 || named_by_last_heartbeat(&server) != json!([]) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), worker.run(stop)).await.expect("in time").unwrap();
    let failed = reports(&server).into_iter().find(|report| report.path.ends_with("/nack")).unwrap().json();
    assert_eq!(failed["error"], json!({"code": "panic", "message": "the worker panicked: no log"}));
}

/// The jobs in the last heartbeat after the last report.
fn named_by_last_heartbeat(server: &Foreign) -> Value {
    let requests = server.requests();
    let beat = requests.iter().rev().take_while(|request| !request.path.ends_with("ack"));
    let beat = beat.into_iter().find(|request| request.path.ends_with("/heartbeat"));
    beat.map_or(Value::Null, |beat| beat.json()["active_jobs"].clone())
}

#[tokio::test]
async fn a_job_whose_meta_cannot_be_held_is_worked_on() {
    let text = r#"{"jobs":[{"id":"1","type":"a","meta":{"x":1e400,"y":7}}]}"#;
    let taken = Mutex::new(false);
    let server = Foreign::start(move |request, _| match request.path.as_str() {
        "/ojs/v1/workers/fetch" if !std::mem::replace(&mut *taken.lock().unwrap(), true) => {
            Reply::new(200, &[("content-type", "application/json")], text.as_bytes())
        }
        "/ojs/v1/workers/fetch" => Reply::json(200, &[], json!({"jobs": []})),
        _ => Reply::json(200, &[], json!({"state": "running", "jobs_extended": ["1"]})),
    })
    .await;
    let worker = Worker::builder(client(&server))
        .handler("*", async |job: ClaimedJob, _| Output::json(&job.meta))
        .build()
        .unwrap();
    assert_eq!(work(&server, worker, 1).await.succeeded, 1);
    assert_eq!(reports(&server)[0].json()["result"], json!({"y": 7}));
}

#[tokio::test]
async fn a_result_of_any_size_is_sent_before_the_ack() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.bin");
    std::fs::write(&path, vec![7; 300_000]).unwrap();
    let server = server(vec![job("1", "a"), job("big", "a")], &[]).await;
    let handler = move |_: ClaimedJob, _: Context| {
        let path = path.clone();
        async move {
            Ok(Output::File {
                content_type: "image/png".into(),
                file_name: Some("a\"b.png".into()),
                path,
                remove: false,
            })
        }
    };
    let worker = Worker::builder(client(&server)).handler("*", handler).build().unwrap();
    let stopped = work(&server, worker, 2).await;
    assert_eq!((stopped.succeeded, stopped.failed), (1, 1));
    let requests = server.requests();
    let upload = requests.iter().find(|request| request.path == "/ojs/v1/jobs/1/result").unwrap();
    assert_eq!((upload.method.as_str(), upload.body.len()), ("PUT", 300_000));
    assert_eq!(upload.header("lease-token"), Some("1-token"));
    assert_eq!(upload.header("content-type"), Some("image/png"));
    assert_eq!(upload.header("content-disposition"), Some("attachment; filename=\"a_b.png\""));
    let refused =
        reports(&server).into_iter().find(|request| request.path.ends_with("/nack")).unwrap().json();
    assert_eq!(refused["error"]["retryable"], false);
    assert!(
        refused["error"]["message"].as_str().unwrap().starts_with("the result was not taken"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_job_that_is_not_extended_is_stopped_and_nothing_is_said_of_it() {
    let server = server(vec![job("gone", "a")], &["gone"]).await;
    let told = Arc::new(Notify::new());
    let tell = told.clone();
    let handler = move |_: ClaimedJob, context: Context| {
        let tell = tell.clone();
        async move {
            assert_eq!(context.canceled().await, Canceled::ByServer);
            tell.notify_one();
            Ok(Output::Nothing)
        }
    };
    let lease = Duration::from_secs(1);
    let worker = Worker::builder(client(&server)).handler("*", handler).lease(lease).build().unwrap();
    let stop = async { told.notified().await };
    worker.run(stop).await.unwrap();
    assert_eq!(reports(&server).len(), 0);
}

#[tokio::test]
async fn a_worker_that_stops_hands_back_what_does_not_end() {
    let server = server(vec![job("1", "a")], &[]).await;
    let begun = Arc::new(Notify::new());
    let begin = begun.clone();
    let handler = move |_: ClaimedJob, context: Context| {
        let begin = begin.clone();
        async move {
            begin.notify_one();
            assert_eq!(context.canceled().await, Canceled::ByStop);
            Err::<Output, _>(Failure::new("not finished"))
        }
    };
    let worker =
        Worker::builder(client(&server)).handler("*", handler).drain(Duration::ZERO).build().unwrap();
    let stopped = worker.run(async { begun.notified().await }).await.unwrap();
    assert_eq!(stopped.handed_back, 1);
    assert_eq!(reports(&server)[0].json()["requeue"], true);
}

#[tokio::test]
async fn a_job_that_was_taken_ahead_and_would_have_to_wait_goes_back() {
    let jobs = [("short", "math.sum"), ("long", "wait"), ("ahead", "math.sum")];
    let server = server(jobs.iter().map(|(id, name)| job(id, name)).collect(), &[]).await;
    let worker = Worker::builder(client(&server))
        .queue("q")
        .handler("math.sum", sum)
        .handler("wait", async |_, context: Context| {
            context.canceled().await;
            Err(Failure::new("stopped"))
        })
        .drain(Duration::ZERO)
        .build()
        .unwrap();
    // The only handler is busy with the long job: the one behind it is handed back by the clock, the long one at the end.
    let stopped = work(&server, worker, 2).await;
    assert_eq!((stopped.succeeded, stopped.handed_back), (1, 1));
    let ends: Vec<(String, Value)> =
        reports(&server).iter().map(|report| (report.path.clone(), report.json())).collect();
    let of = |id: &str| &ends.iter().find(|(_, body)| body["job_id"] == id).expect("a report").1;
    assert_eq!(of("ahead")["requeue"], true);
    assert_eq!(of("long")["requeue"], true);
    assert_eq!(ends.len(), 3);
}

#[tokio::test]
async fn a_server_that_is_away_at_the_start_is_an_error() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client =
        Client::builder(format!("http://{free}")).retry(forgerun_client::RetryPolicy::NEVER).build().unwrap();
    let worker = Worker::builder(client).handler("*", sum).build().unwrap();
    assert!(matches!(worker.run(std::future::pending()).await, Err(Error::Unreachable(_))));
}

#[test]
fn a_worker_that_cannot_work_is_not_built() {
    let client = Client::builder("http://127.0.0.1:1").build().unwrap();
    assert!(matches!(Worker::builder(client.clone()).build(), Err(Error::Usage(_))));
    assert!(matches!(
        Worker::builder(client.clone()).handler("*", sum).concurrency(0).build(),
        Err(Error::Usage(_))
    ));
    let short = Worker::builder(client).handler("*", sum).lease(Duration::from_millis(10));
    assert!(matches!(short.build(), Err(Error::Usage(_))));
}

#[tokio::test]
async fn a_job_that_fails_after_the_server_took_it_back_has_one_end() {
    let server = Foreign::start(|request, n| match request.path.as_str() {
        "/ojs/v1/workers/fetch" if n < 3 => Reply::json(200, &[], json!({"jobs": [job("1", "a")]})),
        "/ojs/v1/workers/fetch" => Reply::json(200, &[], json!({"jobs": []})),
        "/ojs/v1/workers/nack" => Reply::json(409, &[], json!({"code": "JOB_NOT_ACTIVE"})),
        _ => Reply::json(200, &[], json!({"state": "running", "jobs_extended": []})),
    })
    .await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let notes = told.clone();
    let worker = Worker::builder(client(&server))
        .handler("*", async |_, _| Err(Failure::new("out of time")))
        .notes(move |note| {
            notes.lock().unwrap().push(format!("{note:?}").split('(').next().unwrap().to_owned())
        })
        .build()
        .unwrap();
    let stopped = work(&server, worker, 1).await;
    assert_eq!((stopped.succeeded, stopped.failed), (0, 0));
    let ends: Vec<String> = told.lock().unwrap().iter().filter(|note| *note != "Draining").cloned().collect();
    assert_eq!(ends, ["Took", "Lost"]);
}

/// A server with the worker's round trip: fetch hands out `first`, the first exchange that asks for jobs `second`.
async fn exchanging(first: Vec<Value>, second: Value, status: u16) -> Foreign {
    let (first, second) = (Mutex::new(Some(first)), Mutex::new(Some(second)));
    Foreign::start(move |request, _| match request.path.as_str() {
        "/ojs/v1/workers/fetch" => {
            let jobs = first.lock().unwrap().take().unwrap_or_default();
            Reply::json(200, &[], json!({"jobs": jobs}))
        }
        "/ojs/v1/workers/exchange" => {
            let asked = request.json();
            let problem = json!({"status": status, "title": "Conflict"});
            let settled =
                |end: &Value| json!({"job_id": end["job_id"], "status": status, "problem": problem});
            let results: Vec<Value> = asked["done"].as_array().unwrap().iter().map(settled).collect();
            let jobs = if asked["count"] == 0 { None } else { second.lock().unwrap().take() };
            Reply::json(200, &[], json!({"results": results, "jobs": jobs.into_iter().collect::<Vec<_>>()}))
        }
        "/ojs/v1/workers/heartbeat" => {
            let listed = request.json()["active_jobs"].clone();
            Reply::json(200, &[], json!({"state": "running", "jobs_extended": listed, "exchange": true}))
        }
        _ => Reply::json(404, &[], json!({})),
    })
    .await
}

/// The ends of all exchanges, in order.
fn ends(server: &Foreign) -> Vec<Value> {
    let exchanges = server.requests().into_iter().filter(|request| request.path.ends_with("/exchange"));
    exchanges.flat_map(|request| request.json()["done"].as_array().cloned().unwrap_or_default()).collect()
}

#[tokio::test]
async fn ends_go_out_together_in_requests_that_ask_for_more() {
    let first = (1..=4).map(|n| job(&n.to_string(), "a")).collect();
    let server = exchanging(first, job("5", "a"), 200).await;
    let barrier = Arc::new(tokio::sync::Barrier::new(4));
    let handler = move |job: ClaimedJob, _: Context| {
        let barrier = barrier.clone();
        async move {
            if job.id != "5" {
                barrier.wait().await;
            }
            if job.id == "4" { Err(Failure::new("no paper")) } else { Output::json(&job.id) }
        }
    };
    let worker = Worker::builder(client(&server)).concurrency(4).handler("*", handler).build().unwrap();
    let stop = async {
        while ends(&server).len() < 5 {
            tokio::task::yield_now().await;
        }
    };
    let stopped = tokio::time::timeout(Duration::from_secs(60), worker.run(stop)).await.unwrap().unwrap();
    assert_eq!((stopped.succeeded, stopped.failed), (4, 1));
    let ends = ends(&server);
    let of = |id: &str| ends.iter().find(|end| end["job_id"] == id).unwrap().clone();
    assert_eq!((&of("1")["result"], &of("1")["lease_token"]), (&json!("1"), &json!("1-token")));
    assert_eq!(of("4")["error"]["message"], "no paper");
    assert_eq!(of("5")["result"], "5", "the job that came with the answer was worked on");
    assert!(reports(&server).is_empty(), "nothing is acknowledged by itself");
    let n_exchanges = server.requests().iter().filter(|request| request.path.ends_with("/exchange")).count();
    assert!(n_exchanges < 5, "{n_exchanges} requests for 5 ends");
}

#[tokio::test]
async fn an_end_that_is_refused_in_an_exchange_is_a_lost_job() {
    let server = exchanging(vec![job("1", "a")], job("2", "a"), 409).await;
    let worker = Worker::builder(client(&server)).handler("*", sum).build().unwrap();
    let stop = async {
        while ends(&server).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let stopped = tokio::time::timeout(Duration::from_secs(60), worker.run(stop)).await.unwrap().unwrap();
    assert_eq!((stopped.succeeded, stopped.failed), (0, 0));
}
