//! Whatever happens to a job: what is told of it is always the same, and a failure is one object on
//! every road.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Conclude, Extend, Fail, HeldJob, LeaseProof, Note, Succeed, WorkError};
use forgerun_core::history::Event;
use forgerun_core::id::JobId;
use forgerun_core::item::{ItemEnd, ItemError};
use forgerun_core::job::Job;
use forgerun_core::retry::RetryVerdict;
use forgerun_core::state::State;
use forgerun_problem::read::Reader;
use forgerun_problem::{Digest, FieldType, FieldWriter, ItemOutcome};
use forgerun_wire::event::{EventBody, Word};
use serde_json::{Value, json};

use super::of_job;
use crate::api::contract::making::Dice;
use crate::api::server::{Client, Server};

/// A job to which things happen by chance.
struct Story<'a> {
    server: &'a Server,
    client: &'a Client,
    id: String,
    /// How many items it has, if it is a batch; otherwise none.
    n_items: usize,
    /// Held by a worker, as it was claimed.
    held: Option<Job>,
}

/// What workers say of failures: plain, nothing, hostile, long.
fn text(dice: &mut Dice) -> String {
    match dice.roll(4) {
        0 => "it went wrong".into(),
        1 => String::new(),
        2 => "a \"quoted\"\nline \u{2028} & <tag> \u{7} é 🦀".into(),
        _ => "x".repeat(5000),
    }
}

const KINDS: [Kind; 5] =
    [Kind::HandlerError, Kind::HandlerTransient, Kind::HandlerTimeout, Kind::RunnerLost, Kind::NonRetryable];

/// How an item ended.
fn end(dice: &mut Dice, place: usize) -> ItemEnd {
    let error = (dice.roll(3) == 0).then(|| ItemError {
        kind: *dice.pick(&KINDS),
        message: text(dice),
        retryable: dice.roll(2) == 0,
    });
    ItemEnd { id: place.to_string(), error }
}

impl Story<'_> {
    async fn job(&self) -> Job {
        (*self.server.app.engine.store().job(self.id.parse().unwrap()).await.unwrap().unwrap()).clone()
    }

    async fn step(&mut self, dice: &mut Dice) {
        let path = format!("/v1/jobs/{}", self.id);
        match self.job().await.state {
            State::Created | State::Succeeded | State::Canceled => {}
            State::Queued => match dice.roll(8) {
                0 => drop(self.client.post(&format!("{path}/cancel")).await.expect(200)),
                _ => self.held = Some(self.server.claim(dice.roll(3) > 0).await),
            },
            State::Assigned | State::Running => self.work(dice, &path).await,
            State::Failed => drop(self.client.post(&format!("{path}/retry")).await),
        }
    }

    async fn work(&mut self, dice: &mut Dice, path: &str) {
        let job = self.held.clone().expect("whoever claimed it");
        let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None };
        let command = match dice.roll(10) {
            0 => Command::HandBack(held),
            1 | 2 => Command::Start(held),
            3 => {
                let note = Note::Progress { percent: dice.roll(101) as u8, message: None };
                Command::Extend(Extend { held, lease: None, note: Some(note) })
            }
            4 => Command::Extend(Extend { held, lease: None, note: Some(Note::Emitted) }),
            5 => Command::Succeed(Succeed { held, output: None }),
            6..=8 if self.n_items > 0 => {
                let ends = (0..self.n_items).map(|place| end(dice, place)).collect();
                Command::Conclude(Conclude { held, ends })
            }
            6 => return drop(self.client.post(&format!("{path}/cancel")).await.expect(200)),
            _ => {
                let mut error = WorkError::new(*dice.pick(&KINDS), &text(dice));
                error.verdict =
                    *dice.pick(&[None, None, None, Some(RetryVerdict::Retry), Some(RetryVerdict::Discard)]);
                error.code = (*dice.pick(&["", "E_CUSTOM"])).into();
                Command::Fail(Fail { held, error })
            }
        };
        // A worker that asks for what cannot be is refused; that is another test's business.
        let _ = self.server.app.engine.act(command).await;
    }
}

/// What is told of an event at this moment.
async fn told(server: &Server, id: JobId, event: &Event) -> EventBody {
    let store = server.app.engine.store();
    let job = store.job(id).await.unwrap().unwrap();
    let execution = job.execution_id(event.execution).unwrap();
    let outcome = store.outcome(execution).await.unwrap();
    EventBody::new(&job, event, outcome.as_ref().map(|outcome| &outcome.object))
}

