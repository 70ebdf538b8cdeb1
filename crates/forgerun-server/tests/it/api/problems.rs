//! Every kind of problem that `/v1` can answer with, provoked and held against the drafts: by our
//! conformance checker in JSON, by `xmllint` in XML, by reading it back from the header field, and
//! in both languages.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::catalog::{ErrorLevel, Kind, ProcessingStage};
use forgerun_core::command::{Conclude, HeldJob, LeaseProof};
use forgerun_core::item::{ItemEnd, ItemError};
use forgerun_core::{Command, job::Job};
use forgerun_problem::check::{Carrier, Level as Conformance, inspect_on};
use forgerun_problem::read::Reader;
use forgerun_server::Bounds;
use forgerun_store::Fault;
use forgerun_wire::language::{Language, words};
use serde_json::{Value, json};

use super::faulty::{Faulty, Mood};
use super::http::{Answer, Call};
use super::judges;
use super::server::{Client, Server};

const ADMIN: &str = "the-operator-knows-this-secret-0123456789";

/// Slugs of problems that nothing on `/v1` answers with: they belong to other dialects, to what is
/// not built, or, like a lagging copy, to what this server has not.
const ELSEWHERE: &[&str] = &[
    "checksum-mismatch",
    "invalid-cron-expression",
    "invalid-metadata",
    "invalid-retry-policy",
    "job-already-cancelled",
    "job-already-completed",
    "job-expired",
    "metadata-too-large",
    "queue-paused",
    "replication-lag",
    // An address that leads nowhere has a code, but no type (C-27).
    "route-not-found",
    "schema-validation-failed",
    "unsupported-feature",
    "worker-not-found",
];

/// What was provoked so far.
#[derive(Default)]
struct Sweep {
    slugs: BTreeSet<&'static str>,
    /// The answers in XML, by name.
    xml: Vec<(String, String)>,
}

impl Sweep {
    /// Makes the same request in three ways and judges each answer. The problem as JSON, in
    /// English.
    async fn refused(&mut self, kind: Kind, call: Call) -> Value {
        let english = call.send().await;
        // When to poll again is the header's to say; a member would speak of submitting again
        // (C-34).
        let excused: &[&str] = if call.is_read() { &["AJ-AJM-03", "AJ-AJM-11"] } else { &["AJ-AJM-03"] };
        let problem = judged(kind, &english, excused);
        assert_eq!(problem["status"], english.status, "{kind:?}");
        assert_eq!(english.header("cache-control"), Some("no-store"), "{kind:?}");
        assert_eq!(english.header("content-language"), Some("en"), "{kind:?}");
        assert_eq!(problem["title"], kind.entry().title);
        is_told_to_its_audience(kind, &problem);

        let german = call.clone().header("accept-language", "de").send().await;
        is_german(kind, &judged(kind, &german, excused), &problem);
        assert_eq!(german.header("content-language"), Some("de"), "{kind:?}");

        let accept = if kind == Kind::NotAcceptable { "application/xml" } else { "application/problem+xml" };
        let xml = call.without("accept").header("accept", accept).send().await;
        self.add_xml(kind, &xml, &problem);
        self.slugs.insert(kind.entry().slug);
        problem
    }

    /// The same for a job that ended badly, read with success.
    async fn failed(&mut self, kind: Kind, client: &Client, job: &Job) {
        let path = format!("/v1/jobs/{}", job.id);
        let get = |accept: &str| client.call("GET", &path).header("accept", accept);
        let answer = get("application/problem+json").send().await;
        assert_eq!(answer.status, 200);
        let problem = judged(kind, &answer, &[]);
        self.add_xml(kind, &get("application/problem+xml").send().await, &problem);
        let json = get("application/json").send().await;
        let field = json.header("problem").unwrap_or_else(|| panic!("{kind:?} has no field"));
        let read = Reader::new().field(field.as_bytes()).unwrap().problem;
        assert_eq!(
            (read.type_uri(), read.title()),
            (problem["type"].as_str().unwrap(), problem["title"].as_str())
        );
        assert_eq!(read.status(), None, "the answer is 200 and the problem is not");
        // `instance` leads to the problem itself.
        let instance = problem["instance"].as_str().unwrap().to_owned();
        let again = client.call("GET", &instance).header("accept", "application/problem+json").send().await;
        assert_eq!(again.body, answer.body, "{kind:?}");
        self.slugs.insert(kind.entry().slug);
    }

