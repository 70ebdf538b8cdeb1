//! A description of a workflow, whichever of its forms it has, read into steps that name those they wait for.
//!
//! - `{type: "chain", steps: […]}`, `{type: "group", jobs: […]}`, `{type: "batch", jobs: […], callbacks: {…}}`: an entry is a job envelope or
//!   again such an object.
//! - `{steps: [{id, depends_on, when, …envelope}]}`: any graph. A step called `on_complete`, `on_success` or `on_failure` (or with hyphens), or with
//!   `options.callback_type`, has its turn when that says.
//!
//! Every step may have `compensate`: the envelope of the job that undoes it.

mod children;
mod request;

use std::collections::BTreeMap;

use forgerun_core::catalog::Kind;
use forgerun_core::limits::{ITEM_ID_BYTES_MAX, NAME_BYTES_MAX, WORKFLOW_EDGES_MAX, WORKFLOW_STEPS_MAX};
use forgerun_core::workflow::{FailurePolicy, StepCondition, WorkflowForm};
use serde_json::value::RawValue;

use super::wait::{self, WaitRequest};
use crate::body::{self, Deadline};
use crate::ojs::duration;
use crate::ojs::envelope::{DefaultOptions, JobEnvelope, Rules, read_with_defaults};
use crate::ojs::members::{Members, ViolationList};
use crate::problem::RefusedRequest;

use children::Unresolved;
pub use children::{ADDED_STEPS, AddedSteps, ForEachRequest, StepBody, read_added};
pub use request::WORKFLOW;
use request::steps;

/// Members of a step that say nothing of its job.
const OF_STEP: [&str; 5] = ["id", "depends_on", "when", "compensate", "wait"];

/// Options of a workflow that are not those of its steps.
const OF_WORKFLOW: [&str; 4] = ["failure_policy", "on_failure", "deadline", "work_kind"];

/// How deep workflows may be nested in each other.
const NESTED_MAX: usize = 8;

/// A workflow as a client asks for it.
#[derive(Clone, Debug)]
pub struct WorkflowRequest {
    /// How it is described.
    pub form: WorkflowForm,
    /// What the client calls it; may be empty.
    pub name: String,
    /// What the failure of a step means for the others.
    pub policy: FailurePolicy,
    /// Makes a repetition harmless.
    pub idempotency_key: Option<String>,
    /// What the client calls the request.
    pub correlation_id: Option<String>,
    /// By when all steps must have ended.
    pub deadline: Option<Deadline>,
    /// The steps, in the order of the text.
    pub steps: Vec<StepRequest>,
}

/// A step as a client asks for it.
#[derive(Clone, Debug)]
pub struct StepRequest {
    /// What the client calls it, or its place.
    pub id: String,
    /// Whom it waits for, by their places.
    pub after: Vec<u32>,
    /// When it has its turn.
    pub when: StepCondition,
    /// What it does.
    pub work: StepBody,
    /// The job that undoes it.
    pub compensate: Option<JobEnvelope>,
}

/// Reads the description in a body. `simulated` says whether steps may be simulated work.
pub fn read<'r>(
    body: &'r [u8],
    rules: Rules<'r>,
    simulated: bool,
) -> Result<WorkflowRequest, Box<RefusedRequest>> {
    let top = Members::of_body(body)?;
    let reader = StepReader { simulated, ..StepReader::default_of(rules) };
    read_level(&top, "", reader)
}

