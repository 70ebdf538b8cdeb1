//! Steps that are not one job: a nested workflow, or a job per element of a list.

use std::collections::BTreeMap;

use forgerun_core::limits::{PARALLEL, PARALLEL_MAX, WORKFLOW_DEPTH_MAX};
use forgerun_core::workflow::{ArgsPiece, FailurePolicy, WorkflowForm};
use serde_json::value::RawValue;

use super::{StepReader, StepRequest, WorkflowRequest, refused};
use crate::ojs::envelope::{JobEnvelope, Rules};
use crate::ojs::members::Members;
use crate::problem::RefusedRequest;
use crate::request_body;
use crate::workflow::wait::WaitRequest;

/// Members of a step that say that it is not one job.
pub(super) const OF_CHILDREN: [&str; 3] = ["workflow", "for_each", "parallel"];

/// Elements that run at once, at most.
pub(super) const PARALLEL_OF_STEP_MAX: u32 = PARALLEL_MAX / 2;

/// What a step does.
#[derive(Clone, Debug)]
pub enum StepBody {
    Job(Box<JobEnvelope>),
    Wait(WaitRequest),
    /// A workflow of its own.
    Workflow(Box<WorkflowRequest>),
    /// A job per element of a list.
    ForEach(Box<ForEachRequest>),
}

/// A job for each element of a list.
#[derive(Clone, Debug)]
pub struct ForEachRequest {
    /// Position of the step whose result has the list.
    pub source: u32,
    /// JSON pointer to the list.
    pub pointer: String,
    /// Elements that run at once.
    pub parallel: u32,
    /// The arguments of an element.
    pub args: Vec<ArgsPiece>,
    /// The job of an element, with the arguments as they were written.
    pub job: JobEnvelope,
}

/// A `for_each` whose source is named, and not found yet.
pub(super) struct Unresolved {
    step: usize,
    source: Option<String>,
    path: String,
}

impl<'r> StepReader<'r> {
    /// What the step at this position consists of.
    pub(super) fn work(
        &mut self,
        mut members: Members<'r>,
        path: &str,
        index: usize,
    ) -> Result<StepBody, Box<RefusedRequest>> {
        let (workflow, for_each) = (members.get("workflow"), members.get("for_each"));
        let parallel = members.get("parallel");
        members.0.retain(|(name, _)| !OF_CHILDREN.contains(&&**name));
        if for_each.is_none() && parallel.is_some() {
            return Err(refused(&format!("{path}.parallel"), "is for steps with `for_each`", "unsupported"));
        }
        match (workflow, for_each) {
            (None, None) => Ok(StepBody::Job(Box::new(self.job(members, path, index)?))),
            (Some(_), Some(_)) => {
                Err(refused(path, "has both `workflow` and `for_each`; a step is one of them", "unsupported"))
            }
            (Some(workflow), None) => {
                if let Some((name, _)) = members.0.first() {
                    let detail = "is not for a step with `workflow`: its own steps have jobs";
                    return Err(refused(&format!("{path}.{name}"), detail, "unsupported"));
                }
                self.nested_workflow(workflow, &format!("{path}.workflow"))
            }
            (None, Some(for_each)) => self.for_each(members, for_each, parallel, path, index),
        }
    }

    fn nested_workflow(&self, value: &'r RawValue, path: &str) -> Result<StepBody, Box<RefusedRequest>> {
        if self.depth >= WORKFLOW_DEPTH_MAX {
            let detail = format!("is nested deeper than {WORKFLOW_DEPTH_MAX} levels");
            return Err(refused(path, detail, "maxItems"));
        }
        let members = Members::of_value(value).ok_or_else(|| refused(path, "must be an object", "type"))?;
        if let Some(name) = ["idempotency_key", "correlation_id"].into_iter().find(|name| members.has(name)) {
            let detail = "is for the outermost workflow";
            return Err(refused(&format!("{path}.{name}"), detail, "unsupported"));
        }
        let within = StepReader {
            rules: self.rules,
            simulated: self.simulated,
            policy: self.policy,
            depth: self.depth + 1,
            defaults: self.defaults.clone(),
            ..StepReader::default_of(self.rules)
        };
        super::read_level(&members, &format!("{path}."), within)
            .map(|request| StepBody::Workflow(Box::new(request)))
    }

