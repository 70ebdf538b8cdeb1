//! The served OpenAPI document and the server are held against each other: the same routes, and for
//! thousands of requests made from the document, good and bad, only answers that it allows.

mod checker;
pub(super) mod making;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Owned, WorkerKind};
use forgerun_server::{Bounds, pages};
use forgerun_store::memory::Memory;
use serde_json::{Value, json};

use self::checker::{Asked, Contract};
use self::making::{Dice, Made};
use super::http::{Answer, Call};
use super::server::{Client, Server};

const ADMIN: &str = "the-operator-knows-this-secret-0123456789";

async fn document(server: &Server) -> Value {
    let answer = server.call("GET", "/openapi.json").send().await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    resolved(answer.expect(200))
}

/// The document with parameters and responses in their places.
fn resolved(mut document: Value) -> Value {
    let components = document["components"].clone();
    let resolve = |value: &mut Value| {
        let target = value["$ref"].as_str().and_then(|target| target.strip_prefix("#/components"));
        if let Some(found) = target.and_then(|target| components.pointer(target)) {
            *value = found.clone();
        }
    };
    let items = document["paths"].as_object_mut().unwrap().values_mut();
    for operation in items.flat_map(|item| item.as_object_mut().unwrap().values_mut()) {
        operation["parameters"].as_array_mut().unwrap().iter_mut().for_each(resolve);
        operation["responses"].as_object_mut().unwrap().values_mut().for_each(resolve);
    }
    document
}

fn of_dialect(path: &str) -> bool {
    ["/v1", "/api/v1", "/admin/v1"].iter().any(|prefix| path.starts_with(prefix))
}

#[tokio::test]
async fn the_document_has_every_page_and_each_of_its_operations_leads_somewhere() {
    let server = Server::start().await;
    let contract = Contract::new(document(&server).await);
    let operations = contract.operations();
    let documented: BTreeSet<&str> = operations
        .iter()
        .map(|(_, path)| path.as_str())
        .filter(|path| !of_dialect(path) && !of_ojs(path))
        .collect();
    assert_eq!(documented, pages::paths().into_iter().collect());
    for (method, path) in &operations {
        let path =
            path.replace("{slug}", "job-not-found").replace("{code}", "NOT_FOUND").replace(['{', '}'], "");
        let answer = server.call(method, &path).send().await;
        let nowhere = answer.status == 405 || answer.status == 404 && answer.json()["type"] == "about:blank";
        assert!(!nowhere, "{method} {path} leads nowhere: {}", answer.status);
    }
}

#[tokio::test]
async fn every_submission_that_the_document_shows_is_accepted() {
    let server = Server::start().await;
    let client = server.client().await;
    let document = document(&server).await;
    for path in ["/v1/jobs", "/api/v1/jobs", "/api/v1/reports/generate"] {
        let body = &document["paths"][path]["post"]["requestBody"];
        let examples = body["content"]["application/json"]["examples"].as_object().unwrap();
        assert!(examples.len() > 3);
        for (_, example) in examples {
            client.call("POST", path).json(&example["value"]).send().await.expect(202);
        }
    }
}

#[tokio::test]
async fn the_schema_of_problems_is_published_and_holds_for_a_problem_of_the_server() {
    let server = Server::with(&[("server.public_base_url", "https://forge.example")]).await;
    let path = "/schemas/async-job-problem-details.json";
    let answer = server.call("GET", path).send().await;
    assert_eq!(answer.header("content-type"), Some("application/schema+json"));
    let schema = answer.expect(200);
    assert_eq!(schema["$id"], format!("https://forge.example{path}"));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut problem =
        server.call("GET", "/v1/jobs").send().await.refused(401, "RFA_AUTH_INVALID_CREDENTIALS");
    assert!(validator.is_valid(&problem));
    problem["retryable"] = json!("perhaps");
    assert!(!validator.is_valid(&problem));
    let document = document(&server).await;
    assert_eq!(document["servers"], json!([{"url": "https://forge.example"}]));
}