/// Reads a workflow, or one that is a step of another, whose members are at `at`.
fn read_level<'r>(
    top: &Members<'r>,
    at: &str,
    mut reader: StepReader<'r>,
) -> Result<WorkflowRequest, Box<RefusedRequest>> {
    let options = top.get("options").and_then(Members::of_value).unwrap_or_default();
    let mut violations = ViolationList::default();
    let kind = Kind::MalformedRequest;
    let path = |name: &str| format!("{at}{name}");
    let word: Option<String> = violations.typed(kind, &path("type"), top.get("type"), "a string");
    let name: Option<String> = violations.typed(kind, &path("name"), top.get("name"), "a string");
    if name.as_ref().is_some_and(|name| name.len() > NAME_BYTES_MAX) {
        let detail = format!("must have at most {NAME_BYTES_MAX} bytes");
        violations.add(kind, &path("name"), detail, "maxLength");
    }
    let policy = ["failure_policy", "on_failure"].iter().find_map(|name| top.get(name).or(options.get(name)));
    let policy = read_policy(&mut violations, &path("failure_policy"), policy, reader.policy);
    let mut text = |name: &str| violations.typed(kind, &path(name), top.get(name), "a string");
    let (idempotency_key, correlation_id) = (text("idempotency_key"), text("correlation_id"));
    let deadline = top.get("deadline").or(options.get("deadline"));
    let deadline = read_deadline(&mut violations, &path("deadline"), deadline);
    violations.settle(Some(()))?;
    reader.policy = policy;
    let form = match word.as_deref() {
        None => {
            reader.defaults.push(DefaultOptions::read(top, at, &OF_WORKFLOW)?);
            reader.graph(top, at)?
        }
        Some(word) => {
            let form = form_of(word).ok_or_else(|| no_form(&path("type"), word))?;
            reader.nested(form, top, at, &[], 0)?;
            form
        }
    };
    let steps = reader.finish()?;
    let name = name.unwrap_or_default();
    Ok(WorkflowRequest { form, name, policy, idempotency_key, correlation_id, deadline, steps })
}

fn read_deadline(violations: &mut ViolationList, path: &str, value: Option<&RawValue>) -> Option<Deadline> {
    let value = value?;
    let text: Option<String> = serde_json::from_str(value.get()).ok();
    let deadline = text.and_then(|text| body::parse_deadline(&text, duration::parse));
    if deadline.is_none() {
        let detail =
            "must be a duration above zero, such as 30s or 1h30m, or a time like 2030-01-31T12:00:00Z";
        violations.add_value(Kind::MalformedRequest, path, value, detail, "format");
    }
    deadline
}

/// `inherited`: the policy of the workflow around this one.
fn read_policy(
    violations: &mut ViolationList,
    path: &str,
    value: Option<&RawValue>,
    inherited: FailurePolicy,
) -> FailurePolicy {
    let Some(value) = value else { return inherited };
    match serde_json::from_str::<String>(value.get()).ok().as_deref() {
        Some("continue") => FailurePolicy::Continue,
        Some("stop" | "fail_fast" | "cancel") => FailurePolicy::Stop,
        Some("compensate") => FailurePolicy::Compensate,
        _ => {
            let detail = "must be continue, stop or compensate";
            violations.add_value(Kind::MalformedRequest, path, value, detail, "enum");
            FailurePolicy::Continue
        }
    }
}

fn form_of(word: &str) -> Option<WorkflowForm> {
    match word {
        "chain" => Some(WorkflowForm::Chain),
        "group" => Some(WorkflowForm::Group),
        "batch" => Some(WorkflowForm::Batch),
        _ => None,
    }
}

fn no_form(path: &str, word: &str) -> Box<RefusedRequest> {
    let mut violations = ViolationList::default();
    let detail =
        format!("must be chain, group or batch, or left out for steps with depends_on; not `{word:.40}`");
    violations.add(Kind::MalformedRequest, path, detail, "enum");
    violations.settle::<()>(None).expect_err("something is wrong")
}

fn refused(path: &str, detail: impl Into<String>, constraint: &'static str) -> Box<RefusedRequest> {
    let mut violations = ViolationList::default();
    violations.add(Kind::MalformedRequest, path, detail, constraint);
    violations.settle::<()>(None).expect_err("something is wrong")
}

/// The turns of steps that follow the end of others, by their names in a batch.
fn callback(name: &str) -> Option<StepCondition> {
    match name.replace('-', "_").as_str() {
        "on_complete" => Some(StepCondition::AllEnded),
        "on_success" => Some(StepCondition::AllSucceeded),
        "on_failure" => Some(StepCondition::AnyFailed),
        _ => None,
    }
}