    fn for_each(
        &mut self,
        mut members: Members<'r>,
        value: &RawValue,
        parallel: Option<&RawValue>,
        path: &str,
        index: usize,
    ) -> Result<StepBody, Box<RefusedRequest>> {
        let at = format!("{path}.for_each");
        let list = Members::of_value(value).ok_or_else(|| refused(&at, "must be an object", "type"))?;
        if let Some((name, _)) = list.0.iter().find(|(name, _)| !["step", "pointer"].contains(&&**name)) {
            let detail = "is unknown; expected one of step, pointer";
            return Err(refused(&format!("{at}.{name}"), detail, "unknown"));
        }
        let text = |name: &str| match list.get(name) {
            None => Ok(None),
            Some(value) => serde_json::from_str::<String>(value.get())
                .map(Some)
                .map_err(|_| refused(&format!("{at}.{name}"), "must be a string", "type")),
        };
        let (source, pointer) = (text("step")?, text("pointer")?.unwrap_or_default());
        if !pointer.is_empty() && !pointer.starts_with('/') {
            let detail = "must be a JSON pointer: empty, or beginning with `/`";
            return Err(refused(&format!("{at}.pointer"), detail, "format"));
        }
        let parallel = match parallel {
            None => PARALLEL,
            Some(value) => serde_json::from_str::<u32>(value.get())
                .ok()
                .filter(|n| (1..=PARALLEL_OF_STEP_MAX).contains(n))
                .ok_or_else(|| {
                    let detail = format!("must be a number from 1 to {PARALLEL_OF_STEP_MAX}");
                    refused(&format!("{path}.parallel"), detail, "range")
                })?,
        };
        if !members.has("args") {
            let item = serde_json::from_str::<&'static RawValue>("[\"$item\"]").expect("it is JSON");
            members.0.push(("args".into(), item));
        }
        let job = self.job(members, path, index)?;
        let args = pieces(&job.args);
        self.unresolved.push(Unresolved { step: index, source, path: at });
        Ok(StepBody::ForEach(Box::new(ForEachRequest { source: 0, pointer, parallel, args, job })))
    }

    /// Finds the steps that have the lists. A `for_each` depends on its source.
    pub(super) fn resolve_sources(&mut self) -> Result<(), Box<RefusedRequest>> {
        let places = self.places();
        for Unresolved { step, source, path } in std::mem::take(&mut self.unresolved) {
            let of: &mut StepRequest = &mut self.steps[step];
            let found = match (&source, &of.after[..]) {
                (Some(id), _) => places.get(id).copied().ok_or_else(|| {
                    refused(&format!("{path}.step"), format!("names no step: `{id:.60}`"), "enum")
                })?,
                (None, [only]) => *only,
                (None, _) => {
                    let detail = "is required where a step does not follow exactly one other";
                    return Err(refused(&format!("{path}.step"), detail, "required"));
                }
            };
            if !of.after.contains(&found) {
                of.after.push(found);
                self.n_edges += 1;
            }
            if let StepBody::ForEach(for_each) = &mut of.work {
                for_each.source = found;
            }
        }
        Ok(())
    }
}

request_body! {
    /// Steps that a running step adds to its workflow.
    pub ADDED_STEPS = "WorkflowStepsAdded" {
        /// The lease token of the job of the step that adds them.
        "lease_token": text(),
        /// As of a graph, each with an `id` that the workflow does not have; `depends_on` may name any of its steps.
        "steps": super::steps(),
    }
    ; examples {"a step behind": {"value": {
        "lease_token": "8000000000000000.1",
        "steps": [{"id": "extra", "type": "image.check", "depends_on": ["list"]}],
    }}}
}

