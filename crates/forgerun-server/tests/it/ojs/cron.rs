//! Cron jobs: registered, shown, paused, triggered; and what their ticks make.

use super::*;

/// A cron job that ticks every second, whose jobs wait in `default`.
fn every_second(name: &str) -> Value {
    json!({"name": name, "cron": "* * * * * *", "type": "report.make", "args": [{"of": "day"}],
           "meta": {"team": "a"}, "options": {"tags": ["nightly"]}})
}

fn daily(name: &str) -> Value {
    json!({"name": name, "cron": "0 3 * * *", "timezone": "Europe/Berlin", "type": "report.make",
           "options": {"queue": "reports", "timeout_ms": 1000}})
}

#[tokio::test]
async fn ticks_make_jobs_that_say_where_they_come_from() {
    let world = World::start().await;
    world.post("cron", every_second("every-second")).await.expect(201);
    let job = world.fetch().await;
    assert_eq!((&job["type"], &job["args"]), (&json!("report.make"), &json!([{"of": "day"}])));
    assert_eq!((&job["tags"], &job["meta"]["team"]), (&json!(["nightly"]), &json!("a")));
    assert_eq!(job["meta"]["cron_name"], "every-second");
    let tick = job["meta"]["cron_triggered_at"].as_str().unwrap();
    assert!(tick.ends_with(".000Z"), "{tick}");
    let id = job["id"].as_str().unwrap();
    let events = world.get("events?types=cron.triggered").await.expect(200)["events"].clone();
    let data = &events[0]["data"];
    assert_eq!((&events[0]["subject"], &data["cron_name"]), (&json!(id), &json!("every-second")));
    assert_eq!((&data["triggered_at"], &data["state"]), (&json!(tick), &json!("available")));
    // And in the words of `/v1`.
    let shown = world.client.get(&format!("/v1/jobs/{id}")).await.expect(200);
    assert_eq!(shown["schedule"], json!({"name": "every-second", "tick": tick}));
    // The next one comes only once this one has ended, and belongs to another tick.
    world.ack(id).await.expect(200);
    let next = world.fetch().await;
    assert!(next["meta"]["cron_triggered_at"].as_str().unwrap() > tick, "{next}");
    let cron = world.get("cron/every-second").await.expect(200)["cron"].clone();
    assert_eq!(cron["last_job_id"], next["id"]);
    assert!(cron["run_count"].as_u64().unwrap() >= 2, "{cron}");
}

