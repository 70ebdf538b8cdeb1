//! Every form of a description, and what is none.

use forgerun_core::time::Time;
use serde_json::json;

use super::*;

fn rules() -> Rules<'static> {
    Rules { now: Time::ZERO, tenant: None, strict_catalog: false, test_hooks: false }
}

/// The steps as text: `id<before,before` and a mark for the turn.
fn shape(body: &serde_json::Value) -> Result<(WorkflowForm, String), String> {
    let request =
        read(body.to_string().as_bytes(), rules(), true).map_err(|refused| refused.detail.clone())?;
    let step = |step: &StepRequest| {
        let after: Vec<String> = step.after.iter().map(|n| request.steps[*n as usize].id.clone()).collect();
        let mark = match step.when {
            StepCondition::AllSucceeded => "",
            StepCondition::AllEnded => "*",
            StepCondition::AnyFailed => "!",
        };
        format!("{}{mark}<{}", step.id, after.join(","))
    };
    Ok((request.form, request.steps.iter().map(step).collect::<Vec<_>>().join(" ")))
}

fn type_of(step: &StepRequest) -> &str {
    match &step.work {
        StepBody::Job(job) => &job.job_type,
        StepBody::ForEach(for_each) => &for_each.job.job_type,
        StepBody::Wait(_) | StepBody::Workflow(_) => "",
    }
}

fn job(name: &str) -> serde_json::Value {
    json!({"type": name, "args": []})
}

#[test]
fn every_form_becomes_steps_that_name_those_they_wait_for() {
    let step = |id: &str, after: &[&str]| json!({"id": id, "type": "t", "args": [], "depends_on": after});
    let nested = json!({"type": "chain", "steps": [job("a"), {"type": "group", "jobs": [job("b"), job("c")]}, job("d")]});
    let batch = json!({"type": "batch", "jobs": [job("a"), job("b")],
        "callbacks": {"on_complete": job("c"), "on_failure": job("d")}});
    let in_chain = json!({"type": "chain", "steps": [batch, job("z")]});
    for (body, form, expected) in [
        (json!({"type": "chain", "steps": [job("a"), job("b")]}), WorkflowForm::Chain, "0< 1<0"),
        (json!({"type": "group", "jobs": [job("a"), job("b")]}), WorkflowForm::Group, "0< 1<"),
        (batch.clone(), WorkflowForm::Batch, "0< 1< on_complete*<0,1 on_failure!<0,1"),
        (nested, WorkflowForm::Chain, "0< 1<0 2<0 3<1,2"),
        (in_chain, WorkflowForm::Chain, "0< 1< 0.on_complete*<0,1 0.on_failure!<0,1 4<0,1,0.on_complete"),
        (
            json!({"steps": [step("a", &[]), step("b", &["a"]), step("c", &["a", "b"])]}),
            WorkflowForm::Graph,
            "a< b<a c<a,b",
        ),
        (json!({"steps": [step("a", &["b"]), step("b", &[])]}), WorkflowForm::Graph, "a<b b<"),
        (json!({"steps": [step("a", &[]), step("b", &["a"])]}), WorkflowForm::Chain, "a< b<a"),
        (json!({"steps": [step("a", &[]), step("b", &[])]}), WorkflowForm::Group, "a< b<"),
        (
            json!({"steps": [step("a", &[]), step("on-failure", &["a"])]}),
            WorkflowForm::Batch,
            "a< on-failure!<a",
        ),
    ] {
        assert_eq!(shape(&body), Ok((form, expected.to_owned())), "{body}");
    }
}

#[test]
fn the_sdks_say_what_follows_an_end_in_three_ways() {
    let by_type = json!({"id": "x", "type": "t", "args": [], "options": {"callback_type": "on_complete"}});
    let by_when = json!({"id": "y", "type": "t", "args": [], "when": "any_failed"});
    let body = json!({"steps": [{"id": "a", "type": "t", "args": []}, by_type, by_when]});
    assert_eq!(shape(&body).unwrap().1, "a< x*<a y!<a");
}

fn undone_by(compensate: serde_json::Value) -> serde_json::Value {
    json!({"type": "t", "args": [], "compensate": compensate})
}

