//! The pages of problem types, as anybody fetches them.

use std::collections::BTreeSet;
use std::path::Path;

use forgerun_core::catalog::Kind;
use forgerun_problem::check::{Carrier, Level, inspect_on};
use forgerun_wire::language::{Language, words};
use serde_json::Value;

use super::http::Answer;
use super::judges;
use super::server::Server;

const FORMS: [(&str, &str); 3] = [
    ("text/html", "text/html; charset=utf-8"),
    ("application/json", "application/json"),
    ("application/xml", "application/xml"),
];

async fn fetch(server: &Server, path: &str, accept: &str, language: &str) -> Answer {
    let call = server.call("GET", path).header("accept", accept).header("accept-language", language);
    let answer = call.send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    assert_eq!(answer.header("content-language"), Some(language), "{path}");
    assert_eq!(answer.header("vary"), Some("Accept, Accept-Language"), "{path}");
    assert_eq!(answer.header("cache-control"), Some("public, max-age=3600"), "{path}");
    assert!(answer.header("etag").is_some_and(|tag| tag.starts_with('"')), "{path}");
    answer
}

/// Every `type` that a problem can carry, as a path of this server, and the index.
fn paths() -> BTreeSet<String> {
    let types = Kind::ALL.iter().map(|kind| format!("/problems/{}", kind.entry().slug));
    types.chain(["/problems".to_owned()]).collect()
}

/// The pages in one form, all languages; the name of each says which it is.
async fn all(server: &Server, accept: &str, ending: &str) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    for language in Language::ALL.map(Language::tag) {
        for path in paths() {
            let answer = fetch(server, &path, accept, language).await;
            let wanted = FORMS.iter().find(|(name, _)| *name == accept).map(|(_, media_type)| *media_type);
            assert_eq!(answer.header("content-type"), wanted, "{path}");
            let name = format!("{}.{language}.{ending}", path.trim_start_matches('/').replace('/', "."));
            pages.push((name, answer.text().to_owned()));
        }
    }
    pages
}

#[tokio::test]
async fn every_type_leads_to_html_that_an_independent_judge_finds_valid() {
    let server = Server::start().await;
    let pages = all(&server, "text/html", "html").await;
    assert_eq!(pages.len(), paths().len() * 2);
    for (name, page) in &pages {
        let language = if name.contains(".de.") { "de" } else { "en" };
        assert!(page.contains(&format!("<html lang=\"{language}\">")), "{name}");
        assert!(!page.contains("<script") && page.contains("prefers-color-scheme: dark"), "{name}");
        // Nothing is fetched from elsewhere, and every page leads to the index.
        assert!(!page.contains(" src=") && page.contains("<a href=\"/problems\">"), "{name}");
    }
    judges::assert_valid_html(&judges::write(&judges::folder("pages-html"), &pages));
}

#[tokio::test]
async fn the_judge_of_html_finds_mistakes() {
    let broken = "<!doctype html><html lang=en><title>x</title><p><table><tr><td>x</p></table>".to_owned();
    let pages = judges::write(&judges::folder("pages-broken"), &[("broken.html".into(), broken)]);
    assert!(!judges::tidy(&pages).status.success());
}

#[tokio::test]
async fn every_type_leads_to_xml_by_our_grammar() {
    let server = Server::start().await;
    let documents =
        judges::write(&judges::folder("pages-xml"), &all(&server, "application/xml", "xml").await);
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/relaxng/problem-types.rng");
    judges::assert_valid_xml(&schema, &documents);
}

#[tokio::test]
async fn every_type_leads_to_json_that_says_what_the_catalog_says() {
    let server = Server::with(&[("server.public_base_url", "https://forge.example")]).await;
    for language in Language::ALL {
        for kind in Kind::ALL {
            let (entry, said) = (kind.entry(), words(*kind, language));
            let path = format!("/problems/{}", entry.slug);
            let about = fetch(&server, &path, "application/json", language.tag()).await.json();
            assert_eq!(about["type"], format!("https://forge.example{path}"));
            assert_eq!(about["title"], said.title);
            // Refused too early, a request is worth another try, though its kind is not (C-113).
            let early = matches!(kind, Kind::ResultNotReady | Kind::ReportNotFound);
            assert_eq!(about["retryable"], entry.retryable || early, "{kind:?}");
            let codes = about["codes"].as_array().unwrap();
            let code = codes.iter().find(|code| code["meaning"] == said.meaning).unwrap();
            assert_eq!((&code["remedy"], &code["rfa_code"]), (&said.remedy.into(), &entry.rfa.into()));
            let example = &about["example"];
            assert_eq!((&example["type"], &example["title"]), (&about["type"], &about["title"]));
            assert!(about["status"]["v1"].as_array().unwrap().contains(&example["status"]), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn the_examples_are_problems_without_fault() {
    let server = Server::with(&[("server.public_base_url", "https://forge.example")]).await;
    let index = fetch(&server, "/problems", "application/json", "en").await.json();
    let problems = index["problems"].as_array().unwrap();
    assert_eq!(problems.len(), paths().len() - 1);
    for about in problems {
        let Value::Object(example) = &about["example"] else { panic!("{about}") };
        let is_job = about["level"] == "job";
        let status = example["status"].as_u64().unwrap() as u16;
        let carrier = if is_job { Carrier::Report } else { Carrier::Response(status) };
        let mut report = inspect_on(example, carrier);
        // A request that was refused has no job whose members it could tell.
        report.findings.retain(|finding| is_job || finding.requirement != "AJ-AJM-03");
        assert_eq!(report.findings, [], "{}", about["slug"]);
        assert_eq!(report.level, if is_job { Level::Full } else { Level::Basic }, "{}", about["slug"]);
    }
}

#[tokio::test]
async fn whoever_has_a_page_is_told_so_and_each_language_and_form_has_its_own_tag() {
    let server = Server::start().await;
    let mut tags = BTreeSet::new();
    for (accept, _) in FORMS {
        for language in ["en", "de"] {
            let answer = fetch(&server, "/problems/job-not-found", accept, language).await;
            let tag = answer.header("etag").unwrap().to_owned();
            let call = server.call("GET", "/problems/job-not-found").header("accept", accept);
            let again = call.header("accept-language", language).header("if-none-match", &tag).send().await;
            assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(&*tag)));
            assert_eq!(again.header("vary"), Some("Accept, Accept-Language"));
            tags.insert(tag);
        }
    }
    assert_eq!(tags.len(), 6);
    for path in ["/openapi.json", "/schemas/async-job-problem-details.json"] {
        let answer = server.call("GET", path).send().await;
        assert_eq!((answer.status, answer.header("cache-control")), (200, Some("public, max-age=3600")));
        let tag = answer.header("etag").unwrap();
        assert_eq!(server.call("GET", path).header("if-none-match", tag).send().await.status, 304);
    }
}
