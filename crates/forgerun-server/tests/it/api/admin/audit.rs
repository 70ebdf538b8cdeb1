//! The audit trail: what is in it, what is not, how it is read, and how it is checked.

use std::sync::Arc;

use forgerun_core::Command;
use forgerun_core::audit::AuditEntry;
use forgerun_core::command::{QueueChange, QueueCommand};
use forgerun_core::job::Name;
use forgerun_core::queue::QueueId;
use forgerun_store::memory::Memory;
use serde_json::{Value, json};

use super::{TOKEN, get, operator, post, server};
use crate::api::server::Server;

/// Action and target of the entries, the oldest first.
async fn trail(server: &Server) -> Vec<(String, String)> {
    let page = get(server, "/admin/v1/audit?limit=200").await;
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    let entries = page["items"].as_array().unwrap().iter().rev();
    entries.map(|entry| (text(entry, "action"), text(entry, "target"))).collect()
}

async fn actions(server: &Server) -> Vec<String> {
    trail(server).await.into_iter().map(|(action, _)| action).collect()
}

/// Makes a queue known, without an entry.
async fn known(server: &Server, queue: &str) {
    let queue = QueueId::shared(Name::new(queue).unwrap());
    let change = QueueChange { waiting_max: Some(Some(9)), ..QueueChange::default() };
    server.app.engine.run(Command::Queue(QueueCommand { queue, change })).await.unwrap();
}

#[tokio::test]
async fn what_the_operator_changes_is_recorded_and_what_is_refused_is_not() {
    let server = server().await;
    operator(&server, "POST", "/admin/v1/queues/default/pause").send().await.expect(200);
    operator(&server, "PUT", "/admin/v1/queues/default")
        .json(json!({"max_waiting": 5}))
        .send()
        .await
        .expect(200);
    let refused =
        post(&server, "/admin/v1/jobs/0198f7a2-0000-7000-8000-000000000000/cancel", json!({})).await;
    assert_eq!(refused.status, 404);
    operator(&server, "GET", "/admin/v1/queues").send().await.expect(200);
    // By the dialect of workers, too.
    operator(&server, "POST", "/ojs/v1/queues/default/resume").send().await.expect(200);
    let names: Vec<String> = actions(&server).await;
    assert_eq!(names, ["pause_queue", "bound_queue", "resume_queue"]);
    let page = get(&server, "/admin/v1/audit").await;
    let entry = &page["items"][0];
    assert_eq!((&entry["actor"], &entry["address"]), (&json!("operator"), &json!("127.0.0.1")));
    assert_eq!((&entry["seq"], &entry["chain"], &entry["count"]), (&json!(3), &json!(1), &json!(1)));
    assert_eq!(entry["previous"], page["items"][1]["hash"]);
    assert!(entry["request_id"].as_str().is_some(), "{entry}");
}

#[tokio::test]
async fn keys_and_clients_are_recorded_whoever_makes_them_and_work_is_not() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = format!("/v1/clients/{}/keys", client.id);
    client.call("POST", &path).json(json!({})).send().await.expect(201);
    let renewed = client.call("POST", &format!("{path}/renew")).json(json!({})).send().await.expect(200);
    let key = renewed["api_key"].as_str().unwrap().to_owned();
    let call = |method: &str, path: &str| {
        server.call(method, path).header("authorization", &format!("Bearer {key}"))
    };
    let envelope = json!({"type": "a", "args": []});
    call("POST", "/ojs/v1/jobs").json(envelope).send().await.expect(201);
    call("POST", "/ojs/v1/workers/fetch").json(json!({"queues": ["default"]})).send().await.expect(200);
    let revoke = json!({"key_id": renewed["key_id"]});
    call("POST", &format!("{path}/revoke")).json(revoke).send().await.expect(200);
    let entries = entries(&server).await;
    let told: Vec<(&str, &str)> =
        entries.iter().map(|entry| (entry.what.action.as_str(), entry.by.actor.as_str())).collect();
    let actor = format!("client {}", client.id);
    assert_eq!(
        told,
        [
            ("register_client", "anonymous"),
            ("create_key", "anonymous"),
            ("renew_key", &actor),
            ("revoke_key", &actor)
        ]
    );
    assert!(entries.iter().all(|entry| !format!("{entry:?}").contains(&client.key[..12])), "no secrets");
}

