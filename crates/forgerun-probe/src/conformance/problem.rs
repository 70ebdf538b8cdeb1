//! Contract `problem`: errors are problem details (RFC 9457), and the `Problem` header field, if
//! present, is that of draft-ietf-httpapi-rfc7807bis-04.
//!
//! Sends five requests that every server must refuse, and checks the answers.

use std::collections::HashMap;

use forgerun_problem::check::{Carrier, inspect_on};
use forgerun_problem::{FIELD_NAME, MEDIA_TYPE_JSON, MEDIA_TYPE_XML, XML_NAMESPACE};
use http::Method;
use quick_xml::NsReader;
use quick_xml::events::Event;
use quick_xml::name::ResolveResult;
use serde_json::Value;
use sfv::{BareItem, Dictionary, ListEntry, Parser};

use super::ConformanceError;
use super::rule::{Rule, must, should};
use super::run::{Ask, ConformanceRun};
use super::trace::Exchange;

const REFUSED: Rule = must(
    "PD-ERR-01",
    "a request that cannot be served is refused with 4xx",
    "answer with the status code of what is wrong, not with a success",
);
const MEDIA_TYPE: Rule = must(
    "PD-ERR-01",
    "errors are JSON objects served as application/problem+json",
    "set Content-Type: application/problem+json and send a JSON object",
);
const MEMBERS: Rule = must("PD-ERR-02", "members have the defined types", "");
const TITLE: Rule = should(
    "PD-ERR-08",
    "the title of a type is always the same",
    "keep the title of a problem type constant, and put what differs into detail",
);
const DOCUMENTED: Rule = should(
    "PD-ERR-05",
    "a type that is a web address leads to a page for people",
    "serve a page at the type's address that says how to resolve the problem, or use a URI that is no address",
);
const FIELD: Rule = must(
    "PD-HDR-01",
    "the Problem field is a dictionary with keys of the defined types",
    "write it as a Structured Fields dictionary: strings for type, title, detail and instance, an integer for status",
);
const FIELD_STATUS: Rule = must(
    "PD-HDR-05",
    "the status in the Problem field is that of the response",
    "write the status code of the response, or leave the key out",
);
const XML: Rule = must(
    "PD-XML-02",
    "problem+xml has the root element problem in the namespace urn:ietf:rfc:7807",
    "write <problem xmlns=\"urn:ietf:rfc:7807\"> with the members as its elements",
);

pub(super) async fn judge(run: &mut ConformanceRun) -> Result<(), ConformanceError> {
    let mut titles = HashMap::new();
    let mut types = Vec::new();
    let mut has_field = false;
    for ask in refusals(run) {
        let exchange = run.send(ask).await?;
        if !run.check(&REFUSED, (400..500).contains(&exchange.status()), &exchange) {
            continue;
        }
        has_field |= field(run, &exchange);
        if !object(run, &exchange) {
            continue;
        }
        let (uri, title) = (exchange.text("type").to_owned(), exchange.text("title").to_owned());
        if !uri.is_empty() && uri != "about:blank" && !title.is_empty() {
            let before = titles.entry(uri.clone()).or_insert_with(|| title.clone()).clone();
            run.check(&TITLE, before == title, &exchange);
            types.push((uri, exchange));
        }
    }
    if !has_field {
        run.skip(&FIELD, "no answer has the field");
    }
    pages(run, types).await?;
    xml(run).await
}

/// Requests that every server must refuse.
fn refusals(run: &ConformanceRun) -> Vec<Ask> {
    let sites = &run.description.operations;
    let unknown = || Ask::get(&sites.status.replace("{id}", &run.unknown_id()));
    let mut asks = vec![
        unknown(),
        unknown(),
        Ask::get(&format!("{}/no-such-page-{}", sites.submit, run.random_word())),
        Ask::new(Method::PATCH, &sites.submit).raw("application/json", "{}"),
        Ask::new(Method::POST, &sites.submit).raw("application/json", "{\"unfinished\":"),
        Ask::post(&sites.submit, &sites.invalid),
    ];
    if run.has_key() {
        asks.push(Ask::post(&sites.submit, &sites.succeeds).without_key());
    }
    asks
}