/// Those of Open Job Spec take what the standard says, so requests are not made up for them but follow a job.
fn of_ojs(path: &str) -> bool {
    path.starts_with("/ojs")
}

#[tokio::test]
async fn the_answers_of_open_job_spec_are_those_that_the_document_allows() {
    let server = Server::start().await;
    let client = server.client().await;
    let contract = Contract::new(document(&server).await);
    let ask = async |method: &str, path: &str, job: &str, body: Value| -> Value {
        let target = path.replace("{job_id}", job).replace("{queue}", "mail").replace("{name}", "nightly");
        let call = client.call(method, &target).header("accept", "*/*");
        let answer = if body.is_null() { call.send().await } else { call.json(body).send().await };
        let asked = Asked { method, path };
        assert_eq!(
            contract.complaints(asked, &answer),
            Vec::<String>::new(),
            "{method} {target}: {}",
            answer.text()
        );
        assert!(answer.status < 500, "{method} {target}");
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    };
    let envelope = json!({"type": "mail.send", "args": [4711], "options": {"queue": "mail"}});
    let job = ask("POST", "/ojs/v1/jobs", "", envelope.clone()).await;
    let job = job["job"]["id"].as_str().unwrap().to_owned();
    let other =
        ask("POST", "/ojs/v1/jobs", "", envelope.clone()).await["job"]["id"].as_str().unwrap().to_owned();
    let jobs = json!({"jobs": [envelope.clone(), envelope]});
    let cron = json!({"name": "nightly", "cron": "0 3 * * *", "type": "report.make", "args": []});
    let fetch = json!({"queues": ["mail"], "worker_id": "w", "count": 2});
    let ack = json!({"job_id": job, "result": {"sent": 1}});
    let nack = json!({"job_id": other, "error": {"code": "SMTP", "message": "refused"}});
    for (method, path, id, body) in [
        ("POST", "/ojs/v1/jobs/batch", "", jobs.clone()),
        ("POST", "/ojs/v1/jobs/bulk", "", jobs),
        ("POST", "/ojs/v1/jobs", "", json!({"args": []})),
        ("GET", "/ojs/v1/jobs/{job_id}", &*job, Value::Null),
        ("GET", "/ojs/v1/jobs/{job_id}", "no-id", Value::Null),
        ("POST", "/ojs/v1/workers/fetch", "", fetch),
        ("POST", "/ojs/v1/workers/heartbeat", "", json!({"worker_id": "w", "active_jobs": [job]})),
        ("PUT", "/ojs/v1/checkpoints/{job_id}", &*job, json!({"state": {"page": 7}})),
        ("GET", "/ojs/v1/checkpoints/{job_id}", &*job, Value::Null),
        ("POST", "/ojs/v1/workers/ack", "", ack.clone()),
        ("POST", "/ojs/v1/workers/ack", "", ack),
        ("POST", "/ojs/v1/workers/nack", "", nack),
        ("GET", "/ojs/v1/jobs/{job_id}/result", &*job, Value::Null),
        ("GET", "/ojs/v1/jobs/{job_id}/progress", &*job, Value::Null),
        ("DELETE", "/ojs/v1/jobs/{job_id}", &*job, Value::Null),
        ("GET", "/ojs/v1/queues", "", Value::Null),
        ("GET", "/ojs/v1/queues/{queue}", "", Value::Null),
        ("GET", "/ojs/v1/queues/{queue}/stats", "", Value::Null),
        ("POST", "/ojs/v1/queues/{queue}/pause", "", Value::Null),
        ("GET", "/ojs/v1/workers", "", Value::Null),
        ("GET", "/ojs/v1/dead-letter", "", Value::Null),
        ("POST", "/ojs/v1/cron", "", cron.clone()),
        ("POST", "/ojs/v1/cron", "", cron),
        ("GET", "/ojs/v1/cron/{name}", "", Value::Null),
        ("GET", "/ojs/v1/cron", "", Value::Null),
        ("POST", "/ojs/v1/workflows", "", json!({"type": "chain", "steps": [{"type": "a", "args": []}]})),
        ("GET", "/ojs/v1/workflows", "", Value::Null),
        ("GET", "/ojs/v1/schemas", "", Value::Null),
        ("GET", "/ojs/v1/events", "", Value::Null),
        ("GET", "/ojs/v1/admin/stats", "", Value::Null),
        ("GET", "/ojs/v1/ws", "", Value::Null),
        ("GET", "/ojs/manifest", "", Value::Null),
        ("GET", "/ojs/v1/health", "", Value::Null),
        ("GET", "/ojs/errors", "", Value::Null),
    ] {
        ask(method, path, id, body).await;
    }
}

