//! Webhooks with their health and deliveries, and repeating deliveries.

use axum::response::Response;
use forgerun_core::time::Time;
use forgerun_wire::admin::AdminWebhook;
use forgerun_wire::forge::DeliveryView;
use maud::{Markup, html};

use super::access::{action, done, form_of, page};
use super::layout::{self, Section};
use super::parts::{self, ActionButton};
use crate::auth::OperatorRole;
use crate::dialects::admin::deliveries::{self, DeliveriesAbout};
use crate::dialects::admin::webhooks;
use crate::http::{
    ApiError,
    query::QueryString,
    routing::{Call, Route},
};

pub(super) const ROUTES: &[Route] = &[
    page("/dashboard/webhooks", "webhooks", |call| Box::pin(list(call))),
    page("/dashboard/webhooks/{webhook_id}", "deliveries", |call| Box::pin(show(call))),
    action(
        "/dashboard/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
        "redeliver",
        OperatorRole::Operator,
        |call| Box::pin(redeliver(call, DeliveriesAbout::Webhook)),
    ),
    action(
        "/dashboard/jobs/{job_id}/deliveries/{delivery_id}/redeliver",
        "redeliver",
        OperatorRole::Operator,
        |call| Box::pin(redeliver(call, DeliveriesAbout::Job)),
    ),
];

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let found = webhooks::listed(&call).await?;
    let now = call.app.clock.now();
    let main = html! {
        (layout::heading("Webhooks"))
        section #webhooks .scroll data-live aria-label="Webhooks" {
            @if found.items.is_empty() { div .panel { (parts::empty_page(&found, "No client has registered a webhook.")) } } @else {
                table .rows {
                    thead { tr {
                        th scope="col" { "Address" } th scope="col" { "Health" } th .n scope="col" { "Failed in a row" }
                        th scope="col" { "Last success" } th scope="col" { "Last failure" } th scope="col" { "Client" }
                    } }
                    tbody { @for webhook in &found.items { (row(webhook, now)) } }
                }
            }
            (parts::pager(&call, found.next_cursor.as_deref()))
        }
    };
    Ok(layout::page(&call, Section::Webhooks, "Webhooks", &main))
}

fn row(webhook: &AdminWebhook, now: Time) -> Markup {
    let (view, health) = (&webhook.webhook, &webhook.webhook.health);
    html! {
        tr data-row=(view.webhook_id) {
            th .what scope="row" {
                a href={ "/dashboard/webhooks/" (view.webhook_id) } { (view.url) }
                span .bound { (view.events.join(", ")) @if let Some(text) = &view.description { " · " (text) } }
            }
            td data-label="Health" {
                @if let Some(reason) = view.disabled_reason { (parts::badge("bad", "disabled")) " " span .muted { (reason) } }
                @else if let Some(since) = &health.failing_since { (parts::badge("warn", "failing")) " since " (parts::moment(now, since)) }
                @else { (parts::badge("ok", "well")) }
            }
            td .n data-label="Failed in a row" { (health.failures_in_a_row) }
            td data-label="Last success" { (parts::maybe_moment(now, health.last_success_at.as_deref())) }
            td data-label="Last failure" { (parts::maybe_moment(now, health.last_failure_at.as_deref())) }
            td data-label="Client" { (parts::client_link(&webhook.client, webhook.client_name.as_deref())) }
        }
    }
}

async fn show(call: Call<'_>) -> Result<Response, ApiError> {
    let query = QueryString::of(&call.exchange.uri, &["limit", "cursor"])?;
    let found = deliveries::listed(&call, DeliveriesAbout::Webhook, &query).await?;
    let id = call.text("webhook_id").into_owned();
    let url = found.items.first().and_then(|delivery| delivery.request.url.clone());
    let main = html! {
        (layout::heading("Deliveries"))
        p .under { @if let Some(url) = url { (url) " · " } code { (id) } }
        section #deliveries .scroll data-live aria-label="Deliveries" {
            @if found.items.is_empty() { (parts::empty_page(&found, NOTHING_SENT)) } @else {
                (sent(&call, &found.items, &format!("/dashboard/webhooks/{id}")))
            }
            (parts::pager(&call, found.next_cursor.as_deref()))
        }
        p { a href="/dashboard/webhooks" { "All webhooks" } }
    };
    Ok(layout::page(&call, Section::Webhooks, "Deliveries", &main))
}

const NOTHING_SENT: &str = "Nothing was sent.";

/// Deliveries with their attempts. `path` is the page of their webhook or job.
pub(super) fn sent(call: &Call<'_>, deliveries: &[DeliveryView], path: &str) -> Markup {
    let now = call.app.clock.now();
    if deliveries.is_empty() {
        return parts::nothing(NOTHING_SENT);
    }
    html! {
        table .rows {
            thead { tr {
                th scope="col" { "Event" } th scope="col" { "Status" } th scope="col" { "To" } th .n scope="col" { "Attempts" }
                th scope="col" { "Last answer" } th scope="col" { "When" } th scope="col" { span .visually-hidden { "Actions" } }
            } }
            tbody { @for delivery in deliveries { (delivery_row(call, delivery, path, now)) } }
        }
    }
}

fn delivery_row(call: &Call<'_>, delivery: &DeliveryView, path: &str, now: Time) -> Markup {
    let kind = match delivery.status {
        "delivered" => "ok",
        "failed" => "bad",
        _ => "warn",
    };
    let again = format!("{path}/deliveries/{}/redeliver", delivery.delivery_id);
    html! {
        tr data-row=(delivery.delivery_id) {
            th scope="row" { (delivery.event) @if let Some(job) = &delivery.job_id { " " (parts::job_link(job)) } }
            td data-label="Status" { (parts::badge(kind, delivery.status)) @if let Some(reason) = delivery.reason { " " span .muted { (reason) } } }
            td .what data-label="To" { span { (delivery.request.url.as_deref().unwrap_or("–")) } }
            td .n data-label="Attempts" { (delivery.attempts) }
            td data-label="Last answer" { @if let Some(last) = delivery.log.last() {
                @if let Some(status) = last.response_status { (status) " " } (last.error.as_deref().unwrap_or_default())
                span .muted { " after " (last.duration_ms) " ms" }
            } @else { "–" } }
            td data-label="When" { (parts::moment(now, delivery.settled_at.as_deref().unwrap_or(&delivery.created_at))) }
            td .do { (ActionButton { path: &again, label: "Redeliver", class: "", about: Some(&delivery.delivery_id) }.show(call)) }
        }
    }
}

async fn redeliver(call: Call<'_>, about: DeliveriesAbout) -> Result<Response, ApiError> {
    form_of(&call, &[])?;
    deliveries::send_again(&call, about).await?;
    let path = match about {
        DeliveriesAbout::Webhook => format!("/dashboard/webhooks/{}", call.text("webhook_id")),
        DeliveriesAbout::Job => format!("/dashboard/jobs/{}", call.text("job_id")),
    };
    Ok(done(call.app, &path, "The delivery is on its way again."))
}
