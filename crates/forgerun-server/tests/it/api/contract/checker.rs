//! Holds answers against the served OpenAPI document.

use std::cell::RefCell;
use std::collections::HashMap;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::api::http::Answer;

/// The document, and what judges bodies by it.
pub(super) struct Contract {
    pub(super) document: Value,
    validators: RefCell<HashMap<String, Validator>>,
}

/// What was asked: the operation of the document, and how.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    /// As sent: a `HEAD` is judged by what `GET` is documented to answer, and has no body.
    pub(super) method: &'a str,
    /// The path with its parameters in braces.
    pub(super) path: &'a str,
}

impl Contract {
    pub(super) fn new(document: Value) -> Contract {
        Contract { document, validators: RefCell::default() }
    }

    /// Every operation, as method in capitals and path.
    pub(super) fn operations(&self) -> Vec<(String, String)> {
        let paths = self.document["paths"].as_object().unwrap();
        let methods = |item: &Value| -> Vec<String> {
            item.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect()
        };
        let all = paths.iter().flat_map(|(path, item)| methods(item).into_iter().map(|m| (m, path.clone())));
        all.collect()
    }

    pub(super) fn operation(&self, method: &str, path: &str) -> &Value {
        let method = if method == "HEAD" { "get" } else { &method.to_lowercase() };
        &self.document["paths"][path][method]
    }

    /// Everything about an answer that the document does not allow, and trouble of the server's
    /// own.
    pub(super) fn complaints(&self, asked: Asked<'_>, answer: &Answer) -> Vec<String> {
        let operation = self.operation(asked.method, asked.path);
        if operation.is_null() {
            return self.of_wrong_method(asked, answer);
        }
        let response = &operation["responses"][answer.status.to_string()];
        if response.is_null() {
            return vec![format!("status {} is not documented", answer.status)];
        }
        let mut complaints = self.of_headers(response, answer);
        if answer.status >= 500 {
            complaints.push(format!("the server has trouble: {}", answer.status));
        }
        // What has no content has no type either.
        if response["content"].as_object().is_some_and(|content| content.is_empty()) {
            if !answer.body.is_empty() || answer.header("content-type").is_some() {
                complaints.push(format!("{} with a body", answer.status));
            }
            return complaints;
        }
        let (content_type, media) = match media(response, answer) {
            Ok(found) => found,
            Err(complaint) => {
                complaints.push(complaint);
                return complaints;
            }
        };
        match asked.method {
            "HEAD" if answer.body.is_empty() => {}
            "HEAD" => complaints.push("the answer to HEAD has a body".into()),
            _ => complaints.extend(self.of_body(&content_type, &media["schema"], answer)),
        }
        complaints
    }

    /// A method that the document does not have is answered with 405 and the ones it has.
    fn of_wrong_method(&self, asked: Asked<'_>, answer: &Answer) -> Vec<String> {
        let item = self.document["paths"][asked.path].as_object();
        let mut documented: Vec<String> =
            item.into_iter().flat_map(|item| item.keys()).map(|method| method.to_uppercase()).collect();
        if documented.iter().any(|method| method == "GET") {
            documented.push("HEAD".into());
        }
        documented.sort();
        let allow = answer.header("allow").unwrap_or_default();
        let mut allowed: Vec<&str> = allow.split(',').map(str::trim).collect();
        allowed.sort_unstable();
        let mut complaints = Vec::new();
        if answer.status != 405 {
            complaints.push(format!("a method that is not documented is answered with {}", answer.status));
        }
        if allowed != documented {
            complaints.push(format!("Allow is {allow:?}, documented are {documented:?}"));
        }
        let content_type = essence(answer);
        if content_type.starts_with("application/problem+") {
            let name = if asked.path.starts_with("/api/v1") { "OperationProblem" } else { "Problem" };
            let problem = json!({"$ref": format!("#/components/schemas/{name}")});
            complaints.extend(self.of_body(&content_type, &problem, answer));
        } else if !(content_type == "text/html" && asked.path.starts_with("/v1/signals/")) {
            // Signals have pages for people, whose refusals are pages too.
            complaints.push(format!("a refusal of type {content_type:?}"));
        }
        complaints
    }

    fn of_headers(&self, response: &Value, answer: &Answer) -> Vec<String> {
        let headers = response["headers"].as_object().into_iter().flatten();
        let missing = headers.filter(|(name, header)| {
            let target = header["$ref"].as_str().unwrap().trim_start_matches('#');
            let header = self.document.pointer(target).unwrap();
            header["required"] == true && answer.header(&name.to_lowercase()).is_none()
        });
        missing.map(|(name, _)| format!("{name} is missing")).collect()
    }

    fn of_body(&self, content_type: &str, schema: &Value, answer: &Answer) -> Vec<String> {
        let is_problem = content_type.starts_with("application/problem+") && answer.status >= 400;
        if content_type.ends_with("xml") {
            let status = format!("<status>{}</status>", answer.status);
            let wrong = is_problem && !answer.text().contains(&status);
            return wrong.then(|| format!("the XML does not say {status}")).into_iter().collect();
        }
        // A part of a document is no document.
        if !content_type.ends_with("json") || answer.status == 206 {
            return Vec::new();
        }
        let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else {
            return vec![format!("the body is no JSON: {}", String::from_utf8_lossy(&answer.body))];
        };
        let mut complaints = self.of_schema(schema, &body);
        if is_problem && body["status"] != answer.status {
            complaints.push(format!("the body says status {}, the answer {}", body["status"], answer.status));
        }
        complaints
    }

    fn of_schema(&self, schema: &Value, body: &Value) -> Vec<String> {
        let mut validators = self.validators.borrow_mut();
        let validator = validators.entry(schema.to_string()).or_insert_with(|| {
            let root = json!({"components": self.document["components"], "allOf": [schema]});
            jsonschema::options().should_validate_formats(true).build(&root).unwrap()
        });
        validator.iter_errors(body).map(|error| format!("{error} at {}", error.instance_path())).collect()
    }
}

/// The media type of the answer without its parameters, and what the document says of it.
fn media<'a>(response: &'a Value, answer: &Answer) -> Result<(String, &'a Value), String> {
    let content_type = essence(answer);
    let content = &response["content"];
    match content.get(&content_type).or_else(|| content.get("*/*")) {
        Some(media) => Ok((content_type, media)),
        None => Err(format!("type {content_type:?} is not documented for {}", answer.status)),
    }
}

fn essence(answer: &Answer) -> String {
    let content_type = answer.header("content-type").unwrap_or_default();
    content_type.split(';').next().unwrap_or_default().trim().to_lowercase()
}
