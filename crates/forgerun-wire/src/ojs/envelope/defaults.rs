//! Options that a workflow gives to all of its jobs.

use forgerun_core::catalog::Kind;
use serde_json::value::RawValue;

use super::known::OPTIONS;
use super::typos;
use crate::ojs::members::{Members, ViolationList};
use crate::problem::RefusedRequest;

/// Options of the workflow around a job: they count where the job itself says nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct DefaultOptions<'a> {
    /// The path to them, with a dot behind.
    at: String,
    members: Members<'a>,
}

impl<'a> DefaultOptions<'a> {
    /// The `options` of a workflow whose members are at `at`. `others`: what they may say beside what they say of jobs.
    pub(crate) fn read(
        workflow: &Members<'a>,
        at: &str,
        others: &[&'static str],
    ) -> Result<DefaultOptions<'a>, Box<RefusedRequest>> {
        let path = format!("{at}options");
        let mut violations = ViolationList::default();
        let mut members = match workflow.get("options") {
            None => Members::default(),
            Some(value) => Members::of_value(value).unwrap_or_else(|| {
                violations.add_value(Kind::MalformedRequest, &path, value, "must be an object", "type");
                Members::default()
            }),
        };
        let known: Vec<&'static str> = OPTIONS.iter().chain(others).copied().collect();
        typos::check(&path, &members, &known, &mut violations);
        members.0.retain(|(name, _)| !others.contains(&&**name));
        violations.settle(Some(DefaultOptions { at: format!("{path}."), members }))
    }

    pub(super) fn get(&self, name: &str) -> Option<(String, &'a RawValue)> {
        self.members.get(name).map(|value| (format!("{}{name}", self.at), value))
    }
}
