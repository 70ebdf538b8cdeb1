//! The languages the server speaks. A dialect is a translator: it owns no rule and no state, and knows no other dialect.

pub mod forge;
pub mod operations;

use axum::body::Body;
use axum::response::Response;

use crate::app::App;
use crate::edge::{ApiError, Exchange};

/// Whether a path belongs to a dialect.
pub fn speaks(path: &str) -> bool {
    forge::rest(path).is_some() || operations::rest(path).is_some()
}

/// Answers in the dialect of the path.
pub async fn serve(app: &App, exchange: &mut Exchange, body: Body) -> Result<Response, ApiError> {
    match operations::rest(exchange.uri.path()) {
        Some(_) => operations::serve(app, exchange, body).await,
        None => forge::serve(app, exchange, body).await,
    }
}
