//! Jobs of all clients: filters, pages, detail, cancel, retry.

use forgerun_core::catalog::Kind;
use serde_json::{Value, json};

use super::super::server::{Client, Server};
use super::{get, operator, post, server};

async fn ids(server: &Server, query: &str) -> Vec<String> {
    let page = get(server, &format!("/admin/v1/jobs?{query}")).await;
    page["items"].as_array().unwrap().iter().map(|job| job["job_id"].as_str().unwrap().into()).collect()
}

async fn ojs(client: &Client, job_type: &str, queue: &str) -> String {
    let body = json!({"type": job_type, "args": [], "options": {"queue": queue}});
    let made = client.call("POST", "/ojs/v1/jobs").json(body).send().await.expect(201);
    made["job"]["id"].as_str().or(made["id"].as_str()).unwrap().to_owned()
}

#[tokio::test]
async fn filters_find_jobs_of_all_clients() {
    let server = server().await;
    let (one, other) = (server.client().await, server.client().await);
    let failing = json!({
        "type": "EXECUTE", "work_kind": "SUCCESS_SLOW", "retry_mode": "manual", "correlation_id": "order-4711",
    });
    let failed = one.job_like(failing).await;
    server.fail_saying(Kind::HandlerTimeout, "too slow").await;
    let mail = ojs(&other, "mail.send", "mail").await;
    let shown = get(&server, &format!("/admin/v1/jobs/{mail}")).await;
    assert_eq!((&shown["input"], &shown["input_size"]), (&json!([]), &json!(2)));
    let waiting = other.job().await;
    for (query, expected) in [
        ("", vec![&waiting, &mail, &failed]),
        ("state=FAILED", vec![&failed]),
        ("state=queued,FAILED", vec![&waiting, &mail, &failed]),
        ("queue=mail", vec![&mail]),
        (&*format!("client={}", one.id), vec![&failed]),
        ("type=mail.send", vec![&mail]),
        ("type=execute", vec![&waiting, &failed]),
        ("kind=success_slow", vec![&failed]),
        ("code=RFA_JOB_TIMEOUT_EXCEEDED", vec![]),
        ("q=order-", vec![&failed]),
        ("q=mail.", vec![&mail]),
        (&*format!("q={}", &failed[..23]), vec![&failed]),
        (&*format!("q={mail}"), vec![&mail]),
        ("q=00000000", vec![]),
        ("since=2999-01-01T00:00:00Z", vec![]),
        ("until=1999-01-01T00:00:00Z", vec![]),
        ("since=1999-01-01T00:00:00Z&until=2999-01-01T00:00:00Z", vec![&waiting, &mail, &failed]),
    ] {
        assert_eq!(ids(&server, query).await, expected.into_iter().cloned().collect::<Vec<_>>(), "{query}");
    }
    let shown = get(&server, &format!("/admin/v1/jobs/{failed}")).await;
    let code = shown["code"].as_str().unwrap();
    assert_eq!(ids(&server, &format!("code={code}")).await, [failed]);
    for wrong in ["state=LOST", "client=me", "queue=No%20Name"] {
        operator(&server, "GET", &format!("/admin/v1/jobs?{wrong}")).send().await.expect(400);
    }
    for wrong in ["since=now", "cursor=x", "limit=0", "colour=red"] {
        let path = format!("/admin/v1/jobs?{wrong}");
        operator(&server, "GET", &path).send().await.refused(400, "RFA_REQUEST_MALFORMED");
    }
}

#[tokio::test]
async fn pages_follow_each_other_and_show_every_job_once() {
    let server = server().await;
    let mut all = Vec::new();
    for n in 0..7 {
        let client = server.client().await;
        let queue = if n % 2 == 0 { "a" } else { "b" };
        all.insert(0, (queue, client.job_like(json!({"type": "EXECUTE", "queue": queue})).await));
    }
    for (filter, queue) in
        [("", None), ("&state=QUEUED", None), ("&queue=a", Some("a")), ("&state=QUEUED&queue=a", Some("a"))]
    {
        let wanted = |of: &str| queue.is_none_or(|queue| of == queue);
        let expected: Vec<String> =
            all.iter().filter(|(of, _)| wanted(of)).map(|(_, id)| id.clone()).collect();
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = get(&server, &format!("/admin/v1/jobs?limit=2{filter}{cursor}")).await;
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 2);
            seen.extend(items.iter().map(|job| job["job_id"].as_str().unwrap().to_owned()));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(seen, expected, "{filter}");
    }
}

#[tokio::test]
async fn a_job_is_shown_in_full_cancelled_and_retried() {
    let server = server().await;
    let client = server.client().await;
    let id = client
        .job_like(json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "retry_mode": "manual"}))
        .await;
    let path = format!("/admin/v1/jobs/{id}");
    let waiting = get(&server, &path).await;
    assert_eq!(
        (&waiting["state"], &waiting["client"], &waiting["failure"]),
        (&json!("QUEUED"), &json!(client.id), &Value::Null)
    );
    server.fail_saying(Kind::HandlerError, "disk 7 is full").await;
    let failed = get(&server, &path).await;
    assert_eq!((&failed["state"], &failed["errors"][0]["attempt"]), (&json!("FAILED"), &json!(1)));
    assert_eq!(failed["failure"]["job_id"], json!(id));
    assert_eq!(failed["group"], get(&server, "/admin/v1/failures").await["items"][0]["group"]);
    assert_eq!(failed["events"].as_array().unwrap().last().unwrap()["next_state"], "FAILED");
    let retried = post(&server, &format!("{path}/retry"), json!({})).await.expect(200);
    assert_eq!((&retried["state"], retried["executions"].as_array().unwrap().len()), (&json!("QUEUED"), 2));
    let canceled = post(&server, &format!("{path}/cancel"), json!({"reason": "enough"})).await.expect(200);
    assert_eq!(canceled["state"], "CANCELED");
    assert!(canceled["error"].as_str().unwrap().contains("enough"), "{canceled}");
    assert_eq!(post(&server, &format!("{path}/cancel"), json!({})).await.expect(200)["state"], "CANCELED");
    post(&server, &format!("{path}/retry"), json!({})).await.expect(409);
    for unknown in ["01890a5d-ac96-774b-bcce-b302099a8057", "nonsense"] {
        let path = format!("/admin/v1/jobs/{unknown}");
        operator(&server, "GET", &path).send().await.refused(404, "RFA_JOB_NOT_FOUND");
    }
}

#[tokio::test]
async fn dead_letters_of_all_clients_are_listed_and_revived_by_a_retry() {
    let server = Server::with(&[("auth.admin_token", super::TOKEN), ("retry.max", "0")]).await;
    let client = server.client().await;
    let dead =
        client.job_like(json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "retry_mode": "auto"})).await;
    server.fail(Kind::HandlerTransient).await;
    client.job().await;
    let page = get(&server, "/admin/v1/dead-letters").await;
    let found: Vec<&Value> = page["items"].as_array().unwrap().iter().map(|job| &job["job_id"]).collect();
    assert_eq!(found, [&json!(dead)]);
    assert_eq!(page["items"][0]["dead_letter"], true);
    let retried = post(&server, &format!("/admin/v1/jobs/{dead}/retry"), json!({})).await.expect(200);
    assert_eq!((&retried["state"], &retried["attempt"]), (&json!("QUEUED"), &json!(1)));
    assert_eq!(get(&server, "/admin/v1/dead-letters").await["items"], json!([]));
}
