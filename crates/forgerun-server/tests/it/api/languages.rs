//! `Accept-Language`: refusals follow the request that was refused, stored failures the request
//! that submitted the job.

use forgerun_core::catalog::Kind;
use serde_json::json;

use super::http::Answer;
use super::server::Server;

#[track_caller]
fn is_in(answer: &Answer, language: &str, title: &str, detail: &str) {
    assert_eq!(answer.header("content-language"), Some(language));
    assert_eq!(answer.header("vary"), Some("Accept, Accept-Language"));
    let problem = answer.json();
    assert_eq!((&problem["title"], &problem["detail"]), (&json!(title), &json!(detail)));
}

#[tokio::test]
async fn a_refusal_is_in_the_language_that_is_asked_for_and_its_message_in_english() {
    let server = Server::start().await;
    let english =
        ("en", "Unauthorized", "The request has no API key; send `Authorization: Bearer <api_key>`.");
    let german = (
        "de",
        "Nicht angemeldet",
        "Die Anfrage hat keinen API-Schlüssel; senden Sie `Authorization: Bearer <api_key>`.",
    );
    for (wanted, (language, title, detail)) in [
        ("de", german),
        ("de-AT, en;q=0.5", german),
        ("fr, de;q=0.2", german),
        ("en;q=0.3, de;q=0.4", german),
        ("en", english),
        ("en, de", english),
        ("fr", english),
        ("de;q=0", english),
        ("*", english),
        ("nonsense;;;q=,", english),
    ] {
        let answer = server.call("GET", "/v1/jobs").header("accept-language", wanted).send().await;
        is_in(&answer, language, title, detail);
        assert_eq!(answer.json()["message"], english.2, "{wanted}");
    }
    let answer = server.call("GET", "/v1/jobs").send().await;
    is_in(&answer, english.0, english.1, english.2);
    let twice = server.call("GET", "/v1/jobs").header("accept-language", "fr");
    let answer = twice.header("accept-language", "de").send().await;
    is_in(&answer, german.0, german.1, german.2);
}

#[tokio::test]
async fn what_is_wrong_with_a_body_is_told_in_german_too() {
    let server = Server::start().await;
    let client = server.client().await;
    let call = |body| client.call("POST", "/v1/jobs").json(body).header("accept-language", "de");
    let answer = call(json!({"type": "EXECUTE", "callback": "ftp://x", "queue": ""})).send().await;
    is_in(
        &answer,
        "de",
        "Ungültige Warteschlange",
        "`queue` muss aus 1 bis 255 Kleinbuchstaben, Ziffern, Bindestrichen und Punkten bestehen und mit einem Buchstaben oder einer Ziffer beginnen; `callback` muss eine URL mit http:// oder https:// sein.",
    );
    let problem = answer.json();
    assert_eq!(problem["errors"][1]["detail"], "muss eine URL mit http:// oder https:// sein");
    assert!(problem["message"].as_str().unwrap().contains("must be an http:// or https:// URL"));
    // What is for programs is the same in every language.
    assert_eq!(problem["details"], json!({"field": "queue", "constraint": "format"}));
    let xml = call(json!({})).header("accept", "application/problem+xml").send().await;
    assert_eq!(xml.header("content-language"), Some("de"));
    assert!(xml.text().contains("<title>Fehlerhafte Anfrage</title>"), "{}", xml.text());
}

#[tokio::test]
async fn pages_without_a_type_of_their_own_speak_german_too() {
    let server = Server::start().await;
    for path in ["/nowhere", "/problems/nothing", "/v1/nothing"] {
        let answer = server.call("GET", path).header("accept-language", "de").send().await;
        assert_eq!((answer.status, &answer.json()["type"]), (404, &json!("about:blank")), "{path}");
        is_in(&answer, "de", "Nicht gefunden", "Unter dieser Adresse gibt es nichts.");
    }
}

