//! One operation, and how it is written down.

use std::borrow::Cow;
use std::collections::BTreeMap;

use forgerun_core::job::Dialect;
use forgerun_problem::{MEDIA_TYPE_JSON, MEDIA_TYPE_XML, Problem};
use serde_json::{Map, Value, json};

use super::KeyPolicy;
use super::schemas::reference;
use crate::problem::RefusedRequest;
use crate::status;

/// A method of a path.
pub(super) struct Operation {
    pub(super) path: Cow<'static, str>,
    /// In small letters, as the document has it.
    pub(super) method: &'static str,
    /// What generated clients call it.
    pub(super) id: Cow<'static, str>,
    pub(super) tag: &'static str,
    pub(super) summary: Cow<'static, str>,
    pub(super) access: Access,
    pub(super) parameters: Vec<Value>,
    pub(super) body: Option<OperationBody>,
    pub(super) answers: Vec<OperationAnswer>,
    /// All that it may be refused with.
    pub(super) refusals: Vec<RefusedRequest>,
}

/// Whom it serves.
#[derive(Clone, Copy)]
pub(super) enum Access {
    Anybody,
    /// Anybody, or with `auth.registration=admin` only the operator.
    AnybodyOrOperator,
    /// A client with a key; for a first key, anybody.
    FirstKey,
    ClientOrOperator,
    Client,
    Operator,
}

/// What may be sent along.
pub(super) struct OperationBody {
    pub(super) schema: &'static str,
    pub(super) required: bool,
    /// Requests that are accepted as they stand, with their names.
    pub(super) examples: Vec<(&'static str, Value)>,
}

/// An answer that is no refusal.
pub(super) struct OperationAnswer {
    pub(super) status: u16,
    pub(super) description: &'static str,
    /// Media type, name of the schema, example. A schema without name is any bytes.
    pub(super) content: Vec<(&'static str, Option<&'static str>, Option<Value>)>,
    pub(super) headers: Vec<(&'static str, Presence)>,
}

/// Whether a header is always there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Always,
    Sometimes,
}

/// The id of a request that examples show.
const INSTANCE: &str = "urn:uuid:01890a5d-ac96-774b-bcce-b302099a8057";

/// What each header says.
const HEADERS: &[(&str, &str)] = &[
    ("X-Request-ID", "The id the server gave the request."),
    ("X-Correlation-ID", "The id the client gave the request, sanitised; otherwise the server's."),
    (
        "Cache-Control",
        "`no-store` for what is said about jobs and for their results, which are private; documents may be kept.",
    ),
    ("Retry-After", "Seconds to wait before asking again."),
    ("WWW-Authenticate", "`Bearer`."),
    ("Location", "Where the job is."),
    ("Link", "`rel=\"status\"`: where the job is; `rel=\"related\"`: where its result is."),
    ("Preference-Applied", "Which preferences were honoured."),
    ("Idempotent-Replayed", "`true` when the answer tells of something that was there before."),
    ("Vary", "What the form of the answer depends on."),
    ("Content-Language", "The language that titles and details are in."),
    (
        "ETag",
        "Which version it is: of a document, of the settings of a webhook, or of a result, which never changes.",
    ),
    ("Content-Digest", "The SHA-256 of the body (RFC 9530)."),
    ("Repr-Digest", "The SHA-256 of the whole result, also where only a part is sent (RFC 9530)."),
    ("Accept-Ranges", "`bytes`: a download that was cut off can go on."),
    ("Content-Range", "Which bytes these are, and of how many."),
    ("Content-Disposition", "The name to save it under; not for JSON without a name."),
    ("Problem", "What went wrong, as a structured field."),
    ("X-Accel-Buffering", "`no`: proxies shall pass events on as they come."),
    ("RateLimit", "What is left of the limit."),
    ("RateLimit-Policy", "The limit."),
    ("X-RateLimit-Limit", "Requests per minute."),
    ("X-RateLimit-Remaining", "Requests left."),
    ("X-RateLimit-Reset", "When all of them are there again, in seconds since the epoch."),
];

/// Headers of every answer.
const ALWAYS: [&str; 3] = ["X-Request-ID", "X-Correlation-ID", "Cache-Control"];

/// Headers of answers to clients whose requests are counted.
const COUNTED: [&str; 5] =
    ["RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

/// The headers as components. Each is there twice: always, and `Sometimes`.
pub(super) fn headers() -> Value {
    let mut components = Map::new();
    for (name, description) in HEADERS {
        for presence in [Presence::Always, Presence::Sometimes] {
            let required = presence == Presence::Always;
            let header =
                json!({"description": description, "required": required, "schema": {"type": "string"}});
            components.insert(component(name, presence), header);
        }
    }
    Value::Object(components)
}

fn component(name: &str, presence: Presence) -> String {
    match presence {
        Presence::Always => name.to_owned(),
        Presence::Sometimes => format!("{name}.Sometimes"),
    }
}

impl Operation {
    /// The operation as the document has it.
    pub(super) fn describe(&self, base: &str, keys: KeyPolicy) -> Value {
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "security": self.access.describe(keys),
            "parameters": self.parameters,
            "responses": self.responses(base),
        });
        if let Some(body) = &self.body {
            operation["requestBody"] = body.describe();
        }
        operation
    }

