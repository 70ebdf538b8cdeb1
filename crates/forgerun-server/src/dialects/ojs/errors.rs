//! `/ojs/errors/{code}`: a page for each code, the target of `doc_url`.

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use forgerun_core::catalog::{ErrorLevel, Kind, ojs_category, ojs_retryable};
use forgerun_wire::ojs::{MEDIA_TYPE, error};
use serde_json::{Value, json};

use super::reply;
use crate::app::App;
use crate::http::{
    ApiError, accept, respond,
    routing::{Answers, Call, RateCount, Reply, Route, RouteAccess},
};

pub(super) const ROUTES: &[Route] = &[
    page("/ojs/errors", |call| Box::pin(all(call)))
        .operation("ojsListErrors", "List the error codes.")
        .replies(&[PAGE_OF_CODES]),
    page("/ojs/errors/{code}", |call| Box::pin(one(call)))
        .operation("ojsGetError", "Read what an error code means.")
        .replies(&[PAGE_OF_CODES])
        .refuses(&[Kind::RouteNotFound]),
];

/// As HTML or JSON.
const PAGE_OF_CODES: Reply =
    Reply::types(200, "The page.", &["text/html", MEDIA_TYPE, "application/json"]).headers(&["Vary"]);

const fn page(
    path: &'static str,
    handler: for<'a> fn(Call<'a>) -> crate::http::routing::Answering<'a>,
) -> Route {
    Route::get(path, "document", handler)
        .access(RouteAccess::Anyone)
        .rate(RateCount::Uncounted)
        .answers(Answers::Any)
}

/// The codes with a page, in the order of the catalogue.
fn codes() -> Vec<&'static str> {
    let mut codes: Vec<&'static str> = Vec::new();
    for code in Kind::ALL.iter().filter_map(|kind| kind.entry().ojs) {
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    codes
}

fn described(app: &App, code: &str) -> Value {
    let kinds = Kind::ALL.iter().filter(|kind| kind.entry().ojs == Some(code));
    let causes: Vec<Value> = kinds
        .clone()
        .map(|kind| {
            let entry = kind.entry();
            json!({
                "meaning": entry.meaning,
                "remedy": entry.remedy,
                "problem": format!("{}/problems/{}", app.base, entry.slug),
            })
        })
        .collect();
    let mut statuses: Vec<u16> = kinds
        .filter(|kind| kind.entry().level == ErrorLevel::Request)
        .map(|kind| error::status(*kind, app.config.ojs.strict_catalog))
        .collect();
    statuses.sort_unstable();
    statuses.dedup();
    json!({
        "code": code,
        "category": ojs_category(code).map(|category| format!("{category:?}").to_lowercase()),
        "retryable": ojs_retryable(code),
        "http_statuses": statuses,
        "causes": causes,
        "doc_url": format!("{}/ojs/errors/{code}", app.base),
    })
}

async fn all(call: Call<'_>) -> Result<Response, ApiError> {
    let described: Vec<Value> = codes().into_iter().map(|code| described(call.app, code)).collect();
    Ok(shown(&call, "Error codes", &described, json!({"errors": described})))
}

async fn one(call: Call<'_>) -> Result<Response, ApiError> {
    let name = call.text("code");
    let Some(code) = codes().into_iter().find(|code| *code == name) else { return Err(ApiError::route()) };
    let described = described(call.app, code);
    Ok(shown(&call, code, std::slice::from_ref(&described), described.clone()))
}

/// As HTML if the client prefers it, otherwise as JSON.
fn shown(call: &Call<'_>, title: &str, codes: &[Value], json: Value) -> Response {
    let mut response = match accept::prefers(&call.exchange.headers, "text/html", "application/json") {
        false => reply::ok(&json),
        true => {
            let html = HeaderValue::from_static("text/html; charset=utf-8");
            respond::with_type(StatusCode::OK, html, html_page(title, codes))
        }
    };
    response.headers_mut().insert(axum::http::header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// No part of it comes from a request, so only our own texts would need escaping, and they contain
/// no markup.
fn html_page(title: &str, codes: &[Value]) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <style>body{{font:1rem/1.5 system-ui;max-width:45rem;margin:2rem auto;padding:0 1rem}}</style>\
         <h1>{title}</h1>"
    );
    for code in codes {
        let retryable =
            if code["retryable"] == true { "Trying again can help." } else { "Trying again does not help." };
        let statuses: Vec<String> =
            code["http_statuses"].as_array().into_iter().flatten().map(Value::to_string).collect();
        let status =
            if statuses.is_empty() { String::new() } else { format!(" HTTP {}.", statuses.join(", ")) };
        page.push_str(&format!(
            "<h2 id=\"{0}\"><a href=\"/ojs/errors/{0}\">{0}</a></h2><p>Category {1}.{status} {retryable}</p><ul>",
            text(&code["code"]),
            text(&code["category"]),
        ));
        for cause in code["causes"].as_array().into_iter().flatten() {
            page.push_str(&format!("<li>{} {}</li>", text(&cause["meaning"]), text(&cause["remedy"])));
        }
        page.push_str("</ul>");
    }
    page.push_str(
        "<p><a href=\"/ojs/errors\">All codes</a> · <a href=\"/problems\">Problem types</a></p></html>",
    );
    page
}
