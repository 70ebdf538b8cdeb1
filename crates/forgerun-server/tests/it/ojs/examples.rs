//! The workers in `examples` do what their comments say, with nothing but the standard library of
//! their language.

use std::process::{Child, Command, Stdio};

use super::*;

/// A worker that ends with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lets a worker do one job that works and one that fails.
async fn works(program: &str, script: &str) {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        eprintln!("{program} is not installed; {script} is not tried");
        return;
    }
    let world = World::start().await;
    let path = format!("{}/../../examples/{script}", env!("CARGO_MANIFEST_DIR"));
    let worker = Command::new(program)
        .arg(path)
        .env("FORGERUN_URL", format!("http://{}", world.server.address))
        .env("FORGERUN_API_KEY", &world.client.key)
        .spawn();
    let _worker = Running(worker.unwrap());
    let good = world.post("jobs", json!({"type": "text.upper", "args": ["hello"]})).await.expect(201);
    let options = json!({"retry": {"max_attempts": 1}});
    let bad =
        world.post("jobs", json!({"type": "text.nothing", "args": [], "options": options})).await.expect(201);
    let ended = async |id: String| {
        let wait = world.client.call("GET", &format!("/v1/jobs/{id}")).header("prefer", "wait=30");
        wait.send().await.expect(200);
        world.job(&id).await
    };
    let id = |pushed: &Value| pushed["job"]["id"].as_str().unwrap().to_owned();
    let done = ended(id(&good)).await;
    assert_eq!((&done["state"], &done["result"]), (&json!("completed"), &json!({"text": "HELLO"})));
    let failed = ended(id(&bad)).await;
    assert_eq!(failed["state"], "discarded", "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("text.nothing"), "{failed}");
}

#[tokio::test]
async fn the_worker_in_python_works() {
    works("python3", "worker.py").await;
}

#[tokio::test]
async fn the_worker_in_javascript_works() {
    works("node", "worker.js").await;
}

/// The nightly report, with nights that last a second.
#[tokio::test]
async fn the_nightly_report_is_made_each_night() {
    let world = World::with(&[("limits.rate_per_minute", "0")]).await;
    let path = format!("{}/../../examples/nightly-report.py", env!("CARGO_MANIFEST_DIR"));
    let worker = Command::new("python3")
        .arg(path)
        .env("FORGERUN_URL", format!("http://{}", world.server.address))
        .env("FORGERUN_API_KEY", &world.client.key)
        .env("REPORT_CRON", "* * * * * *")
        .stdout(Stdio::null())
        .spawn();
    let _worker = Running(worker.unwrap());
    let reported = loop {
        let cron = world.get("cron/nightly-report").await;
        let last = (cron.status == 200).then(|| cron.expect(200)["cron"]["last_job_id"].clone());
        if let Some(Value::String(id)) = last {
            break id;
        }
        tokio::task::yield_now().await;
    };
    let wait = world.client.call("GET", &format!("/v1/jobs/{reported}")).header("prefer", "wait=30");
    wait.send().await.expect(200);
    let job = world.job(&reported).await;
    assert_eq!(job["state"], "completed", "{job}");
    assert_eq!(job["result"]["until"], job["meta"]["cron_triggered_at"]);
}

/// Runs the example of an order to its end: what it prints.
async fn order(card: &[&str]) -> Option<String> {
    let found = Command::new("python3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        eprintln!("python3 is not installed; order.py is not tried");
        return None;
    }
    let world = World::start().await;
    let mut command = tokio::process::Command::new("python3");
    command
        .arg(format!("{}/../../examples/order.py", env!("CARGO_MANIFEST_DIR")))
        .args(card)
        .env("FORGERUN_URL", format!("http://{}", world.server.address))
        .env("FORGERUN_API_KEY", &world.client.key)
        .kill_on_drop(true);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn an_order_that_goes_well_is_shipped_and_nothing_is_undone() {
    let Some(told) = order(&[]).await else { return };
    assert!(told.contains(r#"order.ship: {"parcel": "parcel-4711", "paid": "p-4711"}"#), "{told}");
    assert!(!told.contains("order.release"), "{told}");
    assert!(
        told.contains("order-4711: completed, reserve completed, charge completed, ship completed"),
        "{told}"
    );
}

#[tokio::test]
async fn an_order_whose_card_is_declined_is_undone() {
    let Some(told) = order(&["declined"]).await else { return };
    assert!(told.contains(r#"order.release: {"released": "r-4711"}"#), "{told}");
    assert!(!told.contains("order.ship") && !told.contains("order.refund"), "{told}");
    assert!(told.contains("order-4711: failed, reserve completed, charge failed, ship cancelled"), "{told}");
}

#[tokio::test]
async fn an_order_that_cannot_be_shipped_is_refunded_before_it_is_released() {
    let Some(told) = order(&["unshippable"]).await else { return };
    let refunded = told.find(r#"order.refund: {"refunded": "p-4711"}"#).unwrap_or_else(|| panic!("{told}"));
    assert!(told[refunded..].contains("order.release"), "{told}");
}