#[tokio::test]
async fn what_clients_set_up_is_recorded_as_theirs_and_what_is_refused_is_not() {
    let server = server().await;
    let client = server.client().await;
    known(&server, "default").await;
    let call =
        async |method: &str, path: &str, body: Value| client.call(method, path).json(body).send().await;
    let schedule = json!({"name": "s", "cron": "0 4 * * *", "job": {"type": "EXECUTE"}});
    assert_eq!(call("POST", "/v1/schedules", schedule).await.status, 201);
    let bad = json!({"name": "t", "cron": "never", "job": {"type": "EXECUTE"}});
    assert_eq!(call("POST", "/v1/schedules", bad).await.status, 400);
    let hook = json!({"url": "https://example.org/hook", "events": ["job_failed"]});
    assert_eq!(call("POST", "/v1/webhooks", hook).await.status, 201);
    assert_eq!(call("POST", "/ojs/v1/queues/default/pause", json!({})).await.status, 200);
    client.job().await;
    let own: Vec<AuditEntry> = entries(&server).await;
    let actor = format!("client {}", client.id);
    let own: Vec<&str> =
        own.iter().filter(|entry| entry.by.actor == actor).map(|entry| entry.what.action.as_str()).collect();
    assert_eq!(own, ["put_schedule", "register_webhook", "pause_queue"]);
}

/// The oldest first.
async fn entries(server: &Server) -> Vec<AuditEntry> {
    let mut entries: Vec<AuditEntry> =
        server.app.engine.store().records(None, String::new(), 500).await.unwrap();
    entries.reverse();
    entries
}

#[tokio::test]
async fn wrong_keys_are_one_entry_per_prefix_with_a_count() {
    let server = server().await;
    for key in ["frk_0123456789abcdefghij", "frk_0123456789ABCDEFGHIJ", "hunter2-and-so-on"] {
        let call = server.call("GET", "/v1/jobs").header("authorization", &format!("Bearer {key}"));
        assert_eq!(call.send().await.status, 401);
    }
    let client = server.client().await;
    let key: Value = get(&server, &format!("/admin/v1/clients/{}", client.id)).await;
    let id = key["keys"][0]["key_id"].as_str().unwrap().to_owned();
    let path = format!("/admin/v1/clients/{}/keys/{id}", client.id);
    operator(&server, "DELETE", &path).send().await.expect(200);
    assert_eq!(client.get("/v1/jobs").await.status, 403, "revoked");
    let form = server.call("POST", "/dashboard/login").body("token=a-wrong-token-of-length");
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(form.send().await.status, 401);
    let is_wrong = |entry: &AuditEntry| entry.what.action == "wrong_key";
    assert!(!entries(&server).await.iter().any(is_wrong), "counted first");
    forgerun_server::audit::record_wrong_keys(&server.app, true).await;
    let mut wrong: Vec<(String, u64)> = entries(&server)
        .await
        .into_iter()
        .filter(is_wrong)
        .map(|entry| (entry.what.target, entry.what.count))
        .collect();
    wrong.sort();
    let mut expected = vec![("a-wr".to_owned(), 1), ("frk_01234567".to_owned(), 2), ("hunt".to_owned(), 1)];
    expected.push((client.key[..12].to_owned(), 1));
    expected.sort();
    assert_eq!(wrong, expected);
    forgerun_server::audit::record_wrong_keys(&server.app, true).await;
    assert_eq!(entries(&server).await.iter().filter(|entry| is_wrong(entry)).count(), 4, "recorded once");
}

#[tokio::test]
async fn log_ins_and_log_outs_are_recorded() {
    let server = server().await;
    let form = "application/x-www-form-urlencoded";
    let login = server.call("POST", "/dashboard/login").header("content-type", form);
    let answer = login.body(format!("token={TOKEN}")).send().await;
    assert_eq!(answer.status, 303);
    assert_eq!(actions(&server).await, ["login"]);
}

