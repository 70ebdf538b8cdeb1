//! Cron jobs and workflows, in each SDK's form.

use super::reading::*;
use super::*;

impl Sdk {
    fn cron(self) -> Value {
        let mut body = json!({"name": "nightly-report", "cron": "0 3 * * *", "type": "report.make", "args": [{"of": "day"}]});
        let more = match self {
            Sdk::Python => json!({"timezone": "Europe/Berlin", "meta": {"team": "a"},
                                  "options": {"queue": "reports", "priority": 3, "tags": ["nightly"]}}),
            Sdk::JavaScript => json!({"timezone": "Europe/Berlin", "options": {"queue": "reports",
                                      "retry": {"max_attempts": 5, "initial_interval": "PT1S"}}}),
            Sdk::Rust => json!({"timezone": "Europe/Berlin", "overlap_policy": "skip", "enabled": true,
                                "description": "every night", "options": {"queue": "reports"}}),
            Sdk::Go => {
                json!({"timezone": "Europe/Berlin", "meta": {"team": "a"}, "options": {"queue": "reports"}})
            }
        };
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    }

    /// Three jobs, the last two of which wait for those before.
    fn chain(self) -> Value {
        let step = |n: usize| json!({"type": format!("step.s{n}"), "args": [{"n": n}]});
        let named = |n: usize| {
            let before: Vec<String> =
                n.checked_sub(1).map(|before| format!("step-{before}")).into_iter().collect();
            let mut step = step(n);
            step["id"] = json!(format!("step-{n}"));
            step["depends_on"] = json!(before);
            step
        };
        match self {
            Sdk::Python | Sdk::Go => json!({"name": "a-chain", "steps": [named(0), named(1), named(2)]}),
            Sdk::JavaScript | Sdk::Rust => json!({"type": "chain", "steps": [step(0), step(1), step(2)]}),
        }
    }

    /// Two jobs, and callbacks for all ways in which they can end.
    fn batch(self) -> Value {
        let jobs = [json!({"type": "mail.send", "args": [1]}), json!({"type": "mail.send", "args": [2]})];
        let callback = |name: &str| json!({"type": format!("batch.{name}"), "args": []});
        if matches!(self, Sdk::JavaScript | Sdk::Go) {
            let callbacks = json!({"on_complete": callback("report"), "on_success": callback("celebrate"),
                                   "on_failure": callback("alert")});
            return json!({"type": "batch", "jobs": jobs, "callbacks": callbacks});
        }
        let (prefix, dash) = if self == Sdk::Python { ("step", "_") } else { ("job", "-") };
        let mut steps: Vec<Value> = jobs.to_vec();
        for (n, step) in steps.iter_mut().enumerate() {
            step["id"] = json!(format!("{prefix}-{n}"));
            step["depends_on"] = json!([]);
        }
        let before = json!([format!("{prefix}-0"), format!("{prefix}-1")]);
        for (event, name) in [("complete", "report"), ("success", "celebrate"), ("failure", "alert")] {
            let mut step = callback(name);
            step["id"] = json!(format!("on{dash}{event}"));
            step["depends_on"] = before.clone();
            if self == Sdk::Python {
                step["options"] = json!({"callback_type": format!("on_{event}")});
            }
            steps.push(step);
        }
        json!({"name": "a-batch", "steps": steps})
    }

    /// The workflow of an answer: within an object, and for two SDKs the answer itself.
    #[track_caller]
    fn workflow(self, answer: &Value) -> Workflow {
        if matches!(self, Sdk::JavaScript | Sdk::Rust) {
            read::<Workflow>(answer);
        }
        read(&part(answer, "workflow"))
    }
}

