//! Redrives over HTTP.

use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Cancel, Owned};
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_core::state::State;
use serde_json::{Value, json};

use super::super::server::Server;
use super::{get, post, server};

/// Fails so many jobs for one reason; their ids, and the path of the redrive.
async fn failed(server: &Server, n: usize) -> (Vec<JobId>, String) {
    let client = server.client().await;
    let mut ids = Vec::new();
    for n in 0..n {
        let body = json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "retry_mode": "manual"});
        ids.push(client.job_like(body).await.parse().unwrap());
        server.fail_saying(Kind::HandlerError, &format!("disk {n} is full")).await;
    }
    let groups = get(server, "/admin/v1/failures").await;
    let group = groups["items"][0]["group"].as_str().unwrap().to_owned();
    (ids, format!("/admin/v1/failures/{group}/redrive"))
}

async fn job(server: &Server, id: JobId) -> Job {
    Job::clone(&*server.app.engine.store().job(id).await.unwrap().unwrap())
}

/// Waits until a job has ended.
async fn ended(server: &Server, id: JobId) -> Job {
    let end = async {
        loop {
            let job = job(server, id).await;
            if job.state.is_final() {
                return job;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), end).await.expect("the job ends")
}

#[tokio::test]
async fn a_redrive_tries_every_job_of_the_group_again_once() {
    let server = server().await;
    let (ids, path) = failed(&server, 5).await;
    let preview =
        post(&server, &path, json!({"dry_run": true, "limit": 3, "rate_per_s": 2})).await.expect(200);
    let first: Vec<String> = ids.iter().take(3).map(JobId::to_string).collect();
    assert_eq!(
        preview,
        json!({"dry_run": true, "matched": 5, "would_redrive": 3, "jobs": first, "takes_s": 2})
    );
    for id in &ids {
        assert_eq!(job(&server, *id).await.state, State::Failed, "a preview changes nothing");
    }
    server.app.redrive();
    let answer = post(&server, &path, json!({"limit": 3})).await;
    let begun = answer.expect(202);
    let own: JobId = begun["job_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(answer.header("location"), Some(&*format!("/admin/v1/jobs/{own}")));
    assert_eq!(
        (&begun["matched"], &begun["will_redrive"]),
        (&json!(5), &json!(3)),
        "as many as the limit says"
    );
    let own = ended(&server, own).await;
    assert_eq!((own.state, own.progress), (State::Succeeded, Some(100)));
    for (n, id) in ids.iter().enumerate() {
        let job = job(&server, *id).await;
        let expected = if n < 3 { (State::Queued, 1) } else { (State::Failed, 0) };
        assert_eq!((job.state, job.executions_past.len()), expected, "job {n}");
    }
    let result = server.app.engine.store().result(own.execution).await.unwrap().unwrap();
    let Some(forgerun_core::command::Content::Inline(bytes)) = result.content else {
        panic!("a small result")
    };
    let said: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!((&said["redriven"], &said["skipped"]), (&json!(3), &json!(0)));

    let rest = post(&server, &path, json!({})).await.expect(202);
    assert_eq!(rest["matched"], 2);
    ended(&server, rest["job_id"].as_str().unwrap().parse().unwrap()).await;
    assert_eq!(post(&server, &path, json!({})).await.expect(200), json!({"matched": 0}));
    let nothing = post(&server, &path, json!({"dry_run": true})).await.expect(200);
    assert_eq!((&nothing["matched"], &nothing["would_redrive"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn what_fails_again_is_not_redriven_again_by_the_same_redrive() {
    let server = server().await;
    let (ids, path) = failed(&server, 2).await;
    server.app.redrive();
    // Slowly, so that the first has failed again while it is under way.
    let begun = post(&server, &path, json!({"rate_per_s": 10, "max_failures": null})).await.expect(202);
    server.fail_saying(Kind::HandlerError, "disk 7 is full").await;
    ended(&server, begun["job_id"].as_str().unwrap().parse().unwrap()).await;
    for id in ids {
        assert_eq!(job(&server, id).await.executions_past.len(), 1);
    }
}

#[tokio::test]
async fn a_redrive_stops_when_too_many_fail_again() {
    const N_JOBS: usize = 20;
    let server = server().await;
    let (ids, path) = failed(&server, N_JOBS).await;
    server.app.redrive();
    // So slowly that there are jobs left when the first has failed again.
    let begun = post(&server, &path, json!({"rate_per_s": 2, "max_failures": 1})).await.expect(202);
    server.fail_saying(Kind::HandlerError, "disk 7 is full").await;
    let own = ended(&server, begun["job_id"].as_str().unwrap().parse().unwrap()).await;
    assert_eq!(own.state, State::Failed);
    let said = &own.last_error().unwrap().message;
    assert!(said.starts_with("stopped: 1 of "), "{said}");
    let mut n_redriven = 0;
    for id in &ids {
        n_redriven += job(&server, *id).await.executions_past.len();
    }
    assert!((1..N_JOBS).contains(&n_redriven), "{n_redriven}");
    let next = post(&server, &path, json!({"dry_run": true})).await.expect(200);
    assert_eq!(next["matched"], N_JOBS - n_redriven + 1, "the one that failed again, and those left");
}

#[tokio::test]
async fn a_group_has_one_redrive_at_a_time() {
    let server = server().await;
    let (_, path) = failed(&server, 1).await;
    // Nobody carries it out.
    let begun = post(&server, &path, json!({})).await.expect(202);
    let refused = post(&server, &path, json!({})).await;
    let problem = refused.expect(409);
    assert_eq!(problem["details"]["existing_job_id"], begun["job_id"]);
    assert!(problem["detail"].as_str().unwrap().contains(begun["job_id"].as_str().unwrap()), "{problem}");
    let cancel = Cancel {
        owned: Owned { job: begun["job_id"].as_str().unwrap().parse().unwrap(), client: None },
        execution: None,
        by: "operator".into(),
        reason: "enough".into(),
        compensate: true,
    };
    server.app.engine.act(Command::Cancel(cancel)).await.unwrap();
    assert_ne!(post(&server, &path, json!({})).await.expect(202)["job_id"], begun["job_id"]);
}

#[tokio::test]
async fn a_redrive_that_makes_no_sense_is_refused() {
    let server = server().await;
    let (_, path) = failed(&server, 1).await;
    for wrong in
        [json!({"limit": 0}), json!({"rate_per_s": -1}), json!({"dry_run": "yes"}), json!({"rate": 1})]
    {
        assert_eq!(post(&server, &path, wrong.clone()).await.status, 400, "{wrong}");
    }
    let unknown = "/admin/v1/failures/0000000000000001/redrive";
    post(&server, unknown, json!({})).await.refused(404, "RFA_JOB_NOT_FOUND");
}
