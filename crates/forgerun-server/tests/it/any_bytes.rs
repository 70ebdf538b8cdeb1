//! Readers of strangers' bytes: bodies of every dialect, problem objects in JSON, XML and header fields, and
//! rows. None panics, whatever it reads. Valid bodies are changed at random, by a seed.
//!
//! `FORGERUN_ANY_BYTES_ROUNDS` asks for more rounds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use forgerun_core::delivery::Delivery;
use forgerun_core::history::decode_entries;
use forgerun_core::id::{DeliveryId, JobId, WebhookId};
use forgerun_core::item::decode_ends;
use forgerun_core::job::{Head, Input, Job};
use forgerun_core::random::SplitMix64;
use forgerun_core::record::{Record, RecordKey, RecordKind};
use forgerun_core::time::Time;
use forgerun_core::webhook::Webhook;
use forgerun_problem::read::Reader;
use forgerun_wire::members::UnknownMembers::{Ignore, Refuse};
use forgerun_wire::ojs::{batch, cron, envelope, exchange, log, schema, subscription, worker};
use forgerun_wire::{forge, operations, time};

const ROUNDS: u64 = 4000;

/// Valid bodies, and headers; each reader is given all of them.
const SEEDS: [&str; 16] = [
    r#"{"type":"EXECUTE","work_kind":"SUCCESS_FAST","payload":{"a":[1,2.5e3,null,"ä\u00e9"]},"priority":-5,"tags":["x"]}"#,
    r#"{"job_type":"image.resize","queue":"images","payload":[],"max_retries":3,"timeout":"1h30m","unique_key":"u","deadline":"2026-11-19T21:00:00Z"}"#,
    r#"{"items":[{"work_kind":"FAIL_IMMEDIATE"},{"job_type":"a.b","payload":{}}],"callback_url":"https://example.com/a?b=c"}"#,
    r#"{"cron":"*/5 8-18 * * 1-5","timezone":"Europe/Berlin","job":{"type":"EXECUTE"},"overlap_policy":"skip","catch_up":"latest"}"#,
    r#"{"url":"https://example.com/hook","events":["job.failed","*"],"envelope":"cloudevents","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}"#,
    r#"{"type":"market-analysis","parameters":{"region":"EU","year":2025},"jobType":"reports/generate"}"#,
    r#"{"specversion":"1.0","type":"email.send","args":["a",{"b":1}],"options":{"queue":"q","retry":{"max_attempts":5,"initial_interval":"PT1S","backoff_strategy":"polynomial"},"unique":{"keys":["args"],"period":"PT1H"}},"meta":{"x":1}}"#,
    r#"{"jobs":[{"type":"a.b","args":[]},{"type":"c.d","args":[1]}]}"#,
    r#"{"queues":["a","b"],"count":10,"worker_id":"w","wait_ms":500,"visibility_timeout_ms":2000}"#,
    r#"{"worker_id":"w","queues":["a"],"count":2,"done":[{"job_id":"01890a5d-ac96-774b-bcce-b302099a8057","lease_token":"t","result":{}}],"extend":[]}"#,
    r#"{"job_id":"01890a5d-ac96-774b-bcce-b302099a8057","lease_token":"t","error":{"code":"x","message":"m","retryable":true},"progress":40}"#,
    r#"{"job_id":"01890a5d-ac96-774b-bcce-b302099a8057","lease_token":"t","lines":[{"text":"a","level":"info","stream":"stderr"}]}"#,
    r#"{"type":"https://example.com/p","title":"T","status":503,"detail":"d","instance":"/i","jobId":"1","retryAfter":5}"#,
    r#"<?xml version="1.0"?><problem xmlns="urn:ietf:rfc:7807"><type>https://example.com/p</type><status>404</status><a><i>1</i></a></problem>"#,
    r#"type="https://example.com/p", status=404, title=%"caf%c3%a9", retry-after=5;q=0.5"#,
    "2026-11-19T21:00:00.123456+02:00",
];

/// Pieces on which readers stumble.
const PIECES: [&str; 16] = [
    "\"",
    "\\",
    "{",
    "}",
    "[[[[[[[[",
    "\\ud800",
    "\u{0}",
    "1e999",
    "-0",
    "99999999999999999999",
    "null",
    "&#x0;",
    "]]>",
    "\u{feff}",
    "PT",
    "ß",
];

fn changed(dice: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = SEEDS[dice.below(SEEDS.len() as u64) as usize].as_bytes().to_vec();
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(bytes.len() as u64 + 1) as usize;
        let end = (at + dice.below(12) as usize).min(bytes.len());
        match dice.below(6) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let piece = PIECES[dice.below(PIECES.len() as u64) as usize];
                drop(bytes.splice(at..at, piece.bytes()));
            }
            2 => {
                let part = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, part));
            }
            3 => bytes.truncate(at),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
        }
    }
    bytes
}

type ReadBytes = (&'static str, fn(&[u8]));

fn rules() -> envelope::Rules<'static> {
    envelope::Rules {
        now: Time::from_millis(1_790_000_000_000),
        tenant: None,
        strict_catalog: false,
        test_hooks: false,
    }
}

