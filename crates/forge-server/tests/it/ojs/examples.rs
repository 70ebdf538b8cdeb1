//! The workers in `examples` do what their comments say, with nothing but the standard library of their language.

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
