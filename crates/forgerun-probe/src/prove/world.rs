//! Shared by all tasks of a run: nodes, key, history, and what was acknowledged.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request};
use http_body_util::Full;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;

use super::history::{AnswerKind, History};
use super::nodes::Node;
use crate::clock::sleep;

/// Jobs that a client may cancel.
const RECENT_MAX: usize = 64;

/// Tries of a request that must be answered, and the pause between them. Together longer than any
/// fault.
const TRIES_MAX: u32 = 200;
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct World {
    pub(super) history: History,
    pub(super) nodes: Vec<Node>,
    pub(super) key: RefCell<Option<HeaderValue>>,
    /// The clients submit no more.
    pub(super) is_over: Cell<bool>,
    /// Nothing is left to work on.
    pub(super) is_drained: Cell<bool>,
    next: Cell<u64>,
    pub(super) jobs: RefCell<Vec<String>>,
    pub(super) workflows: RefCell<Vec<String>>,
    pub(super) n_deliveries: Cell<u64>,
    pub(super) n_claims: Cell<u64>,
    pub(super) n_faults: Cell<u64>,
}

/// A request to any node.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) idempotency: Option<&'a str>,
    pub(super) body: Option<&'a Value>,
}

impl<'a> Ask<'a> {
    pub(super) fn get(path: &'a str) -> Ask<'a> {
        Ask { method: Method::GET, path, idempotency: None, body: None }
    }

    pub(super) fn post(path: &'a str, body: &'a Value) -> Ask<'a> {
        Ask { method: Method::POST, path, idempotency: None, body: Some(body) }
    }
}

/// A whole answer.
pub(super) struct Told {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl World {
    pub(super) fn new(history: History, nodes: Vec<Node>) -> World {
        World {
            history,
            nodes,
            key: RefCell::default(),
            is_over: Cell::new(false),
            is_drained: Cell::new(false),
            next: Cell::new(0),
            jobs: RefCell::default(),
            workflows: RefCell::default(),
            n_deliveries: Cell::new(0),
            n_claims: Cell::new(0),
            n_faults: Cell::new(0),
        }
    }

    /// A number that is used once.
    pub(super) fn number(&self) -> u64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    pub(super) fn acknowledge(&self, job: &str) {
        self.jobs.borrow_mut().push(job.to_owned());
    }

    /// A job that was acknowledged a moment ago.
    pub(super) fn recent(&self, dice: &mut StdRng) -> Option<String> {
        let jobs = self.jobs.borrow();
        let n = jobs.len().min(RECENT_MAX);
        (n > 0).then(|| jobs[jobs.len() - 1 - dice.random_range(0..n)].clone())
    }

    /// Sends a request to one node. `None` without an answer that can be read.
    pub(super) async fn ask(&self, node: usize, ask: &Ask<'_>) -> Option<Told> {
        let node = &self.nodes[node % self.nodes.len()];
        let body = ask.body.map(|body| Bytes::from(body.to_string()));
        let mut request = Request::new(Full::new(body.unwrap_or_default()));
        *request.method_mut() = ask.method.clone();
        *request.uri_mut() = ask.path.parse().expect("paths are made here");
        let headers = request.headers_mut();
        headers.insert(HOST, node.pool.host.clone());
        if ask.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = &*self.key.borrow() {
            headers.insert(AUTHORIZATION, key.clone());
        }
        if let Some(key) = ask.idempotency.and_then(|key| HeaderValue::from_str(key).ok()) {
            headers.insert("idempotency-key", key);
        }
        let answer = node.pool.send(request).await.ok()?;
        let body = serde_json::from_slice(&answer.body).unwrap_or_default();
        Some(Told { status: answer.status, body })
    }

    /// Asks one node after the other until one answers with something other than trouble.
    pub(super) async fn ask_until_answered(&self, ask: &Ask<'_>) -> Option<Told> {
        for n_tries in 0..TRIES_MAX {
            match self.ask(n_tries as usize, ask).await {
                Some(told) if kind_of(Some(&told)) != AnswerKind::Unknown => return Some(told),
                _ => sleep(PAUSE).await,
            }
        }
        None
    }
}

/// Trouble, and "too much at once", say nothing about the request.
pub(super) fn kind_of(told: Option<&Told>) -> AnswerKind {
    match told.map(|told| told.status) {
        Some(200..=299) => AnswerKind::Ok,
        None | Some(408 | 429 | 500..) => AnswerKind::Unknown,
        Some(_) => AnswerKind::Refused,
    }
}