#[tokio::test]
async fn the_trail_is_filtered_paged_and_streamed() {
    let server = server().await;
    for n in 0..5 {
        known(&server, &format!("q{n}")).await;
        server.clock.advance(std::time::Duration::from_secs(60));
        let path = format!("/admin/v1/queues/q{n}/{}", if n % 2 == 0 { "pause" } else { "resume" });
        operator(&server, "POST", &path).send().await.expect(200);
    }
    let targets = async |query: &str| {
        let page = get(&server, &format!("/admin/v1/audit?{query}")).await;
        let items = page["items"].as_array().unwrap().clone();
        let target = |item: &Value| {
            let target = item["target"].as_str().unwrap();
            target[target.find("q").unwrap()..].to_owned()
        };
        (items.iter().map(target).collect::<Vec<_>>(), page["next_cursor"].clone(), items)
    };
    let (all, end, items) = targets("").await;
    assert_eq!((all, end), (["q4", "q3", "q2", "q1", "q0"].map(String::from).to_vec(), Value::Null));
    assert_eq!(targets("action=resume_queue").await.0, ["q3", "q1"]);
    assert_eq!(targets("target=q2").await.0, ["q2"]);
    assert!(targets("actor=nobody").await.0.is_empty());
    let at = |n: usize| items[n]["at"].as_str().unwrap().replace('+', "%2B");
    // Views have milliseconds, and entries microseconds.
    assert_eq!(targets(&format!("since={}", at(1))).await.0, ["q4", "q3"]);
    assert_eq!(targets(&format!("until={}", at(2))).await.0, ["q1", "q0"]);
    let (first, cursor, _) = targets("limit=2&action=pause_queue").await;
    assert_eq!(first, ["q4", "q2"]);
    let query = format!("limit=2&action=pause_queue&cursor={}", cursor.as_str().unwrap());
    assert_eq!(targets(&query).await.0, ["q0"]);
    for bad in ["cursor=x!", "since=yesterday", "colour=red"] {
        let refused = operator(&server, "GET", &format!("/admin/v1/audit?{bad}")).send().await;
        assert_eq!(refused.status, 400, "{bad}");
    }
    let lines = operator(&server, "GET", "/admin/v1/audit").header("accept", "application/x-ndjson");
    let lines = lines.send().await;
    assert_eq!(lines.status, 200);
    let read: Vec<Value> = lines
        .text()
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(read, items);
    let client = server.client().await;
    assert_eq!(client.get("/admin/v1/audit").await.status, 403);
    assert_eq!(server.call("GET", "/admin/v1/audit").send().await.status, 401);
}

#[tokio::test]
async fn the_page_of_the_dashboard_shows_the_trail() {
    let server = server().await;
    operator(&server, "POST", "/admin/v1/queues/default/pause").send().await.expect(200);
    let page = operator(&server, "GET", "/dashboard/audit?action=pause_queue").send().await;
    assert_eq!(page.status, 200);
    assert!(page.text().contains("pause_queue") && page.text().contains("default"));
    let none = operator(&server, "GET", "/dashboard/audit?action=login").send().await;
    assert!(none.text().contains("No entries."));
    assert!(
        page.text().contains("name=\"action\" value=\"pause_queue\""),
        "the filter is kept: {}",
        page.text()
    );
}

#[tokio::test]
async fn each_node_has_a_chain_of_its_own() {
    let store = Arc::new(Memory::new());
    let settings = [("auth.admin_token", TOKEN)];
    let bounds = forgerun_server::Bounds::default;
    let first = Server::on(store.clone(), &settings, bounds()).await;
    let second = Server::on(store.clone(), &settings, bounds()).await;
    for n in 0..3 {
        known(&first, &format!("q{n}")).await;
        for server in [&first, &second] {
            operator(server, "POST", &format!("/admin/v1/queues/q{n}/pause")).send().await.expect(200);
        }
    }
    let all = entries(&first).await;
    let of_chain = |chain: u32| all.iter().filter(move |entry| entry.chain == chain).map(|entry| entry.seq);
    assert_eq!(of_chain(1).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(of_chain(2).collect::<Vec<_>>(), [1, 2, 3]);
}
