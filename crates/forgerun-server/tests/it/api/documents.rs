//! The documents of the API before independent judges.

use jsonschema::meta;
use serde_json::Value;

use super::judges;
use super::server::Server;

async fn served(path: &str, media_type: &str) -> String {
    let server = Server::with(&[("server.public_base_url", "https://forge.example")]).await;
    let answer = server.call("GET", path).send().await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(media_type)), "{path}");
    answer.text().to_owned()
}

fn judged(script: &str, folder: &str, name: &str, text: String) -> String {
    let paths = judges::write(&judges::folder(folder), &[(name.to_owned(), text)]);
    judges::node(script, &paths[0])
}

#[tokio::test]
async fn the_openapi_document_is_valid_before_an_independent_judge() {
    let text = served("/openapi.json", "application/json").await;
    assert_eq!(judged(judges::OPENAPI, "openapi", "openapi.json", text.clone()), "");
    // And the judge does judge.
    let mut broken: Value = serde_json::from_str(&text).unwrap();
    broken["paths"]["/v1/jobs"]["post"]["responses"]["202"]["description"] = Value::Null;
    let said = judged(judges::OPENAPI, "openapi", "broken.json", broken.to_string());
    assert!(said.contains("/responses/202"), "{said}");
}

#[tokio::test]
async fn the_asyncapi_document_is_valid_before_the_parser_of_its_project() {
    let text = served("/asyncapi.yaml", "application/yaml").await;
    assert_eq!(judged(judges::ASYNCAPI, "asyncapi", "asyncapi.yaml", text.clone()), "");
    // And the parser does judge.
    let broken = text.replace("action: send", "action: shout");
    let said = judged(judges::ASYNCAPI, "asyncapi", "broken.yaml", broken);
    assert!(said.contains("operations.tellOfJob"), "{said}");
}

#[tokio::test]
async fn the_yaml_that_is_served_is_the_document_to_whoever_else_reads_it() {
    let text = served("/asyncapi.yaml", "application/yaml").await;
    let read = judged(judges::YAML, "yaml", "asyncapi.yaml", text);
    let read: Value = serde_json::from_str(&read).unwrap();
    assert_eq!(read, forgerun_server::documents::asyncapi::document("https://forge.example"));
}

#[tokio::test]
async fn every_stream_of_the_asyncapi_document_is_served() {
    let server = Server::start().await;
    let client = server.client().await;
    let job = client.job().await;
    client.post(&format!("/v1/jobs/{job}/cancel")).await.expect(200);
    let streams: Vec<&str> = forgerun_server::documents::asyncapi::streams().collect();
    assert!(!streams.is_empty());
    for address in streams {
        // A stream of what is over ends by itself; of others, a page shows that they are there.
        let accept = if address.contains('{') { "text/event-stream" } else { "application/json" };
        let path = address.replace("{job_id}", &job).replace("{jobId}", &job);
        let answer = client.call("GET", &path).header("accept", accept).send().await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(accept)), "{address}");
    }
}

#[tokio::test]
async fn every_schema_is_valid_by_the_meta_schema() {
    let problems = served("/schemas/async-job-problem-details.json", "application/schema+json").await;
    let problems: Value = serde_json::from_str(&problems).unwrap();
    meta::validate(&problems).unwrap_or_else(|error| panic!("{error}"));
    let openapi: Value = serde_json::from_str(&served("/openapi.json", "application/json").await).unwrap();
    let schemas = openapi["components"]["schemas"].as_object().unwrap();
    assert!(schemas.len() > 20);
    let asyncapi = forgerun_server::documents::asyncapi::document("");
    let schemas = schemas.iter().chain(asyncapi["components"]["schemas"].as_object().unwrap());
    for (name, schema) in schemas {
        meta::validate(schema).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert!(!meta::is_valid(&serde_json::json!({"type": "nothing"})));
}