struct StepReader<'r> {
    rules: Rules<'r>,
    /// Options of the workflows around the step that is read, the innermost last.
    defaults: Vec<DefaultOptions<'r>>,
    simulated: bool,
    /// Of the workflow, or inherited from the one around it.
    policy: FailurePolicy,
    /// How many workflows are around this one.
    depth: usize,
    steps: Vec<StepRequest>,
    /// Steps that exist already, by their ids.
    known: BTreeMap<String, u32>,
    /// Position of the first step that is read.
    first: u32,
    n_edges: usize,
    unresolved: Vec<Unresolved>,
}

impl<'r> StepReader<'r> {
    fn default_of(rules: Rules<'r>) -> StepReader<'r> {
        StepReader {
            rules,
            defaults: Vec::new(),
            simulated: false,
            policy: FailurePolicy::Continue,
            depth: 0,
            steps: Vec::new(),
            known: BTreeMap::new(),
            first: 0,
            n_edges: 0,
            unresolved: Vec::new(),
        }
    }
}

impl<'r> StepReader<'r> {
    /// A chain, group or batch whose members these are; gives the steps that whatever comes next waits for.
    fn nested(
        &mut self,
        form: WorkflowForm,
        members: &Members<'r>,
        at: &str,
        before: &[u32],
        depth: usize,
    ) -> Result<Vec<u32>, Box<RefusedRequest>> {
        if depth > NESTED_MAX {
            return Err(refused(at, format!("is nested deeper than {NESTED_MAX} levels"), "maxItems"));
        }
        self.defaults.push(DefaultOptions::read(members, at, &OF_WORKFLOW)?);
        let found = self.entries(form, members, at, before, depth);
        self.defaults.pop();
        found
    }

    fn entries(
        &mut self,
        form: WorkflowForm,
        members: &Members<'r>,
        at: &str,
        before: &[u32],
        depth: usize,
    ) -> Result<Vec<u32>, Box<RefusedRequest>> {
        let (name, entries) = entries(members, form, at)?;
        let mut ends = Vec::new();
        let mut last = before.to_vec();
        for (place, entry) in entries.into_iter().enumerate() {
            let path = format!("{at}{name}.{place}");
            let found = self.entry(entry, &path, &last, depth)?;
            match form {
                WorkflowForm::Chain => last = found,
                WorkflowForm::Group | WorkflowForm::Batch | WorkflowForm::Graph | WorkflowForm::ForEach => {
                    ends.extend(found);
                }
            }
        }
        match form {
            WorkflowForm::Chain => Ok(last),
            WorkflowForm::Batch => self.callbacks(members, at, ends),
            WorkflowForm::Group | WorkflowForm::Graph | WorkflowForm::ForEach => Ok(ends),
        }
    }

    fn entry(
        &mut self,
        entry: &'r RawValue,
        path: &str,
        before: &[u32],
        depth: usize,
    ) -> Result<Vec<u32>, Box<RefusedRequest>> {
        let members = Members::of_value(entry).ok_or_else(|| refused(path, "must be an object", "type"))?;
        let word = members.get("type").and_then(|value| serde_json::from_str::<String>(value.get()).ok());
        let has_entries = members.has("steps") || members.has("jobs");
        match word.as_deref().and_then(form_of).filter(|_| has_entries) {
            Some(form) => self.nested(form, &members, &format!("{path}."), before, depth + 1),
            None => Ok(vec![self.step(members, path, before.to_vec(), None)?]),
        }
    }

    /// What follows the end of a batch. Whatever comes after the batch does not wait for what follows a failure: it would never have its turn.
    fn callbacks(
        &mut self,
        members: &Members<'r>,
        at: &str,
        jobs: Vec<u32>,
    ) -> Result<Vec<u32>, Box<RefusedRequest>> {
        let mut ends = jobs.clone();
        let Some(value) = members.get("callbacks") else { return Ok(ends) };
        let path = format!("{at}callbacks");
        let callbacks =
            Members::of_value(value).ok_or_else(|| refused(&path, "must be an object", "type"))?;
        for (name, value) in &callbacks.0 {
            if value.get() == "null" {
                continue;
            }
            let path = format!("{path}.{name}");
            let Some(when) = callback(name) else {
                return Err(refused(&path, "must be on_complete, on_success or on_failure", "enum"));
            };
            let members =
                Members::of_value(value).ok_or_else(|| refused(&path, "must be an object", "type"))?;
            let id = format!("{at}{name}").replace("jobs.", "").replace("steps.", "");
            let index = self.step(members, &path, jobs.clone(), Some((id, when)))?;
            ends.extend((when != StepCondition::AnyFailed).then_some(index));
        }
        Ok(ends)
    }

