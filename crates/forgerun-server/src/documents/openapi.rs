//! The OpenAPI 3.1 document, folded from the routes that are served: what a route says of itself
//! (`Operation`), and what follows from it. Schemas are derived from the views, statuses and
//! examples of refusals come from the catalog.
//!
//! Whatever several operations have in common is a component: parameters, header fields, refusals
//! and their examples.
//!
//! `HEAD` is not written down: it goes wherever `GET` goes (RFC 9110, 9.3.2).

use std::collections::BTreeMap;

use forgerun_core::catalog::Kind;
use forgerun_core::scope::KeyScope;
use forgerun_problem::{MEDIA_TYPE_JSON, MEDIA_TYPE_XML};
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::request::RequestBody;
use forgerun_wire::schema;
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::headers::{self, reference};
use super::problems;
use super::refusals;
use super::rows::{self, Row};
use crate::auth::TOKEN_PARAMETER;
use crate::config::{AuthMode, Config};
use crate::http::routing::{
    Answers, Callers, Verb,
    operation::{Parameter, Reply, ReplyContent},
};

/// The media type of the document.
pub const MEDIA_TYPE: &str = "application/json";

/// The id of a job in examples.
const JOB: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

const DESCRIPTION: &str = "Every error is a problem (RFC 9457) in JSON, or in XML if `Accept` asks for it, and its `type` leads to a page \
    about it. Under `/ojs/v1` it is the error object of Open Job Spec, with the members of a problem. A path that is not listed is answered \
    with 404, a method that is not listed with 405 and `Allow`; HEAD goes wherever GET goes. Unknown members of a body are refused, unless \
    the operator has set `api.unknown_members = \"ignore\"`; null counts as absent. Under `/ojs/v1` unknown members are ignored, as Open Job \
    Spec has it. Jobs over gRPC are described by their .proto files.";

/// Tags with their descriptions.
const TAGS: [(&str, &str); 10] = [
    ("clients", "Clients and their keys."),
    ("jobs", "Submit, watch, cancel, retry; report, result and events."),
    ("workflows", "Jobs that wait for each other."),
    ("async operations", "The same jobs by the async-operations pattern: 202, poll, fetch."),
    ("schedules", "Jobs that come again and again."),
    ("webhooks", "Endpoints that receive events of jobs, and what was sent to them."),
    ("open job spec", "Jobs for your own workers, and the protocol that these workers speak."),
    ("operator", "The whole server, for its operator."),
    ("server", "Whether it is alive and ready, and what it counts."),
    ("documents", "What the API says of itself."),
];

/// The document of a server with this configuration, at this public address; an empty address makes
/// references relative.
pub fn document(config: &Config, base: &str) -> Value {
    let mut fold = Fold::new(config, base);
    let mut paths = Map::new();
    for row in rows::all(config) {
        let item = paths.entry(row.path.clone()).or_insert_with(|| json!({}));
        item[row.verb.word().to_ascii_lowercase()] = fold.operation(&row);
    }
    let tags: Vec<Value> =
        TAGS.iter().map(|(name, about)| json!({"name": name, "description": about})).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "ForgeRun",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Submit jobs, watch them, and read how they ended.",
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": if base.is_empty() { "/" } else { base }}],
        "externalDocs": {
            "description": "Every problem type: what it means, and whether to try again.",
            "url": format!("{base}/problems"),
        },
        "tags": tags,
        "paths": paths,
        "components": fold.components(),
    })
}

/// What is gathered while operations are written down.
struct Fold<'a> {
    config: &'a Config,
    base: &'a str,
    generator: SchemaGenerator,
    /// Schemas that are not derived.
    schemas: Map<String, Value>,
    parameters: Components,
    responses: Components,
    examples: Map<String, Value>,
}

/// Components of one kind, each once.
#[derive(Default)]
struct Components {
    by_name: Map<String, Value>,
    names: BTreeMap<String, String>,
}

impl Components {
    /// The name of a component; one of another content has the same name with a number.
    fn name(&mut self, name: &str, component: Value) -> &str {
        let Components { by_name, names } = self;
        names.entry(component.to_string()).or_insert_with(|| {
            let numbered = (2..).map(|n| format!("{name}.{n}"));
            let name =
                std::iter::once(name.to_owned()).chain(numbered).find(|name| !by_name.contains_key(name));
            let name = name.expect("there is always another number");
            by_name.insert(name.clone(), component);
            name
        })
    }
}