    fn add_xml(&mut self, kind: Kind, answer: &Answer, problem: &Value) {
        assert_eq!(answer.header("content-type"), Some("application/problem+xml"), "{kind:?}");
        let read = Reader::new().xml(&answer.body).unwrap().problem;
        let told = (read.type_uri(), read.title(), read.status().map(|status| u64::from(status.code())));
        let expected =
            (problem["type"].as_str().unwrap(), problem["title"].as_str(), problem["status"].as_u64());
        assert_eq!(told, expected, "{kind:?}");
        self.xml.push((format!("{kind:?}.xml"), answer.text().to_owned()));
    }
}

/// The problem of an answer in which the checker finds nothing, not even what is only recommended,
/// but for what is excused: a request that was refused has no job whose members it could tell.
#[track_caller]
fn judged(kind: Kind, answer: &Answer, excused: &[&str]) -> Value {
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{kind:?}: {answer:?}");
    let problem = answer.json();
    assert_eq!(problem["type"], format!("/problems/{}", kind.entry().slug), "{problem}");
    let is_job = kind.entry().level == ErrorLevel::Job;
    let carrier = if is_job { Carrier::Report } else { Carrier::Response(answer.status) };
    let mut report = inspect_on(problem.as_object().unwrap(), carrier);
    report.findings.retain(|finding| !excused.contains(&finding.requirement));
    assert_eq!(report.findings, [], "{kind:?}: {problem}");
    assert_eq!(report.level, if is_job { Conformance::Full } else { Conformance::Basic }, "{kind:?}");
    let stage = problem["processingStage"].as_str();
    assert!(stage.is_none_or(|stage| ProcessingStage::parse(stage).is_some()), "{stage:?}");
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() > 10), "{problem}");
    for secret in ["secret", "panicked", "/src/", ".rs:", "SELECT"] {
        assert!(!answer.text().contains(secret), "{kind:?} tells of {secret}: {problem}");
    }
    problem
}

/// Refusals tell nothing about a job, and those about credentials not even how far the request came
/// (C-87).
fn is_told_to_its_audience(kind: Kind, problem: &Value) {
    for member in ["jobId", "job_id", "jobStatus", "submittedAt", "completedAt"] {
        assert!(problem.get(member).is_none(), "{kind:?} tells {member}: {problem}");
    }
    if matches!(problem["status"].as_u64(), Some(401 | 403)) {
        assert!(problem.get("processingStage").is_none(), "{problem}");
    }
}

/// The same in German, with a sentence of its own wherever the English has one.
fn is_german(kind: Kind, german: &Value, english: &Value) {
    let said = words(kind, Language::German);
    assert_eq!(german["title"], said.title);
    let general = english["detail"] == kind.entry().meaning;
    assert_eq!(german["detail"] == said.meaning, general, "{kind:?}: {} has no German", english["detail"]);
    assert_eq!(german["message"], english["message"], "{kind:?}");
    assert_eq!((&german["code"], &german["details"]), (&english["code"], &english["details"]));
    for error in german["errors"].as_array().into_iter().flatten() {
        assert!(!error["detail"].as_str().unwrap().contains("verletzt die Regel"), "{kind:?}: {english}");
    }
}