    /// Steps that name those they wait for.
    fn graph(&mut self, top: &Members<'r>, at: &str) -> Result<WorkflowForm, Box<RefusedRequest>> {
        let (name, entries) = entries(top, WorkflowForm::Graph, at)?;
        let name = &format!("{at}{name}");
        let mut named: Vec<Option<Vec<String>>> = Vec::new();
        let mut callbacks: Vec<bool> = Vec::new();
        for (place, entry) in entries.into_iter().enumerate() {
            let path = format!("{name}.{place}");
            let members =
                Members::of_value(entry).ok_or_else(|| refused(&path, "must be an object", "type"))?;
            let mut violations = ViolationList::default();
            let kind = Kind::MalformedRequest;
            let depends = violations.typed(
                kind,
                &format!("{path}.depends_on"),
                members.get("depends_on"),
                "a list of the ids of steps",
            );
            named.push(violations.settle(Some(depends))?);
            let when = condition(&members, &path)?;
            let index = self.step(members, &path, Vec::new(), None)?;
            let step = &mut self.steps[index as usize];
            let called = callback(&step.id).filter(|_| when.is_none());
            step.when = when.or(called).unwrap_or_default();
            callbacks.push(called.is_some() || when.is_some_and(|when| when != StepCondition::AllSucceeded));
        }
        self.resolve(name, &named, &callbacks)?;
        let any_edge = self.steps.iter().any(|step| !step.after.is_empty());
        let in_line = (0..).zip(&self.steps).skip(1).all(|(n, step): (u32, _)| step.after == [n - 1]);
        Ok(match () {
            () if callbacks.contains(&true) => WorkflowForm::Batch,
            () if any_edge && in_line => WorkflowForm::Chain,
            () if any_edge => WorkflowForm::Graph,
            () => WorkflowForm::Group,
        })
    }

    /// Finds the steps that others wait for. One that follows the end of others and names none waits for all jobs.
    fn resolve(
        &mut self,
        name: &str,
        named: &[Option<Vec<String>>],
        callbacks: &[bool],
    ) -> Result<(), Box<RefusedRequest>> {
        let places = self.places();
        let jobs: Vec<u32> =
            (self.first..).zip(callbacks).filter(|(_, callback)| !**callback).map(|(n, _)| n).collect();
        for (place, named) in named.iter().enumerate() {
            let after = match named {
                None if callbacks[place] => jobs.clone(),
                None => Vec::new(),
                Some(ids) => {
                    let path = format!("{name}.{place}.depends_on");
                    let find = |id: &String| {
                        places
                            .get(id)
                            .copied()
                            .ok_or_else(|| refused(&path, format!("names no step: `{id:.60}`"), "enum"))
                    };
                    let mut after: Vec<u32> = ids.iter().map(find).collect::<Result<_, _>>()?;
                    let mut seen = std::collections::BTreeSet::new();
                    after.retain(|before| seen.insert(*before));
                    after
                }
            };
            self.n_edges += after.len();
            self.steps[place].after = after;
        }
        Ok(())
    }

    /// The positions of steps, by their ids.
    fn places(&self) -> BTreeMap<String, u32> {
        let read = (self.first..).zip(&self.steps).map(|(n, step)| (step.id.clone(), n));
        read.chain(self.known.clone()).collect()
    }

