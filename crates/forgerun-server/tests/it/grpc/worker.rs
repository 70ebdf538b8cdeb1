//! Workers of `forgerun-client`, and of the command line, that take their jobs over gRPC.

use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use forgerun_client::worker::{ClaimedJob, Context, Failure, Note, Output};
use forgerun_client::{Client as ForgeClient, Worker};
use forgerun_store::testing::free_port;
use serde_json::json;
use tokio::sync::oneshot;

use super::*;
use crate::process;

fn client_of(world: &World) -> ForgeClient {
    ForgeClient::builder(format!("http://{}", world.server.address)).key(&world.client.key).build().unwrap()
}

/// The job as HTTP shows it, once it has ended.
async fn ended(world: &World, id: &str) -> serde_json::Value {
    let wait = world.client.call("GET", &format!("/v1/jobs/{id}")).header("prefer", "wait=30");
    wait.send().await.expect(200);
    world.client.get(&format!("/ojs/v1/jobs/{id}")).await.expect(200)["job"].clone()
}

async fn push(world: &World, options: serde_json::Value, args: serde_json::Value) -> String {
    let body = json!({"type": "test.upper", "args": args, "options": options});
    let pushed = world.client.call("POST", "/ojs/v1/jobs").json(body).send().await.expect(201);
    pushed["job"]["id"].as_str().unwrap().to_owned()
}

async fn upper(job: ClaimedJob, _: Context) -> Result<Output, Failure> {
    let [text]: [String; 1] = serde_json::from_str(job.input())?;
    Output::json(&json!({"text": text.to_uppercase()}))
}

#[tokio::test]
async fn a_worker_does_jobs_that_are_streamed_to_it() {
    let world = World::start().await;
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = notes.clone();
    let worker = Worker::builder(client_of(&world))
        .grpc(format!("http://{}", world.address))
        .queue("q")
        .concurrency(2)
        .handler("*", upper)
        .notes(move |note: &Note<'_>| noted.lock().unwrap().push(format!("{note:?}")))
        .build()
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let working = tokio::spawn(async move {
        worker
            .run(async {
                let _ = stopped.await;
            })
            .await
    });
    let options = json!({"queue": "q", "retry": {"max_attempts": 1}});
    let mut good = Vec::new();
    for n in 0..5 {
        good.push(push(&world, options.clone(), json!([format!("job {n}")])).await);
    }
    let bad = push(&world, options, json!([1, 2])).await;
    for (n, id) in good.iter().enumerate() {
        let job = ended(&world, id).await;
        assert_eq!(
            (&job["state"], &job["result"]),
            (&json!("completed"), &json!({"text": format!("JOB {n}")}))
        );
    }
    assert_eq!(ended(&world, &bad).await["state"], "discarded");
    stop.send(()).unwrap();
    let stopped = working.await.unwrap().unwrap();
    assert_eq!((stopped.succeeded, stopped.failed), (5, 1), "{:?}", notes.lock().unwrap());
}

#[tokio::test]
async fn a_worker_whose_key_is_refused_says_so_and_an_address_that_is_none_is_no_worker() {
    let world = World::start().await;
    let other = World::start().await;
    let build = |url: String| {
        let builder = Worker::builder(client_of(&world)).grpc(url).handler("*", upper);
        builder.build()
    };
    // The key is good where it sends its heartbeats, and unknown where it wants jobs.
    let worker = build(format!("http://{}", other.address)).unwrap();
    let run = tokio::time::timeout(Duration::from_secs(60), worker.run(std::future::pending()));
    let error = run.await.expect("it ends").unwrap_err();
    let said = error.api().expect("the server said so");
    assert_eq!(said.canonical.as_deref(), Some("UNAUTHENTICATED"));
    assert!(build("127.0.0.1:9090".to_owned()).is_err() && build("ftp://a".to_owned()).is_err());
}

#[tokio::test]
async fn a_grpc_server_that_is_not_there_stops_the_start_of_a_worker() {
    let world = World::start().await;
    let url = format!("http://{}", world.server.address);
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    let arguments = ["worker", "exec", "--url", &url, "--grpc", &nowhere, "--", "/bin/true"];
    let mut command = process::forgerun(&arguments);
    command.env("FORGERUN_API_KEY", &world.client.key);
    let ended = tokio::task::spawn_blocking(move || process::run(&mut command)).await.unwrap();
    assert_eq!(ended.code, Some(6), "{}", ended.stderr);
    assert!(ended.stderr.contains("could not reach"), "{}", ended.stderr);
}

#[tokio::test]
async fn worker_exec_takes_jobs_over_grpc() {
    let world = World::start().await;
    let (url, grpc) = (format!("http://{}", world.server.address), format!("http://{}", world.address));
    let arguments = ["worker", "exec", "--url", &url, "--grpc", &grpc, "--queue", "q", "--", "cat"];
    let mut command = process::forgerun(&arguments);
    let mut child = command
        .env("FORGERUN_API_KEY", &world.client.key)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let id = push(&world, json!({"queue": "q"}), json!(["a"])).await;
    let job = ended(&world, &id).await;
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!((&job["state"], &job["result"]), (&json!("completed"), &json!(["a"])));
}