#[tokio::test]
async fn a_cron_job_is_shown_in_all_words_that_are_read() {
    let world = World::start().await;
    let answer = world.post("cron", daily("daily")).await;
    let cron = answer.expect(201)["cron"].clone();
    assert_eq!(answer.header("location").unwrap().rsplit_once("/ojs").unwrap().1, "/v1/cron/daily");
    assert_eq!((&cron["cron"], &cron["expression"]), (&json!("0 3 * * *"), &json!("0 3 * * *")));
    assert_eq!((&cron["status"], &cron["enabled"]), (&json!("active"), &json!(true)));
    assert_eq!((&cron["timezone"], &cron["overlap_policy"]), (&json!("Europe/Berlin"), &json!("skip")));
    assert_eq!(cron["job_template"]["options"], json!({"queue": "reports", "timeout_ms": 1000}));
    assert_eq!((&cron["args"], &cron["run_count"]), (&json!([]), &json!(0)));
    assert!(cron.get("last_run_at").is_none());
    let runs = cron["next_runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]), (5, &cron["next_run_at"]));
    // SDKs find the expression in `cron`.
    let sdk = call(&world.client, "GET", "cron/daily").header("ojs-version", "1.0").send().await.expect(200);
    assert_eq!((&sdk["cron"], &sdk["cron_job"]["name"]), (&json!("0 3 * * *"), &json!("daily")));
    let list = world.get("cron").await.expect(200);
    assert_eq!((&list["crons"], &list["count"]), (&list["cron_jobs"], &json!(1)));
    assert_eq!(list["pagination"]["total"], 1);
}

#[tokio::test]
async fn cron_jobs_come_in_pages_by_name() {
    let world = World::start().await;
    for name in ["c", "a", "d", "b"] {
        world.post("cron", daily(name)).await.expect(201);
    }
    for (query, names, has_more) in [
        ("limit=2", &["a", "b"][..], true),
        ("limit=2&offset=1", &["b", "c"], true),
        ("limit=2&offset=3", &["d"], false),
        ("limit=2&offset=9", &[], false),
    ] {
        let list = world.get(&format!("cron?{query}")).await.expect(200);
        let shown: Vec<_> = list["crons"].as_array().unwrap().iter().map(|cron| &cron["name"]).collect();
        assert_eq!(shown, names, "{query}");
        let page = &list["pagination"];
        assert_eq!((&page["total"], &page["has_more"]), (&json!(4), &json!(has_more)), "{query}");
    }
}

#[tokio::test]
async fn registering_again_changes_a_cron_job_and_keeps_what_happened() {
    let world = World::start().await;
    let first = world.post("cron", daily("daily")).await.expect(201)["cron"].clone();
    world.post("cron/daily/trigger", json!({})).await.expect(201);
    let mut changed = daily("daily");
    changed["description"] = json!("every night");
    changed["overlap_policy"] = json!("allow");
    let second = world.post("cron", changed).await.expect(200)["cron"].clone();
    assert_eq!((&second["created_at"], &second["run_count"]), (&first["created_at"], &json!(1)));
    assert_eq!((&second["description"], &second["overlap_policy"]), (&json!("every night"), &json!("allow")));
    assert_eq!(second["next_run_at"], first["next_run_at"]);
}

#[tokio::test]
async fn a_paused_cron_job_makes_jobs_only_when_asked() {
    let world = World::start().await;
    let mut body = every_second("s");
    body["enabled"] = json!(false);
    let cron = world.post("cron", body).await.expect(201)["cron"].clone();
    assert_eq!((&cron["enabled"], &cron["status"]), (&json!(false), &json!("paused")));
    assert!(cron.get("next_run_at").is_none());
    let triggered = world.post("cron/s/trigger", json!({})).await.expect(201);
    assert_eq!(triggered["job"]["meta"]["cron_name"], "s");
    assert_eq!(world.fetch().await["id"], triggered["job"]["id"]);
    let on = call(&world.client, "PATCH", "cron/s").body(r#"{"enabled":true}"#).send().await.expect(200);
    assert!(on["cron"]["next_run_at"].is_string(), "{on}");
    world.ack(triggered["job"]["id"].as_str().unwrap()).await.expect(200);
    world.fetch().await;
    let off = world.post("cron/s/pause", json!({})).await.expect(200);
    assert_eq!(off["cron"]["enabled"], false);
    let on = world.post("cron/s/resume", json!({})).await.expect(200);
    assert_eq!(on["cron"]["enabled"], true);
}

#[tokio::test]
async fn what_is_wrong_with_a_cron_job_is_said() {
    let world = World::start().await;
    let with = |name: &str, value: Value| {
        let mut body = daily("daily");
        body[name] = value;
        body
    };
    for expression in ["not a valid cron", "0 0 0 0 0 0 0", "99 25 32 13 8", "*/0 * * * *", "", "0 0 30 2 *"]
    {
        let answer = world.post("cron", with("cron", json!(expression))).await;
        let body = refused(&answer, 400, "INVALID_CRON_EXPRESSION", "invalid_request");
        assert_eq!(
            (&body["details"]["field"], &body["details"]["value"]),
            (&json!("cron"), &json!(expression))
        );
    }
    let answer = world.post("cron", with("cron", json!("0 0 * * mon-"))).await;
    let body = refused(&answer, 400, "INVALID_CRON_EXPRESSION", "invalid_request");
    assert!(body["message"].as_str().unwrap().contains("day of week `mon-`"), "{body}");
    for (name, value) in [
        ("timezone", json!("EST")),
        ("timezone", json!("+05:00")),
        ("overlap_policy", json!("sometimes")),
        ("name", json!("Not A Name")),
        ("catch_up", json!("some")),
        ("id", json!("01890000-0000-7000-8000-000000000000")),
    ] {
        let answer = world.post("cron", with(name, value)).await;
        let body = refused(&answer, 400, "INVALID_PAYLOAD", "invalid_request");
        assert_eq!(body["details"]["field"], name);
    }
    let answer = world.post("cron", with("type", json!("Bad Type"))).await;
    assert_eq!(answer.expect(400)["details"]["field"], "type");
    assert_eq!(world.get("cron").await.expect(200)["count"], 0);
    for (method, path) in [
        ("GET", "cron/none"),
        ("DELETE", "cron/none"),
        ("POST", "cron/none/trigger"),
        ("POST", "cron/none/resume"),
        ("GET", "cron/No%20Name"),
    ] {
        let answer = call(&world.client, method, path).send().await;
        refused(&answer, 404, "NOT_FOUND", "not_found");
    }
}

#[tokio::test]
async fn cron_jobs_of_others_are_not_there() {
    let world = World::start().await;
    world.post("cron", daily("daily")).await.expect(201);
    let other = world.server.client().await;
    assert_eq!(call(&other, "GET", "cron").send().await.expect(200)["count"], 0);
    for method in ["GET", "DELETE"] {
        call(&other, method, "cron/daily").send().await.expect(404);
    }
    let tenant = |method| call(&world.client, method, "cron").header("x-ojs-tenant", "acme");
    assert_eq!(tenant("GET").send().await.expect(200)["count"], 0);
    tenant("POST").body(every_second("daily").to_string()).send().await.expect(201);
    assert_eq!(world.get("cron/daily").await.expect(200)["cron"]["cron"], "0 3 * * *");
    let gone = call(&world.client, "DELETE", "cron/daily").send().await.expect(200);
    assert_eq!((&gone["deleted"], &gone["cron"]["name"]), (&json!(true), &json!("daily")));
    assert_eq!(tenant("GET").send().await.expect(200)["count"], 1);
}
