//! The operations that belong to no dialect.

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::operation::{Access, Operation, OperationAnswer, Presence};
use super::operations::{answer, header, path_parameter, refusals};
use crate::problem::RefusedRequest;

/// What any page may meet.
const TROUBLE: &[Kind] = &[Kind::Internal, Kind::OperationTimeout];

/// All of them.
pub(super) fn all() -> Vec<Operation> {
    let mut pages = server();
    pages.extend(documents());
    pages
}

fn server() -> Vec<Operation> {
    let not_ready = json!({"status": "not ready", "reason": "store", "code": "RFA_STORAGE_UNAVAILABLE"});
    let no_keys = not_ready.clone();
    vec![
        Operation {
            answers: vec![answer(200, "Alive.", "Health", json!({"status": "ok"}))],
            ..page("/health", "getHealth", "server", "Whether the process answers.")
        },
        Operation {
            answers: vec![
                answer(200, "Ready.", "Ready", json!({"status": "ready"})),
                OperationAnswer {
                    headers: vec![("Retry-After", Presence::Always)],
                    ..answer(503, "Not ready.", "NotReady", not_ready)
                },
            ],
            ..page("/ready", "getReady", "server", "Whether the server can do its work now.")
        },
        Operation {
            answers: vec![of_types(
                200,
                "Prometheus text 0.0.4; OpenMetrics if `Accept` prefers it.",
                &[("text/plain", None), ("application/openmetrics-text", None)],
            )],
            ..page("/metrics", "getMetrics", "server", "What the server counts, for Prometheus.")
        },
        Operation {
            answers: vec![
                OperationAnswer {
                    headers: vec![("Cache-Control", Presence::Always)],
                    ..of_types(200, "A JWK set.", &[("application/jwk-set+json", None)])
                },
                OperationAnswer {
                    headers: vec![("Retry-After", Presence::Always)],
                    ..answer(503, "The store does not show them now.", "NotReady", no_keys)
                },
            ],
            ..page(
                "/.well-known/forgerun/webhook-keys",
                "getWebhookKeys",
                "server",
                "The public keys that webhook deliveries are signed with (RFC 9421).",
            )
        },
    ]
}

fn documents() -> Vec<Operation> {
    let forms = |schema| [("text/html", None), ("application/json", Some(schema)), ("application/xml", None)];
    let shown = || {
        let always = ["Vary", "Content-Language", "ETag"];
        always.map(|name| (name, Presence::Always)).to_vec()
    };
    let cached = || OperationAnswer {
        headers: vec![("ETag", Presence::Always)],
        ..of_types(304, "The caller has it already, as `If-None-Match` says.", &[])
    };
    let nothing = RefusedRequest::new(Kind::RouteNotFound, "There is nothing at this address.").blank();
    let missing = refusals(&[TROUBLE]).into_iter().chain([nothing]).collect();
    let document = |media_type| OperationAnswer {
        headers: vec![("ETag", Presence::Always)],
        ..of_types(200, "The document.", &[(media_type, None)])
    };
    let first_page = OperationAnswer {
        headers: ["Vary", "ETag"].map(|name| (name, Presence::Always)).to_vec(),
        ..of_types(
            200,
            "A page for browsers, links for others.",
            &[("application/json", None), ("text/html", None)],
        )
    };
    vec![
        Operation {
            parameters: vec![if_none_match()],
            answers: vec![first_page, cached()],
            ..page("/", "getFirstPage", "documents", "Where to go from here.")
        },
        Operation {
            parameters: vec![accept_language(), if_none_match()],
            answers: vec![
                OperationAnswer { headers: shown(), ..of_types(200, "All of them.", &forms("ProblemTypes")) },
                cached(),
            ],
            ..page("/problems", "listProblemTypes", "documents", "Every problem type.")
        },
        Operation {
            parameters: vec![
                path_parameter("slug", "The last part of the `type`."),
                accept_language(),
                if_none_match(),
            ],
            answers: vec![
                OperationAnswer { headers: shown(), ..of_types(200, "The page.", &forms("ProblemType")) },
                cached(),
            ],
            refusals: missing,
            ..page("/problems/{slug}", "getProblemType", "documents", "What a problem type means.")
        },
        Operation {
            parameters: vec![if_none_match()],
            answers: vec![document(super::MEDIA_TYPE), cached()],
            ..page("/openapi.json", "getOpenApi", "documents", "This document.")
        },
        Operation {
            parameters: vec![if_none_match()],
            answers: vec![document(crate::asyncapi::MEDIA_TYPE), cached()],
            ..page("/asyncapi.yaml", "getAsyncApi", "documents", "The same for events: streams and webhooks.")
        },
        Operation {
            parameters: vec![if_none_match()],
            answers: vec![document(forgerun_problem::schema::MEDIA_TYPE_SCHEMA), cached()],
            ..page(
                "/schemas/async-job-problem-details.json",
                "getProblemSchema",
                "documents",
                "The JSON Schema of problems with async-job members.",
            )
        },
    ]
}

/// The language of problems and pages.
pub(super) fn accept_language() -> Value {
    header("Accept-Language", "The language of titles and details: English, or German.", "de, en;q=0.5")
}

fn if_none_match() -> Value {
    header("If-None-Match", "The `ETag` of the version the caller has.", "\"5f2b7c1d9e0a4f3b8c6d7e12\"")
}

fn of_types(
    status: u16,
    description: &'static str,
    types: &[(&'static str, Option<&'static str>)],
) -> OperationAnswer {
    let content = types.iter().map(|(media_type, schema)| (*media_type, *schema, None)).collect();
    OperationAnswer { status, description, content, headers: vec![] }
}

fn page(path: &'static str, id: &'static str, tag: &'static str, summary: &'static str) -> Operation {
    Operation {
        path: path.into(),
        method: "get",
        id: id.into(),
        tag,
        summary: summary.into(),
        access: Access::Anybody,
        parameters: vec![],
        body: None,
        answers: vec![],
        refusals: refusals(&[TROUBLE]),
    }
}