/// What each request of the run may lead to.
struct World {
    server: Server,
    client: Client,
    other: Client,
    /// A client of whom only the id is known.
    stranger: String,
    /// Whose keys may be lost.
    victim: Client,
    jobs: Vec<String>,
    /// The one of them that left a result.
    succeeded: String,
    /// Ids that `/api/v1` may be asked for.
    executions: Vec<String>,
    webhooks: Vec<String>,
    deliveries: Vec<String>,
    /// Groups of failures.
    groups: Vec<String>,
    workflows: Vec<String>,
}

impl World {
    async fn new(registration: &str) -> World {
        let settings = [
            ("auth.registration", registration),
            ("limits.rate_per_minute", "1000000"),
            ("limits.max_body_bytes", "4096"),
            ("limits.max_job_payload_kb", "1"),
            ("auth.admin_token", ADMIN),
        ];
        let bounds = Bounds { wait_max: Duration::from_millis(5), ..Bounds::default() };
        let server = Server::on(Arc::new(Memory::new()), &settings, bounds).await;
        let (client, other) = (registered(&server).await, registered(&server).await);
        let (stranger, victim) = (registered(&server).await.id, registered(&server).await);
        World {
            server,
            client,
            other,
            stranger,
            victim,
            jobs: Vec::new(),
            succeeded: String::new(),
            executions: Vec::new(),
            webhooks: Vec::new(),
            deliveries: Vec::new(),
            groups: Vec::new(),
            workflows: Vec::new(),
        }
    }

