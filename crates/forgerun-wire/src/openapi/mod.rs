//! The OpenAPI 3.1 document of what the server answers today.
//!
//! - `operations`: every path and method, with the kinds of the catalog each may be refused with;
//! - `api`: those of `/api/v1`;
//! - `admin`: those of `/admin/v1`;
//! - `schedules`: those of schedules;
//! - `workflows`: those of workflows;
//! - `events`: those that tell what happened;
//! - `pages`: those that belong to no dialect;
//! - `operation`: how one of them is written down;
//! - `schemas`: the bodies; those of problems are composed of the schemas of `forgerun-problem`.
//!
//! Statuses, titles and examples of refusals come from the catalog, words of states from [`crate::words`], so they cannot
//! say anything else than the server does. What is written by hand is compared with the views in the tests here, and with
//! a running server in those of `forgerun-server`.
//!
//! `HEAD` is not written down: it goes wherever `GET` goes (RFC 9110, 9.3.2).

mod admin;
mod api;
mod batches;
mod events;
mod operation;
mod operations;
mod pages;
mod schedules;
mod schemas;
#[cfg(test)]
mod tests;
mod webhooks;
mod workflows;

use serde_json::{Map, Value, json};

pub use api::DeclaredOperation;
use operation::Operation;

/// The media type of the document.
pub const MEDIA_TYPE: &str = "application/json";

/// The document of a server at this public address; empty for references that are relative to the server.
pub fn document(base: &str) -> Value {
    document_with(base, &[], KeyPolicy::Needed)
}

/// Whether clients need a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPolicy {
    /// They do.
    Needed,
    /// They may do without, as in `forgerun dev` (`auth.mode=open`).
    Optional,
}

/// The same with what the configuration says: operations, and whether keys are needed.
pub fn document_with(base: &str, declared: &[DeclaredOperation<'_>], keys: KeyPolicy) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "ForgeRun",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Submit jobs, watch them, read what became of them.",
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": if base.is_empty() { "/" } else { base }}],
        "externalDocs": {
            "description": "Every problem type: what it means, and whether to try again.",
            "url": format!("{base}/problems"),
        },
        "tags": [
            {"name": "clients", "description": "Clients and their keys."},
            {"name": "jobs", "description": "Submit, watch, cancel, retry; report, result and events."},
            {"name": "workflows", "description": "Jobs that wait for each other."},
            {"name": "async operations", "description": "The same jobs by the async-operations pattern: 202, poll, fetch."},
            {"name": "schedules", "description": "Jobs that come again and again."},
            {"name": "webhooks", "description": "Endpoints that hear of jobs, and what was sent to them."},
            {"name": "operator", "description": "The whole server, whoever owns what: for whoever runs it."},
            {"name": "server", "description": "Is it alive, is it ready, what does it count."},
            {"name": "documents", "description": "What the API says of itself."},
        ],
        "paths": paths(base, declared, keys),
        "components": {
            "schemas": schemas::all(),
            "headers": operation::headers(),
            "securitySchemes": {
                "apiKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key of a client, as `Authorization: Bearer frk_…`.",
                },
                "adminToken": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The operator's token (`auth.admin_token`): for `/admin/v1`, for clients and for keys.",
                },
            },
        },
    })
}

/// The schemas of all bodies, by name.
pub(crate) fn bodies() -> Value {
    schemas::all()
}

const DESCRIPTION: &str = "Every error is a problem (RFC 9457) in JSON, or in XML for whoever asks for it, and its `type` \
    leads to a page about it. The paths under `/ojs/v1` are those of Open Job Spec and are not listed here: `/ojs/manifest` \
    leads to them. Any other path that is not listed is answered with 404, a method that is not listed with 405 and `Allow`; HEAD goes wherever GET goes. Members of a body that are not known are refused, unless \
    the operator has set `api.unknown_members = \"ignore\"`; null counts as absent.";

fn paths(base: &str, declared: &[DeclaredOperation<'_>], keys: KeyPolicy) -> Value {
    let mut paths = Map::new();
    for operation in operations::all(declared) {
        let Operation { path, method, .. } = &operation;
        let item = paths.entry(path.as_ref()).or_insert_with(|| Value::Object(Map::new()));
        assert!(item[*method].is_null(), "{method} {path} is described twice");
        item[*method] = operation.describe(base, keys);
    }
    Value::Object(paths)
}