#[tokio::test]
async fn a_stored_failure_keeps_the_language_of_its_submission_for_every_reader() {
    let server = Server::start().await;
    let client = server.client().await;
    let submit = async |language: &str| {
        let call = client.call("POST", "/v1/jobs").json(json!({"type": "EXECUTE"}));
        let job = call.header("accept-language", language).send().await.expect(202);
        format!("/v1/jobs/{}", job["job_id"].as_str().unwrap())
    };
    let read = async |path: &str, accept: &str, language: &str| {
        client.call("GET", path).header("accept", accept).header("accept-language", language).send().await
    };

    let german = submit("de-DE, en;q=0.5").await;
    client.post(&format!("{german}/cancel")).await.expect(200);
    let first = read(&german, "application/problem+json", "en").await;
    let problem = first.expect(200);
    assert_eq!(first.header("content-language"), Some("de"));
    assert_eq!(problem["title"], "Auftrag abgebrochen");
    assert_eq!(problem["detail"], "Der Auftrag wurde abgebrochen: Der Client wünschte es.");
    assert_eq!(problem["message"], "The job was cancelled by user: the client asked for it.");
    let second = read(&german, "application/problem+json", "de").await;
    assert_eq!(first.body, second.body);
    let xml = read(&german, "application/problem+xml", "en").await;
    assert_eq!(xml.header("content-language"), Some("de"));
    assert!(xml.text().contains("<title>Auftrag abgebrochen</title>"));

    let english = submit("fr").await;
    client.post(&format!("{english}/cancel")).await.expect(200);
    let answer = read(&english, "application/problem+json", "de").await;
    assert_eq!(
        (answer.header("content-language"), &answer.json()["title"]),
        (Some("en"), &json!("Job Cancelled"))
    );
}

#[tokio::test]
async fn what_a_worker_says_is_not_translated_and_not_called_german() {
    let server = Server::start().await;
    let client = server.client().await;
    let table = [
        // The catalog's own words, a sentence of the server, and one of a worker.
        ("", "de", "Auftrag fehlgeschlagen", Kind::HandlerError),
        ("the worker gave no sign of life", "de", "Worker des Auftrags verloren", Kind::RunnerLost),
        ("disk 7 is on fire", "en", "Job Failed", Kind::HandlerError),
    ];
    for (message, language, title, kind) in table {
        let submit = client.call("POST", "/v1/jobs").json(json!({"type": "EXECUTE"}));
        let job = submit.header("accept-language", "de").send().await.expect(202);
        server.fail_saying(kind, message).await;
        let path = format!("/v1/jobs/{}", job["job_id"].as_str().unwrap());
        let answer = client.call("GET", &path).header("accept", "application/problem+json").send().await;
        let problem = answer.expect(200);
        assert_eq!((answer.header("content-language"), &problem["title"]), (Some(language), &json!(title)));
        let expected = if message.is_empty() { kind.entry().meaning } else { message };
        assert_eq!(problem["message"], expected);
        assert_eq!(problem["detail"] == problem["message"], language == "en", "{problem}");
    }
}

#[tokio::test]
async fn the_outcome_of_a_batch_is_german_with_all_its_items_in_both_dialects() {
    let server = Server::with(&[("sim.time_scale", "0.001"), ("retry.mode.api", "manual")]).await;
    server.app.work();
    let client = server.client().await;
    let items = json!([{"work_kind": "SUCCESS_FAST"}, {"work_kind": "FAIL_IMMEDIATE"}]);
    for (dialect, id, body) in [
        ("/v1", "job_id", json!({"items": items})),
        ("/api/v1", "jobId", json!({"type": "certificates", "items": items})),
    ] {
        let submit = client.call("POST", &format!("{dialect}/jobs/batch")).json(body);
        let submit = submit.header("accept-language", "de").header("prefer", "wait=30");
        let submitted = submit.send().await.expect(202);
        let path = format!("{dialect}/jobs/{}", submitted[id].as_str().unwrap());
        let read = client.call("GET", &path).header("accept", "application/problem+json");
        let answer = read.header("prefer", "wait=30").send().await;
        let problem = answer.expect(200);
        assert_eq!(answer.header("content-language"), Some("de"), "{dialect}");
        assert_eq!(
            (&problem["status"], &problem["title"]),
            (&json!(207), &json!("Stapel teilweise fehlgeschlagen"))
        );
        assert_eq!(problem["detail"], "1 von 2 Teilen sind gelungen.");
        assert_eq!(problem["message"], "1 of 2 items completed successfully.");
        let detail = "FAIL_IMMEDIATE schlägt in Versuch 1 fehl, wie es soll.";
        assert_eq!(problem["results"][1]["detail"], detail, "{dialect}");
    }
}
