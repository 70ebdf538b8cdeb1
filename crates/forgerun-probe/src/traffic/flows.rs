//! Workflows with waits, signals and lists, whose jobs are done by the fleet of `workers`.

use std::rc::Rc;
use std::time::Instant;

use serde_json::{Value, json};

use super::call::{Call, Key};
use super::plan::Plan;
use super::state::State;
use super::tally::Class;
use super::workers::{ITEMS, job};
use super::world::World;
use crate::clock::{now, sleep};
use crate::http::Answer;
use crate::limits::POLL_DEFAULT;

/// A workflow under way.
struct Flow {
    world: Rc<World>,
    key: Key,
    id: String,
    /// The body of its signal.
    body: Value,
}

/// Submits a workflow, sends its signal, and follows it.
pub(super) async fn play(world: &Rc<World>, plan: &Plan, intended: Instant) {
    world.tally.borrow_mut().jobs.submitted += 1;
    let key = world.clients[plan.client].key.clone();
    let call = Call::post("/v1/workflows".to_owned(), &key, description(world, plan).to_string())
        .class(Class::Submit)
        .idempotent(Some(format!("traffic-flow-{}-{}", world.run, plan.n)));
    let Some(answer) = world.send_patiently(&call, intended).await else { return };
    let id = answer.object().get("workflow_id").and_then(Value::as_str).map(str::to_owned);
    let Some(id) = id.filter(|_| answer.status == 202) else {
        world.tally.borrow_mut().jobs.refused += 1;
        if !matches!(answer.status, 429 | 500..=599) {
            let what = format!("a workflow is answered {}", answer.status);
            world.violate("FR-SUB-02", what, &call, Some(&answer));
        }
        return;
    };
    world.tally.borrow_mut().accepted();
    world.acknowledge(&id, &key);
    let flow = Flow { world: world.clone(), key, id, body: json!({"n": plan.n}) };
    if plan.retry {
        flow.act("pause").await;
    }
    let was_taken = flow.signal(plan).await;
    if plan.retry {
        flow.act("resume").await;
    }
    if let Some(after) = plan.cancel_after {
        sleep(after).await;
        flow.act("cancel").await;
    }
    let Some((view, call, answer)) = flow.end().await else { return };
    let state = state_of(&view);
    world.ended(&flow.id, state, Some(now() - intended));
    flow.check(&view, was_taken, &call, &answer).await;
}

/// A list, a wait for the signal, a pause, a job per element of the list, and a last job.
fn description(world: &World, plan: &Plan) -> Value {
    let step = |id: &str, after: &[&str]| {
        let mut step = job(world, plan);
        step["id"] = id.into();
        step["depends_on"] = json!(after);
        step
    };
    let mut each = step("each", &["pause"]);
    each["args"] = json!(["$item", "$index"]);
    each["for_each"] = json!({"step": "list", "pointer": "/items"});
    each["parallel"] = 2.into();
    json!({"name": format!("traffic-{}", plan.n), "steps": [
        step("list", &[]),
        {"id": "ask", "wait": {"signal": "go", "timeout": "1h"}, "depends_on": ["list"]},
        {"id": "pause", "wait": {"for": "50ms"}, "depends_on": ["list"]},
        each,
        step("last", &["ask", "each"]),
    ]})
}

impl Flow {
    fn path(&self, rest: &str) -> String {
        format!("/v1/workflows/{}{rest}", self.id)
    }

