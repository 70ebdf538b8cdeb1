//! How long jobs are known, and how long they may wait.

use std::time::Duration;

use forgerun_core::Command;
use serde_json::json;

use super::server::Server;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn a_job_is_unknown_once_its_configured_days_are_over() {
    let server = Server::with(&[("retention.jobs_days", "2")]).await;
    let client = server.client().await;
    let answer = client.submit(json!({"type": "EXECUTE"})).await.expect(202);
    let path = format!("/v1/jobs/{}", answer["job_id"].as_str().unwrap());
    server.succeed().await;
    server.clock.advance(DAY);
    server.app.engine.run(Command::Due(10)).await.unwrap();
    client.get(&path).await.expect(200);
    server.clock.advance(DAY + Duration::from_secs(60));
    server.app.engine.run(Command::Due(10)).await.unwrap();
    for path in [path.clone(), format!("{path}/report"), format!("{path}/result"), format!("{path}/events")] {
        client.get(&path).await.refused(404, "RFA_JOB_NOT_FOUND");
    }
    assert_eq!(client.get("/v1/jobs").await.expect(200)["jobs"], json!([]));
}

#[tokio::test]
async fn a_job_for_a_distant_year_is_accepted_and_waits() {
    let server = Server::start().await;
    let client = server.client().await;
    let body = json!({
        "type": "DEFERRED", "work_kind": "SCHEDULED_FAR_FUTURE", "execution_at": "2999-01-01T00:00:00Z"
    });
    let answer = client.submit(body).await.expect(202);
    assert_eq!(answer["state"], "CREATED");
    server.clock.advance(400 * DAY);
    server.app.engine.run(Command::Due(10)).await.unwrap();
    let id = answer["job_id"].as_str().unwrap().parse().unwrap();
    let job = server.app.engine.store().job(id).await.unwrap().unwrap();
    assert_eq!(job.state, forgerun_core::state::State::Created);
}
