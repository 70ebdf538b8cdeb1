//! Shared by all journeys of a run: connections, clients, counters, acknowledged jobs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use forgerun_client::Client;
use forgerun_problem::MEDIA_TYPE_JSON;
use forgerun_problem::check::{Carrier, Strength, inspect_on};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore};

use super::call::{Call, Key};
use super::receiver::Receiver;
use super::state::State;
use super::tally::Tally;
use super::violation::Violations;
use super::workers::Fleet;
use crate::clock::{now, sleep};
use crate::http::Answer;
use crate::limits::{BROKEN_PATIENCE, BROKEN_PAUSE};
use crate::pool::{Broken, Pool};

/// A client of the server.
pub(super) struct ApiClient {
    pub(super) key: Key,
    pub(super) streaming: Client,
}

/// An acknowledged job.
#[derive(Clone, Debug)]
pub(super) struct Acknowledged {
    pub(super) key: Key,
    /// The end that was seen, if any.
    pub(super) end: Option<State>,
}

pub(super) struct World {
    pub(super) base: String,
    /// Unique to this run on the server.
    pub(super) run: String,
    pub(super) pool: Pool,
    pub(super) clients: Vec<ApiClient>,
    /// The key that creates clients, if needed.
    pub(super) registrar: Key,
    pub(super) receiver: Option<Rc<Receiver>>,
    pub(super) fleet: Fleet,
    pub(super) streams: Semaphore,
    pub(super) raw: Semaphore,
    pub(super) tally: RefCell<Tally>,
    pub(super) violations: RefCell<Violations>,
    pub(super) acknowledged: RefCell<HashMap<String, Acknowledged>>,
    /// This tool killed the server.
    pub(super) is_down: Cell<bool>,
    /// The server will be killed, so that every submission must be repeatable.
    pub(super) is_killed_at_times: bool,
    /// When the last journey is given up.
    pub(super) deadline: Cell<Instant>,
    pub(super) journey_ended: Notify,
}

impl World {
    /// Sends once. The latency counts from when the request was meant to be sent.
    pub(super) async fn send(&self, call: &Call, intended: Instant) -> Result<Answer, Broken> {
        let was_down = self.is_down.get();
        let sent = self.pool.send(call.request(&self.pool.host)).await;
        let took = now().saturating_duration_since(intended);
        match &sent {
            Ok(answer) => {
                self.tally.borrow_mut().answered(call.class, answer.status, took);
                self.look_at(call, answer);
            }
            Err(Broken) if was_down || self.is_down.get() => self.tally.borrow_mut().interrupted += 1,
            Err(Broken) => self.tally.borrow_mut().error(),
        }
        sent
    }

    /// Sends, and repeats harmless requests while the server is down.
    pub(super) async fn send_patiently(&self, call: &Call, intended: Instant) -> Option<Answer> {
        let give_up = now() + BROKEN_PATIENCE;
        loop {
            match self.send(call, intended).await {
                Ok(answer) => return Some(answer),
                Err(Broken) if call.is_repeatable() && now() < give_up && !self.is_over() => {
                    sleep(BROKEN_PAUSE).await
                }
                Err(Broken) => return None,
            }
        }
    }

    /// Whether the run is over.
    pub(super) fn is_over(&self) -> bool {
        now() >= self.deadline.get()
    }

    /// Records a broken guarantee.
    pub(super) fn violate(
        &self,
        id: &'static str,
        what: impl Into<String>,
        call: &Call,
        answer: Option<&Answer>,
    ) {
        if id == "FR-STM-19" {
            self.tally.borrow_mut().jobs.doubled += 1;
        }
        self.violations.borrow_mut().add(&self.base, id, what.into(), call, answer);
    }

    /// Checks that apply to every answer.
    fn look_at(&self, call: &Call, answer: &Answer) {
        if answer.status < 400 {
            return;
        }
        if matches!(answer.status, 429 | 503) && answer.header("retry-after").is_empty() {
            self.violate("OJS-COD-11", format!("{} without Retry-After", answer.status), call, Some(answer));
        }
        // Open Job Spec has error objects of its own.
        if call.path.starts_with("/ojs/") {
            return;
        }
        if answer.media_type() != MEDIA_TYPE_JSON {
            let what = format!("an error is {:?} instead of problem+json", answer.media_type());
            return self.violate("PD-ERR-01", what, call, Some(answer));
        }
        let body = answer.object();
        let instance = body.get("instance").and_then(Value::as_str).unwrap_or_default();
        if instance != format!("urn:uuid:{}", answer.header("x-request-id")) {
            self.violate("FR-ERR-01", "the instance of an error is not the request's id", call, Some(answer));
        }
        for finding in inspect_on(&body, Carrier::Response(answer.status)).findings {
            if finding.strength == Strength::Must {
                let what = format!("{} of an error: {}", finding.member, finding.mend);
                self.violate(finding.requirement, what, call, Some(answer));
            }
        }
    }

    /// Records an acknowledged job. The caller detects duplicates.
    pub(super) fn acknowledge(&self, id: &str, key: &Key) -> bool {
        let job = Acknowledged { key: key.clone(), end: None };
        self.acknowledged.borrow_mut().insert(id.to_owned(), job).is_none()
    }

    /// A client learned of the end of a job.
    pub(super) fn ended(&self, id: &str, state: State, took: Option<Duration>) {
        if let Some(job) = self.acknowledged.borrow_mut().get_mut(id) {
            job.end = Some(state);
        }
        self.tally.borrow_mut().ended(state, took);
    }
}