#[tokio::test]
async fn whatever_happens_a_failure_is_the_same_bytes_on_every_road_for_ever() {
    let settings = [
        ("limits.rate_per_minute", "1000000"),
        ("retry.base_ms", "0"),
        ("retry.max_ms", "0"),
        ("retry.max", "20"),
        ("problem.header_field", "true"),
    ];
    let server = Server::with(&settings).await;
    let client = server.client().await;
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let mode = *dice.pick(&["manual", "auto"]);
        // Two in five are batches, of which some are too large to be listed whole.
        let n_items = *dice.pick(&[0, 0, 0, 3, 101]);
        let mut body = json!({"type": "EXECUTE", "retry_mode": mode, "correlation_id": "c-1"});
        let path = if n_items > 0 { "/v1/jobs/batch" } else { "/v1/jobs" };
        if n_items > 0 {
            body["items"] = json!(vec![json!({}); n_items]);
        }
        let submitted = client.call("POST", path).json(body).send().await.expect(202);
        let id = submitted["job_id"].as_str().unwrap().to_owned();
        let mut stream = of_job(&client, &id).await;
        let mut story = Story { server: &server, client: &client, id: id.clone(), n_items, held: None };
        let from = server.app.engine.store().journal_before(story.job().await.head.created_at).await.unwrap();
        let mut firsts: Vec<(Event, EventBody)> = Vec::new();
        for _ in 0..25 {
            story.step(&mut dice).await;
            for row in server.app.engine.store().journal(from, 1000).await.unwrap() {
                for (job, event) in row.job_events().filter(|(job, _)| *job == story.job_id()) {
                    if firsts.iter().all(|(known, _)| known.n != event.n) {
                        firsts.push((*event, told(&server, job, event).await));
                    }
                }
            }
            check_current(&story).await;
        }
        for (event, first) in &firsts {
            let again = told(&server, story.job_id(), event).await;
            assert_eq!(again, *first, "seed {seed}: a repeated delivery says the same");
            check_body(&server, story.job_id(), event, first).await;
            seen.insert(first.word.sse());
        }
        let streamed = stream.take(2).await;
        assert_eq!(streamed[1].data.as_bytes(), firsts[1].1.bytes);
        // So that the next story claims its own job.
        client.post(&format!("/v1/jobs/{id}/cancel")).await.expect(200);
    }
    let words = Word::ALL.map(Word::sse);
    let missing: Vec<&str> = words.into_iter().filter(|word| !seen.contains(word)).collect();
    assert_eq!(missing, ["webhook-disabled"], "which is told of elsewhere");
}

impl Story<'_> {
    fn job_id(&self) -> JobId {
        self.id.parse().unwrap()
    }
}

/// What a poll serves of a job that ended badly is what is stored, and its projections say the
/// same.
async fn check_current(story: &Story<'_>) {
    let job = story.job().await;
    if !matches!(job.state, State::Failed | State::Canceled) {
        return;
    }
    let stored = story.server.app.engine.store().outcome(job.execution).await.unwrap().unwrap().object;
    let path = format!("/v1/jobs/{}", job.id);
    let get = async |form: &str| story.client.call("GET", &path).header("accept", form).send().await;
    let polled = get("application/problem+json").await;
    assert_eq!(polled.body, stored.bytes);
    let digest = format!("sha-256=:{}:", STANDARD.encode(stored.digest));
    assert_eq!(polled.header("content-digest"), Some(digest.as_str()));
    assert_eq!(Digest::of(&stored.bytes).0, stored.digest);

    let problem = Reader::new().json(&stored.bytes).unwrap().problem;
    assert_eq!(problem.to_canonical_json().as_bytes(), stored.bytes, "the bytes are the canonical form");
    let xml = get("application/problem+xml").await;
    let read = Reader::new().xml(&xml.body).unwrap();
    assert_eq!((&read.warnings[..], read.problem.to_xml().as_bytes()), (&[][..], &xml.body[..]));
    assert_eq!(problem.to_xml().as_bytes(), &xml.body[..], "made of what is stored");
    match problem.job().results() {
        None => assert_eq!(read.problem.job(), problem.job()),
        // What is said of an item may hold characters that XML has none for.
        Some(results) => {
            let same = |left: &ItemOutcome, right: &ItemOutcome| {
                (left.item_id(), left.status(), left.retryable())
                    == (right.item_id(), right.status(), right.retryable())
            };
            let read = read.problem.job().results().unwrap();
            assert!(read.len() == results.len() && read.iter().zip(results).all(|(a, b)| same(a, b)));
        }
    }
    assert_eq!((read.problem.type_uri(), read.problem.status()), (problem.type_uri(), problem.status()));

    let codes = ["code", "rfa_code", "ojs_code"];
    let writer = codes
        .into_iter()
        .fold(FieldWriter::new(200).job_members(), |writer, code| writer.extension(code, FieldType::String));
    let polled = get("application/json").await;
    let Some(field) = polled.header("problem") else {
        assert!(
            writer.write(&problem).is_none_or(|field| field.len() > 4096),
            "only what is too long is left out"
        );
        return;
    };
    let read = Reader::new().field(field.as_bytes()).unwrap().problem;
    assert_eq!(writer.write(&read).as_deref(), Some(field));
    assert_eq!(read.type_uri(), problem.type_uri());
}

/// A body says what the event says; the end of an execution is its stored outcome.
async fn check_body(server: &Server, id: JobId, event: &Event, body: &EventBody) {
    let job = server.app.engine.store().job(id).await.unwrap().unwrap();
    let execution = job.execution_id(event.execution).unwrap();
    let data: Value = serde_json::from_slice(&body.bytes).unwrap();
    assert!(!body.bytes.contains(&b'\n'));
    assert_eq!(data["event_id"], json!(event.id(id).to_string()));
    assert_eq!(data["jobId"], json!(execution.to_string()));
    assert_eq!(data["job_id"], json!(id.to_string()));
    assert_eq!(data["completedAt"].is_null(), !event.ends(), "{data}");
    assert_eq!(data["correlationId"], json!("c-1"));
    let media_type = if body.word.is_failure() { "application/problem+json" } else { "application/json" };
    assert_eq!(body.media_type, media_type);
    let stored = server.app.engine.store().outcome(execution).await.unwrap();
    if event.ends() {
        let stored = stored.expect("an ended execution has its outcome").object;
        assert_eq!(body.bytes, stored.bytes, "also of a job that went well");
    } else {
        assert!(matches!(data["jobStatus"].as_str(), Some("ACCEPTED" | "PROCESSING")), "{data}");
    }
    if body.word.is_failure() {
        let problem = Reader::new().json(&body.bytes).unwrap();
        assert_eq!(problem.warnings, []);
    }
}
