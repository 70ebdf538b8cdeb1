//! Tenants divide a client's own queues further.

use super::*;

fn of(world: &World, tenant: &str, method: &str, path: &str) -> Call {
    call(&world.client, method, path).header("x-ojs-tenant", tenant)
}

#[tokio::test]
async fn tenants_of_one_client_do_not_see_each_others_jobs() {
    let world = World::start().await;
    let body = r#"{"type":"a","args":[],"meta":{"x":1}}"#;
    let pushed = of(&world, "acme", "POST", "jobs").body(body).send().await.expect(201);
    assert_eq!(pushed["job"]["meta"], json!({"x": 1, "tenant_id": "acme"}));
    let id = pushed["job"]["id"].as_str().unwrap();
    let fetch = r#"{"queues":["default"]}"#;
    for other in [of(&world, "globex", "POST", "workers/fetch"), call(&world.client, "POST", "workers/fetch")]
    {
        assert_eq!(other.body(fetch).send().await.expect(200), json!({"jobs": []}));
    }
    for (method, path) in [("GET", format!("jobs/{id}")), ("DELETE", format!("jobs/{id}"))] {
        let answer = of(&world, "globex", method, &path).send().await;
        refused(&answer, 403, "TENANT_ACCESS_DENIED", "tenant_access_denied");
    }
    let fetched = of(&world, "acme", "POST", "workers/fetch").body(fetch).send().await.expect(200);
    assert_eq!(fetched["jobs"][0]["id"], id);
    let ack = json!({"job_id": id}).to_string();
    let answer = of(&world, "globex", "POST", "workers/ack").body(ack.clone()).send().await;
    refused(&answer, 403, "TENANT_ACCESS_DENIED", "tenant_access_denied");
    of(&world, "acme", "POST", "workers/ack").body(ack).send().await.expect(200);
    let stats = world.get("admin/tenants/acme/stats").await.expect(200);
    assert_eq!(
        (&stats["tenant_id"], &stats["total_jobs"], &stats["completed"]),
        (&json!("acme"), &json!(1), &json!(1))
    );
}

#[tokio::test]
async fn a_tenant_that_is_no_name_is_refused() {
    let world = World::start().await;
    for bad in ["a/b", "", "a b", &"x".repeat(129)] {
        let answer = of(&world, bad, "GET", "queues").send().await;
        refused(&answer, 400, "INVALID_PAYLOAD", "invalid_payload");
    }
}

#[tokio::test]
async fn a_tenant_finds_its_dead_letters_behind_any_number_of_others() {
    let world = World::start().await;
    for (tenant, n) in [("acme", 4), ("globex", 2)] {
        for _ in 0..n {
            let body = json!({"type": "a", "args": [], "options": {"retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}}});
            of(&world, tenant, "POST", "jobs").json(body).send().await.expect(201);
            let fetched = of(&world, tenant, "POST", "workers/fetch")
                .body(r#"{"queues":["default"]}"#)
                .send()
                .await
                .expect(200);
            let nack = json!({"job_id": fetched["jobs"][0]["id"], "error": {"code": "x", "message": "m"}});
            of(&world, tenant, "POST", "workers/nack").json(nack).send().await.expect(200);
        }
    }
    // A page is shorter than what the other tenant has.
    let page = of(&world, "globex", "GET", "dead-letter?limit=1").send().await.expect(200);
    assert_eq!((page["jobs"].as_array().unwrap().len(), &page["pagination"]["has_more"]), (1, &json!(true)));
    let totals = ["acme", "globex"].map(|tenant| of(&world, tenant, "GET", "dead-letter/stats"));
    for (total, call) in [4, 2].into_iter().zip(totals) {
        assert_eq!(call.send().await.expect(200)["total"], total);
    }
    let confirmed = json!({"filter": {"state": "discarded"}, "confirm": true});
    let retried =
        of(&world, "globex", "POST", "admin/jobs/bulk/retry").json(confirmed).send().await.expect(200);
    assert_eq!(
        (&retried["matched"], &retried["retried"], &retried["failed"]),
        (&json!(2), &json!(2), &json!(0))
    );
    assert_eq!(of(&world, "acme", "GET", "dead-letter/stats").send().await.expect(200)["total"], 4);
}
