//! The cases of `sdk/vectors` that need a server; the others are run in `src/vectors.rs`.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::sync::Mutex;

use forgerun_client::forge::Submit;
use serde_json::{Value, json};

use crate::foreign::{Foreign, Hurried, Reply};

const JOB_ID: &str = "019a0000-0000-7000-8000-000000000001";

fn reply(event: &str) -> Reply {
    match event.strip_prefix("status ") {
        Some(status) => Reply::json(status.parse().unwrap(), &[], json!({})),
        None if event == "accepted" => {
            let body = json!({"job_id": JOB_ID, "state": "QUEUED", "created_at": "2026-01-01T00:00:00.000Z"});
            Reply::json(202, &[], body)
        }
        None if event == "unreachable" => Reply::nothing(),
        None => panic!("an event that is not known here: {event}"),
    }
}

#[tokio::test]
async fn idempotency_keys() {
    let path = format!("{}/../../sdk/vectors/idempotency.json", env!("CARGO_MANIFEST_DIR"));
    let file: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let cases = file["cases"].as_array().filter(|cases| !cases.is_empty()).expect("cases");
    for case in cases {
        let events = case["events"].as_array().unwrap().iter().map(|event| event.as_str().unwrap());
        let (submits, answers): (Vec<&str>, Vec<&str>) =
            events.partition(|event| event.starts_with("submit"));
        let answers = Mutex::new(answers.into_iter().map(str::to_owned).collect::<VecDeque<_>>());
        let server = Foreign::start(move |_, _| {
            let event = answers.lock().unwrap().pop_front();
            reply(&event.expect("an answer for each request"))
        })
        .await;
        let client = server.client(&Hurried::new());
        for submit in submits {
            let job = Submit::job("t", json!({"a": 1}));
            let job = match submit.strip_prefix("submit ") {
                Some(key) => job.idempotency_key(key),
                None => job,
            };
            // A call that fails is part of some cases; what counts are the requests.
            let _ = client.forge().submit(&job).await;
        }
        let mut letters = BTreeMap::new();
        let keys: Vec<String> = server
            .requests()
            .iter()
            .map(|request| {
                let key = request.header("idempotency-key").unwrap().to_owned();
                assert_ne!(key, JOB_ID, "{case}");
                let letter = ["A", "B", "C"][letters.len().min(2)];
                let own = key == "K";
                if own { key } else { letters.entry(key).or_insert(letter).to_string() }
            })
            .collect();
        assert_eq!(json!(keys), case["expect_keys"], "{case}");
    }
}
