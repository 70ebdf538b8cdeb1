//! `GET /docs`: the documentation; it needs no key. It is rendered for the first request: most
//! servers never show it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use forgerun_site::{SEARCH, Search, Site, Style};
use url::form_urlencoded;

use crate::app::App;
use crate::documents::{Document, openapi};

/// Own scripts, styles and requests only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

#[derive(Clone)]
struct Docs {
    app: Arc<App>,
    rendered: Arc<OnceLock<Rendered>>,
}

struct Rendered {
    documents: HashMap<String, Document>,
    search: Search,
}

pub(super) fn router(app: &Arc<App>) -> Router {
    let docs = Docs { app: app.clone(), rendered: Arc::default() };
    Router::new()
        .route("/docs", get(home))
        .route("/docs/", get(async || Redirect::permanent("../docs")))
        .route("/docs/{*address}", get(page))
        .with_state(docs)
}

async fn home(State(docs): State<Docs>, headers: HeaderMap) -> Response {
    docs.answer("", &headers)
}

async fn page(
    State(docs): State<Docs>,
    Path(address): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    match address.as_str() {
        SEARCH => docs.search(query.as_deref().unwrap_or("")),
        address => docs.answer(address, &headers),
    }
}

impl Docs {
    fn rendered(&self) -> &Rendered {
        self.rendered.get_or_init(|| {
            let openapi = openapi::document(&self.app.config, &self.app.base);
            let Site { files, search } = Site::new(&openapi, Style::Served);
            let document = |(address, file): (String, forgerun_site::File)| {
                (address, Document::new(file.media_type, file.text))
            };
            Rendered { documents: files.into_iter().map(document).collect(), search }
        })
    }

    fn answer(&self, address: &str, headers: &HeaderMap) -> Response {
        match self.rendered().documents.get(address) {
            Some(document) => secured(document.answer(headers)),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    }

    fn search(&self, query: &str) -> Response {
        let words = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "q");
        let page = self.rendered().search.page(&words.map(|(_, words)| words).unwrap_or_default());
        secured(Document::new(page.media_type, page.text).answer(&HeaderMap::new()))
    }
}

fn secured(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}