const BODIES: [ReadBytes; 21] = [
    ("/v1 submit", |bytes| {
        let _ = forge::read_submit(bytes, Refuse);
    }),
    ("/v1 batch", |bytes| {
        let _ = forge::read_batch(bytes, Ignore);
    }),
    ("/v1 schedule", |bytes| {
        let _ = forge::read_schedule(bytes, true, Refuse);
    }),
    ("/v1 webhook", |bytes| {
        let _ = forge::read_webhook(bytes);
    }),
    ("/api/v1 submit", |bytes| {
        let _ = operations::read_submit(bytes, Refuse, false);
    }),
    ("/api/v1 batch", |bytes| {
        let _ = operations::read_batch(bytes, Ignore);
    }),
    ("/api/v1 cancel", |bytes| {
        let _ = operations::read_cancel(bytes);
    }),
    ("/ojs/v1 envelope", |bytes| {
        let _ = envelope::read(bytes, rules());
    }),
    ("/ojs/v1 batch", |bytes| {
        let _ = batch::read_batch(bytes, rules());
    }),
    ("/ojs/v1 cron", |bytes| {
        let _ = cron::read_cron(bytes, rules());
    }),
    ("/ojs/v1 fetch", |bytes| {
        let _ = worker::read_fetch(bytes);
    }),
    ("/ojs/v1 ack", |bytes| {
        let _ = worker::read_ack(bytes, None);
    }),
    ("/ojs/v1 nack", |bytes| {
        let _ = worker::read_nack(bytes, None);
    }),
    ("/ojs/v1 heartbeat", |bytes| {
        let _ = worker::read_heartbeat(bytes);
    }),
    ("/ojs/v1 exchange", |bytes| {
        let _ = exchange::read_exchange(bytes);
    }),
    ("/ojs/v1 logs", |bytes| {
        let _ = log::read_logs(bytes, Time::ZERO);
    }),
    ("/ojs/v1 schema", |bytes| {
        let _ = schema::read_schema(bytes);
    }),
    ("/ojs/v1 subscription", |bytes| {
        let _ = subscription::read_subscription(bytes);
    }),
    ("problem in JSON and header", |bytes| {
        let _ = Reader::new().json(bytes);
        let _ = Reader::new().field(bytes);
    }),
    ("problem in XML", |bytes| {
        let _ = Reader::new().xml(bytes);
    }),
    ("time", |bytes| {
        let _ = std::str::from_utf8(bytes).ok().and_then(time::parse);
    }),
];

const ROWS: [ReadBytes; 7] = [
    ("head", |bytes| {
        let _ = Head::decode(bytes);
    }),
    ("job", |bytes| {
        if let Ok(head) = Head::decode(&sample_head()) {
            let _ = Job::decode(JobId::from_u128(1), Arc::new(head), bytes);
        }
    }),
    ("input", |bytes| {
        let _ = Input::decode(bytes);
    }),
    ("journal", |bytes| {
        let _ = decode_entries(bytes);
    }),
    ("items", |bytes| {
        let _ = decode_ends(bytes);
    }),
    ("delivery", |bytes| {
        let _ = Delivery::decode(DeliveryId::from_u128(1), bytes);
    }),
    ("webhook", |bytes| {
        let _ = Webhook::decode(WebhookId::from_u128(1), bytes);
    }),
];

fn sample_head() -> Vec<u8> {
    let queue = forgerun_core::job::Name::new("default").expect("it is a name");
    Head::new(forgerun_core::id::ClientId::from_u128(1), queue, Time::ZERO).encode()
}

/// Bytes that look like a row: fields with tags and lengths, some of them wrong.
fn row(dice: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = if dice.below(2) == 0 { sample_head() } else { Vec::new() };
    for _ in 0..dice.below(24) {
        match dice.below(3) {
            0 => bytes.push(dice.below(80) as u8),
            1 => bytes.extend_from_slice(&dice.draw().to_le_bytes()[..dice.below(8) as usize]),
            _ => bytes.push(dice.draw() as u8),
        }
    }
    bytes
}

fn survives(name: &str, read: impl Fn(&[u8]), bytes: &[u8]) {
    let read = catch_unwind(AssertUnwindSafe(|| read(bytes)));
    assert!(read.is_ok(), "{name} panics at {:?}", String::from_utf8_lossy(bytes));
}

fn rounds() -> u64 {
    std::env::var("FORGERUN_ANY_BYTES_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS)
}

#[test]
fn no_body_makes_a_reader_panic() {
    let mut dice = SplitMix64::new(1);
    for _ in 0..rounds() {
        let bytes = changed(&mut dice);
        BODIES.iter().for_each(|(name, read)| survives(name, read, &bytes));
    }
}

#[test]
fn no_row_makes_a_decoder_panic() {
    let mut dice = SplitMix64::new(2);
    let kinds: Vec<RecordKind> = (0..=u8::MAX).filter_map(RecordKind::from_u8).collect();
    for _ in 0..rounds() {
        let bytes = row(&mut dice);
        ROWS.iter().for_each(|(name, read)| survives(name, read, &bytes));
        for &kind in &kinds {
            let key = RecordKey { kind, key: "01890a5d-ac96-774b-bcce-b302099a8057".to_owned() };
            let record = Record { key, group: String::new(), due_at: None, version: 1, bytes: bytes.clone() };
            let check = |_: &[u8]| {
                let _ = record.agrees();
            };
            survives("a record", check, &bytes);
        }
    }
}