#[tokio::test]
async fn every_sdk_registers_lists_and_removes_a_cron_job() {
    let world = World::start().await;
    for sdk in ALL {
        let answer = sdk.post(&world, "cron", sdk.cron()).await.expect(201);
        if sdk == Sdk::Rust {
            read::<CronJob>(&answer);
        }
        let cron: CronJob = read(&part(&answer, "cron_job"));
        assert_eq!((cron.name.as_str(), cron.cron.as_str()), ("nightly-report", "0 3 * * *"));
        assert_eq!((cron.timezone.as_str(), cron.job_type.as_str()), ("Europe/Berlin", "report.make"));
        assert_eq!((cron.overlap_policy, cron.enabled), (Overlap::Skip, true));
        assert_eq!((cron.status.as_str(), cron.run_count), ("active", 0));
        assert!(cron.next_run_at.is_some() && cron.last_run_at.is_none());
        assert_eq!(
            (cron.args, &cron.options.unwrap()["queue"]),
            (vec![json!({"of": "day"})], &json!("reports"))
        );
        assert_eq!(cron.meta.unwrap().contains_key("team"), matches!(sdk, Sdk::Python | Sdk::Go));
        let path = match sdk {
            Sdk::Python => "cron?limit=50&offset=0",
            Sdk::JavaScript => "cron?page=1&per_page=20",
            Sdk::Rust | Sdk::Go => "cron",
        };
        let list = sdk.get(&world, path).await.expect(200);
        assert_eq!(read::<Vec<CronJob>>(&list["cron_jobs"])[0].name, "nightly-report");
        assert_eq!(read::<Pagination>(&list["pagination"]).total, 1);
        let path = format!("cron/{}", sdk.in_path("nightly-report"));
        sdk.delete(&world, &path).await.expect(200);
        sdk.delete(&world, &path).await.expect(404);
    }
}

#[tokio::test]
async fn every_sdk_begins_a_chain_and_cancels_it_half_way() {
    let world = World::start().await;
    for sdk in ALL {
        let begun = sdk.workflow(&sdk.post(&world, "workflows", sdk.chain()).await.expect(201));
        assert_eq!((begun.state, begun.form), (WorkflowState::Running, Form::Chain));
        assert_eq!(begun.name, if matches!(sdk, Sdk::Python | Sdk::Go) { "a-chain" } else { "" });
        assert_eq!((begun.steps.len(), begun.metadata.job_count), (3, 3));
        assert!(begun.steps[0].job_id.is_some() && begun.steps[2].job_id.is_none());
        assert_eq!(begun.steps[1].depends_on, [begun.steps[0].id.clone()]);
        assert_eq!(begun.steps[2].args, [json!({"n": 2})]);
        let job = world.fetch().await;
        assert_eq!(job["type"], "step.s0");
        world.ack(job["id"].as_str().unwrap()).await.expect(200);
        let path = format!("workflows/{}", begun.id);
        let half = sdk.workflow(&sdk.get(&world, &path).await.expect(200));
        assert_eq!((half.metadata.completed_count, half.metadata.failed_count), (1, 0));
        assert_eq!((half.steps[0].state.as_str(), half.steps[1].job_type.as_str()), ("completed", "step.s1"));
        let cancelled = sdk.workflow(&sdk.delete(&world, &path).await.expect(200));
        assert_eq!((cancelled.state, cancelled.steps_cancelled), (WorkflowState::Cancelled, Some(2)));
        assert_eq!((cancelled.steps_already_completed, cancelled.cancelled_at.is_some()), (Some(1), true));
        sdk.delete(&world, &path).await.expect(409);
    }
}

#[tokio::test]
async fn the_callbacks_of_every_sdk_follow_the_batch_that_they_belong_to() {
    let world = World::start().await;
    for sdk in ALL {
        let begun = sdk.workflow(&sdk.post(&world, "workflows", sdk.batch()).await.expect(201));
        assert_eq!((begun.form, begun.steps.len()), (Form::Batch, 5), "{sdk:?}");
        for _ in 0..2 {
            let job = world.fetch().await;
            assert_eq!(job["type"], "mail.send");
            world.ack(job["id"].as_str().unwrap()).await.expect(200);
        }
        let mut types = Vec::new();
        for _ in 0..2 {
            let job = world.fetch().await;
            types.push(job["type"].as_str().unwrap().to_owned());
            world.ack(job["id"].as_str().unwrap()).await.expect(200);
        }
        types.sort();
        assert_eq!(types, ["batch.celebrate", "batch.report"], "{sdk:?}");
        let done = sdk.workflow(&sdk.get(&world, &format!("workflows/{}", begun.id)).await.expect(200));
        assert_eq!(done.state, WorkflowState::Completed);
    }
}

#[tokio::test]
async fn what_a_step_of_the_go_sdk_says_in_its_options_is_metadata_of_its_job() {
    let world = World::start().await;
    let step = json!({"type": "a.b", "args": [], "options": {"queue": "default", "metadata": {"team": "a"}}});
    let body = json!({"type": "group", "jobs": [step]});
    Sdk::Go.post(&world, "workflows", body).await.expect(201);
    assert_eq!(world.fetch().await["meta"]["team"], "a");
}
