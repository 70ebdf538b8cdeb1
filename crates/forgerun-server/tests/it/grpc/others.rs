//! Clients that are not ours: Python's grpcio for every call and status, JavaScript's grpc-js for
//! one round trip.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;

use super::World;
use crate::api::judges;

const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../forgerun-wire/proto");
const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/grpc/driver.py");

fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../python/bin/python");
    assert!(python.exists(), "{} is missing: run `make tools`", python.display());
    python
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Runs a program to its end while the server of this process goes on.
async fn run(mut command: Command, name: &'static str) -> Output {
    tokio::task::spawn_blocking(move || judges::run(&mut command, name)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpcio_can_make_every_call_and_reads_every_status() {
    let world = World::start().await;
    let small = World::with(&[
        ("limits.queue_size", "2"),
        ("limits.rate_per_minute", "5"),
        ("ojs.strict_catalog", "true"),
    ])
    .await;
    let other = world.server.client().await;
    let revoked = world.server.client().await;
    let path = format!("/v1/clients/{}/keys/revoke", revoked.id);
    let revoke = revoked.call("POST", &path).json(json!({"key_id": revoked.key_id}));
    assert!(revoke.send().await.status < 300);

    let folder = judges::folder("grpc-stubs");
    let mut generate = Command::new(python());
    generate.args(["-m", "grpc_tools.protoc", "-I", PROTO]).arg("--python_out").arg(&folder);
    generate
        .arg("--grpc_python_out")
        .arg(&folder)
        .args(["ojs/v1/service.proto", "forgerun/v1/results.proto"]);
    let made = run(generate, "grpc_tools").await;
    assert!(made.status.success(), "{}", text(&made));

    let mut driver = Command::new(python());
    driver.arg(DRIVER).arg(&folder).arg(world.address.to_string());
    driver.args([&world.client.key, &other.key, &revoked.key]);
    driver.arg(small.address.to_string()).arg(&small.client.key);
    let driven = run(driver, "python").await;
    let said = text(&driven);
    assert!(driven.status.success() && said.ends_with("fine\n"), "{said}");
}

const JAVASCRIPT: &str = r#"
import { readFileSync } from 'node:fs';
import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';
const { proto, address, key } = JSON.parse(readFileSync(process.argv[1], 'utf8'));
const definition = loader.loadSync('ojs/v1/service.proto', { includeDirs: [proto], enums: String, defaults: true });
const { OJSService } = grpc.loadPackageDefinition(definition).ojs.v1;
const client = new OJSService(address, grpc.credentials.createInsecure());
const metadata = new grpc.Metadata();
metadata.set('authorization', `Bearer ${key}`);
const call = (name, request, more = metadata) => new Promise((done, failed) =>
  client[name](request, more, (error, answer) => (error ? failed(error) : done(answer))));
const check = (truth, what) => { if (!truth) { console.log('wrong:', what); process.exit(1); } };
const { job } = await call('Enqueue', { type: 'js.test', args: [{ numberValue: 7 }], options: { queue: 'js' } });
check(job.state === 'JOB_STATE_AVAILABLE' && job.args[0].numberValue === 7, job);
const stream = client.StreamJobs({ queues: ['js'], workerId: 'node', maxConcurrent: 1 }, metadata);
const taken = await new Promise((done, failed) => stream.once('data', done).once('error', failed));
check(taken.id === job.id, taken);
const own = metadata.clone();
own.set('x-forgerun-lease-token', taken.meta.fields['forgerun.lease_token'].stringValue);
check((await call('Ack', { jobId: job.id }, own)).acknowledged, 'the ack');
stream.on('error', () => {});
stream.cancel();
check((await call('GetJob', { jobId: job.id })).job.state === 'JOB_STATE_COMPLETED', 'the end');
await call('GetJob', { jobId: 'nothing' }).then(() => check(false, 'found nothing'), (error) =>
  check(error.code === grpc.status.NOT_FOUND && error.metadata.get('grpc-status-details-bin').length === 1, error));
client.close();
console.log('fine');
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_js_makes_a_round_trip() {
    let world = World::start().await;
    let folder = judges::folder("grpc-js");
    let facts = json!({"proto": PROTO, "address": world.address.to_string(), "key": world.client.key});
    let files = judges::write(&folder, &[("facts.json".to_owned(), facts.to_string())]);
    let said = tokio::task::spawn_blocking(move || judges::node(JAVASCRIPT, &files[0])).await.unwrap();
    assert_eq!(said, "fine\n");
}