/// Steps to add to a workflow.
#[derive(Clone, Debug)]
pub struct AddedSteps {
    /// Of the job of the step that adds them.
    pub lease_token: String,
    pub steps: Vec<StepRequest>,
}

/// Reads steps that are added to a workflow whose steps are `known` by their ids; `n_known` is the
/// first free position.
pub fn read_added(
    body: &[u8],
    rules: Rules<'_>,
    policy: FailurePolicy,
    known: BTreeMap<String, u32>,
    n_known: u32,
) -> Result<AddedSteps, Box<RefusedRequest>> {
    let top = Members::of_body(body)?;
    let token = top.get("lease_token").and_then(|value| serde_json::from_str::<String>(value.get()).ok());
    let lease_token = token.ok_or_else(|| refused("lease_token", "is required: a string", "required"))?;
    let (_, entries) = super::entries(&top, WorkflowForm::Graph, "")?;
    let has_id = |entry: &RawValue| Members::of_value(entry).is_none_or(|members| members.has("id"));
    if let Some(place) = entries.iter().position(|entry| !has_id(entry)) {
        return Err(refused(&format!("steps.{place}.id"), "is required", "required"));
    }
    let mut reader =
        StepReader { simulated: true, policy, known, first: n_known, ..StepReader::default_of(rules) };
    reader.graph(&top, "")?;
    Ok(AddedSteps { lease_token, steps: reader.finish()? })
}

/// The arguments in pieces: every value that is the text `$item` or `$index` is one of its own.
fn pieces(args: &[u8]) -> Vec<ArgsPiece> {
    let mut pieces = Vec::new();
    let (mut text, mut at) = (0, 0);
    while at < args.len() {
        if args[at] != b'"' {
            at += 1;
            continue;
        }
        let end = end_of_text(args, at);
        let piece = match &args[at..end] {
            b"\"$item\"" => Some(ArgsPiece::Item),
            b"\"$index\"" => Some(ArgsPiece::Index),
            _ => None,
        };
        let follows = args[end..].iter().find(|byte| !byte.is_ascii_whitespace());
        // The name of a member is no value.
        if let Some(piece) = piece.filter(|_| follows != Some(&b':')) {
            pieces.push(ArgsPiece::Text(args[text..at].to_vec()));
            pieces.push(piece);
            text = end;
        }
        at = end;
    }
    pieces.push(ArgsPiece::Text(args[text..].to_vec()));
    pieces.retain(|piece| !matches!(piece, ArgsPiece::Text(text) if text.is_empty()));
    pieces
}

/// Where the JSON text that begins here ends.
fn end_of_text(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < json.len() {
        match json[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_stands_for_a_value_and_for_nothing_else() {
        let shown = |args: &str| -> String {
            let of = |piece: ArgsPiece| match piece {
                ArgsPiece::Text(text) => String::from_utf8(text).unwrap(),
                ArgsPiece::Item => "<item>".into(),
                ArgsPiece::Index => "<index>".into(),
            };
            pieces(args.as_bytes()).into_iter().map(of).collect()
        };
        for (args, expected) in [
            (r#"["$item"]"#, "[<item>]"),
            (r#"[{"a": "$item", "n": ["$index"]}, "$item"]"#, r#"[{"a": <item>, "n": [<index>]}, <item>]"#),
            (r#"[{"$item" : 1}]"#, r#"[{"$item" : 1}]"#),
            (r#"["\"$item\"", "a$item", "$items", "\\"]"#, r#"["\"$item\"", "a$item", "$items", "\\"]"#),
            (r#"["\\","$item"]"#, r#"["\\",<item>]"#),
        ] {
            assert_eq!(shown(args), expected);
        }
    }
}