    /// Adds a step. `given` is its id and turn, where they follow from its place.
    fn step(
        &mut self,
        mut members: Members<'r>,
        path: &str,
        after: Vec<u32>,
        given: Option<(String, StepCondition)>,
    ) -> Result<u32, Box<RefusedRequest>> {
        let index = self.steps.len();
        if index >= WORKFLOW_STEPS_MAX {
            return Err(refused(
                "steps",
                format!("must have 1 to {WORKFLOW_STEPS_MAX} entries in all"),
                "maxItems",
            ));
        }
        let id = match (members.get("id"), given.as_ref()) {
            (Some(value), _) => step_id(value, path)?,
            (None, Some((id, _))) => id.clone(),
            (None, None) => index.to_string(),
        };
        let compensate = match members.get("compensate") {
            Some(value) => Some(self.compensation(value, &format!("{path}.compensate"), index)?),
            None => None,
        };
        let wait = members.get("wait");
        members.0.retain(|(name, _)| !OF_STEP.contains(&&**name));
        let work = match (wait, members.0.first()) {
            (None, _) => self.work(members, path, index)?,
            (Some(value), None) => StepBody::Wait(wait::read(value, &format!("{path}.wait"))?),
            (Some(_), Some((name, _))) => {
                let detail = "is not for a step that waits: no worker runs it";
                return Err(refused(&format!("{path}.{name:.60}"), detail, "unsupported"));
            }
        };
        self.check_signal(&work, path)?;
        self.n_edges += after.len();
        let when = given.map_or(StepCondition::AllSucceeded, |(_, when)| when);
        self.steps.push(StepRequest { id, after, when, work, compensate });
        Ok(index as u32)
    }

    /// One wait per signal: a signal must not end two.
    fn check_signal(&self, work: &StepBody, path: &str) -> Result<(), Box<RefusedRequest>> {
        let signal = |work: &StepBody| match work {
            StepBody::Wait(WaitRequest::Signal { name, .. }) => Some(name.clone()),
            StepBody::Wait(_) | StepBody::Job(_) | StepBody::Workflow(_) | StepBody::ForEach(_) => None,
        };
        let Some(name) = signal(work) else { return Ok(()) };
        match self.steps.iter().find(|step| signal(&step.work).as_ref() == Some(&name)) {
            None => Ok(()),
            Some(step) => {
                let detail = format!("is the signal of another step: `{:.60}` waits for `{name}`", step.id);
                Err(refused(&format!("{path}.wait.signal"), detail, "uniqueItems"))
            }
        }
    }

    /// What undoes the step at this place.
    fn compensation(
        &self,
        value: &RawValue,
        path: &str,
        index: usize,
    ) -> Result<JobEnvelope, Box<RefusedRequest>> {
        let members = Members::of_value(value).ok_or_else(|| refused(path, "must be an object", "type"))?;
        let of_step = OF_STEP.iter().chain(&children::OF_CHILDREN);
        if let Some(name) = of_step.into_iter().find(|name| members.has(name)) {
            let detail = "is not for a compensation: it runs when its step is to be undone";
            return Err(refused(&format!("{path}.{name}"), detail, "unsupported"));
        }
        self.job(members, path, index)
    }

    /// The job of a step, or of its compensation.
    fn job(
        &self,
        mut members: Members<'_>,
        path: &str,
        index: usize,
    ) -> Result<JobEnvelope, Box<RefusedRequest>> {
        if self.simulated && members.has("work_kind") {
            fill_in(&mut members);
        }
        let job = read_with_defaults(members, &self.defaults, &format!("{path}."), self.rules)
            .map_err(|refused| Box::new((*refused).fact("index", index)))?;
        if job.unique.is_some() {
            let path = format!("{path}.options.unique");
            return Err(refused(
                &path,
                "is not for steps of a workflow: their jobs are made later, when nobody can be told of a conflict",
                "unsupported",
            ));
        }
        Ok(job)
    }

