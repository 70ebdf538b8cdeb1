//! The AsyncAPI 3.0 document: what the server says without being asked each time, on event streams
//! and to webhooks.
//!
//! - the words of events come from [`forgerun_wire::event`], so a new one does not compile before
//!   it is described here;
//! - the schemas are those of the OpenAPI document, as far as events use them;
//! - the examples are told by the same code that tells real events, about jobs that never were
//!   ([`forgerun_wire::example`]);
//! - `yaml` writes it down.

use std::collections::BTreeSet;

use forgerun_wire::event::Word;
use forgerun_wire::forge::{EventView, NoticeView};
use forgerun_wire::schema;
use serde_json::{Map, Value, json};

use super::{messages, problems, yaml};

/// The media type of the document.
pub const MEDIA_TYPE: &str = "application/yaml";

/// Where something is told: the name of the channel, its address, and what it is for.
struct Channel {
    name: &'static str,
    /// `None` where the receiver chooses it.
    address: Option<&'static str>,
    summary: &'static str,
    operation: &'static str,
    method: &'static str,
    /// What is told there.
    tells: fn(Word) -> bool,
}

const OF_JOBS: fn(Word) -> bool = Word::is_of_job;
const EVERYTHING: fn(Word) -> bool = |_| true;

const CHANNELS: [Channel; 4] = [
    Channel {
        name: "jobEvents",
        address: Some("/v1/jobs/{job_id}/events"),
        summary: "What happens to one job, as server-sent events. The stream ends with the job.",
        operation: "tellOfJob",
        method: "GET",
        tells: OF_JOBS,
    },
    Channel {
        name: "clientEvents",
        address: Some("/v1/events"),
        summary: "What happens to all jobs and webhooks of the caller, as server-sent events.",
        operation: "tellOfClient",
        method: "GET",
        tells: EVERYTHING,
    },
    Channel {
        name: "operationEvents",
        address: Some("/api/v1/jobs/{jobId}/events"),
        summary: "What happens to one execution, as server-sent events. The stream ends with it.",
        operation: "tellOfOperation",
        method: "GET",
        tells: OF_JOBS,
    },
    Channel {
        name: "webhooks",
        address: None,
        summary: "What happens to a job, posted to its callback and to the webhooks that are registered for the event; and to these, \
            that another one was disabled.",
        operation: "tellWebhook",
        method: "POST",
        tells: EVERYTHING,
    },
];

/// Addresses of event streams, as the document has them.
pub fn streams() -> impl Iterator<Item = &'static str> {
    CHANNELS.iter().filter_map(|channel| channel.address)
}

/// The schema of a stream: a text with a description.
pub(super) fn stream_schema() -> Value {
    let names: Vec<&str> = Word::ALL.into_iter().filter(|word| word.is_of_job()).map(Word::sse).collect();
    json!({
        "type": "string",
        "description": format!(
            "Server-sent events as the HTML standard has them. `event` is one of {}; on the stream of a client also `{}`, or \
             `reset` when events after `Last-Event-ID` are not kept any more; `id` is the `event_id`; `data` is one JSON object: \
             for an execution that ended badly its failure object (FailedJob), for a webhook that was disabled a WebhookEvent, \
             otherwise the members for asynchronous jobs and those of Event. Lines that begin with a colon keep the connection alive.",
            names.join(", "),
            Word::WebhookDisabled.sse()
        ),
    })
}

/// The document of a server at this public address, as YAML.
pub fn text(base: &str) -> String {
    yaml::text(&document(base))
}

/// The same as data.
pub fn document(base: &str) -> Value {
    let words = Word::ALL;
    let messages: Map<String, Value> =
        words.iter().map(|word| (messages::name(*word), messages::describe(*word, base))).collect();
    let mut document = json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "ForgeRun events",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
            "externalDocs": {
                "description": "Every problem type: what it means, and whether to try again.",
                "url": if base.is_empty() { "/problems".to_owned() } else { format!("{base}/problems") },
            },
        },
        "defaultContentType": "application/json",
    });
    if let Some(server) = server(base) {
        document["servers"] = json!({"forgerun": server});
    }
    document["channels"] = CHANNELS.iter().map(|it| (it.name.to_owned(), it.describe())).collect();
    document["operations"] = CHANNELS.iter().map(|it| (it.operation.to_owned(), it.operation())).collect();
    let schemas = schemas(&messages);
    document["components"] = json!({
        "messages": messages,
        "schemas": schemas,
        "securitySchemes": {
            "apiKey": {
                "type": "http",
                "scheme": "bearer",
                "description": "An API key of a client, as `Authorization: Bearer frk_…`.",
            },
        },
    });
    document
}