/// Kinds that one ordinary server answers.
async fn plain(sweep: &mut Sweep) {
    let server = Server::with(&[("auth.admin_token", ADMIN), ("limits.rate_per_minute", "0")]).await;
    let (client, other) = (server.client().await, server.client().await);
    let job = format!("/v1/jobs/{}", client.job().await);
    let submit = |body: Value| client.call("POST", "/v1/jobs").json(body);
    let with = |name: &str, value: Value| {
        let mut body = json!({"type": "EXECUTE"});
        body[name] = value;
        submit(body)
    };
    let nothing = "/v1/jobs/01890a5d-ac96-774b-bcce-b302099a8057";
    let admin = |method: &str, path: &str| {
        server.call(method, path).header("authorization", &format!("Bearer {ADMIN}"))
    };
    let hook = json!({"url": "http://127.0.0.1:9/", "events": ["*"]});
    let webhook = client.call("POST", "/v1/webhooks").json(hook).send().await.expect(201);
    let webhook = webhook["webhook_id"].as_str().unwrap();
    let table = [
        (Kind::MalformedRequest, submit(json!({"type": 7, "queue": []}))),
        (Kind::MalformedRequest, client.call("POST", "/v1/jobs").json("{")),
        (Kind::MalformedRequest, client.call("GET", "/v1/jobs?limit=0")),
        (Kind::MalformedRequest, client.call("GET", "/v1/jobs?nope=1")),
        (Kind::MalformedRequest, client.call("GET", "/v1/jobs?limit=%zz")),
        (Kind::MalformedRequest, client.call("POST", "/v1/jobs/batch").json(json!({"items": [1]}))),
        (
            Kind::UnsupportedMediaType,
            client.call("POST", "/v1/jobs").body("x").header("content-type", "text/plain"),
        ),
        (Kind::UnsupportedCompression, submit(json!({})).header("content-encoding", "br")),
        (Kind::MethodNotAllowed, client.call("PUT", "/v1/jobs")),
        (Kind::MethodNotAllowed, server.call("POST", "/problems")),
        (Kind::NotAcceptable, client.call("GET", "/v1/jobs").header("accept", "image/png")),
        (Kind::BodyTooLarge, submit(json!({"payload": "x".repeat(1_100_000)}))),
        (Kind::JobPayloadTooLarge, with("payload", json!("x".repeat(300_000)))),
        (Kind::UnknownJobType, submit(json!({"type": "FOO"}))),
        (Kind::InvalidArgs, with("priority", json!(1000))),
        (Kind::InvalidArgs, with("work_kind", json!("PAYLOAD_INVALID"))),
        (Kind::InvalidArgs, client.call("GET", "/v1/jobs?state=GONE")),
        (Kind::InvalidArgs, client.call("POST", "/v1/jobs/batch").json(json!({"items": []}))),
        (Kind::ScheduleInPast, submit(json!({"type": "DEFERRED", "execution_at": "2020-01-01T00:00:00Z"}))),
        (Kind::InvalidCallbackUrl, with("callback", json!("ftp://x"))),
        (Kind::InvalidQueue, with("queue", json!("a\nb"))),
        (Kind::QueueNameTooLong, with("queue", json!("x".repeat(256)))),
        (Kind::IllegalTransition, client.call("POST", &format!("{job}/retry"))),
        (Kind::PreconditionFailed, client.call("POST", &format!("{job}/cancel")).header("if-match", "\"1\"")),
        (Kind::ResultNotReady, client.call("GET", &format!("{job}/result"))),
        (Kind::ReportNotFound, client.call("GET", &format!("{job}/report"))),
        (Kind::ResultNotFound, client.call("GET", &format!("{job}/items"))),
        (Kind::Unauthenticated, server.call("GET", "/v1/jobs")),
        (Kind::Unauthenticated, server.call("GET", "/v1/jobs").header("authorization", "Basic x")),
        (Kind::Unauthenticated, server.call("GET", "/v1/jobs").header("authorization", "Bearer x")),
        (Kind::Forbidden, admin("GET", "/v1/jobs")),
        (Kind::ForeignResource, other.call("GET", &job)),
        (Kind::ForeignResource, other.call("POST", &client.keys_path())),
        (Kind::JobNotFound, client.call("GET", nothing)),
        (Kind::JobNotFound, client.call("GET", "/v1/jobs/no-id")),
        (Kind::ClientNotFound, admin("POST", "/v1/clients/6f1b7b46-5d6e-4a2f-9c0b-3f1f8d1f2a10/keys")),
        (Kind::WebhookNotFound, client.call("GET", "/v1/webhooks/no-id")),
        (Kind::ScheduleNotFound, client.call("GET", "/v1/schedules/none")),
        (Kind::DeliveryNotFound, client.call("GET", &format!("/v1/webhooks/{webhook}/deliveries/no-id"))),
        (
            Kind::KeyNotFound,
            client
                .call("POST", &format!("{}/revoke", client.keys_path()))
                .json(json!({"key_id": "01890a5d-ac96-774b-bcce-b302099a8057"})),
        ),
    ];
    for (kind, call) in table {
        sweep.refused(kind, call).await;
    }
    let keyed = |kind: &str| json!({"type": "EXECUTE", "idempotency_key": "k", "work_kind": kind});
    client.submit(keyed("SUCCESS_FAST")).await.expect(202);
    sweep.refused(Kind::IdempotencyConflict, submit(keyed("SUCCESS_SLOW"))).await;

    let revoke = format!("{}/revoke", other.keys_path());
    other.call("POST", &revoke).json(json!({"key_id": other.key_id})).send().await.expect(200);
    sweep.refused(Kind::KeyRevoked, other.call("GET", "/v1/jobs")).await;
    sweep.refused(Kind::Duplicate, admin("POST", &format!("{}/renew", other.keys_path()))).await;
    server.clock.advance(Duration::from_secs(100 * 24 * 3600));
    sweep.refused(Kind::KeyExpired, client.call("GET", "/v1/jobs")).await;
}

