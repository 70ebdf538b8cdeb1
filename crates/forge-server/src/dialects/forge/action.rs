//! What a request wants done, in one word for logs and traces: the specification's words, and others like them.

use super::routes::Route;

/// The word for a request to this route; `looks` if it only reads.
pub(super) const fn action(route: Route, looks: bool) -> &'static str {
    match route {
        Route::Jobs if looks => "list",
        Route::Jobs => "submit",
        Route::Batch => "submit_batch",
        Route::Job(_) if looks => "get",
        Route::Job(_) => "delete",
        Route::Cancel(_) => "cancel",
        Route::Retry(_) => "retry",
        Route::Report(_) => "report",
        Route::Result(_) => "result",
        Route::Items(_) => "items",
        Route::Events(_) | Route::AllEvents => "events",
        Route::Webhooks if looks => "list_webhooks",
        Route::Webhooks => "register_webhook",
        Route::Webhook(_) if looks => "get_webhook",
        Route::Webhook(_) => "change_webhook",
        Route::WebhookRotate(_) => "rotate_secret",
        Route::WebhookTest(_) => "test_webhook",
        Route::WebhookRedeliver(_) | Route::Redeliver(..) | Route::JobRedeliver(..) => "redeliver",
        Route::Deliveries(_) | Route::Delivery(..) => "deliveries",
        Route::JobDeliveries(_) | Route::JobDelivery(..) => "deliveries",
        Route::Clients => "register",
        Route::Keys(_) => "create_key",
        Route::KeysRenew(_) => "renew_key",
        Route::KeysRevoke(_) => "revoke_key",
    }
}
