//! Cron jobs of OJS: what a client sends to have one, and how one is shown. SDKs and published cases use different words; both are read, and
//! both are shown (D6).

use std::borrow::Cow;
use std::collections::BTreeMap;

use forgerun_core::catalog::Kind;
use forgerun_core::job::{Dialect, Name};
use forgerun_core::schedule::Schedule;
use forgerun_core::time::Time;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::envelope::{self, JobEnvelope, Rules};
use super::job::{raw, shown_args, shown_type};
use super::kept::ObjectWriter;
use super::members::{Members, ViolationList};
use crate::body::Deadline;
use crate::problem::RefusedRequest;
use crate::schedule::{
    ScheduleTerms, TERM_MEMBERS, catch_up_word, overlap_word, read_name, read_terms, skip_word,
};
use crate::time;

/// A cron job that a client wants.
#[derive(Clone, Debug, PartialEq)]
pub struct CronRequest {
    /// What it is called.
    pub name: Name,
    /// When it ticks, and what happens then.
    pub terms: ScheduleTerms,
    /// What every job is like.
    pub template: JobEnvelope,
    /// The options, to be shown again.
    pub options: Vec<u8>,
}

/// Set by the server alone.
const SYSTEM: [&str; 6] = ["last_run_at", "next_run_at", "next_runs", "run_count", "status", "updated_at"];

/// Reads the body of a registration: the job stands at the top, or in `job_template`.
pub fn read_cron(body: &[u8], rules: Rules<'_>) -> Result<CronRequest, Box<RefusedRequest>> {
    let top = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    let name = read_name(&top, &mut violations);
    let terms = read_terms(&top, &mut violations);
    let (template, at) = match top.get("job_template") {
        Some(value) => match Members::of_value(value) {
            Some(template) => (template, "job_template."),
            None => {
                violations.add_value(
                    Kind::MalformedRequest,
                    "job_template",
                    value,
                    "must be an object",
                    "type",
                );
                (Members::default(), "job_template.")
            }
        },
        None => (without_terms(top), ""),
    };
    let template = with_args(template);
    for (member, detail) in [
        ("id", "must be left out: every job has an id of its own"),
        ("scheduled_at", "must be left out: the schedule says when jobs begin"),
        ("delay_until", "must be left out: the schedule says when jobs begin"),
    ] {
        let options = template.get("options").and_then(Members::of_value).unwrap_or_default();
        if template.get(member).is_some() || options.get(member).is_some() {
            violations.add(Kind::MalformedRequest, &format!("{at}{member}"), detail, "forbidden");
        }
    }
    let options = template.get("options").map_or("{}", RawValue::get).as_bytes().to_vec();
    let name = violations.settle(name)?;
    let template = envelope::read_members(template, at, rules)?;
    if matches!(template.deadline, Some(Deadline::At(_))) {
        let mut violations = ViolationList::default();
        let detail = "must be a duration: it is counted from each run";
        violations.add(Kind::MalformedRequest, &format!("{at}deadline"), detail, "forbidden");
        violations.settle(Some(()))?;
    }
    Ok(CronRequest { name, terms, template, options })
}

