//! The samples of docs/do/receive-webhooks.md, run against deliveries: what a reader copies must work.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use forgerun_engine::{Clock, SystemClock};
use forgerun_server::webhooks::keys::{KeySet, Signer};
use forgerun_server::webhooks::standard::WebhookSecret;
use forgerun_server::webhooks::{Contents, DeliveryRequest, cloud_event::CloudEvent};
use serde_json::{Value, json};

use super::receiver::delivery_request;
use super::registered::{change, register, server, settled, submit};
use crate::api::judges;

const PAGE: &str = include_str!("../../../../../docs/do/receive-webhooks.md");

/// Reads deliveries, one per line, and says of each whether it holds.
const DRIVER: &str = r#"

import json, sys
for line in sys.stdin:
    delivery = json.loads(line)
    try:
        verify(delivery["method"], delivery["url"], delivery["headers"], delivery["body"].encode(),
               delivery["secret"], delivery["keys"])
        print("holds")
    except Exception as error:
        print("refused:", type(error).__name__)
"#;

/// The same for JavaScript, which gets them all in one file.
const JAVASCRIPT_DRIVER: &str = r#"
import { readFileSync } from 'node:fs';
for (const { body, keys, ...rest } of JSON.parse(readFileSync(process.argv[1], 'utf8'))) {
  const verdict = verify({ ...rest, body: Buffer.from(body), keySet: keys });
  console.log(await verdict.then(() => 'holds', (error) => `refused: ${error.message}`));
}
"#;

/// The samples in this language, in their order.
fn samples(language: &str) -> Vec<&'static str> {
    let start = format!("```{language}\n");
    let blocks = PAGE.split(&start).skip(1);
    blocks.map(|rest| rest.split("```").next().expect("text before the end")).collect()
}

/// The Python that `make tools` has put beside the build, with the libraries that the sample names.
fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../python/bin/python");
    assert!(python.exists(), "{} is missing: run `make tools`", python.display());
    python
}

fn delivery(delivery_request: &DeliveryRequest, keys: &KeySet) -> Value {
    let request = delivery_request.request(SystemClock.now(), Some(&keys.signing));
    let headers: serde_json::Map<String, Value> = request
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().into()))
        .collect();
    json!({
        "method": "POST",
        "url": delivery_request.target.as_str(),
        "headers": headers,
        "body": String::from_utf8(delivery_request.contents.body.to_vec()).unwrap(),
        "secret": delivery_request.secrets[0].to_text(),
        "keys": keys.document(),
    })
}

/// Deliveries, and whether each holds.
fn cases() -> [(Value, bool); 10] {
    let keys = KeySet {
        signing: Signer::from_seed(&[7; 32]).unwrap(),
        others: vec![Signer::from_seed(&[8; 32]).unwrap().public],
    };
    let secrets = [1, 2].map(|byte| WebhookSecret::from_bytes(vec![byte; 32]).unwrap()).to_vec();
    let plain = DeliveryRequest {
        secrets,
        ..delivery_request("https://example.com/hook?a=b", "{\"status\":500,\"title\":\"Jöb\"}")
    };
    let envelope = CloudEvent {
        id: "e-1".into(),
        source: "/".into(),
        kind: "dev.forgerun.job.failed".into(),
        subject: None,
        time: "2026-01-01T00:00:00Z".into(),
    };
    let contents = Contents { envelope: envelope.headers(), ..plain.contents.clone() };
    let binary = DeliveryRequest { contents, ..plain.clone() };
    let good = delivery(&plain, &keys);
    let with = |member: &str, value: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(member).unwrap() = value;
        changed
    };
    let mut old_secret = good.clone();
    old_secret["secret"] = plain.secrets[1].to_text().into();
    [
        (good.clone(), true),
        (old_secret, true),
        (delivery(&binary, &keys), true),
        (with("/body", "{\"status\":501}".into()), false),
        (with("/url", "https://example.com/other".into()), false),
        (with("/method", "PUT".into()), false),
        (with("/headers/content-type", "application/json".into()), false),
        (with("/headers/webhook-id", "another".into()), false),
        (with("/secret", WebhookSecret::from_bytes(vec![9; 32]).unwrap().to_text().into()), false),
        (with("/keys", json!({"keys": []})), false),
    ]
}

/// Compares what a sample said, line by line.
fn assert_verdicts(said: &str, cases: &[(Value, bool)]) {
    let verdicts: Vec<&str> = said.lines().collect();
    assert_eq!(verdicts.len(), cases.len(), "{verdicts:?}");
    for ((delivery, holds), verdict) in cases.iter().zip(verdicts) {
        assert_eq!(verdict == "holds", *holds, "{verdict} for {delivery}");
    }
}

#[test]
fn the_python_sample_accepts_what_we_send_and_nothing_else() {
    let cases = cases();
    let mut child = Command::new(python())
        .args(["-c", &format!("{}{DRIVER}", samples("python")[0])])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = cases.iter().map(|(delivery, _)| format!("{delivery}\n")).collect();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_verdicts(&String::from_utf8(output.stdout).unwrap(), &cases);
}

#[test]
fn the_javascript_sample_accepts_what_we_send_and_nothing_else() {
    let cases = cases();
    let deliveries: Value = cases.iter().map(|(delivery, _)| delivery.clone()).collect();
    let texts = [("deliveries.json".to_owned(), deliveries.to_string())];
    let paths = judges::write(&judges::folder("webhook-samples"), &texts);
    let script = format!("{}{JAVASCRIPT_DRIVER}", samples("js")[0]);
    assert_verdicts(&judges::node(&script, &paths[0]), &cases);
}

/// The receiver of the page on a free port, until it is dropped.
struct PythonReceiver {
    child: Child,
    url: String,
}

impl PythonReceiver {
    fn start(secret: &str, keys_url: &str) -> PythonReceiver {
        let mut child = Command::new(python())
            .args(["-c", &samples("python").concat(), "0", secret, keys_url])
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening on ").map(str::to_owned);
        PythonReceiver { child, url: url.unwrap_or_else(|| panic!("it says {line:?}")) }
    }
}

impl Drop for PythonReceiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn the_python_receiver_takes_what_a_server_sends_and_refuses_it_with_another_secret() {
    let server = server(1).await;
    let client = server.client().await;
    let keys_url = format!("http://{}/.well-known/forgerun/webhook-keys", server.address);
    // Nobody calls this URL: the receiver, which has to know the secret, says where it listens.
    let webhook =
        register(&client, json!({"url": "http://127.0.0.1:9/hook", "events": ["job_failed"]})).await;
    let another = WebhookSecret::from_bytes(vec![9; 32]).unwrap().to_text();
    let right = webhook["secret"].as_str().unwrap();
    for (secret, outcome, status) in [(right, "delivered", 204), (&another, "failed", 401)] {
        let receiver = PythonReceiver::start(secret, &keys_url);
        change(&client, &webhook, json!({"url": receiver.url})).await;
        submit(&client, "FAIL_IMMEDIATE").await;
        let [delivery] = &settled(&client, &webhook, outcome, 1).await[..] else { panic!("one {outcome}") };
        assert_eq!(delivery["log"][0]["response_status"], status, "{delivery}");
    }
}