    fn dialect(&self) -> Dialect {
        if self.path.starts_with("/api/v1") { Dialect::Operations } else { Dialect::Forge }
    }

    /// The schema of its refusals.
    fn problem(&self) -> &'static str {
        match self.dialect() {
            Dialect::Operations => "OperationProblem",
            Dialect::Forge | Dialect::Ojs => "Problem",
        }
    }

    fn responses(&self, base: &str) -> Value {
        let mut responses = Map::new();
        for answer in &self.answers {
            responses.insert(answer.status.to_string(), self.answer(answer));
        }
        let mut by_status: BTreeMap<u16, Vec<&RefusedRequest>> = BTreeMap::new();
        for refused in &self.refusals {
            by_status.entry(status::http(refused.kind, self.dialect())).or_default().push(refused);
        }
        for (code, refusals) in by_status {
            let problems: Vec<Problem> =
                refusals.iter().map(|refused| refused.problem(self.dialect(), base, INSTANCE)).collect();
            let refusal = self.refusal(code, &problems);
            assert!(
                responses.insert(code.to_string(), refusal).is_none(),
                "{} answers {code} twice",
                self.id
            );
        }
        Value::Object(responses)
    }

    fn answer(&self, answer: &OperationAnswer) -> Value {
        let content: Map<String, Value> = answer
            .content
            .iter()
            .map(|(media_type, schema, example)| {
                let mut media = json!({"schema": schema.map_or(json!({}), reference)});
                if let Some(example) = example {
                    media["example"] = example.clone();
                }
                ((*media_type).to_owned(), media)
            })
            .collect();
        json!({
            "description": answer.description,
            "headers": self.headers(&answer.headers),
            "content": content,
        })
    }

    /// What is said with one status, whichever of the problems it is.
    fn refusal(&self, code: u16, problems: &[Problem]) -> Value {
        let titled = |problem: &Problem| {
            format!("[{}]({})", problem.title().unwrap_or("See the status"), problem.type_uri())
        };
        let description: Vec<String> = problems.iter().map(titled).collect();
        let types: Vec<&str> = problems.iter().map(Problem::type_uri).collect();
        let named = |problem: &Problem| problem.type_uri().rsplit(['/', ':']).next().unwrap_or("").to_owned();
        let json_examples: Map<String, Value> = problems
            .iter()
            .map(|problem| {
                let value: Value = serde_json::from_str(&problem.to_json()).expect("we wrote it");
                (named(problem), json!({"summary": problem.title(), "value": value}))
            })
            .collect();
        let mut headers = vec![("Vary", Presence::Sometimes), ("Content-Language", Presence::Always)];
        match code {
            401 => headers.push(("WWW-Authenticate", Presence::Always)),
            416 => headers.push(("Content-Range", Presence::Always)),
            429 | 503 | 504 => headers.push(("Retry-After", Presence::Always)),
            _ => {}
        }
        json!({
            "description": description.join(", "),
            "headers": self.headers(&headers),
            "content": {
                MEDIA_TYPE_JSON: {"schema": reference(self.problem()), "examples": json_examples},
                MEDIA_TYPE_XML: {"schema": reference(self.problem())},
            },
            "x-problem-types": types,
        })
    }

    fn headers(&self, own: &[(&str, Presence)]) -> Value {
        let always = ALWAYS.iter().map(|name| (*name, Presence::Always));
        // Without a limit nothing is counted.
        let counted =
            COUNTED.iter().filter(|_| self.access.is_counted()).map(|name| (*name, Presence::Sometimes));
        let headers = always.chain(own.iter().copied()).chain(counted);
        let described: Map<String, Value> = headers
            .map(|(name, presence)| {
                let target = format!("#/components/headers/{}", component(name, presence));
                (name.to_owned(), json!({"$ref": target}))
            })
            .collect();
        Value::Object(described)
    }
}

impl Access {
    const fn is_counted(self) -> bool {
        match self {
            Access::Anybody | Access::AnybodyOrOperator | Access::Operator => false,
            Access::FirstKey | Access::ClientOrOperator | Access::Client => true,
        }
    }

    fn describe(self, keys: KeyPolicy) -> Value {
        match self {
            Access::ClientOrOperator if keys == KeyPolicy::Optional => {
                json!([{}, {"apiKey": []}, {"adminToken": []}])
            }
            Access::Client if keys == KeyPolicy::Optional => json!([{}, {"apiKey": []}]),
            Access::Anybody => json!([]),
            Access::AnybodyOrOperator => json!([{}, {"adminToken": []}]),
            Access::FirstKey => json!([{}, {"apiKey": []}, {"adminToken": []}]),
            Access::ClientOrOperator => json!([{"apiKey": []}, {"adminToken": []}]),
            Access::Client => json!([{"apiKey": []}]),
            Access::Operator if keys == KeyPolicy::Optional => json!([{}, {"adminToken": []}]),
            Access::Operator => json!([{"adminToken": []}]),
        }
    }
}

impl OperationBody {
    fn describe(&self) -> Value {
        let examples: Map<String, Value> =
            self.examples.iter().map(|(name, value)| ((*name).to_owned(), json!({"value": value}))).collect();
        json!({
            "required": self.required,
            "content": {"application/json": {"schema": reference(self.schema), "examples": examples}},
        })
    }
}