    /// New keys, jobs in every state, and a new minute for those who guess.
    async fn refresh(&mut self) {
        self.server.clock.advance(Duration::from_secs(60));
        self.victim = registered(&self.server).await;
        let beat = self.client.call("POST", "/ojs/v1/workers/heartbeat").json(json!({"worker_id": "w-1"}));
        beat.send().await.expect(200);
        let nightly = json!({"cron": "0 3 * * *", "job": {"type": "EXECUTE", "queue": "nights"}});
        self.client.call("PUT", "/v1/schedules/nightly").json(nightly).send().await;
        self.refresh_webhooks().await;
        self.refresh_workflows().await;
        self.jobs = vec![self.other.job().await, self.client.job().await];
        let told = self.client.get(&format!("/v1/jobs/{}/deliveries", self.jobs[1])).await.expect(200);
        let told = told["deliveries"].as_array().unwrap().iter();
        self.deliveries.extend(told.map(|known| known["delivery_id"].as_str().unwrap().to_owned()));
        let batch = self
            .client
            .call("POST", "/v1/jobs/batch")
            .json(json!({"items": [{}, {}], "queue": "batches"}))
            .send()
            .await;
        self.jobs.push(batch.expect(202)["job_id"].as_str().unwrap().to_owned());
        let canceled = self.client.job().await;
        self.client.post(&format!("/v1/jobs/{canceled}/cancel")).await.expect(200);
        self.jobs.push(canceled);
        // In a queue of their own: among what the run submits there are batches, which end
        // otherwise.
        for end in 0..3 {
            self.client.job_like(quick("ending")).await;
            let job = self.server.claim_as(WorkerKind::BuiltIn, "ending", true).await;
            let job = match end {
                0 => self.server.succeed_held(&job).await,
                1 => self.server.fail_held(&job, Kind::HandlerError).await,
                _ => self.server.fail_held(&job, Kind::HandlerTransient).await,
            };
            self.jobs.push(job.id.to_string());
            if end == 0 {
                self.succeeded = job.id.to_string();
            }
        }
        let failures = self.server.call("GET", "/admin/v1/failures");
        let failures = failures.header("authorization", &format!("Bearer {ADMIN}")).send().await.expect(200);
        let groups = failures["items"].as_array().unwrap().iter();
        self.groups = groups.map(|group| group["group"].as_str().unwrap().to_owned()).collect();
        let items = json!({"items": [{}, {}], "work_kind": "SUCCESS_FAST"});
        let batch = self.client.call("POST", "/v1/jobs/batch").json(items).send().await.expect(202);
        self.jobs.push(batch["job_id"].as_str().unwrap().to_owned());
        // One that was retried by hand, the execution that followed, and one that is gone.
        let failed = self.client.job_like(quick("mine")).await;
        let job = self.server.claim_as(WorkerKind::BuiltIn, "mine", true).await;
        self.server.fail_held(&job, Kind::HandlerError).await;
        self.client.post(&format!("/v1/jobs/{failed}/retry")).await.expect(200);
        let next = self.client.get(&format!("/v1/jobs/{failed}")).await.expect(200)["jobId"].clone();
        self.client.post(&format!("/v1/jobs/{failed}/cancel")).await.expect(200);
        self.executions = self.jobs.clone();
        self.executions.extend([failed, next.as_str().unwrap().to_owned()]);
        let gone = self.client.job_like(quick("mine")).await;
        self.client.post(&format!("/v1/jobs/{gone}/cancel")).await.expect(200);
        let owned = Owned { job: gone.parse().unwrap(), client: None };
        self.server.app.engine.run(Command::Forget(owned)).await.unwrap();
        self.executions.push(gone);
    }

    /// Workflows that run, one that failed, and one of another client.
    async fn refresh_workflows(&mut self) {
        self.workflows.clear();
        for (client, queue) in
            [(&self.client, "flow"), (&self.client, "calm"), (&self.client, "calm"), (&self.other, "calm")]
        {
            let step = json!({"work_kind": "SUCCESS_FAST", "options": {"queue": queue, "retry": {"max_attempts": 1}}});
            let body = json!({"type": "chain", "steps": [step, step]});
            let begun = client.call("POST", "/v1/workflows").json(body).send().await.expect(202);
            self.workflows.push(begun["workflow_id"].as_str().unwrap().to_owned());
        }
        let job = self.server.claim_as(WorkerKind::BuiltIn, "flow", true).await;
        self.server.fail_held(&job, Kind::HandlerError).await;
    }

    /// Webhooks of each client, and a delivery to each. The run may have deleted those before.
    async fn refresh_webhooks(&mut self) {
        let n = self.deliveries.len();
        for client in [&self.client, &self.other] {
            for old in client.get("/v1/webhooks").await.expect(200)["webhooks"].as_array().unwrap() {
                let path = format!("/v1/webhooks/{}", old["webhook_id"].as_str().unwrap());
                client.call("DELETE", &path).send().await.expect(200);
            }
        }
        (self.webhooks, self.deliveries) = (Vec::new(), Vec::new());
        for client in [&self.client, &self.client, &self.other] {
            let url = format!("http://127.0.0.1:9/{n}-{}", self.webhooks.len());
            let body = json!({"url": url, "events": ["*"]});
            let made = client.call("POST", "/v1/webhooks").json(body).send().await.expect(201);
            let id = made["webhook_id"].as_str().unwrap().to_owned();
            let test = client.post(&format!("/v1/webhooks/{id}/test")).await.expect(202);
            self.deliveries.push(test["delivery_id"].as_str().unwrap().to_owned());
            self.webhooks.push(id);
        }
    }