    fn finish(mut self) -> Result<Vec<StepRequest>, Box<RefusedRequest>> {
        self.resolve_sources()?;
        let mut ids = std::collections::BTreeSet::new();
        if let Some(twice) = self.steps.iter().find(|step| !ids.insert(&step.id)) {
            return Err(refused(
                "steps",
                format!("has two steps with the id `{:.60}`", twice.id),
                "uniqueItems",
            ));
        }
        if self.n_edges > WORKFLOW_EDGES_MAX {
            let detail = format!("wait for {} others in all; {WORKFLOW_EDGES_MAX} is the most", self.n_edges);
            return Err(refused("steps", detail, "maxItems"));
        }
        // Of added steps the core checks the whole graph.
        let in_circle = if self.first == 0 { cycle(&self.steps) } else { None };
        if let Some(step) = in_circle {
            return Err(refused(
                "steps",
                format!("wait for each other in a circle, `{step:.60}` among them"),
                "acyclic",
            ));
        }
        Ok(self.steps)
    }
}

/// The entries of a workflow, and what their list is called.
fn entries<'a>(
    members: &Members<'a>,
    form: WorkflowForm,
    at: &str,
) -> Result<(&'static str, Vec<&'a RawValue>), Box<RefusedRequest>> {
    let names = match form {
        WorkflowForm::Chain | WorkflowForm::Graph => ["steps", "jobs"],
        WorkflowForm::Group | WorkflowForm::Batch | WorkflowForm::ForEach => ["jobs", "steps"],
    };
    let name = names.into_iter().find(|name| members.get(name).is_some()).unwrap_or(names[0]);
    let path = format!("{at}{name}");
    let value = members.get(name).ok_or_else(|| refused(&path, "is required", "required"))?;
    let entries: Vec<&'a RawValue> =
        serde_json::from_str(value.get()).map_err(|_| refused(&path, "must be a list of steps", "type"))?;
    match entries.len() {
        1..=WORKFLOW_STEPS_MAX => Ok((name, entries)),
        n => {
            let rule = if n == 0 { "minItems" } else { "maxItems" };
            Err(refused(&path, format!("must have 1 to {WORKFLOW_STEPS_MAX} entries"), rule))
        }
    }
}

fn step_id(value: &RawValue, path: &str) -> Result<String, Box<RefusedRequest>> {
    let id: Option<String> = serde_json::from_str(value.get()).ok();
    let good =
        |id: &String| !id.is_empty() && id.len() <= ITEM_ID_BYTES_MAX && !id.chars().any(char::is_control);
    let detail = format!("must be a string of 1 to {ITEM_ID_BYTES_MAX} bytes");
    id.filter(good).ok_or_else(|| refused(&format!("{path}.id"), detail, "format"))
}

/// When a step has its turn, where it says so.
fn condition(members: &Members<'_>, path: &str) -> Result<Option<StepCondition>, Box<RefusedRequest>> {
    let text = |value: &RawValue| serde_json::from_str::<String>(value.get()).ok();
    if let Some(value) = members.get("when") {
        let when = match text(value).as_deref() {
            Some("all_succeeded") => StepCondition::AllSucceeded,
            Some("all_ended") => StepCondition::AllEnded,
            Some("any_failed") => StepCondition::AnyFailed,
            _ => {
                let detail = "must be all_succeeded, all_ended or any_failed";
                return Err(refused(&format!("{path}.when"), detail, "enum"));
            }
        };
        return Ok(Some(when));
    }
    let options = members.get("options").and_then(Members::of_value);
    Ok(options.and_then(|options| text(options.get("callback_type")?)).and_then(|word| callback(&word)))
}

/// Simulated work needs neither a type nor arguments.
fn fill_in(members: &mut Members<'_>) {
    let raw = |text: &'static str| serde_json::from_str::<&'static RawValue>(text).expect("it is JSON");
    for (name, value) in [("type", "\"forgerun.execute\""), ("args", "[]")] {
        if !members.has(name) {
            members.0.push((name.into(), raw(value)));
        }
    }
}

/// A step that waits for itself, by way of others.
fn cycle(steps: &[StepRequest]) -> Option<&str> {
    let mut open: Vec<usize> = steps.iter().map(|step| step.after.len()).collect();
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (index, step) in steps.iter().enumerate() {
        step.after.iter().for_each(|&before| behind[before as usize].push(index));
    }
    let mut free: Vec<usize> = (0..steps.len()).filter(|&index| open[index] == 0).collect();
    while let Some(index) = free.pop() {
        for &next in &behind[index] {
            open[next] -= 1;
            if open[next] == 0 {
                free.push(next);
            }
        }
    }
    open.iter().position(|&open| open > 0).map(|index| steps[index].id.as_str())
}

#[cfg(test)]
mod tests;