/// Kinds that need a server with a limit of its own.
async fn limits(sweep: &mut Sweep) {
    for (setting, kind) in [
        (("limits.rate_per_minute", "1"), Kind::RateLimited),
        (("limits.quota", "1"), Kind::QuotaExceeded),
        (("limits.queue_size", "1"), Kind::QueueFull),
    ] {
        let server = Server::with(&[setting]).await;
        let client = server.client().await;
        client.submit(json!({"type": "EXECUTE"})).await.expect(202);
        let call = client.call("POST", "/v1/jobs").json(json!({"type": "EXECUTE"}));
        let problem = sweep.refused(kind, call).await;
        assert!(problem["retryAfter"].as_u64() >= Some(1), "{problem}");
    }
    let server = Server::with(&[("auth.admin_token", "an-operator-of-this-server")]).await;
    let client = server.client().await;
    let bound = server.call("PATCH", &format!("/admin/v1/clients/{}", client.id));
    let bound = bound.header("authorization", "Bearer an-operator-of-this-server");
    bound.json(json!({"storage_bytes": 0})).send().await.expect(200);
    let call = client.call("POST", "/v1/jobs").json(json!({"type": "EXECUTE", "payload": {"n": 1}}));
    sweep.refused(Kind::StorageQuotaExceeded, call).await;
    let server = Server::with(&[("retry.max", "0"), ("workers.count", "0")]).await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    sweep.refused(Kind::WorkerUnavailable, client.call("GET", &path).header("prefer", "wait=5")).await;
    server.fail(Kind::HandlerTransient).await;
    sweep.refused(Kind::RetryLimitReached, client.call("POST", &format!("{path}/retry"))).await;
}

/// Kinds about what a job left.
async fn results(sweep: &mut Sweep) {
    let server = Server::with(&[("jobRetention.completedJobs.smallResultsDays", "1")]).await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}/result", client.job().await);
    server.succeed().await;
    let beyond = client.call("GET", &path).header("range", "bytes=99-");
    sweep.refused(Kind::RangeNotSatisfiable, beyond).await;
    server.clock.advance(Duration::from_secs(25 * 3600));
    sweep.refused(Kind::ResultExpired, client.call("GET", &path)).await;
}