    /// Values for the parameters of paths. The keys of the one who asks about jobs are not for the
    /// run to revoke.
    fn pools(&self) -> [(&'static str, Vec<String>); 12] {
        let victim = &self.victim.id;
        [
            ("job_id", self.jobs.clone()),
            ("jobId", self.executions.clone()),
            ("webhook_id", self.webhooks.clone()),
            ("delivery_id", self.deliveries.clone()),
            ("client_id", vec![victim.clone(), victim.clone(), victim.clone(), self.stranger.clone()]),
            ("key_id", vec![self.victim.key_id.clone()]),
            ("group", self.groups.clone()),
            ("workflow_id", self.workflows.clone()),
            // Nobody waits there, so it may be paused.
            ("queue", vec!["idle".into()]),
            ("worker_id", vec!["w-1".into(), "w-1".into(), "nobody".into()]),
            ("name", vec!["nightly".into(), "nightly".into(), "nobody".into()]),
            ("slug", vec!["job-not-found".into(), "rate-limited".into(), "validation-failed".into()]),
        ]
    }

    /// The credentials for a request; mostly good ones.
    fn credentials(&self, dice: &mut Dice, path: &str) -> Option<String> {
        let of_clients = path.starts_with("/v1/clients");
        let good = match path {
            _ if of_clients => self.victim.key.as_str(),
            _ if path.starts_with("/admin/v1") => ADMIN,
            _ => self.client.key.as_str(),
        };
        match dice.roll(20) {
            0 => None,
            1 => Some("Bearer frk_nobody".into()),
            2 => Some((*dice.pick(&["", "Bearer", "Bearer ", "Basic YTpi", "é", "bearer\tx"])).to_owned()),
            3 if of_clients => None,
            4 => Some(format!("Bearer {ADMIN}")),
            _ => Some(format!("Bearer {good}")),
        }
    }

    fn call(&self, made: &Made, credentials: Option<&str>) -> Call {
        let mut call = self.server.call(&made.method, &made.path).body(made.body.clone());
        for (name, value) in &made.headers {
            call = call.header(name, value);
        }
        match credentials {
            Some(credentials) => call.header("authorization", credentials),
            None => call,
        }
    }
}

#[tokio::test]
async fn no_request_gets_an_answer_that_the_document_does_not_allow() {
    // With the same routes for other callers: where only the operator registers clients, nobody
    // else may.
    let mut seen = run(World::new("open").await, Dice::new(0x0f0e_0d0c), 150).await;
    seen.extend(run(World::new("admin").await, Dice::new(0x0b0a_0908), 30).await);
    let server = Server::start().await;
    check_reach(&Contract::new(document(&server).await), &seen);
}

/// The operations that requests are made up for.
fn fuzzed(contract: &Contract) -> Vec<(String, String)> {
    contract.operations().into_iter().filter(|(_, path)| !of_ojs(path)).collect()
}

/// Which operation answered with which status.
type Seen = BTreeSet<(String, u16)>;

/// So many requests for each operation, on average.
async fn run(mut world: World, mut dice: Dice, n_each: usize) -> Seen {
    let contract = Contract::new(document(&world.server).await);
    // Pages are large and have little to get wrong, so they are asked for less often.
    let (dialect, pages): (Vec<_>, Vec<_>) =
        fuzzed(&contract).into_iter().partition(|(_, path)| of_dialect(path));
    let mut seen = Seen::new();
    let mut complaints = Vec::new();
    for n in 0..n_each * dialect.len() {
        if n % 40 == 0 {
            world.refresh().await;
        }
        let (method, path) = dice.pick(if n % 12 == 0 { &pages } else { &dialect });
        let mut made = making::request(&mut dice, &contract, (method, path), &world.pools());
        aim(&world, &mut dice, path, &mut made);
        let credentials = world.credentials(&mut dice, path);
        let answer = world.call(&made, credentials.as_deref()).send().await;
        let asked = Asked { method: &made.method, path };
        for complaint in contract.complaints(asked, &answer) {
            complaints.push(format!("request {n}: {complaint}\n  {made:?}\n  {credentials:?}"));
        }
        seen.insert((format!("{method} {path}"), answer.status));
    }
    let shown = complaints.len().min(10);
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints[..shown].join("\n"));
    seen
}

