//! A client that somebody else's generator (PyPI `openapi-python-client`) makes of our OpenAPI
//! document: every module of it can be imported, and it submits and polls, on both dialects,
//! against a server that wants no key.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::api::judges;
use crate::process::{Server, forgerun};

/// Uses the generated package. Fails loudly.
const DRIVER: &str = r#"
import importlib, pkgutil, sys, time
sys.path.insert(0, sys.argv[1])
import generated
modules = [found.name for found in pkgutil.walk_packages(generated.__path__, "generated.")]
for name in modules:
    importlib.import_module(name)
assert len(modules) > 100, modules

from generated import Client, models
from generated.api.jobs import submit_job, submit_batch, get_job, list_jobs
from generated.api.async_operations import begin_job, get_status
client = Client(base_url=sys.argv[2], raise_on_unexpected_status=True)

def polled(ask):
    for _ in range(600):
        seen = ask()
        if done(seen):
            return seen
        time.sleep(0.05)
    raise AssertionError("it does not end")

# A job of /v1 has an outcome, one of /api/v1 a status.
def done(seen):
    return getattr(seen, "outcome", None) is not None or str(getattr(seen, "status", "")) in ("Completed", "Failed")

body = models.SubmitRequest(
    type_=models.SubmitRequestType.EXECUTE, work_kind=models.SubmitRequestWorkKind.SUCCESS_FAST)
accepted = submit_job.sync(client=client, body=body)
assert isinstance(accepted, models.Submitted), accepted
job = polled(lambda: get_job.sync(client=client, job_id=accepted.job_id))
assert (str(job.state), str(job.outcome)) == ("SUCCEEDED", "SUCCESS"), job

item = models.ItemRequest(work_kind=models.ItemRequestWorkKind.SUCCESS_FAST)
batch = submit_batch.sync(client=client, body=models.BatchRequest(items=[item, item]))
assert polled(lambda: get_job.sync(client=client, job_id=batch.job_id)).items.completed == 2
assert len(list_jobs.sync(client=client, limit=200).jobs) == 2

begun = begin_job.sync(client=client, body=models.BeginRequest(
    type_="test", work_kind=models.BeginRequestWorkKind.SUCCESS_FAST))
ended = polled(lambda: get_status.sync(client=client, job_id=begun.job_id))
assert str(ended.status) == "Completed", ended

too_many = list_jobs.sync(client=client, limit=201)
assert too_many.status == 400, too_many
print("fine")
"#;

fn tool(name: &str) -> PathBuf {
    let tool = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../python/bin").join(name);
    assert!(tool.exists(), "{} is missing: run `make tools`", tool.display());
    tool
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn a_generated_python_client_imports_submits_and_polls() {
    let server = Server::start(
        forgerun(&["dev", "--listen", "127.0.0.1:0"])
            .env("FORGERUN_SIM__TIME_SCALE", "0")
            .env("FORGERUN_LOG__LEVEL", "error"),
    );
    let answer = server.get("/openapi.json");
    let (_, document) = answer.split_once("\r\n\r\n").unwrap();
    let folder = judges::folder("generated-client");
    let files = [
        ("openapi.json".to_owned(), document.to_owned()),
        // Nothing is to be made pretty.
        ("config.yml".to_owned(), "post_hooks: []\n".to_owned()),
    ];
    let files = judges::write(&folder, &files);
    let mut generate = Command::new(tool("openapi-python-client"));
    generate.args(["generate", "--overwrite", "--meta", "none", "--path"]).arg(&files[0]);
    generate.arg("--config").arg(&files[1]).arg("--output-path").arg(folder.join("generated"));
    let made = judges::run(&mut generate, "openapi-python-client");
    assert!(made.status.success(), "{}", text(&made));
    let base = format!("http://{}", server.address);
    let mut driver = Command::new(tool("python"));
    let driven = judges::run(driver.args(["-c", DRIVER]).arg(&folder).arg(base), "python");
    assert!(driven.status.success() && driven.stdout == b"fine\n", "{}", text(&driven));
}
