//! What a request wants done, in one word for logs and traces: the specification's words, and others like them.

use super::routes::Route;

/// The word for a request to this route; `looks` if it only reads.
pub(super) const fn action(route: Route, looks: bool) -> &'static str {
    match route {
        Route::Jobs if looks => "list",
        Route::Jobs => "submit",
        Route::Batch => "submit_batch",
        Route::Job(_) => "get",
        Route::Cancel(_) => "cancel",
        Route::Retry(_) => "retry",
        Route::Report(_) => "report",
        Route::Result(_) => "result",
        Route::Items(_) => "items",
        Route::Events(_) | Route::AllEvents => "events",
        Route::Clients => "register",
        Route::Keys(_) => "create_key",
        Route::KeysRenew(_) => "renew_key",
        Route::KeysRevoke(_) => "revoke_key",
    }
}
