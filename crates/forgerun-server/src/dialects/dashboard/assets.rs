//! Style, script and icon. Their addresses contain a digest, so browsers may cache them.

use std::sync::LazyLock;

use axum::response::Response;

use crate::documents::Document;
use crate::http::{
    ApiError,
    routing::{Answers, Call, Route, RouteAccess},
};

/// The routes of files. They need no login, because the login form uses them.
pub(super) const ROUTES: &[Route] = &[
    file("/dashboard/dashboard.css", |call| Box::pin(answer(call, &STYLE))),
    file("/dashboard/dashboard.js", |call| Box::pin(answer(call, &SCRIPT))),
    file("/dashboard/icon.svg", |call| Box::pin(answer(call, &ICON))),
];

pub(super) static STYLE: LazyLock<Document> =
    LazyLock::new(|| Document::new("text/css; charset=utf-8", include_str!("assets/dashboard.css").into()));
pub(super) static SCRIPT: LazyLock<Document> = LazyLock::new(|| {
    Document::new("text/javascript; charset=utf-8", include_str!("assets/dashboard.js").into())
});
static ICON: LazyLock<Document> =
    LazyLock::new(|| Document::new("image/svg+xml", include_str!("assets/icon.svg").into()));

const fn file(
    path: &'static str,
    handler: for<'a> fn(Call<'a>) -> crate::http::routing::Answering<'a>,
) -> Route {
    Route::get(path, "file", handler).access(RouteAccess::Anyone).answers(Answers::Any)
}

async fn answer(call: Call<'_>, file: &Document) -> Result<Response, ApiError> {
    Ok(file.answer(&call.exchange.headers))
}
