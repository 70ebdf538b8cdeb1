//! Checks of answers about a job.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use forgerun_problem::check::{Carrier, Strength, inspect_on};
use forgerun_problem::{MEDIA_TYPE_JSON, Timestamp};
use serde_json::{Map, Value};

use super::call::{Call, Key};
use super::state::State;
use super::tally::Class;
use super::world::World;
use crate::http::Answer;

/// A job of one client, and its states so far.
pub(super) struct Watched {
    pub(super) world: Rc<World>,
    pub(super) id: String,
    pub(super) key: Key,
    /// When its submission was meant to be sent.
    pub(super) intended: Instant,
    pub(super) seen: Cell<State>,
    pub(super) retried: Cell<bool>,
}

impl Watched {
    pub(super) fn status_call(&self) -> Call {
        Call::get(format!("/v1/jobs/{}", self.id), &self.key).class(Class::Poll)
    }

    pub(super) fn violate(&self, id: &'static str, what: impl Into<String>, call: &Call, answer: &Answer) {
        self.world.violate(id, what, call, Some(answer));
    }

    /// Checks a status. Returns the state, if the answer has one.
    pub(super) fn status(&self, call: &Call, answer: &Answer) -> Option<State> {
        if answer.status != 200 {
            if answer.status == 404 {
                self.violate("FR-STO-06", "a job that was acknowledged is not found", call, answer);
            }
            return None;
        }
        let body = answer.object();
        for name in [
            "job_id",
            "type",
            "state",
            "outcome",
            "created_at",
            "execution_at",
            "updated_at",
            "attempt",
            "callback",
        ] {
            if !body.contains_key(name) {
                self.violate("FR-STA-01", format!("the status has no {name}"), call, answer);
            }
        }
        let word = body.get("state").and_then(Value::as_str).unwrap_or_default();
        let Some(state) = State::parse(word) else {
            self.violate("FR-STM-01", format!("{word:?} is no state"), call, answer);
            return None;
        };
        if body.get("outcome").and_then(Value::as_str) != state.outcome() {
            self.violate("FR-STA-02", format!("the outcome of {word} is {}", body["outcome"]), call, answer);
        }
        self.next_state(state, call, answer);
        let found = inspect_on(&body, Carrier::Unknown);
        let of_members = found.findings.iter().filter(|finding| finding.requirement.starts_with("AJ-"));
        for finding in of_members.filter(|finding| finding.strength == Strength::Must) {
            let what = format!("{} of a status: {}", finding.member, finding.mend);
            self.violate(finding.requirement, what, call, answer);
        }
        Some(state)
    }

    /// Checks the order of two states.
    fn next_state(&self, state: State, call: &Call, answer: &Answer) {
        let before = self.seen.replace(state);
        if !before.may_be_followed_by(state, self.retried.get()) {
            let id = match before {
                State::Succeeded => "FR-STM-17",
                State::Canceled => "FR-STM-18",
                State::Failed => "FR-STM-16",
                _ => "FR-STM-21",
            };
            self.violate(id, format!("{state} was seen after {before}"), call, answer);
        }
    }

    /// Checks a failure object of a status.
    pub(super) fn failure(&self, call: &Call, answer: &Answer) {
        if answer.status != 200 || answer.media_type() != MEDIA_TYPE_JSON {
            let what = format!("a failure report is {} {:?}", answer.status, answer.media_type());
            return self.violate("AJ-STA-01", what, call, answer);
        }
        let body = answer.object();
        for finding in inspect_on(&body, Carrier::Report).findings {
            if finding.strength == Strength::Must {
                let what = format!("{} of a failure report: {}", finding.member, finding.mend);
                self.violate(finding.requirement, what, call, answer);
            }
        }
        for name in ["jobId", "jobStatus", "submittedAt", "completedAt", "title", "status", "detail", "code"]
        {
            if !body.contains_key(name) {
                self.violate("AJ-AJM-03", format!("a failure report has no {name}"), call, answer);
            }
        }
        if let Some(seconds) = body.get("retryAfter").and_then(Value::as_u64)
            && answer.header("retry-after") != seconds.to_string()
        {
            self.violate("AJ-STA-07", "Retry-After differs from retryAfter", call, answer);
        }
    }