#[test]
fn a_step_of_any_form_may_say_what_undoes_it() {
    let with = || undone_by(json!({"type": "u", "args": [1], "options": {"queue": "undo"}}));
    for body in [
        json!({"type": "chain", "steps": [with()], "failure_policy": "compensate"}),
        json!({"type": "group", "jobs": [with()], "failure_policy": "compensate"}),
        json!({"steps": [with()], "failure_policy": "compensate"}),
    ] {
        let request = read(body.to_string().as_bytes(), rules(), true).unwrap();
        assert_eq!(request.policy, FailurePolicy::Compensate);
        let compensate = request.steps[0].compensate.as_ref().unwrap();
        assert_eq!((compensate.job_type.as_str(), type_of(&request.steps[0])), ("u", "t"));
    }
    let simulated =
        json!({"steps": [{"work_kind": "SUCCESS_FAST", "compensate": {"work_kind": "SUCCESS_FAST"}}]});
    assert!(read(simulated.to_string().as_bytes(), rules(), true).unwrap().steps[0].compensate.is_some());
}

#[test]
fn what_is_no_workflow_is_refused_with_the_reason() {
    let step = |id: &str, after: &[&str]| json!({"id": id, "type": "t", "args": [], "depends_on": after});
    let many: Vec<serde_json::Value> = (0..=WORKFLOW_STEPS_MAX).map(|_| job("a")).collect();
    let mut deep = job("a");
    for _ in 0..10 {
        deep = json!({"type": "chain", "steps": [deep]});
    }
    for (body, reason) in [
        (json!({}), "is required"),
        (json!({"type": "tree", "steps": [job("a")]}), "must be chain, group or batch"),
        (json!({"type": "chain", "steps": []}), "1 to 1000"),
        (json!({"type": "group", "jobs": many}), "1 to 1000"),
        (json!({"type": "group", "jobs": {}}), "must be a list"),
        (json!({"type": "group", "jobs": [7]}), "must be an object"),
        (json!({"steps": [step("a", &["x"])]}), "names no step"),
        (json!({"steps": [step("a", &[]), step("a", &[])]}), "two steps with the id"),
        (json!({"steps": [step("a", &["b"]), step("b", &["a"])]}), "in a circle"),
        (
            json!({"type": "batch", "jobs": [job("a")], "callbacks": {"on_end": job("b")}}),
            "on_complete, on_success",
        ),
        (
            json!({"type": "chain", "steps": [job("a")], "failure_policy": "maybe"}),
            "continue, stop or compensate",
        ),
        (
            json!({"type": "chain", "steps": [{"type": "a", "args": [], "options": {"unique": {"keys": ["type"]}}}]}),
            "not for steps",
        ),
        (json!({"type": "chain", "steps": [undone_by(json!(7))]}), "must be an object"),
        (json!({"type": "chain", "steps": [undone_by(json!({"type": "u"}))]}), "args"),
        (
            json!({"type": "chain", "steps": [undone_by(json!({"type": "u", "args": [], "when": "all_ended"}))]}),
            "not for a compensation",
        ),
        (
            json!({"type": "chain", "steps": [undone_by(json!({"type": "u", "args": [], "options": {"unique": {"keys": ["type"]}}}))]}),
            "not for steps",
        ),
        (json!({"type": "chain", "steps": [{"work_kind": "NAP"}]}), "kinds of work"),
        (json!({"type": "chain", "steps": [job("A")]}), "lower-case"),
        (deep, "nested deeper"),
    ] {
        let error = shape(&body).unwrap_err();
        assert!(error.contains(reason), "{error} for {body:.200}");
    }
}

#[test]
fn a_step_of_any_form_may_be_a_wait() {
    let wait = json!({"id": "nap", "wait": {"for": "2h"}});
    let chain = json!({"type": "chain", "steps": [job("a"), wait.clone(), job("b")]});
    let group = json!({"type": "group", "jobs": [job("a"), wait.clone()]});
    let graph = json!({"steps": [
        {"id": "a", "type": "t", "args": []},
        {"id": "ask", "wait": {"signal": "ok", "timeout": "1d"}, "depends_on": ["a"]},
        {"id": "late", "wait": {"until": "2030-01-01T00:00:00Z"}, "depends_on": ["ask"], "when": "any_failed"},
    ]});
    for (body, expected) in [(chain, "0< nap<0 2<nap"), (group, "0< nap<"), (graph, "a< ask<a late!<ask")] {
        assert_eq!(shape(&body).map(|(_, steps)| steps), Ok(expected.to_owned()), "{body}");
    }
}

#[test]
fn a_wait_does_no_work_and_has_its_signal_for_itself() {
    let refused = |steps: serde_json::Value| {
        let body = json!({"steps": steps}).to_string();
        let refused = read(body.as_bytes(), rules(), true).unwrap_err();
        (refused.violations[0].pointer.clone(), refused.violations[0].constraint)
    };
    let ask = |id: &str| json!({"id": id, "wait": {"signal": "ok", "timeout": "1d"}});
    assert_eq!(refused(json!([ask("a"), ask("b")])), ("#/steps/1/wait/signal".into(), "uniqueItems"));
    let works = json!([{"id": "a", "wait": {"for": "1s"}, "type": "t"}]);
    assert_eq!(refused(works), ("#/steps/0/type".into(), "unsupported"));
    let undone = json!([{"id": "a", "type": "t", "args": [], "compensate": {"wait": {"for": "1s"}}}]);
    assert_eq!(refused(undone), ("#/steps/0/compensate/wait".into(), "unsupported"));
}