const DESCRIPTION: &str = "What happens to jobs and webhooks. The object of an execution that ended badly is a problem \
    (application/problem+json), the same bytes on every road; everything else is plain JSON with the members for asynchronous \
    jobs and those of the event. Delivery is at least once and in order per job: the `event_id` tells repetitions apart. On \
    streams it is the `id`, and `Last-Event-ID` goes on after it.";

impl Channel {
    fn describe(&self) -> Value {
        let message = |word: &Word| {
            let name = messages::name(*word);
            let target = format!("#/components/messages/{name}");
            (name, json!({"$ref": target}))
        };
        let told = Word::ALL.iter().filter(|word| (self.tells)(**word));
        let messages: Map<String, Value> = told.map(message).collect();
        let mut channel = json!({"address": self.address, "summary": self.summary, "messages": messages});
        if let Some(name) =
            self.address.and_then(|address| Some(address.split_once('{')?.1.split_once('}')?.0))
        {
            channel["parameters"] = json!({name: {"description": "The job."}});
        }
        channel
    }

    fn operation(&self) -> Value {
        let mut operation = json!({
            "action": "send",
            "channel": {"$ref": format!("#/channels/{}", self.name)},
            "summary": self.summary,
            "bindings": {"http": {"method": self.method, "bindingVersion": "0.3.0"}},
        });
        // To a webhook the server proves who it is, not the other way round.
        if self.address.is_some() {
            operation["security"] = json!([{"$ref": "#/components/securitySchemes/apiKey"}]);
        }
        operation
    }
}

/// The server, where its public address is known.
fn server(base: &str) -> Option<Value> {
    let (protocol, rest) = base.split_once("://")?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut server = json!({"host": host, "protocol": protocol});
    if !path.is_empty() {
        server["pathname"] = format!("/{path}").into();
    }
    Some(server)
}

/// The schemas that the messages refer to, and those that these refer to.
fn schemas(messages: &Map<String, Value>) -> Map<String, Value> {
    let mut generator = schema::generator();
    generator.subschema_for::<EventView>();
    generator.subschema_for::<NoticeView>();
    let mut all = problems::schemas();
    all.extend(generator.take_definitions(true));
    all.insert("Told".into(), messages::told());
    let mut wanted = BTreeSet::new();
    messages.values().for_each(|message| references(&message["payload"], &mut wanted));
    loop {
        let found = wanted.len();
        for name in wanted.clone() {
            references(&all[&name], &mut wanted);
        }
        if wanted.len() == found {
            break;
        }
    }
    all.retain(|name, _| wanted.contains(name));
    all
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            let target = members.get("$ref").and_then(Value::as_str);
            found.extend(target.and_then(|target| target.rsplit('/').next()).map(str::to_owned));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_told_on_every_channel_that_it_is_for() {
        let document = document("https://forge.example/jobs");
        assert_eq!(document["servers"]["forgerun"]["pathname"], "/jobs");
        for channel in CHANNELS {
            let messages = document["channels"][channel.name]["messages"].as_object().unwrap();
            let of_all = matches!(channel.name, "clientEvents" | "webhooks");
            assert_eq!(messages.len(), if of_all { Word::ALL.len() } else { Word::ALL.len() - 1 });
            assert_eq!(messages.contains_key("webhookDisabled"), of_all, "{}", channel.name);
        }
        assert!(super::document("").get("servers").is_none());
    }

    #[test]
    fn every_reference_leads_somewhere_and_nothing_is_left_over() {
        let document = document("");
        let mut found = BTreeSet::new();
        references(&document["components"]["messages"], &mut found);
        references(&document["components"]["schemas"], &mut found);
        let defined: BTreeSet<String> =
            document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(found, defined);
    }

    #[test]
    fn every_example_is_what_its_schema_says() {
        let document = document("https://forge.example");
        for (name, message) in document["components"]["messages"].as_object().unwrap() {
            let root = json!({"components": document["components"], "allOf": [message["payload"]]});
            let validator = jsonschema::options().should_validate_formats(true).build(&root).unwrap();
            for example in message["examples"].as_array().unwrap() {
                let payload = &example["payload"];
                let wrong: Vec<String> =
                    validator.iter_errors(payload).map(|error| error.to_string()).collect();
                assert!(wrong.is_empty(), "{name}: {wrong:?} in {payload}");
            }
        }
    }
}