impl<'a> Fold<'a> {
    fn new(config: &'a Config, base: &'a str) -> Fold<'a> {
        let mut schemas = problems::schemas();
        let nothing = json!({"type": "object", "description": "An object whose members do not matter."});
        schemas.insert("Nothing".into(), nothing);
        schemas.insert("EventStream".into(), super::asyncapi::stream_schema());
        Fold {
            config,
            base,
            generator: schema::generator(),
            schemas,
            parameters: Components::default(),
            responses: Components::default(),
            examples: Map::new(),
        }
    }

    fn operation(&mut self, row: &Row) -> Value {
        let mut operation = json!({
            "operationId": row.id,
            "tags": [tag(&row.path)],
            "summary": row.summary,
            "security": self.security(row),
            "parameters": self.parameters(row),
            "responses": self.responses(row),
        });
        if row.verb != Verb::Get {
            operation["requestBody"] = self.body(row);
        }
        operation
    }

    fn security(&self, row: &Row) -> Value {
        let is_open = self.config.auth.mode == AuthMode::Open;
        let scopes: Vec<&str> = row.scopes.iter().map(KeyScope::word).collect();
        // Neither is an OAuth scheme, so the list has the scopes or the role that is needed.
        let roles: Vec<&str> = row.role.iter().map(|role| role.word()).collect();
        let (nobody, key, operator) = (json!({}), json!({"apiKey": scopes}), json!({"adminToken": roles}));
        let mut security = match row.callers {
            Callers::Anyone => json!([]),
            Callers::AnyoneOrOperator => json!([nobody, operator]),
            Callers::FirstKey => json!([nobody, key, operator]),
            Callers::ClientOrOperator if is_open => json!([nobody, key, operator]),
            Callers::ClientOrOperator => json!([key, operator]),
            Callers::Client if is_open => json!([nobody, key]),
            Callers::Client => json!([key]),
            Callers::Operator if is_open => json!([nobody, operator]),
            Callers::Operator => json!([operator]),
        };
        if let (true, Value::Array(ways)) = (row.operation.job_token, &mut security) {
            ways.push(json!({"jobToken": []}));
        }
        security
    }

    fn parameters(&mut self, row: &Row) -> Vec<Value> {
        let of_path = rows::path_parameters(&row.path).map(|name| {
            let about = rows::about(name, &row.path);
            json!({"name": name, "in": "path", "required": true, "description": about, "schema": {"type": "string"}})
        });
        let of_query = row.operation.query.iter().map(|parameter| described(parameter, "query"));
        let of_headers = row.operation.headers.iter().map(|parameter| described(parameter, "header"));
        let all: Vec<Value> = of_path.chain(of_query).chain(of_headers).collect();
        let name = |parameter: Value| {
            let name = parameter["name"].as_str().unwrap_or_default().to_owned();
            json!({"$ref": format!("#/components/parameters/{}", self.parameters.name(&name, parameter))})
        };
        all.into_iter().map(name).collect()
    }

    fn body(&mut self, row: &Row) -> Value {
        let Some((body, required)) = row.operation.body else {
            let schema = reference("schemas", "Nothing");
            return json!({"required": false, "content": {body_type(row): {"schema": schema}}});
        };
        self.describe(body);
        let media = json!({"schema": reference("schemas", body.name), "examples": (body.examples)()});
        json!({"required": required, "content": {body_type(row): media}})
    }

    /// Takes the schema of a body, and of those that it refers to.
    fn describe(&mut self, body: &RequestBody) {
        for body in body.parts.iter().copied().chain([body]) {
            self.schemas.entry(body.name).or_insert_with(|| body.schema());
        }
    }

    fn responses(&mut self, row: &Row) -> Value {
        let mut responses = Map::new();
        for reply in row.operation.replies {
            let described = self.reply(row, reply);
            let name = format!("{}.{}", row.dialect_name(), reply.status);
            let name = self.responses.name(&name, described);
            responses.insert(reply.status.to_string(), reference("responses", name));
        }
        let mut by_status: BTreeMap<u16, Vec<Kind>> = BTreeMap::new();
        for kind in refusals::of(row) {
            by_status.entry(row.refusal_status(self.config, kind)).or_default().push(kind);
        }
        for (status, kinds) in by_status {
            let refusal = self.refusal(row, status, &kinds);
            let name = format!("{}.{status}", row.dialect_name());
            let name = self.responses.name(&name, refusal);
            responses.entry(status.to_string()).or_insert_with(|| reference("responses", name));
        }
        Value::Object(responses)
    }

    fn reply(&mut self, row: &Row, reply: &Reply) -> Value {
        let mut content = Map::new();
        let mut own: Vec<&str> = reply.headers.to_vec();
        match reply.content {
            ReplyContent::Nothing => {}
            ReplyContent::Object(object) => {
                self.describe(object);
                let schema = reference("schemas", object.name);
                for media_type in row.media_types {
                    content.insert((*media_type).to_owned(), json!({"schema": schema}));
                }
            }
            ReplyContent::Json(schema) => {
                let schema = schema(&mut self.generator);
                for media_type in row.media_types {
                    content.insert((*media_type).to_owned(), json!({"schema": schema}));
                }
            }
            ReplyContent::Types(types, schema) => {
                content.extend(types.iter().map(|name| ((*name).to_owned(), json!({"schema": {}}))));
                let schema = schema.map(|schema| schema(&mut self.generator));
                content
                    .extend(schema.map(|schema| ("application/json".to_owned(), json!({"schema": schema}))));
            }
        }
        match row.answers {
            Answers::BodyOrFailure if reply.status == 200 => {
                for media_type in [MEDIA_TYPE_JSON, MEDIA_TYPE_XML] {
                    let media = json!({"schema": reference("schemas", "FailedJob")});
                    content.insert(media_type.to_owned(), media);
                }
                own.extend(headers::OF_FAILURE);
            }
            Answers::BodyOrEvents if reply.status == 200 => {
                let media = json!({"schema": reference("schemas", "EventStream")});
                content.insert("text/event-stream".to_owned(), media);
                own.extend(headers::OF_STREAM);
            }
            _ => {}
        }
        let headers = headers::of(&own, reply.status, row.is_counted(), row.is_of_ojs());
        json!({"description": reply.about, "headers": headers, "content": content})
    }

    /// What is said with one status, whichever of the problems it is.
    fn refusal(&mut self, row: &Row, status: u16, kinds: &[Kind]) -> Value {
        let mut examples = Map::new();
        let mut titles = Vec::new();
        for kind in kinds {
            let example = row.refusal_example(self.config, self.base, &refused(*kind));
            let title = example["title"].as_str().unwrap_or_default().to_owned();
            if !titles.contains(&title) {
                titles.push(title);
            }
            let name = format!("{}.{kind:?}", row.dialect_name());
            examples.insert(format!("{kind:?}"), reference("examples", &name));
            self.examples.insert(name, json!({"value": example}));
        }
        let schema = reference("schemas", row.problem_schema());
        let own = headers::of_refusal(status, row.is_of_ojs());
        let mut content = Map::new();
        for media_type in row.refusal_types() {
            content.insert((*media_type).to_owned(), json!({"schema": schema}));
        }
        if row.answers_browsers() {
            content.insert("text/html".to_owned(), json!({"schema": {"type": "string"}}));
        }
        // The same object in every JSON type: shown once.
        content.insert(MEDIA_TYPE_JSON.to_owned(), json!({"schema": schema, "examples": examples}));
        content.insert(MEDIA_TYPE_XML.to_owned(), json!({"schema": schema}));
        let headers = headers::of(&own, status, row.is_counted(), row.is_of_ojs());
        json!({"description": titles.join(", "), "headers": headers, "content": content})
    }

    fn components(mut self) -> Value {
        let mut schemas = self.generator.take_definitions(true);
        schemas.extend(self.schemas);
        schemas.sort_keys();
        json!({
            "schemas": schemas,
            "parameters": self.parameters.by_name,
            "responses": self.responses.by_name,
            "examples": self.examples,
            "headers": headers::components(),
            "securitySchemes": {
                "apiKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key of a client, as `Authorization: Bearer frk_…`.",
                },
                "jobToken": {
                    "type": "apiKey",
                    "in": "query",
                    "name": TOKEN_PARAMETER,
                    "description": "A token of one job, as `?token=frj_…` or `Authorization: Bearer frj_…`.",
                },
                "adminToken": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The operator's token (`auth.admin_token`), which has the role `admin`: for `/admin/v1`, for clients and \
                        for keys. For `/admin/v1` also a token of the identity provider (`auth.oidc`) whose person has the role \
                        that is named.",
                },
            },
        })
    }
}