fn quick(queue: &str) -> Value {
    json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "queue": queue})
}

/// A client with a key, made by the operator, who always may.
async fn registered(server: &Server) -> Client {
    let admin = format!("Bearer {ADMIN}");
    let post =
        async |path: &str| server.call("POST", path).header("authorization", &admin).send().await.expect(201);
    let id = post("/v1/clients").await["client_id"].as_str().unwrap().to_owned();
    let key = post(&format!("/v1/clients/{id}/keys")).await;
    let text = |name: &str| key[name].as_str().unwrap().to_owned();
    Client { address: server.address, id, key: text("api_key"), key_id: text("key_id") }
}

/// Turns a request to what the document cannot know: keys that exist, and methods that do not.
fn aim(world: &World, dice: &mut Dice, path: &str, made: &mut Made) {
    // A page refuses nothing but methods, and is asked for seldom.
    if dice.chance(if path.contains("/v1") { 4 } else { 25 }) {
        made.method = (*dice.pick(&["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])).to_owned();
        made.path = path.replace("{slug}", "job-not-found").replace(['{', '}'], "");
    }
    // A stream does not end, and has tests of its own.
    if path.ends_with("/events") || path.ends_with("/logs") {
        made.headers.retain(|(_, value)| value != "text/event-stream");
    }
    // An execution or a cursor made up at random names nothing.
    if (path.ends_with("/items") || path.ends_with("/events")) && dice.chance(40) {
        made.path.truncate(made.path.find('?').unwrap_or(made.path.len()));
    }
    // Few jobs have a result, and its parts are asked for in many ways. Dice of its own: what
    // others draw stays as it was.
    let of_result = path.contains("/result") || path.contains("/reports/{");
    if of_result && dice.clone().chance(50) {
        made.path = path.replace("{job_id}", &world.succeeded).replace("{jobId}", &world.succeeded);
    }
    // An address without the name of the queue is another one.
    if path.contains("{queue}")
        && ["/queues//", "/queues/?"].iter().any(|part| format!("{}?", made.path).contains(part))
    {
        made.path = path.replace("{queue}", "idle");
    }
    // An address without the name of a schedule is another one.
    if path.contains("{name}")
        && ["/schedules//", "/schedules/?", "/crons//"]
            .iter()
            .any(|part| format!("{}?", made.path).contains(part))
    {
        made.path = path.replace("{name}", "nightly");
    }
    // A client made up at random has no schedules.
    if path.contains("/crons/{name}") && dice.clone().chance(50) {
        made.path = format!("{}?client={}", path.replace("{name}", "nightly"), world.client.id);
    }
    // Of the deliveries only the last are of a job of the caller, and of one alone.
    if path.contains("/jobs/{job_id}/deliveries/{delivery_id}")
        && dice.clone().chance(40)
        && let (Some(job), Some(delivery)) = (world.jobs.get(1), world.deliveries.last())
    {
        made.path = path.replace("{job_id}", job).replace("{delivery_id}", delivery);
    }
    if path.ends_with("/revoke") && dice.chance(40) {
        made.body = json!({"key_id": world.victim.key_id}).to_string().into_bytes();
    }
}

/// Operations that need the token of a wait or lease, the name of a wait, or a job with a handler.
/// `waits`, `children` and `handler_signals` test what they are for.
const NEEDS_A_SECRET: [&str; 5] = [
    "GET /v1/signals/{token}",
    "POST /v1/signals/{token}",
    "POST /v1/jobs/{job_id}/signals/{name}",
    "POST /v1/workflows/{workflow_id}/signals/{name}",
    "POST /v1/workflows/{workflow_id}/steps",
];

/// A run that never gets past the door proves nothing: every operation must have done what it is
/// for and refused something, and every documented status must have been met somewhere. Which
/// operation meets a rare status is chance.
fn check_reach(contract: &Contract, seen: &Seen) {
    let met: BTreeSet<u16> = seen.iter().map(|(_, status)| *status).collect();
    for (method, path) in fuzzed(contract) {
        let name = format!("{method} {path}");
        let of_operation =
            || seen.iter().filter(|(operation, _)| *operation == name).map(|(_, status)| *status);
        let did = of_operation().any(|status| status < 300) || NEEDS_A_SECRET.contains(&&*name);
        assert!(did, "{name} never did what it is for: {seen:?}");
        let is_page = !of_dialect(&path);
        let refused = of_operation().any(|status| status >= 400);
        assert!(is_page || refused, "{name} never refused anything: {seen:?}");
        let documented = contract.operation(&method, &path)["responses"].as_object().unwrap().keys();
        // 204 is for streams, which are other tests' business.
        let sought = |status: &u16| *status < 429 && *status != 204;
        for status in documented.map(|status| status.parse::<u16>().unwrap()).filter(sought) {
            assert!(met.contains(&status), "{name} documents {status}, which no request met: {seen:?}");
        }
    }
}

/// An answer, and the complaints about it under a document that was tampered with.
async fn complaints_after(answer: &Answer, server: &Server, tamper: impl Fn(&mut Value)) -> Vec<String> {
    let mut document = document(server).await;
    tamper(&mut document);
    let asked = Asked { method: "GET", path: "/v1/jobs/{job_id}" };
    Contract::new(document).complaints(asked, answer)
}

#[tokio::test]
async fn an_answer_that_the_document_does_not_allow_is_complained_about() {
    let server = Server::start().await;
    let client = server.client().await;
    let job = client.get(&format!("/v1/jobs/{}", client.job().await)).await;
    let missing = client.get("/v1/jobs/no-id").await;
    for answer in [&job, &missing] {
        assert_eq!(complaints_after(answer, &server, |_| {}).await, Vec::<String>::new());
    }
    let responses = |document: &mut Value| document["paths"]["/v1/jobs/{job_id}"]["get"]["responses"].take();
    let put = |document: &mut Value, responses: Value| {
        document["paths"]["/v1/jobs/{job_id}"]["get"]["responses"] = responses;
    };
    let no_status = complaints_after(&missing, &server, |document| {
        let mut rest = responses(document);
        rest.as_object_mut().unwrap().remove("404");
        put(document, rest);
    });
    assert_eq!(no_status.await, ["status 404 is not documented"]);
    let no_type = complaints_after(&missing, &server, |document| {
        let mut rest = responses(document);
        rest["404"]["content"].as_object_mut().unwrap().remove("application/problem+json");
        put(document, rest);
    });
    assert_eq!(no_type.await, [r#"type "application/problem+json" is not documented for 404"#]);
    let other_schema = complaints_after(&job, &server, |document| {
        document["components"]["schemas"]["Job"]["properties"]["attempt"] = json!({"type": "string"});
    });
    assert_eq!(other_schema.await, [r#"1 is not of type "string" at /attempt"#]);
    let more_headers = complaints_after(&job, &server, |document| {
        let mut rest = responses(document);
        rest["200"]["headers"]["Location"] = json!({"$ref": "#/components/headers/h4"});
        put(document, rest);
    });
    assert_eq!(more_headers.await, ["Location is missing"]);
    let mut liar = missing.clone();
    liar.body = missing.text().replace("404", "403").into_bytes();
    let lied = complaints_after(&liar, &server, |_| {}).await;
    assert_eq!(lied, ["the body says status 403, the answer 404"]);
    let no_method = complaints_after(&job, &server, |document| {
        document["paths"]["/v1/jobs/{job_id}"] = json!({});
    });
    assert!(no_method.await.iter().any(|complaint| complaint.contains("answered with 200")));
}