#[test]
fn the_deadline_of_a_workflow_is_a_span_or_a_time() {
    let deadline = |value: serde_json::Value| {
        let body = json!({"type": "group", "jobs": [job("a")], "deadline": value}).to_string();
        read(body.as_bytes(), rules(), true).map(|request| request.deadline)
    };
    let after = |secs| Some(Deadline::After(std::time::Duration::from_secs(secs)));
    assert_eq!(deadline(json!("30m")).unwrap(), after(1800));
    assert_eq!(deadline(json!("PT30M")).unwrap(), after(1800));
    assert_eq!(deadline(json!(null)).unwrap(), None);
    for bad in [json!("0s"), json!("soon"), json!(7)] {
        assert_eq!(deadline(bad).unwrap_err().violations[0].pointer, "#/deadline");
    }
}

/// Queue and attempts of each step that is a job.
fn options_of(body: &serde_json::Value) -> Vec<(String, u32)> {
    fn add(steps: &[StepRequest], found: &mut Vec<(String, u32)>) {
        for step in steps {
            let job = match &step.work {
                StepBody::Job(job) => job,
                StepBody::ForEach(for_each) => &for_each.job,
                StepBody::Workflow(within) => {
                    add(&within.steps, found);
                    continue;
                }
                StepBody::Wait(_) => continue,
            };
            for job in [Some(job), step.compensate.as_ref()].into_iter().flatten() {
                let queue = job.queue.as_ref().map_or("-", |queue| queue.as_str());
                found.push((queue.to_owned(), job.retry.attempts_max));
            }
        }
    }
    let mut found = Vec::new();
    add(&read(body.to_string().as_bytes(), rules(), true).unwrap().steps, &mut found);
    found
}

#[test]
fn options_of_a_workflow_are_those_of_its_steps_that_say_nothing_themselves() {
    let options = json!({"queue": "email", "retry": {"max_attempts": 7}, "deadline": "1h"});
    let own = json!({"type": "b", "args": [], "options": {"queue": "own"}});
    let at_top =
        json!({"type": "c", "args": [], "queue": "top", "max_attempts": 2, "retry": {"jitter": false}});
    let (email, of_own, top) = (("email", 7), ("own", 7), ("top", 2));
    for (body, expected) in [
        (
            json!({"type": "chain", "steps": [job("a"), own, at_top], "options": options}),
            vec![email, of_own, top],
        ),
        (json!({"type": "group", "jobs": [job("a"), own], "options": options}), vec![email, of_own]),
        (
            json!({"type": "batch", "jobs": [job("a")], "callbacks": {"on_complete": job("d")}, "options": options}),
            vec![email, email],
        ),
        (
            json!({"steps": [{"id": "a", "type": "a", "args": [], "compensate": job("undo")}], "options": options}),
            vec![email, email],
        ),
        (
            json!({"type": "chain", "options": options, "steps": [
                {"type": "group", "jobs": [job("a")], "options": {"queue": "inner"}}, job("b"),
            ]}),
            vec![("inner", 7), email],
        ),
        (
            json!({"options": options, "steps": [
                {"id": "w", "workflow": {"type": "chain", "steps": [job("a")], "options": {"queue": "inner"}}},
            ]}),
            vec![("inner", 7)],
        ),
    ] {
        let expected: Vec<(String, u32)> =
            expected.iter().map(|(queue, n)| ((*queue).to_owned(), *n)).collect();
        assert_eq!(options_of(&body), expected, "{body}");
    }
}

#[test]
fn options_of_a_workflow_are_refused_where_they_stand() {
    let with = |options: serde_json::Value| json!({"type": "chain", "steps": [job("a")], "options": options});
    for (options, pointer) in [
        (json!("email"), "#/options"),
        (json!({"queue": "No Queue"}), "#/options/queue"),
        (json!({"priorty": 3}), "#/options/priorty"),
        (json!({"unique": {"keys": ["type"]}}), "#/steps/0/options/unique"),
    ] {
        let refused = read(with(options.clone()).to_string().as_bytes(), rules(), false).unwrap_err();
        assert_eq!(refused.violations[0].pointer, pointer, "{options}");
    }
}
