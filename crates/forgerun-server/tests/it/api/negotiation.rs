//! Formats in and out: `Accept`, `Content-Type`, `Content-Encoding`, and XML for those who ask.

use serde_json::json;

use super::server::Server;

#[tokio::test]
async fn an_answer_nobody_could_read_is_406() {
    let server = Server::start().await;
    let client = server.client().await;
    for accept in ["image/png", "text/html", "text/*", "application/json;q=0"] {
        let answer = client.call("GET", "/v1/jobs").header("accept", accept).send().await;
        answer.refused(406, "RFA_REQUEST_NOT_ACCEPTABLE");
    }
    for accept in [
        "*/*",
        "application/json",
        "application/*",
        "application/problem+json",
        "application/problem+xml",
        "text/html, application/json;q=0.1",
    ] {
        let answer = client.call("GET", "/v1/jobs").header("accept", accept).send().await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("application/json")),
            "{accept}"
        );
    }
}

#[tokio::test]
async fn problems_come_as_xml_to_whoever_asks_for_it() {
    let server = Server::start().await;
    let client = server.client().await;
    let before = server.traces().await;
    for (accept, status) in [("application/xml", 406), ("application/problem+xml", 400)] {
        let call = client.call("POST", "/v1/jobs").json(json!({"type": "FOO"})).header("accept", accept);
        let answer = call.send().await;
        assert_eq!((answer.status, answer.header("content-type")), (status, Some("application/problem+xml")));
        let xml = answer.text();
        assert!(xml.contains("urn:ietf:rfc:7807"), "{xml}");
        assert!(xml.contains(&format!("<status>{status}</status>")), "{xml}");
        assert!(xml.contains("<code>RFA_"), "{xml}");
    }
    assert_eq!(server.traces().await, before);
    let json = client.call("GET", "/v1/jobs/no-id").header("accept", "application/json").send().await;
    json.refused(404, "RFA_JOB_NOT_FOUND");
}

#[tokio::test]
async fn a_body_must_be_json_and_say_so() {
    let server = Server::start().await;
    let client = server.client().await;
    let body = r#"{"type":"EXECUTE"}"#;
    let call = || client.call("POST", "/v1/jobs").body(body);
    for content_type in ["text/plain", "application/xml", "application/json-patch+json", "nonsense"] {
        let answer = call().header("content-type", content_type).send().await;
        answer.refused(415, "RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE");
    }
    call().send().await.refused(415, "RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE");
    let gzip =
        call().header("content-type", "application/json").header("content-encoding", "gzip").send().await;
    assert_eq!(
        gzip.refused(415, "RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE")["type"],
        "/problems/unsupported-compression"
    );
    for content_type in ["application/json", "application/json; charset=utf-8", "Application/JSON"] {
        call()
            .header("content-type", content_type)
            .header("content-encoding", "identity")
            .send()
            .await
            .expect(202);
    }
}

#[tokio::test]
async fn an_empty_body_needs_no_type() {
    let server = Server::start().await;
    let client = server.client().await;
    let cancel = format!("/v1/jobs/{}/cancel", client.job().await);
    client.call("POST", &cancel).header("content-type", "text/plain").send().await.expect(200);
    let chunked = client.call("POST", &cancel).header("transfer-encoding", "chunked").body("0\r\n\r\n");
    chunked.send().await.expect(200);
    client.call("POST", &cancel).body("x").send().await.refused(415, "RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE");
    client.call("POST", &cancel).json("{").send().await.refused(400, "RFA_REQUEST_MALFORMED");
    client.call("POST", &cancel).json("[]").send().await.refused(400, "RFA_REQUEST_MALFORMED");
}

#[tokio::test]
async fn a_result_is_served_in_its_own_type_only() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}/result", client.job().await);
    server.succeed().await;
    client.call("GET", &path).header("accept", "application/json").send().await.expect(200);
    client
        .call("GET", &path)
        .header("accept", "text/csv")
        .send()
        .await
        .refused(406, "RFA_REQUEST_NOT_ACCEPTABLE");
}