/// Trouble of the server's own.
async fn trouble(sweep: &mut Sweep) {
    let store = Faulty::new();
    let bounds = Bounds { request_timeout: Duration::from_secs(3), ..Bounds::default() };
    let server = Server::on(store.clone(), &[], bounds).await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    for (mood, kind) in [
        (Mood::Broken(Fault::Unknown), Kind::StorageError),
        (Mood::Broken(Fault::Sealed), Kind::ContentUnreadable),
        (Mood::Broken(Fault::Timeout), Kind::StorageTimeout),
        (Mood::Broken(Fault::Unavailable), Kind::StorageUnavailable),
        (Mood::Hanging, Kind::DependencyTimeout),
        (Mood::Panicking, Kind::Internal),
    ] {
        store.set(mood);
        sweep.refused(kind, client.call("GET", &path)).await;
        store.set(Mood::Fine);
    }
    let cancel = client.call("POST", &format!("{path}/cancel"));
    store.set(Mood::HangingWrites);
    sweep.refused(Kind::OperationTimeout, cancel).await;

    let stopped = Server::start().await;
    let client = stopped.client().await;
    let cancel = client.call("POST", &format!("/v1/jobs/{}/cancel", client.job().await));
    stopped.app.engine.stop().await;
    sweep.refused(Kind::StorageUnavailable, cancel).await;
    let tokenless = Server::with(&[("auth.registration", "admin")]).await;
    sweep.refused(Kind::ConfigInvalid, tokenless.call("POST", "/v1/clients")).await;
}

/// Every way in which a job ends badly.
async fn jobs(sweep: &mut Sweep) {
    let server = Server::start().await;
    let client = server.client().await;
    for kind in Kind::ALL.iter().copied().filter(|kind| kind.entry().level == ErrorLevel::Job) {
        let job = match kind {
            Kind::Cancelled => {
                let id = client.job().await;
                client.post(&format!("/v1/jobs/{id}/cancel")).await.expect(200);
                (*server.app.engine.store().job(id.parse().unwrap()).await.unwrap().unwrap()).clone()
            }
            Kind::BatchPartial => {
                let batch = json!({"items": [{}, {}], "work_kind": "SUCCESS_FAST"});
                client.call("POST", "/v1/jobs/batch").json(batch).send().await.expect(202);
                let job = server.claim(true).await;
                let failed = Kind::HandlerError;
                let error =
                    ItemError { kind: failed, message: failed.entry().meaning.into(), retryable: false };
                let end = |id: &str, error| ItemEnd { id: id.into(), error };
                let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None };
                let ends = Arc::from([end("0", None), end("1", Some(error))]);
                let conclude = Command::Conclude(Conclude { held, ends });
                server.app.engine.act(conclude).await.unwrap().0
            }
            _ => {
                client.job().await;
                server.fail(kind).await
            }
        };
        sweep.failed(kind, &client, &job).await;
    }
}

#[tokio::test]
async fn every_problem_that_can_be_met_conforms_in_every_form_and_language() {
    let mut sweep = Sweep::default();
    plain(&mut sweep).await;
    limits(&mut sweep).await;
    results(&mut sweep).await;
    trouble(&mut sweep).await;
    jobs(&mut sweep).await;
    let schema = "../forgerun-problem/tests/relaxng/problem.rng";
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join(schema);
    judges::assert_valid_xml(&schema, &judges::write(&judges::folder("problems-xml"), &sweep.xml));
    let slugs: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.entry().slug).collect();
    let missed: Vec<_> = slugs.difference(&sweep.slugs).filter(|slug| !ELSEWHERE.contains(slug)).collect();
    assert!(missed.is_empty(), "provoke these here, or say that they belong elsewhere: {missed:?}");
}

#[tokio::test]
async fn types_and_instances_are_absolute_where_the_public_address_is_known() {
    let server = Server::with(&[("server.public_base_url", "https://forge.example")]).await;
    let client = server.client().await;
    let refused = client.get("/v1/jobs/no-id").await.json();
    assert_eq!(refused["type"], "https://forge.example/problems/job-not-found");
    let job = client.job().await;
    server.fail(Kind::HandlerTimeout).await;
    let call = client.call("GET", &format!("/v1/jobs/{job}")).header("accept", "application/problem+json");
    let problem = call.send().await.expect(200);
    assert_eq!(problem["type"], "https://forge.example/problems/job-timed-out");
    assert_eq!(problem["instance"], format!("https://forge.example/v1/jobs/{job}"));
}