    /// Sends until there is an answer: what is sent here bears repetitions.
    async fn send(&self, path: &str, body: &Value) -> Option<(Call, Answer)> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let call = Call::post(path.to_owned(), &self.key, body);
        while !self.world.is_over() {
            match self.world.send(&call, now()).await {
                Ok(answer) if !matches!(answer.status, 429 | 500..=599) => return Some((call, answer)),
                _ => sleep(POLL_DEFAULT).await,
            }
        }
        None
    }

    async fn act(&self, verb: &str) {
        let Some((call, answer)) = self.send(&self.path(&format!("/{verb}")), &Value::Null).await else {
            return;
        };
        if !matches!(answer.status, 200 | 409) {
            let what = format!("{verb} of a workflow is answered {}", answer.status);
            self.world.violate("FR-CAN-01", what, &call, Some(&answer));
        }
    }

    /// Sends the signal, perhaps several times, then another one. Returns whether it was accepted.
    async fn signal(&self, plan: &Plan) -> bool {
        let path = self.path("/signals/go");
        let mut was_taken = false;
        for _ in 0..plan.n_submissions {
            let Some((call, answer)) = self.send(&path, &self.body).await else { return was_taken };
            match answer.status {
                200 => was_taken = true,
                // The wait has ended, with the workflow.
                409 if !was_taken => {}
                status => {
                    let what = format!("a signal that repeats the first is answered {status}");
                    self.world.violate("FR-IDM-03", what, &call, Some(&answer));
                }
            }
        }
        for (name, body, expected) in [("go", json!("other"), 409), ("stop", json!(true), 404)] {
            let Some((call, answer)) = self.send(&self.path(&format!("/signals/{name}")), &body).await else {
                return was_taken;
            };
            if answer.status != expected {
                let what = format!("signal {name} is answered {} instead of {expected}", answer.status);
                self.world.violate("FR-IDM-04", what, &call, Some(&answer));
            }
        }
        was_taken
    }

    /// Polls to the end; `None` if the run is over before.
    async fn end(&self) -> Option<(Value, Call, Answer)> {
        let call = Call::get(self.path(""), &self.key).class(Class::Poll);
        let mut progress = 0;
        while !self.world.is_over() {
            let answer = self.world.send_patiently(&call, now()).await?;
            let view = Value::Object(answer.object());
            let percent = view["progress"].as_u64().unwrap_or(0);
            if answer.status == 200 && (percent < progress || percent > 100) {
                let what = format!("the progress of a workflow goes from {progress} to {percent}");
                self.world.violate("FR-STM-04", what, &call, Some(&answer));
            }
            progress = percent.max(progress);
            if answer.status == 200 && state_of(&view).is_final() {
                return Some((view, call, answer));
            }
            sleep(POLL_DEFAULT).await;
        }
        None
    }

    /// Checks a workflow that succeeded: its steps, and the results of its wait and its list.
    async fn check(&self, view: &Value, was_taken: bool, call: &Call, answer: &Answer) {
        if state_of(view) != State::Succeeded {
            return;
        }
        let steps = view["steps"].as_array().cloned().unwrap_or_default();
        if !was_taken || steps.len() != 5 || steps.iter().any(|step| step["state"] != "SUCCEEDED") {
            let what = "a workflow succeeded without its signal, or before its steps";
            return self.world.violate("FR-STM-04", what, call, Some(answer));
        }
        let job = |index: usize| steps[index]["job_id"].as_str().unwrap_or_default();
        let get = |path: String| Call::get(path, &self.key);
        let call = get(format!("/v1/jobs/{}/result", job(1)));
        if let Some(answer) = self.world.send_patiently(&call, now()).await
            && answer.status == 200
            && serde_json::from_slice::<Value>(&answer.body).ok().as_ref() != Some(&self.body)
        {
            self.world.violate(
                "AO-RES-01",
                "a wait has another result than its signal",
                &call,
                Some(&answer),
            );
        }
        let call = get(format!("/v1/workflows/{}/results", job(3)));
        let Some(answer) = self.world.send_patiently(&call, now()).await else { return };
        let body = answer.object();
        let results = body.get("results").and_then(Value::as_array).cloned().unwrap_or_default();
        let given: Vec<&Value> = results.iter().map(|result| &result["result"]["args"]).collect();
        let expected: Vec<Value> =
            ITEMS.iter().enumerate().map(|(index, item)| json!([item, index])).collect();
        if answer.status == 200 && !given.iter().copied().eq(expected.iter()) {
            let what = "the results of a list are not those of its elements, in order";
            self.world.violate("AO-RES-01", what, &call, Some(&answer));
        }
    }
}

fn state_of(view: &Value) -> State {
    view["state"].as_str().and_then(State::parse).unwrap_or(State::Running)
}
