//! The list of jobs: filters and pages.

use serde_json::json;

use super::server::{Client, Server};

async fn ids(client: &Client, path: &str) -> Vec<String> {
    let page = client.get(path).await.expect(200);
    page["jobs"].as_array().unwrap().iter().map(|job| job["job_id"].as_str().unwrap().into()).collect()
}

#[tokio::test]
async fn the_list_shows_own_jobs_newest_first_with_state_and_outcome() {
    let server = Server::start().await;
    let client = server.client().await;
    let (first, second) = (client.job().await, client.job().await);
    server.succeed().await;
    server.client().await.job().await;
    let list = client.get("/v1/jobs").await.expect(200);
    let rows: Vec<_> = list["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| (job["job_id"].clone(), job["state"].clone(), job["outcome"].clone()))
        .collect();
    assert_eq!(
        rows,
        [(json!(second), json!("QUEUED"), json!(null)), (json!(first), json!("SUCCEEDED"), json!("SUCCESS")),]
    );
    assert_eq!(list["next_cursor"], json!(null));
}

#[tokio::test]
async fn filters_narrow_the_list() {
    let server = Server::start().await;
    let client = server.client().await;
    let done = client.job().await;
    server.succeed().await;
    let waiting = client.job_like(json!({"type": "EXECUTE", "queue": "other"})).await;
    let planned = client.job_like(json!({"type": "DEFERRED", "execution_at": "2999-01-01T00:00:00Z"})).await;
    let canceled = client.job_like(json!({"type": "EMIT_EVENT"})).await;
    client.post(&format!("/v1/jobs/{canceled}/cancel")).await.expect(200);
    for (query, expected) in [
        ("", vec![&canceled, &planned, &waiting, &done]),
        ("state=SUCCEEDED", vec![&done]),
        ("state=succeeded,QUEUED", vec![&waiting, &done]),
        ("state=CREATED&state=CANCELLED", vec![&canceled, &planned]),
        ("queue=other", vec![&waiting]),
        ("queue=nobody", vec![]),
        ("type=DEFERRED", vec![&planned]),
        ("type=emit_event&state=CANCELED", vec![&canceled]),
        ("type=EMIT_EVENT&state=QUEUED", vec![]),
        ("retrying=true", vec![]),
        (&*format!("id_suffix={}", &waiting[24..]), vec![&waiting]),
        (&*format!("id_suffix={}", waiting[10..].to_uppercase()), vec![&waiting]),
        (&*format!("id_suffix={}&state=CANCELED", &waiting[24..]), vec![]),
    ] {
        assert_eq!(
            ids(&client, &format!("/v1/jobs?{query}")).await,
            expected.into_iter().cloned().collect::<Vec<_>>(),
            "{query}"
        );
    }
}

#[tokio::test]
async fn pages_follow_each_other_and_show_every_job_once() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut all = Vec::new();
    for n in 0..7 {
        let form = if n % 2 == 0 { "EXECUTE" } else { "EMIT_EVENT" };
        all.insert(0, (form, client.job_like(json!({"type": form})).await));
    }
    for (filter, form) in [("", None), ("&type=EXECUTE", Some("EXECUTE"))] {
        let expected: Vec<String> = all
            .iter()
            .filter(|(of, _)| form.is_none_or(|form| *of == form))
            .map(|(_, id)| id.clone())
            .collect();
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = client.get(&format!("/v1/jobs?limit=3{filter}{cursor}")).await.expect(200);
            let jobs = page["jobs"].as_array().unwrap();
            assert!(jobs.len() <= 3);
            seen.extend(jobs.iter().map(|job| job["job_id"].as_str().unwrap().to_owned()));
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(seen, expected, "{filter}");
    }
}

#[tokio::test]
async fn questions_that_make_no_sense_are_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    for (query, code, field) in [
        ("state=DONE", "RFA_JOB_VALIDATION_FAILED", "state"),
        ("type=FOO", "RFA_JOB_VALIDATION_FAILED", "type"),
        ("queue=a%0Ab", "RFA_JOB_VALIDATION_FAILED", "queue"),
        ("queue=My_Queue", "RFA_JOB_VALIDATION_FAILED", "queue"),
        ("limit=0", "RFA_REQUEST_MALFORMED", "limit"),
        ("limit=many", "RFA_REQUEST_MALFORMED", "limit"),
        ("cursor=nonsense", "RFA_REQUEST_MALFORMED", "cursor"),
    ] {
        let problem = client.get(&format!("/v1/jobs?{query}")).await.refused(400, code);
        assert_eq!(problem["details"]["field"], field, "{query}");
    }
    client.get("/v1/jobs?sate=QUEUED").await.refused(400, "RFA_REQUEST_MALFORMED");
}