/// The media type that bodies are shown in. Open Job Spec has one of its own besides; generators of
/// clients do not cope with bodies of several types.
fn body_type(row: &Row) -> &'static str {
    let plain = row.media_types.iter().find(|media_type| **media_type == "application/json");
    plain.unwrap_or(&row.media_types[0])
}

/// A refusal as examples show it.
fn refused(kind: Kind) -> RefusedRequest {
    match kind {
        Kind::Expired => {
            let detail = "This job is no longer available. It was kept for 30 days after its end.";
            RefusedRequest::new(kind, detail).execution(JOB).member("expiredAt", "2026-05-28T12:00:00.000Z")
        }
        Kind::RouteNotFound => RefusedRequest::new(kind, "There is nothing at this address.").blank(),
        _ => RefusedRequest::new(kind, kind.entry().meaning),
    }
}

fn described(parameter: &Parameter, place: &str) -> Value {
    let mut described = json!({
        "name": parameter.name, "in": place, "description": parameter.about, "schema": (parameter.schema)(),
    });
    if !parameter.example.is_empty() {
        described["example"] = parameter.example.into();
    }
    described
}

/// Where an operation is listed: after the first word of its path.
fn tag(path: &str) -> &'static str {
    let is =
        |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match () {
        () if is("/admin") => "operator",
        () if is("/api") => "async operations",
        () if is("/ojs") => "open job spec",
        () if is("/v1/clients") => "clients",
        () if is("/v1/schedules") => "schedules",
        () if is("/v1/webhooks") || path.contains("/deliveries") => "webhooks",
        () if is("/v1/workflows") => "workflows",
        () if is("/v1") => "jobs",
        () if is("/health") || is("/ready") || is("/metrics") || is("/.well-known") => "server",
        () => "documents",
    }
}

#[cfg(test)]
mod tests;
