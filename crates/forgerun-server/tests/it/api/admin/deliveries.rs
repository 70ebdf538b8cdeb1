//! Deliveries of all clients, and sending one again.

use std::time::Duration;

use serde_json::json;

use super::{get, post, server};

#[tokio::test]
async fn deliveries_of_a_webhook_and_of_a_job_are_listed_and_sent_again() {
    let server = server().await;
    let client = server.client().await;
    let webhook = json!({"url": "http://127.0.0.1:9/hook", "events": ["job_succeeded"]});
    let webhook = client.call("POST", "/v1/webhooks").json(webhook).send().await.expect(201);
    let webhook = format!("/admin/v1/webhooks/{}/deliveries", webhook["webhook_id"].as_str().unwrap());
    let jobs = [client.job().await, client.job().await];
    server.succeed().await;
    // Deliveries of one millisecond stand in no order.
    server.clock.advance(Duration::from_millis(1));
    server.succeed().await;

    let page = get(&server, &format!("{webhook}?limit=1")).await;
    assert_eq!(page["items"][0]["job_id"], json!(jobs[1]), "the newest first");
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = get(&server, &format!("{webhook}?cursor={cursor}")).await;
    assert_eq!((&rest["items"][0]["job_id"], &rest["next_cursor"]), (&json!(jobs[0]), &json!(null)));
    let of_job = format!("/admin/v1/jobs/{}/deliveries", jobs[0]);
    let listed = get(&server, &of_job).await;
    assert_eq!(listed["items"], rest["items"]);
    assert_eq!(listed["items"][0]["request"]["url"], "http://127.0.0.1:9/hook");

    let id = listed["items"][0]["delivery_id"].as_str().unwrap();
    for path in [&webhook, &of_job] {
        let again = post(&server, &format!("{path}/{id}/redeliver"), json!({})).await.expect(202);
        assert_eq!((&again["delivery_id"], &again["status"]), (&json!(id), &json!("pending")));
    }
    let others = format!("/admin/v1/jobs/{}/deliveries/{id}/redeliver", jobs[1]);
    assert_eq!(post(&server, &others, json!({})).await.status, 404, "it is about another job");
    let unknown = "/admin/v1/webhooks/01890a5d-ac96-774b-bcce-b302099a8057/deliveries";
    assert_eq!(super::operator(&server, "GET", unknown).send().await.status, 404);
}