/// Checks the body. Returns whether it is a problem object.
fn object(run: &mut ConformanceRun, exchange: &Exchange) -> bool {
    let is_object = serde_json::from_slice::<Value>(&exchange.answer.body).is_ok_and(|body| body.is_object());
    let is_right = is_object && exchange.answer.media_type() == MEDIA_TYPE_JSON;
    run.check(&MEDIA_TYPE, is_right, exchange);
    if is_object {
        // This error is not about a job, whatever members it shares with reports about jobs.
        let mut found = inspect_on(exchange.object(), Carrier::Response(exchange.status())).findings;
        found.retain(|finding| !finding.requirement.starts_with("AJ-AJM"));
        run.findings(&MEMBERS, &found, exchange);
    }
    is_object
}

/// Checks the header field. Returns whether there is one.
fn field(run: &mut ConformanceRun, exchange: &Exchange) -> bool {
    let Some(value) = exchange.answer.headers.get(FIELD_NAME) else {
        return false;
    };
    let Ok(dictionary) = Parser::new(value.as_bytes()).parse::<Dictionary>() else {
        run.check(&FIELD, false, exchange);
        return true;
    };
    let fits = dictionary.iter().all(|(key, entry)| has_field_type(key.as_str(), entry));
    run.check(&FIELD, fits, exchange);
    if let Some(ListEntry::Item(status)) = dictionary.get("status") {
        let said = status.bare_item.as_integer().map(i64::from);
        run.check(&FIELD_STATUS, said == Some(i64::from(exchange.status())), exchange);
    }
    true
}

fn has_field_type(key: &str, entry: &ListEntry) -> bool {
    let ListEntry::Item(item) = entry else {
        return !matches!(key, "type" | "title" | "detail" | "instance" | "status");
    };
    match key {
        "type" | "title" | "detail" | "instance" => matches!(item.bare_item, BareItem::String(_)),
        "status" => matches!(item.bare_item, BareItem::Integer(_)),
        _ => true,
    }
}

/// Fetches the problem types that are on the server itself.
async fn pages(run: &mut ConformanceRun, types: Vec<(String, Exchange)>) -> Result<(), ConformanceError> {
    let own: Vec<_> = types.into_iter().filter(|(uri, _)| run.is_own(uri)).collect();
    if own.is_empty() {
        run.skip(&DOCUMENTED, "no type leads to the server itself");
    }
    for (uri, _) in own {
        let page = run.send(Ask::get(&uri).header("Accept", "text/html").without_key()).await?;
        let is_page = page.status() == 200 && page.answer.media_type() == "text/html";
        run.check(&DOCUMENTED, is_page, &page);
    }
    Ok(())
}

async fn xml(run: &mut ConformanceRun) -> Result<(), ConformanceError> {
    let path = run.description.operations.status.replace("{id}", &run.unknown_id());
    let exchange = run.send(Ask::get(&path).header("Accept", MEDIA_TYPE_XML)).await?;
    if exchange.answer.media_type() != MEDIA_TYPE_XML {
        run.skip(&XML, "the server does not speak application/problem+xml");
        return Ok(());
    }
    let is_problem = root_is_problem(&exchange.answer.body);
    run.check(&XML, is_problem, &exchange);
    Ok(())
}

fn root_is_problem(document: &[u8]) -> bool {
    let mut reader = NsReader::from_reader(document);
    loop {
        match reader.read_resolved_event() {
            Ok((ResolveResult::Bound(space), Event::Start(root) | Event::Empty(root))) => {
                return space.as_ref() == XML_NAMESPACE && root.local_name().as_ref() == "problem";
            }
            Ok((_, Event::Start(_) | Event::Empty(_) | Event::Eof)) | Err(_) => return false,
            Ok(_) => {}
        }
    }
}
