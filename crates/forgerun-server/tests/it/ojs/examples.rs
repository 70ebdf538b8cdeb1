//! The Python programs in `examples` do what their comments say, from a checkout without any
//! installation. The tests of the TypeScript SDK run `worker.js`.

use std::process::{Child, Command, Stdio};

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStdout;

use super::*;

/// A worker that ends with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_worker_in_python_works() {
    let world = World::start().await;
    let path = format!("{}/../../examples/worker.py", env!("CARGO_MANIFEST_DIR"));
    let worker = Command::new("python3")
        .arg(path)
        .env("FORGERUN_URL", format!("http://{}", world.server.address))
        .env("FORGERUN_API_KEY", &world.client.key)
        .spawn();
    let _worker = Running(worker.unwrap());
    let good = world.post("jobs", json!({"type": "text.upper", "args": ["hello"]})).await.expect(201);
    let options = json!({"retry": {"max_attempts": 1}});
    let bad =
        world.post("jobs", json!({"type": "text.upper", "args": [7], "options": options})).await.expect(201);
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
    assert!(failed["error"]["message"].as_str().unwrap().contains("no attribute"), "{failed}");
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

/// A program of the Python SDK under way: its lines.
struct SdkProgram {
    _process: tokio::process::Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl SdkProgram {
    fn start(world: &World, name: &str, arguments: &[&str]) -> SdkProgram {
        let root = format!("{}/../..", env!("CARGO_MANIFEST_DIR"));
        let mut process = tokio::process::Command::new("python3")
            .arg(format!("{root}/examples/{name}"))
            .args(arguments)
            .env("PYTHONPATH", format!("{root}/sdk/python/src"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("FORGERUN_URL", format!("http://{}", world.server.address))
            .env("FORGERUN_API_KEY", &world.client.key)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        SdkProgram { _process: process, lines }
    }

    /// The next line with this text in it; those before are appended to `told`.
    async fn line(&mut self, text: &str, told: &mut String) -> String {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            told.push_str(&line);
            told.push('\n');
            if line.contains(text) {
                return line;
            }
        }
        panic!("no line with {text:?}: {told}");
    }
}

/// Begins the order, and answers on the page of its wait like a browser.
async fn approval(answer: &str) -> String {
    let world = World::with(&[("limits.rate_per_minute", "0")]).await;
    let mut told = String::new();
    let mut program = SdkProgram::start(&world, "approval.py", &[]);
    let asked = program.line("waits for an answer at", &mut told).await;
    let (_, path) = asked.split_once("/v1/signals/").unwrap();
    let page = crate::api::http::Call::new(world.server.address, "POST", &format!("/v1/signals/{path}"));
    let page = page.header("content-type", "application/x-www-form-urlencoded");
    page.header("accept", "text/html").body(answer).send().await;
    program.line("order-4711: ", &mut told).await;
    told
}

#[tokio::test]
async fn an_order_that_a_person_approves_is_shipped() {
    let told = approval("ok=true&by=kim").await;
    assert!(told.contains("shipped order 4711, approved by kim"), "{told}");
    assert!(told.contains("SUCCEEDED, reserve SUCCEEDED, ask SUCCEEDED, ship SUCCEEDED"), "{told}");
    assert!(!told.contains("released"), "{told}");
}

#[tokio::test]
async fn an_order_that_a_person_refuses_is_undone() {
    let told = approval("ok=false&by=lee").await;
    assert!(told.contains("released r-4711"), "{told}");
    assert!(told.contains("FAILED, reserve SUCCEEDED, ask SUCCEEDED, ship FAILED"), "{told}");
    assert!(!told.contains("shipped"), "{told}");
}

#[tokio::test]
async fn a_report_fans_out_over_a_list() {
    let world = World::with(&[("limits.rate_per_minute", "0")]).await;
    let mut program = SdkProgram::start(&world, "fan-out.py", &["120"]);
    let report = program.line("Sales", &mut String::new()).await;
    assert!(report.contains("'branches': 120, 'sales': 30000, 'best': 'b3'"), "{report}");
}

#[tokio::test]
async fn an_import_that_is_killed_three_times_goes_on_where_it_was() {
    let world = World::with(&[("limits.rate_per_minute", "0")]).await;
    let (mut told, mut program) = (String::new(), SdkProgram::start(&world, "long-import.py", &[]));
    let ended = program.line(" rows in attempt ", &mut told).await;
    assert_eq!(told.matches("killed the worker").count(), 3, "{told}");
    assert!(ended.starts_with("20000 rows in attempt 4; 20 batches, "), "{told}");
    let twice: u32 = ended.split(' ').nth_back(3).unwrap().parse().unwrap();
    assert!(twice <= 3, "no batch but those that a kill cut off: {told}");
}
