//! Workers of every SDK: fetch, heartbeat, progress, ack, nack.

use super::reading::*;
use super::*;

impl Sdk {
    fn fetch_body(self) -> Value {
        match self {
            Sdk::Python => json!({"queues": ["default"], "count": 1, "visibility_timeout_ms": 30000,
                                  "worker_id": "worker-py"}),
            Sdk::JavaScript => json!({"queues": ["default", "email"], "count": 10, "worker_id": "worker_js",
                                      "visibility_timeout_ms": 30000}),
            Sdk::Rust => json!({"queues": ["default"], "count": 10, "worker_id": "worker_rs"}),
            Sdk::Go => json!({"queues": ["default"], "count": 5, "worker_id": "worker_host_1_2"}),
        }
    }

    fn beat_body(self, job: &str) -> Value {
        let worker = self.fetch_body()["worker_id"].clone();
        match self {
            Sdk::Python | Sdk::Rust => json!({"worker_id": worker, "active_jobs": [job]}),
            Sdk::JavaScript => {
                json!({"worker_id": worker, "state": "running", "active_jobs": 1, "active_job_ids": [job],
                   "hostname": "unknown", "pid": 7, "queues": ["default"], "concurrency": 10, "labels": []})
            }
            Sdk::Go => {
                json!({"worker_id": worker, "state": "running", "active_jobs": 1, "active_job_ids": [job]})
            }
        }
    }

    fn nack_body(self, job: &str) -> Value {
        let error = match self {
            Sdk::Python => json!({"code": "handler_error", "message": "boom", "retryable": true,
                                  "details": {"error_class": "ValueError", "traceback": "File \"x.py\""}}),
            Sdk::JavaScript => json!({"code": "handler_error", "message": "boom", "retryable": true,
                                      "details": {"stack": "Error: boom\n    at x.js:1"}}),
            Sdk::Rust | Sdk::Go => json!({"code": "handler_error", "message": "boom", "retryable": true}),
        };
        json!({"job_id": job, "error": error})
    }

    /// The job that a worker of this SDK gets.
    async fn fetched(self, world: &World) -> Job {
        let fetched = self.post(world, "workers/fetch", self.fetch_body()).await.expect(200);
        let mut jobs: Vec<Job> = read(&fetched["jobs"]);
        assert_eq!(jobs.len(), 1, "{fetched}");
        jobs.pop().unwrap()
    }
}

#[tokio::test]
async fn a_worker_of_every_sdk_does_a_job() {
    let world = World::start().await;
    for sdk in ALL {
        let empty = sdk.post(&world, "workers/fetch", sdk.fetch_body()).await.expect(200);
        assert_eq!(empty["jobs"], json!([]));
        let id = world.push(json!({})).await;
        let job = sdk.fetched(&world).await;
        assert_eq!((&job.id, job.state, job.attempt), (&id, JobState::Active, 1));
        assert!(job.started_at.is_some());
        let beat: Beat = read(&sdk.post(&world, "workers/heartbeat", sdk.beat_body(&id)).await.expect(200));
        assert_eq!((beat.state.as_str(), &beat.jobs_extended[..]), ("running", &[id.clone()][..]));
        let far = json!({"job_id": id, "percentage": 40, "message": "half way"});
        sdk.post(&world, "workers/progress", far).await.expect(200);
        let progress = sdk.get(&world, &format!("jobs/{id}/progress")).await.expect(200);
        assert_eq!((&progress["percentage"], &progress["message"]), (&json!(40), &json!("half way")));
        let acked = sdk
            .post(&world, "workers/ack", json!({"job_id": id, "result": {"sent": true}}))
            .await
            .expect(200);
        assert_eq!(
            (&acked["acknowledged"], &acked["job_id"], &acked["state"]),
            (&json!(true), &json!(id), &json!("completed"))
        );
        let job: Job = read(&sdk.get(&world, &format!("jobs/{id}")).await.expect(200)["job"]);
        assert_eq!((job.state, &job.result.unwrap()["sent"]), (JobState::Completed, &json!(true)));
        // A worker may leave nothing.
        let id = world.push(json!({})).await;
        sdk.fetched(&world).await;
        sdk.post(&world, "workers/ack", json!({"job_id": id})).await.expect(200);
        let again = sdk.post(&world, "workers/ack", json!({"job_id": id})).await.expect(409);
        assert_eq!(read::<ServerError>(&again["error"]).code, "conflict");
    }
}

#[tokio::test]
async fn a_worker_of_every_sdk_says_that_a_job_failed() {
    let world = World::start().await;
    for sdk in ALL {
        let id = world.push(json!({"retry": {"max_attempts": 2, "initial_interval": "PT1S"}})).await;
        sdk.fetched(&world).await;
        let nacked = sdk.post(&world, "workers/nack", sdk.nack_body(&id)).await.expect(200);
        assert_eq!((&nacked["job_id"], &nacked["state"]), (&json!(id), &json!("retryable")));
        assert_eq!((&nacked["attempt"], &nacked["max_attempts"]), (&json!(1), &json!(2)));
        read::<Moment>(&nacked["next_attempt_at"]);
        let job: Job = read(&sdk.get(&world, &format!("jobs/{id}")).await.expect(200)["job"]);
        let error = job.error.unwrap();
        let class = if sdk == Sdk::Python { "ValueError" } else { "handler_error" };
        assert_eq!((error.code.as_str(), error.message.as_str()), ("handler_error", "boom"));
        assert_eq!((error.class.as_str(), error.retryable), (class, true));
        assert_eq!(error.details.is_some(), matches!(sdk, Sdk::Python | Sdk::JavaScript));
        assert_eq!((job.errors.len(), error.backtrace.is_none()), (1, true));
        sdk.delete(&world, &format!("jobs/{id}")).await.expect(200);
    }
}

#[tokio::test]
async fn a_backtrace_is_a_list_of_lines_however_it_was_sent() {
    let world = World::start().await;
    for backtrace in [json!("a.rs:1\nb.rs:2"), json!(["a.rs:1", "b.rs:2"])] {
        let id = world.push(json!({"retry": {"max_attempts": 1}})).await;
        world.fetch().await;
        let error = json!({"code": "handler_error", "message": "boom", "backtrace": backtrace});
        world.nack(&id, error).await.expect(200);
        let job: Job = read(&world.job(&id).await);
        assert_eq!(job.error.unwrap().backtrace.unwrap(), ["a.rs:1", "b.rs:2"]);
        assert!(job.discarded_at.is_some());
    }
}