fn without_terms(top: Members<'_>) -> Members<'_> {
    let is_term = |name: &str| TERM_MEMBERS.contains(&name) || SYSTEM.contains(&name);
    Members(top.0.into_iter().filter(|(name, _)| !is_term(name)).collect())
}

/// Arguments may be left out.
fn with_args(mut template: Members<'_>) -> Members<'_> {
    if !template.has("args") {
        let none: &'static RawValue = serde_json::from_str("[]").expect("the default is JSON");
        template.0.push(("args".into(), none));
    }
    template
}

/// What a schedule keeps of its terms if a change does not name them.
const KEPT_TERMS: [&str; 8] =
    ["name", "timezone", "overlap_policy", "catch_up", "catch_up_max", "jitter_ms", "enabled", "description"];

/// The body that registers a schedule as it is shown, with what a change says of it. Options are changed one by one.
pub fn changed_cron(view: &CronMembers, change: &Members<'_>) -> Vec<u8> {
    let mut body = ObjectWriter::default();
    for name in KEPT_TERMS {
        // The name stands in the path.
        let given = change.get(name).filter(|_| name != "name");
        if let Some(value) = given.or(view.get(name).map(|value| &**value)) {
            body.put(name, value.get());
        }
    }
    let expression = change.get("cron").or(change.get("expression")).or(view.get("cron").map(|cron| &**cron));
    if let Some(expression) = expression {
        body.put("cron", expression.get());
    }
    let template = change.get("job_template").and_then(Members::of_value).unwrap_or_default();
    let given = |name: &str| template.get(name).or(change.get(name));
    let mut job = ObjectWriter::default();
    for name in ["type", "args", "meta"] {
        if let Some(value) = given(name).or(view.get(name).map(|value| &**value)) {
            job.put(name, value.get());
        }
    }
    let known = view.get("options").and_then(|options| Members::of_value(options)).unwrap_or_default();
    let changed = given("options").and_then(Members::of_value).unwrap_or_default();
    let mut options = ObjectWriter::default();
    for (name, value) in known.0.iter().chain(&changed.0) {
        options.put(name, value.get());
    }
    let options = options.finish();
    job.put("options", std::str::from_utf8(&options).expect("JSON is text"));
    let job = job.finish();
    body.put("job_template", std::str::from_utf8(&job).expect("JSON is text"));
    body.finish()
}

/// Reads the body of a change: whether it makes jobs.
pub fn read_enabled(body: &[u8]) -> Result<bool, Box<RefusedRequest>> {
    let members = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    let kind = Kind::MalformedRequest;
    let enabled = violations.typed(kind, "enabled", members.get("enabled"), "true or false");
    if members.get("enabled").is_none() {
        violations.add(
            kind,
            "enabled",
            "must be given; register the cron job again to change the rest",
            "required",
        );
    }
    violations.settle(enabled)
}

/// The members of a cron job, each as text: what clients gave is never taken apart.
pub type CronMembers = BTreeMap<&'static str, Box<RawValue>>;

/// What every job of a schedule is like.
#[derive(Serialize)]
struct Template<'a> {
    #[serde(rename = "type")]
    job_type: &'a str,
    args: &'a RawValue,
    meta: &'a RawValue,
    options: &'a RawValue,
}

fn text(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("values of ours have names that are text")
}

/// A cron job, in all words that are read.
pub fn cron_view(schedule: &Schedule, next_runs: &[Time]) -> CronMembers {
    let (head, enabled) = (&schedule.head, schedule.paused_at.is_none());
    let options = match head.dialect {
        Dialect::Ojs => Cow::Borrowed(raw(&schedule.given, "{}")),
        Dialect::Forge | Dialect::Operations => {
            Cow::Owned(text(&json!({"queue": head.queue.as_str(), "priority": head.priority})))
        }
    };
    let args = shown_args(head, &schedule.input);
    let job = Template {
        job_type: shown_type(head),
        args: &args,
        meta: raw(&schedule.input.meta, "{}"),
        options: &options,
    };
    let (catch_up, catch_up_max) = catch_up_word(schedule.catch_up);
    let mut view = CronMembers::new();
    for (name, given) in [("args", job.args), ("meta", job.meta), ("options", job.options)] {
        view.insert(name, given.to_owned());
    }
    view.insert("job_template", text(&job));
    let mut say = |name: &'static str, value: Value| {
        if !value.is_null() {
            view.insert(name, text(&value));
        }
    };
    say("type", job.job_type.into());
    say("id", schedule.id.name.as_str().into());
    say("name", schedule.id.name.as_str().into());
    say("queue", head.queue.as_str().into());
    say("schedule", schedule.expression.as_str().into());
    say("cron", schedule.expression.as_str().into());
    say("expression", schedule.expression.as_str().into());
    say("timezone", schedule.zone.as_str().into());
    say("overlap_policy", overlap_word(schedule.overlap).into());
    say("catch_up", catch_up.into());
    say("catch_up_max", catch_up_max.into());
    say("jitter_ms", (schedule.jitter.as_millis() as u64).into());
    say("enabled", enabled.into());
    say("status", if enabled { "active" } else { "paused" }.into());
    say("description", schedule.description.as_deref().into());
    say("last_run_at", schedule.last_at.map(time::millis).into());
    say("last_job_id", schedule.last_job.map(|job| job.to_string()).into());
    if let Some((tick, why)) = schedule.last_skip {
        say("last_skip", json!({"at": time::millis(tick), "reason": skip_word(why)}));
    }
    let next_at = schedule.next_at.filter(|_| enabled).map(time::millis);
    say("next_run_at", next_at.into());
    if enabled {
        say("next_runs", next_runs.iter().map(|tick| time::millis(*tick)).collect());
    }
    say("run_count", schedule.n_runs.into());
    say("skip_count", schedule.n_skipped.into());
    say("missed_count", schedule.n_missed.into());
    say("created_at", time::millis(schedule.created_at).into());
    say("updated_at", time::millis(schedule.updated_at).into());
    view
}

