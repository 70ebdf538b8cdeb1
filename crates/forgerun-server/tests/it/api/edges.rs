//! Paths, methods, ids and headers that every answer has.

use serde_json::json;

use super::judges;
use super::server::Server;

#[tokio::test]
async fn unknown_paths_are_404_without_a_type_of_their_own_and_never_redirected() {
    let server = Server::start().await;
    let client = server.client().await;
    for path in
        ["/v1", "/v1/", "/v1/jobs/", "/v1/nothing", "/nothing", "/v1/clients/", "/health/", "/V1/jobs"]
    {
        for call in [server.call("GET", path), client.call("GET", path)] {
            let problem = call.send().await.refused(404, "RFA_REQUEST_ROUTE_NOT_FOUND");
            assert_eq!(
                problem["detail"].as_str().unwrap().contains("slash"),
                path.len() > 1 && path.ends_with('/')
            );
            assert_eq!(
                (&problem["type"], &problem["title"]),
                (&json!("about:blank"), &json!("Not Found")),
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn an_id_with_escapes_is_the_same_id() {
    let server = Server::start().await;
    let client = server.client().await;
    let job = client.submit(json!({"type": "EXECUTE"})).await.expect(202);
    let id = job["job_id"].as_str().unwrap();
    for (path, field) in [("/v1/jobs", "job_id"), ("/api/v1/jobs", "jobId")] {
        let escaped = format!("{path}/%{:02x}{}", id.as_bytes()[0], &id[1..].replace('-', "%2D"));
        let shown = client.call("GET", &escaped).header("accept", "application/json").send().await;
        assert_eq!(shown.json()[field], id, "{escaped}");
    }
    // An escaped slash divides nothing.
    client
        .call("POST", &format!("/v1/jobs/{id}%2Fcancel"))
        .send()
        .await
        .refused(405, "RFA_REQUEST_METHOD_NOT_ALLOWED");
}

#[tokio::test]
async fn wrong_methods_are_405_with_the_right_ones_listed() {
    let server = Server::start().await;
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    for (path, allow, wrong) in [
        ("/v1/jobs".to_owned(), "GET, HEAD, POST", vec!["PUT", "PATCH", "DELETE", "OPTIONS"]),
        (format!("/v1/jobs/{id}"), "GET, HEAD, DELETE", vec!["POST", "PUT", "PATCH", "OPTIONS"]),
        (format!("/v1/jobs/{id}/cancel"), "POST", vec!["GET", "HEAD", "DELETE"]),
        (format!("/v1/jobs/{id}/report"), "GET, HEAD", vec!["POST"]),
        ("/v1/clients".to_owned(), "POST", vec!["GET", "PUT"]),
        (format!("/v1/clients/{id}/keys"), "GET, HEAD, POST", vec!["PUT", "DELETE"]),
    ] {
        for method in wrong {
            let answer = server.call(method, &path).send().await;
            assert_eq!((answer.status, answer.header("allow")), (405, Some(allow)), "{method} {path}");
            if method != "HEAD" {
                answer.refused(405, "RFA_REQUEST_METHOD_NOT_ALLOWED");
            }
        }
    }
    let page = server.call("POST", "/health").send().await;
    page.refused(405, "RFA_REQUEST_METHOD_NOT_ALLOWED");
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    let (get, head) = (client.get(&path).await, client.call("HEAD", &path).send().await);
    assert_eq!((head.status, head.body.len()), (200, 0));
    for header in ["content-type", "content-length", "retry-after", "cache-control"] {
        assert_eq!(head.header(header), get.header(header), "{header}");
    }
}

#[tokio::test]
async fn every_answer_has_a_request_id_of_its_own_and_is_not_to_be_stored() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut seen = std::collections::BTreeSet::new();
    for path in ["/v1/jobs", "/v1/jobs/none", "/health", "/ready", "/nothing"] {
        // Whoever looks whether we are alive gets its own id back (C-100).
        let given = if matches!(path, "/health" | "/ready") { "" } else { "mine" };
        let answer = client.call("GET", path).header("x-request-id", given).send().await;
        let id = answer.header("x-request-id").unwrap().to_owned();
        assert_eq!(&id[14..15], "7", "{id}");
        assert!(id.parse::<forgerun_core::id::JobId>().is_ok(), "{id}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert!(seen.insert(id), "{path}");
    }
}

#[tokio::test]
async fn correlation_is_echoed_sanitised_and_kept_with_the_job() {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traceparent = format!("00-{trace}-00f067aa0ba902b7-01");
    let server = Server::start().await;
    let client = server.client().await;
    // What is sent as header and traceparent; what comes back as header; what the job keeps.
    for (sent, parent, echoed, kept) in [
        (Some("order-66_a.b"), None, Some("order-66_a.b"), Some("order-66_a.b")),
        (Some("a b<script>\u{e9}\""), None, Some("abscript"), Some("abscript")),
        (Some("\u{e9}!"), None, None, None),
        (None, None, None, None),
        (None, Some(traceparent.as_str()), Some(trace), Some(trace)),
        (Some("mine"), Some(traceparent.as_str()), Some("mine"), Some(trace)),
        (Some("mine"), Some("nonsense"), Some("mine"), Some("mine")),
    ] {
        let mut call = client.call("POST", "/v1/jobs").json(json!({"type": "EXECUTE"}));
        call = sent.into_iter().fold(call, |call, sent| call.header("x-correlation-id", sent));
        call = parent.into_iter().fold(call, |call, parent| call.header("traceparent", parent));
        let answer = call.send().await;
        let id = answer.expect(202)["job_id"].as_str().unwrap().to_owned();
        let expected = echoed.or(answer.header("x-request-id"));
        assert_eq!(answer.header("x-correlation-id"), expected, "{sent:?} {parent:?}");
        let job = client.get(&format!("/v1/jobs/{id}")).await.expect(200);
        assert_eq!(job["correlationId"].as_str(), kept, "{sent:?} {parent:?}");
        let stored = server.app.engine.store().job(id.parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(stored.head.traceparent.as_deref(), parent.filter(|parent| *parent != "nonsense"));
    }
    let long = "x".repeat(300);
    let answer = client.call("GET", "/v1/jobs/none").header("x-correlation-id", &long).send().await;
    assert_eq!(answer.header("x-correlation-id"), Some(&long[..256]));
    assert_eq!(answer.refused(404, "RFA_JOB_NOT_FOUND")["correlationId"], long[..256]);
    let none = client.get("/v1/jobs/none").await.refused(404, "RFA_JOB_NOT_FOUND");
    assert!(none.get("correlationId").is_none(), "the client supplied none");
}

#[tokio::test]
async fn the_type_of_every_problem_leads_to_a_page() {
    let server = Server::start().await;
    let client = server.client().await;
    let problem = client.submit(json!({})).await.refused(400, "RFA_REQUEST_MALFORMED");
    let page =
        server.call("GET", problem["type"].as_str().unwrap()).header("accept", "text/html").send().await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
}

#[tokio::test]
async fn the_first_page_leads_people_and_programs_on() {
    let server = Server::start().await;
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let page = server.call("GET", "/").header("accept", browser).send().await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(page.header("vary"), Some("Accept"));
    let written =
        judges::write(&judges::folder("first-page"), &[("start.html".into(), page.text().to_owned())]);
    judges::assert_valid_html(&written);
    let hrefs: Vec<&str> =
        page.text().split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(hrefs.contains(&"/openapi.json") && hrefs.contains(&"/problems"), "{hrefs:?}");

    for accept in ["*/*", "application/json"] {
        let links = server.call("GET", "/").header("accept", accept).send().await.expect(200);
        let links = links["links"].as_object().unwrap();
        assert_eq!(links.len(), hrefs.len(), "{links:?}");
        for link in links.values() {
            assert!(hrefs.iter().any(|href| link.as_str().unwrap().ends_with(href)), "{link}");
        }
    }
    for href in hrefs {
        let mut answer = server.call("GET", href).send().await;
        if answer.status == 303 {
            // The dashboard asks who is there.
            assert_eq!(href, "/dashboard");
            let to = answer.header("location").unwrap().to_owned();
            answer = server.call("GET", &to).send().await;
        }
        assert_eq!(answer.status, 200, "{href}");
    }
    assert_eq!(server.call("POST", "/").send().await.status, 405);
}