    /// Checks a report: an unbroken chain of allowed changes, one end per execution.
    pub(super) fn report(&self, end: State, call: &Call, answer: &Answer) {
        if answer.status != 200 {
            return self.violate(
                "FR-EXE-05",
                format!("the report of an ended job is {}", answer.status),
                call,
                answer,
            );
        }
        let body = answer.object();
        if body.get("outcome").and_then(Value::as_str) != end.outcome() {
            self.violate("FR-RES-01", format!("the report of {end} says {}", body["outcome"]), call, answer);
        }
        let events = body.get("events").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if let Err((id, what)) = chain(events, end) {
            self.violate(id, what, call, answer);
        }
    }
}

/// Checks the events of a report.
fn chain(events: &[Value], end: State) -> Result<(), (&'static str, String)> {
    let mut state = None;
    let mut time = None;
    let mut n_ends = 0;
    for event in events.iter().filter_map(Value::as_object) {
        let previous = state_of(event, "prev_state");
        let next = state_of(event, "next_state")
            .ok_or(("FR-RES-05", format!("an event without next_state: {event:?}")))?;
        if previous != state {
            return Err((
                "FR-STM-21",
                format!("an event leads from {} where the job was {}", word(previous), word(state)),
            ));
        }
        if let Some(previous) = previous
            && !previous.may_become(next)
        {
            let id = if previous.is_final() { "FR-STM-19" } else { "FR-STM-21" };
            return Err((id, format!("{previous} became {next}")));
        }
        let at = event.get("timestamp").and_then(Value::as_str).and_then(|text| Timestamp::parse(text).ok());
        let at = at.map(|at| at.unix_micros()).ok_or(("FR-EVT-02", "an event without a time".to_owned()))?;
        if time.is_some_and(|before| at <= before) {
            return Err(("FR-RES-05", "events are not in the order of their times".to_owned()));
        }
        // A retry opens another execution, which has an end of its own.
        n_ends = if next == State::Queued { 0 } else { n_ends + u32::from(next.is_final()) };
        (state, time) = (Some(next), Some(at));
    }
    match state {
        Some(last) if last != end => {
            Err(("FR-STM-21", format!("the report ends with {last}, the job with {end}")))
        }
        None => Err(("FR-EVT-01", "a report without events".to_owned())),
        Some(_) if n_ends > 1 => Err(("FR-STM-19", format!("{n_ends} ends of one execution"))),
        Some(_) => Ok(()),
    }
}

fn word(state: Option<State>) -> &'static str {
    state.map_or("in no state", State::word)
}

fn state_of(event: &Map<String, Value>, name: &str) -> Option<State> {
    event.get(name).and_then(Value::as_str).and_then(State::parse)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn events(states: &[&str]) -> Vec<Value> {
        let mut previous = Value::Null;
        states
            .iter()
            .enumerate()
            .map(|(n, state)| {
                let event = json!({"prev_state": previous, "next_state": state, "timestamp": format!("2026-01-01T00:00:0{n}Z")});
                previous = (*state).into();
                event
            })
            .collect()
    }

    #[track_caller]
    fn check(states: &[&str], end: State, expected: Option<&str>) {
        let found = chain(&events(states), end).err();
        assert_eq!(found.as_ref().map(|(id, _)| *id), expected, "{found:?}");
    }

    #[test]
    fn a_right_chain_passes_and_a_wrong_one_is_named_by_its_id() {
        let well = ["CREATED", "QUEUED", "ASSIGNED", "RUNNING", "SUCCEEDED"];
        check(&well, State::Succeeded, None);
        check(&well, State::Failed, Some("FR-STM-21"));
        check(&["CREATED", "QUEUED", "RUNNING", "SUCCEEDED"], State::Succeeded, Some("FR-STM-21"));
        check(
            &["CREATED", "QUEUED", "ASSIGNED", "RUNNING", "SUCCEEDED", "FAILED"],
            State::Failed,
            Some("FR-STM-19"),
        );
        check(&[], State::Failed, Some("FR-EVT-01"));
        let retried = [
            "CREATED",
            "QUEUED",
            "ASSIGNED",
            "RUNNING",
            "FAILED",
            "QUEUED",
            "ASSIGNED",
            "RUNNING",
            "SUCCEEDED",
        ];
        check(&retried, State::Succeeded, None);
        let mut reordered = events(&well);
        reordered[2]["timestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(chain(&reordered, State::Succeeded).unwrap_err().0, "FR-RES-05");
        let mut gap = events(&well);
        gap.remove(2);
        assert_eq!(chain(&gap, State::Succeeded).unwrap_err().0, "FR-STM-21");
    }
}