/// The answer about one: published cases look for `cron`, SDKs for `cron_job`, and one of them for the members themselves, of which `cron` is
/// the expression (D6).
pub fn cron_answer(view: CronMembers, of_sdk: bool, facts: &[(&'static str, Value)]) -> CronMembers {
    let nested = text(&view);
    let mut answer = if of_sdk { view } else { CronMembers::from([("cron", nested.clone())]) };
    answer.insert("cron_job", nested);
    answer.extend(facts.iter().map(|(name, value)| (*name, text(value))));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<CronRequest, Box<RefusedRequest>> {
        let rules =
            Rules { now: Time::from_millis(1_000), tenant: None, strict_catalog: false, test_hooks: false };
        read_cron(body.as_bytes(), rules)
    }

    #[test]
    fn both_ways_to_write_a_registration_mean_the_same() {
        let suite = read(
            r#"{"name":"a","expression":"@daily","job_template":{"type":"a.b","args":[1],"options":{"queue":"q"}}}"#,
        );
        let sdk = read(r#"{"name":"a","cron":"@daily","type":"a.b","args":[1],"options":{"queue":"q"}}"#);
        let (suite, sdk) = (suite.unwrap(), sdk.unwrap());
        assert_eq!(suite.template, sdk.template);
        assert_eq!((suite.options, suite.name), (sdk.options, sdk.name));
    }

    #[test]
    fn terms_do_not_become_members_of_the_job_and_arguments_may_be_left_out() {
        let request = read(
            r#"{"name":"a","cron":"@daily","type":"a.b","enabled":true,"description":"x","next_run_at":null,"version":3}"#,
        )
        .unwrap();
        assert_eq!(request.template.args, b"[]");
        let kept = String::from_utf8(request.template.kept).unwrap();
        assert!(kept.contains("version") && !kept.contains("cron") && !kept.contains("enabled"), "{kept}");
    }

    #[test]
    fn a_template_that_cannot_be_read_is_refused_with_the_place() {
        let refused = read(r#"{"name":"a","cron":"@daily","type":"a.b","args":["\ud83d"]}"#).unwrap_err();
        assert_eq!(refused.violations[0].pointer, "#/args/0");
    }

    #[test]
    fn what_only_a_single_job_can_have_is_refused() {
        for (body, pointer) in [
            (r#"{"name":"a","cron":"@daily","type":"a.b","id":"x"}"#, "#/id"),
            (
                r#"{"name":"a","cron":"@daily","type":"a.b","options":{"delay_until":"+PT1S"}}"#,
                "#/delay_until",
            ),
            (r#"{"name":"a","cron":"@daily","job_template":7}"#, "#/job_template"),
            (r#"{"name":"a","cron":"@daily","job_template":{"type":"A B"}}"#, "#/job_template/type"),
        ] {
            let refused = read(body).unwrap_err();
            assert_eq!(refused.violations[0].pointer, pointer, "{body}");
        }
    }
}
