//! Values of the wrong type at every member of every body: the message says what the member must
//! be, in words of JSON and not of the program.

use serde_json::{Value, json};

use super::server::Server;

/// Words that only somebody who reads the source knows.
const OF_THE_PROGRAM: &[&str] = &[
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "f32", "f64", "bool", "struct",
    "enum", "tuple", "variant", "unit", "map", "sequence", "str", "char", "newtype", "RawValue", "Option",
    "Vec", "String", "HashMap",
];

/// What readers of JSON say by themselves.
const OF_THE_READER: &[&str] = &[
    "invalid type",
    "invalid value",
    "invalid length",
    "missing field",
    "unknown field",
    "unknown variant",
    "::",
];

/// What is wrong with the words of an answer.
fn strange_words(answer: &Value) -> Vec<String> {
    let mut strange = Vec::new();
    match answer {
        Value::String(text) => {
            let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            strange.extend(words.clone().filter(|word| OF_THE_PROGRAM.contains(word)).map(str::to_owned));
            strange.extend(
                OF_THE_READER.iter().filter(|words| text.contains(**words)).map(|words| (*words).to_owned()),
            );
            strange.extend(words.find(|word| word.starts_with("__")).map(str::to_owned));
        }
        Value::Array(values) => strange.extend(values.iter().flat_map(strange_words)),
        // Names of members are the API's, rules have those of JSON Schema, and facts repeat what
        // was sent.
        Value::Object(members) => {
            let told = members.iter().filter(|(name, _)| !["value", "constraint"].contains(&name.as_str()));
            strange.extend(told.flat_map(|(_, value)| strange_words(value)));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    strange
}

fn wrong_values() -> Vec<Value> {
    vec![
        json!(1),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(18_446_744_073_709_551_615_u64),
        json!("x"),
        json!(""),
        json!(true),
        json!([]),
        json!([1]),
        json!(["x", {}]),
        json!({}),
        json!({"x": 1}),
        json!([[]]),
        json!({"secs": 1, "nanos": 1}),
        (0..50).fold(json!([]), |inner, _| json!([inner])),
    ]
}

/// The members that a schema names, and one that it does not.
fn members(document: &Value, schema: &Value) -> Vec<String> {
    let schema = match schema["$ref"].as_str() {
        Some(target) => document.pointer(target.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    let mut names: Vec<String> =
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    for part in
        ["allOf", "anyOf", "oneOf"].iter().flat_map(|part| schema[*part].as_array().into_iter().flatten())
    {
        names.extend(members(document, part));
    }
    names
}

#[test]
fn a_word_of_the_program_is_found() {
    assert_eq!(
        strange_words(&json!({"detail": "invalid type: map, expected u64"})),
        ["map", "u64", "invalid type"]
    );
    assert_eq!(strange_words(&json!({"detail": "must be a string", "value": "u64"})), Vec::<String>::new());
}

#[tokio::test]
async fn a_value_of_the_wrong_type_is_refused_in_words_of_json() {
    let server =
        Server::with(&[("limits.rate_per_minute", "0"), ("auth.admin_token", "a-token-of-the-operator")])
            .await;
    let client = server.client().await;
    let document = server.call("GET", "/openapi.json").send().await.expect(200);
    let webhook = json!({"url": "http://127.0.0.1:9/", "events": ["*"]});
    let webhook = client.call("POST", "/v1/webhooks").json(webhook).send().await.expect(201);
    let job = client.job().await;
    let (mut n_bodies, mut strange) = (0, Vec::new());
    let ours = document["paths"].as_object().unwrap().iter().filter(|(path, _)| !path.starts_with("/ojs"));
    for (path, operations) in ours {
        for (method, operation) in operations.as_object().unwrap() {
            let content = &operation["requestBody"]["content"]["application/json"];
            if content.is_null() {
                continue;
            }
            let target = path
                .replace("{job_id}", &job)
                .replace("{jobId}", &job)
                .replace("{client_id}", &client.id)
                .replace("{webhook_id}", webhook["webhook_id"].as_str().unwrap())
                .replace("{delivery_id}", &job);
            let example = content["examples"].as_object().and_then(|examples| examples.values().next());
            let good = example.map_or(json!({}), |example| example["value"].clone());
            let mut bodies: Vec<(String, Value)> =
                wrong_values().into_iter().map(|body| (String::new(), body)).collect();
            for name in members(&document, &content["schema"]) {
                for value in wrong_values() {
                    let mut body = good.clone();
                    body[&name] = value;
                    bodies.push((name.clone(), body));
                }
            }
            if target.ends_with("/batch") {
                for (name, value) in ["itemId", "work_kind", "type"]
                    .iter()
                    .flat_map(|name| wrong_values().into_iter().map(move |value| (name, value)))
                {
                    bodies.push((
                        format!("items/{name}"),
                        json!({"type": "EXECUTE", "items": [{(*name): value}]}),
                    ));
                }
            }
            n_bodies += bodies.len();
            for (name, body) in bodies {
                let answer = client.call(&method.to_uppercase(), &target).json(&body).send().await;
                if answer.status < 400 {
                    continue;
                }
                let problem = answer.json();
                let words = strange_words(&problem);
                if answer.status >= 500 || !words.is_empty() {
                    strange.push(format!("{method} {path} {name}: {words:?} in {problem} for {body}"));
                }
                // Whoever changes a key locks the test out.
                assert_ne!(answer.status, 401, "{method} {path}");
            }
        }
    }
    assert!(n_bodies > 1000, "{n_bodies}");
    assert!(strange.is_empty(), "{} of {n_bodies}:\n{}", strange.len(), strange.join("\n"));
}

/// The bodies of `/ojs/v1`, whose document is not ours.
const OJS: &[(&str, &str, &[&str])] = &[
    (
        "POST",
        "jobs",
        &[
            "type",
            "args",
            "queue",
            "id",
            "meta",
            "options",
            "priority",
            "retry",
            "unique",
            "timeout",
            "timeout_ms",
            "scheduled_at",
            "expires_at",
            "tags",
            "options.queue",
            "options.priority",
            "options.retry",
            "options.unique",
            "options.tags",
            "options.timeout_ms",
            "options.delay_until",
            "options.expires_at",
            "options.rate_limit",
            "options.concurrency",
            "options.retry.max_attempts",
            "options.retry.initial_interval",
            "options.retry.backoff_coefficient",
            "options.retry.jitter",
            "options.retry.non_retryable_errors",
            "options.unique.key",
            "options.unique.on_conflict",
            "options.unique.period",
            "options.unique.states",
            "options.visibility_timeout_ms",
            "specversion",
        ],
    ),
    ("POST", "jobs/batch", &["jobs"]),
    ("POST", "jobs/bulk", &["jobs", "atomicity", "idempotency_key"]),
    (
        "POST",
        "workers/fetch",
        &["queues", "worker_id", "count", "wait_ms", "visibility_timeout_ms", "timeout_ms"],
    ),
    ("POST", "workers/ack", &["job_id", "lease_token", "result", "worker_id"]),
    (
        "POST",
        "workers/nack",
        &[
            "job_id",
            "lease_token",
            "error",
            "requeue",
            "worker_id",
            "error.code",
            "error.message",
            "error.retryable",
            "error.details",
        ],
    ),
    (
        "POST",
        "workers/heartbeat",
        &[
            "worker_id",
            "active_jobs",
            "lease_tokens",
            "state",
            "visibility_timeout_ms",
            "pid",
            "queues",
            "concurrency",
            "hostname",
        ],
    ),
    ("POST", "workers/progress", &["job_id", "lease_token", "progress", "percentage", "message"]),
    (
        "PUT",
        "queues/default/config",
        &["backpressure", "backpressure.max_depth", "backpressure.strategy", "max_active"],
    ),
];

#[tokio::test]
async fn a_value_of_the_wrong_type_is_refused_in_words_of_json_under_ojs_too() {
    let server = Server::with(&[("limits.rate_per_minute", "0")]).await;
    let client = server.client().await;
    let mut strange = Vec::new();
    let mut n_refused = 0;
    for (method, path, members) in OJS {
        for name in *members {
            for value in wrong_values() {
                let mut body =
                    json!({"type": "a", "args": [], "jobs": [], "queues": ["nothing-here"], "job_id": "x"});
                let parts: Vec<&str> = name.split('.').collect();
                let mut place = &mut body;
                for part in &parts {
                    if !place.is_object() {
                        *place = json!({});
                    }
                    place = &mut place[*part];
                }
                *place = value;
                let call = client.call(method, &format!("/ojs/v1/{path}")).json(&body);
                let answer = call.send().await;
                if answer.status < 400 {
                    continue;
                }
                n_refused += 1;
                let problem = answer.json();
                let words = strange_words(&problem);
                if answer.status >= 500 || answer.status == 405 || !words.is_empty() {
                    strange.push(format!("{method} {path} {name}: {words:?} in {problem} for {body}"));
                }
            }
        }
    }
    assert!(n_refused > 300, "{n_refused}");
    assert!(strange.is_empty(), "{}", strange.join("\n"));
}
