//! The samples of docs/reference/amqp-bridge.md, run: what a reader copies must work.

use std::process::Command;

use tokio::task::spawn_blocking;

use super::{World, messages};
use crate::rabbitmq::python;

const PAGE: &str = include_str!("../../../../../docs/reference/amqp-bridge.md");

/// The sample in Python with this word in it.
fn sample(word: &str) -> &'static str {
    let blocks = PAGE.split("```python\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.into_iter().find(|block| block.contains(word)).unwrap()
}

/// Runs a sample; what it printed.
async fn run(sample: &'static str, url: &str) -> String {
    let url = url.to_owned();
    let run = move || Command::new(python()).args(["-c", sample]).env("AMQP_URL", url).output().unwrap();
    let output = spawn_blocking(run).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn the_producer_of_the_page_publishes_a_job_and_cancels_one() {
    let world = World::start().await;
    world.publish(serde_json::json!([])).await;
    let first = run(sample("email.send"), &world.url).await;
    world.wait_for_metric(&messages("taken"), 1).await;
    let job = world.job(&first).await;
    assert_eq!((&job["type"], &job["queue"]), (&"email.send".into(), &"emails".into()), "{job}");
    let cancel = Box::leak(sample("ojs.control.cancel").replace("JOB_ID", &first).into_boxed_str());
    run(cancel, &world.url).await;
    world.wait_for_metric(&messages("obeyed"), 1).await;
    assert_eq!(world.job(&first).await["state"], "cancelled");
}
