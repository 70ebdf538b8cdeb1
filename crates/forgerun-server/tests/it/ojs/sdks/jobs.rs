//! Enqueued, read, cancelled; one and many.

use super::reading::*;
use super::*;

impl Sdk {
    /// A job with everything that this SDK can say of one.
    fn envelope(self, unique: &str) -> Value {
        let later = "2099-01-01T00:00:00Z";
        match self {
            Sdk::Python => json!({
                "type": "email.send", "args": ["a@b.c", {"n": 1}], "meta": {"trace_id": unique},
                "options": {
                    "queue": "email", "priority": 5, "timeout_ms": 30000, "expires_at": later,
                    "retry": {"max_attempts": 5, "initial_interval": "PT2S", "backoff_coefficient": 3.0,
                              "max_interval": "PT5M", "jitter": true, "non_retryable_errors": ["auth.*"]},
                    "unique": {"on_conflict": "reject", "key": ["type", "queue", "args"],
                               "states": ["available", "active", "scheduled"]},
                    "tags": ["a", unique],
                },
            }),
            Sdk::JavaScript => json!({
                "type": "email.send", "args": [{"to": unique}], "meta": {"trace_id": unique},
                "options": {
                    "queue": "email", "priority": 5, "timeout_ms": 30000, "delay_until": "2098-01-01T00:00:00.000Z",
                    "expires_at": later, "tags": ["a", unique], "visibility_timeout_ms": 60000,
                    "retry": {"max_attempts": 5, "backoff_coefficient": 3.0, "initial_interval": "PT2S",
                              "on_exhaustion": "dead_letter"},
                    "unique": {"key": ["to"], "period": "PT1H", "on_conflict": "ignore"},
                },
            }),
            Sdk::Rust => json!({
                "type": "email.send", "args": [{"to": unique}], "meta": {"trace_id": unique},
                "options": {
                    "queue": "email", "priority": 5, "timeout_ms": 30000, "expires_at": later,
                    "delay_until": "2098-01-01T00:00:00.123456789Z", "tags": ["a", unique],
                    "retry": {"max_attempts": 5, "initial_interval": "PT2S", "backoff_coefficient": 3.0,
                              "max_interval": "PT5M", "jitter": false, "non_retryable_errors": [],
                              "on_exhaustion": "dead_letter"},
                    "unique": {"keys": ["type", "args"], "args_keys": ["to"], "period": "PT1H",
                               "states": ["available", "active", "scheduled", "retryable", "pending"],
                               "on_conflict": "replace_except_schedule"},
                },
            }),
            Sdk::Go => json!({
                "type": "email.send", "args": [{"to": unique}], "meta": {"trace_id": unique},
                "options": {"queue": "email", "priority": 5, "timeout_ms": 30000, "expires_at": later,
                            "retry": {"max_attempts": 5, "initial_interval": "PT2S", "backoff_coefficient": 3.0,
                                      "max_interval": "PT5M", "jitter": true},
                            "tags": ["a", unique]},
            }),
        }
    }

    /// The job of an answer about one: within an object, and for one SDK the answer itself.
    #[track_caller]
    fn job(self, answer: &Value) -> Job {
        if self == Sdk::Rust {
            read::<Job>(answer);
        }
        read(&part(answer, "job"))
    }
}

#[tokio::test]
async fn every_sdk_enqueues_reads_and_cancels_a_job() {
    let world = World::start().await;
    for sdk in ALL {
        let unique = format!("{sdk:?}");
        let answer = sdk.post(&world, "jobs", sdk.envelope(&unique)).await;
        let job: Job = read(&part(&answer.expect(201), "job"));
        let delayed = matches!(sdk, Sdk::JavaScript | Sdk::Rust);
        let state = if delayed { JobState::Scheduled } else { JobState::Available };
        assert_eq!((job.state, job.queue.as_str(), job.priority), (state, "email", 5), "{sdk:?}");
        assert_eq!((job.specversion.as_str(), job.job_type.as_str()), ("1.0", "email.send"));
        assert_eq!((job.attempt, job.max_attempts, job.timeout_ms), (0, 5, Some(30_000)));
        assert_eq!((&job.tags[1], &job.meta["trace_id"]), (&unique, &json!(unique)));
        assert_eq!(job.args, *sdk.envelope(&unique)["args"].as_array().unwrap());
        assert_eq!(job.scheduled_at.is_some(), delayed);
        assert!(job.created_at.is_some() && job.expires_at.is_some() && job.enqueued_at.is_some() != delayed);
        assert!(job.started_at.is_none() && job.completed_at.is_none() && job.error.is_none());
        let retry = job.retry.unwrap();
        assert_eq!((retry.max_attempts, retry.initial_interval.as_str()), (5, "PT2S"));
        assert_eq!((retry.backoff_coefficient, retry.max_interval.as_str()), (3.0, "PT5M"));
        assert_eq!(retry.jitter, sdk != Sdk::Rust);
        assert_eq!(retry.non_retryable_errors.len(), usize::from(sdk == Sdk::Python));
        assert_eq!(retry.on_exhaustion == OnExhaustion::DeadLetter, delayed);
        if sdk == Sdk::Rust {
            assert_eq!(job.unique.unwrap().keys, [Dimension::Type, Dimension::Args]);
        } else if let Some(unique) = job.unique {
            assert!(!unique.key.is_empty() && unique.keys.is_empty());
        }
        let path = format!("jobs/{}", job.id);
        assert_eq!(sdk.job(&sdk.get(&world, &path).await.expect(200)).id, job.id);
        let cancelled = sdk.delete(&world, &path).await.expect(200);
        let word = if delayed { "scheduled" } else { "available" };
        assert_eq!(cancelled["previous_state"], word);
        let cancelled = sdk.job(&cancelled);
        assert_eq!(cancelled.state, JobState::Cancelled);
        assert!(cancelled.cancelled_at.is_some() && cancelled.completed_at.is_none());
    }
}

#[tokio::test]
async fn every_sdk_enqueues_many_jobs_at_once() {
    let world = World::start().await;
    for sdk in ALL {
        let mut second = sdk.envelope("two");
        second["options"].as_object_mut().unwrap().remove("unique");
        let jobs = [json!({"type": "integration.batch", "args": [{"index": 0}]}), second];
        let answer = sdk.post(&world, "jobs/batch", json!({"jobs": jobs})).await.expect(201);
        assert_eq!(answer["count"], 2);
        let jobs: Vec<Job> = read(&answer["jobs"]);
        assert_eq!((jobs.len(), jobs[0].queue.as_str(), jobs[0].state), (2, "default", JobState::Available));
        assert!(jobs[0].unique.is_none() && jobs[0].schema.is_none());
    }
}

#[tokio::test]
async fn what_is_there_already_is_a_conflict_with_the_job_or_the_job_itself() {
    let world = World::start().await;
    let job = sdk_job(&world, Sdk::Python).await;
    let again = Sdk::Python.post(&world, "jobs", Sdk::Python.envelope("x")).await.expect(409);
    let error: ServerError = read(&again["error"]);
    assert_eq!((error.code.as_str(), &error.details["existing_job_id"]), ("duplicate", &json!(job)));
    let job = sdk_job(&world, Sdk::JavaScript).await;
    let again = Sdk::JavaScript.post(&world, "jobs", Sdk::JavaScript.envelope("x")).await.expect(200);
    assert_eq!(again["job"]["id"], job);
}

async fn sdk_job(world: &World, sdk: Sdk) -> String {
    let taken = sdk.post(world, "jobs", sdk.envelope("x")).await.expect(201);
    read::<Job>(&taken["job"]).id
}
