//! What a request wants done, in one word for logs and traces.

use super::routes::Route;

/// The word for a request to this route; `looks` if it only reads.
pub(super) const fn action(route: Route<'_>, looks: bool) -> &'static str {
    match route {
        Route::Jobs | Route::Operation(_) => "submit",
        Route::Job(_) if looks => "get",
        Route::Job(_) | Route::Cancel(_) => "cancel",
        Route::Batch => "submit_batch",
        Route::Items(_) => "items",
        Route::Events(_) => "events",
        Route::Result(_) | Route::Report(_) | Route::Results(_) | Route::Download(_) => "result",
    }
}
