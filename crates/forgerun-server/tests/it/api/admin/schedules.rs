//! Schedules of all clients, as the operator sees them.

use serde_json::{Value, json};

use super::{get, post, server};

#[tokio::test]
async fn schedules_of_all_clients_are_listed_with_their_next_runs_and_steered() {
    let server = server().await;
    let (one, other) = (server.client().await, server.client().await);
    for client in [&one, &other] {
        let body = json!({"name": "nightly", "cron": "0 3 * * *", "job": {"type": "EXECUTE"}});
        client.call("POST", "/v1/schedules").json(body).send().await.expect(201);
    }
    let page = get(&server, "/admin/v1/crons").await;
    let mut clients: Vec<&Value> =
        page["items"].as_array().unwrap().iter().map(|schedule| &schedule["client"]).collect();
    clients.sort_by_key(|id| id.to_string());
    let mut expected = [json!(one.id), json!(other.id)];
    expected.sort_by_key(|id| id.to_string());
    assert_eq!(clients, expected.iter().collect::<Vec<_>>());
    assert_eq!(page["items"][0]["next_runs"].as_array().unwrap().len(), 5);
    let act = |verb: &str| format!("/admin/v1/crons/nightly/{verb}?client={}", one.id);
    let paused = post(&server, &act("pause"), json!({})).await.expect(200);
    assert_eq!((&paused["client"], &paused["enabled"]), (&json!(one.id), &json!(false)));
    let triggered = post(&server, &act("trigger"), json!({})).await.expect(200);
    assert_eq!(triggered["run_count"], 1);
    assert_eq!(post(&server, &act("resume"), json!({})).await.expect(200)["enabled"], true);
    let theirs = other.get("/v1/schedules/nightly").await.expect(200);
    assert_eq!((&theirs["enabled"], &theirs["run_count"]), (&json!(true), &json!(0)));
    assert_eq!(post(&server, "/admin/v1/crons/nightly/pause", json!({})).await.status, 400);
    let nobody = format!("/admin/v1/crons/none/pause?client={}", one.id);
    assert_eq!(post(&server, &nobody, json!({})).await.status, 404);
    let first = get(&server, "/admin/v1/crons?limit=1").await;
    let cursor = first["next_cursor"].as_str().unwrap().replace('/', "%2F");
    let next = get(&server, &format!("/admin/v1/crons?limit=1&cursor={cursor}")).await;
    assert_eq!((next["items"].as_array().unwrap().len(), &next["next_cursor"]), (1, &json!(null)));
}
