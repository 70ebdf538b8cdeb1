//! Fair keys from outside: submitted on every road, handed out in turns, shown to the operator.

use super::*;

const TOKEN: &str = "the-operator-and-nobody-else";

async fn in_order(world: &World, n: usize) -> Vec<Value> {
    let mut keys = Vec::new();
    for _ in 0..n {
        let body = json!({"queues": ["default"], "count": 1});
        let fetched = world.post("workers/fetch", body).await.expect(200);
        keys.push(fetched["jobs"][0]["fair"]["key"].clone());
    }
    keys
}

#[tokio::test]
async fn one_job_of_a_key_is_next_but_one_behind_many_of_another() {
    let world = World::with(&[("auth.admin_token", TOKEN)]).await;
    for _ in 0..6 {
        world.push(json!({"fair": {"key": "many", "weight": 2}})).await;
    }
    world.push(json!({"fair": {"key": "one"}})).await;
    let queues = world.server.call("GET", "/admin/v1/queues");
    let queues = queues.header("authorization", &format!("Bearer {TOKEN}")).send().await.expect(200);
    let queue = queues["items"].as_array().unwrap().iter().find(|queue| queue["name"] == "default").unwrap();
    let keys = json!([{"key": "many", "weight": 2}, {"key": "one", "weight": 1}]);
    assert_eq!(queue["fair_keys"], keys, "{queue}");
    assert!(queue["oldest_waiting_s"].is_u64());
    assert_eq!(in_order(&world, 5).await, ["many", "one", "many", "many", "many"]);
}

#[tokio::test]
async fn every_road_takes_a_fair_key_and_refuses_a_wrong_one() {
    let world = World::start().await;
    let client = &world.client;
    let post = |path: &str, body: &Value| client.call("POST", path).json(body.clone());
    for (path, body) in [
        ("/v1/jobs", json!({"job_type": "a.b", "fair": {"key": "k", "weight": 101}})),
        ("/v1/jobs", json!({"job_type": "a.b", "fair": "k"})),
        ("/api/v1/jobs", json!({"type": "a.b", "fair": {"weight": 3}})),
        ("/ojs/v1/jobs", json!({"type": "a.b", "args": [], "options": {"fair": {"key": ""}}})),
    ] {
        let refused = post(path, &body).send().await.expect(400);
        assert!(refused.to_string().contains("fair"), "{refused}");
    }
    let fair = json!({"key": "k", "weight": 100});
    for (path, body, status) in [
        ("/v1/jobs", json!({"job_type": "a.b", "fair": fair}), 202),
        ("/api/v1/jobs", json!({"type": "a.b", "fair": fair}), 202),
        ("/ojs/v1/jobs", json!({"type": "a.b", "args": [], "options": {"fair": fair}}), 201),
    ] {
        post(path, &body).send().await.expect(status);
    }
    let body = json!({"queues": ["default"], "count": 9});
    let fetched = world.post("workers/fetch", body).await.expect(200);
    assert_eq!(fetched["jobs"].as_array().unwrap().len(), 3);
}
