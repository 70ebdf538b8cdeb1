//! Clients and their keys, never a secret.

use std::time::Duration;

use axum::response::Response;
use forgerun_core::scope::KeyScope;
use forgerun_core::time::Time;
use forgerun_wire::admin::{AdminClientDetail, AdminKey};
use forgerun_wire::forge::KeyRequest;
use forgerun_wire::time;
use maud::{Markup, html};

use super::access::{action, done, form_of, page};
use super::layout::{self, Section};
use super::parts::{self, ActionButton};
use crate::auth::OperatorRole;
use crate::auth::api_keys::IssuedKey;
use crate::dialects::admin::clients;
use crate::http::{
    ApiError,
    routing::{Call, Route},
};

pub(super) const ROUTES: &[Route] = &[
    page("/dashboard/clients", "clients", |call| Box::pin(list(call))),
    page("/dashboard/clients/{client_id}", "clients", |call| Box::pin(show(call))),
    action("/dashboard/clients/{client_id}/keys", "create_key", OperatorRole::Admin, |call| {
        Box::pin(create_key(call))
    }),
    action(
        "/dashboard/clients/{client_id}/keys/{key_id}/revoke",
        "revoke_key",
        OperatorRole::Admin,
        |call| Box::pin(revoke(call)),
    ),
];

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let found = clients::listed(&call).await?;
    let now = call.app.clock.now();
    let main = html! {
        (layout::heading("Clients"))
        section #clients .scroll data-live aria-label="Clients" {
            table .rows {
                thead { tr { th scope="col" { "Client" } th .n scope="col" { "Valid keys" } th scope="col" { "Last used" } th scope="col" { "Registered" } th scope="col" { span .visually-hidden { "Actions" } } } }
                tbody { @for client in &found.items {
                    tr data-row=(client.client_id) {
                        th scope="row" {
                            a .id href={ "/dashboard/clients/" (client.client_id) } { (client.client_id) }
                            @if let Some(name) = &client.name { " " (name) }
                        }
                        td .n data-label="Valid keys" { (client.good_keys) }
                        td data-label="Last used" { (parts::maybe_moment(now, client.last_used_at.as_deref())) }
                        td data-label="Registered" { (parts::moment(now, &client.created_at)) }
                        td { a href={ "/dashboard/jobs?client=" (client.client_id) } { "Jobs" } }
                    }
                } }
            }
            (parts::pager(&call, found.next_cursor.as_deref()))
        }
    };
    Ok(layout::page(&call, Section::Clients, "Clients", &main))
}

async fn show(call: Call<'_>) -> Result<Response, ApiError> {
    let view = clients::shown(&call).await?;
    let now = call.app.clock.now();
    let id = &view.client.client_id;
    let main = html! {
        (layout::heading("Client"))
        p .under { @if let Some(name) = &view.client.name { (name) " " } code { (id) } (parts::copy(id, "the id of the client")) }
        section #client .panel data-live aria-label="Facts" {
            dl .facts {
                div { dt { "Registered" } dd { (parts::moment(now, &view.client.created_at)) } }
                div { dt { "Last used" } dd { (parts::maybe_moment(now, view.client.last_used_at.as_deref())) } }
                div { dt { "Valid keys" } dd { (view.client.good_keys) } }
                (limit("Waiting jobs", Some(view.usage.waiting), view.limits.max_waiting))
                (limit("Active jobs", Some(view.usage.active), view.limits.max_active))
                (limit("Stored bytes", Some(view.usage.storage_bytes), view.limits.storage_bytes))
                (limit("Requests per minute", None, view.limits.rate_per_minute))
                (limit("Webhooks", None, view.limits.max_webhooks))
                (limit("Schedules", None, view.limits.max_schedules))
            }
            p { a href={ "/dashboard/jobs?client=" (id) } { "Jobs of this client" } }
        }
        (keys(&call, &view, now))
        @if call.may(OperatorRole::Admin) { (key_form(&call, id)) }
    };
    Ok(layout::page(&call, Section::Clients, "Client", &main))
}

/// What a client uses of a limit. Without either, there is nothing to show.
fn limit(name: &str, used: Option<i64>, max: Option<u64>) -> Markup {
    html! {
        @if used.is_some() || max.is_some() {
            div { dt { (name) } dd {
                @if let Some(used) = used { (used) }
                @if let Some(max) = max { @if used.is_some() { " of " } (max) " at most" }
            } }
        }
    }
}

fn keys(call: &Call<'_>, view: &AdminClientDetail, now: Time) -> Markup {
    html! {
        section #keys-of .scroll data-live aria-label="Keys" {
            @if view.keys.is_empty() { div .panel { (parts::nothing("No keys.")) } } @else {
                table .rows {
                    thead { tr { th scope="col" { "Key" } th scope="col" { "Name" } th scope="col" { "Scopes" } th scope="col" { "Valid" } th scope="col" { "Created" } th scope="col" { "Expires" } th scope="col" { "Last used" } th scope="col" { span .visually-hidden { "Actions" } } } }
                    tbody { @for key in &view.keys { (row(call, view, key, now)) } }
                }
            }
        }
    }
}

fn row(call: &Call<'_>, view: &AdminClientDetail, key: &AdminKey, now: Time) -> Markup {
    let path = format!("/dashboard/clients/{}/keys/{}/revoke", view.client.client_id, key.key_id);
    html! {
        tr data-row=(key.key_id) {
            th scope="row" { code { (key.key_prefix) "…" } span .bound { (key.key_id) } }
            td data-label="Name" { @if let Some(name) = &key.name { (name) } @else { "primary" } }
            td data-label="Scopes" { @if key.scopes.len() == KeyScope::ALL.len() { "all" } @else { (key.scopes.join(", ")) } }
            td data-label="Valid" {
                @if let (true, Some(at)) = (key.good, &key.revoked_at) { (parts::badge("warn", "replaced")) " until " (parts::moment(now, at)) }
                @else if key.good { (parts::badge("ok", "good")) }
                @else if let Some(at) = &key.revoked_at { (parts::badge("off", "revoked")) " " (parts::moment(now, at)) }
                @else { (parts::badge("warn", "expired")) }
            }
            td data-label="Created" { (parts::moment(now, &key.created_at)) }
            td data-label="Expires" { (parts::maybe_moment(now, key.expires_at.as_deref())) }
            td data-label="Last used" { (parts::maybe_moment(now, key.last_used_at.as_deref())) }
            td .do { @if call.may(OperatorRole::Admin) && (key.revoked_at.is_none() || key.good) {
                (ActionButton { path: &path, label: "Revoke key", class: "danger", about: Some(&key.key_prefix) }.show(call))
            } }
        }
    }
}

/// The form for a further key.
fn key_form(call: &Call<'_>, client: &str) -> Markup {
    html! {
        section .panel aria-label="New key" {
            h2 { "New key" }
            form method="post" action={ "/dashboard/clients/" (client) "/keys" } {
                (parts::csrf(call.app, call.exchange))
                label for="key-name" { "Name" }
                input #key-name type="text" name="name" maxlength="100" required;
                fieldset {
                    legend { "Scopes" }
                    @for scope in KeyScope::ALL.map(KeyScope::word) {
                        label { input type="checkbox" name="scopes" value=(scope) checked; " " (scope) }
                    }
                }
                label for="key-days" { "Valid for days" }
                input #key-days type="number" name="days" min="1" max="3650" value="365" required;
                button .primary type="submit" { "Make key" }
            }
        }
    }
}

/// Makes a named key and shows its secret: on this page only.
async fn create_key(call: Call<'_>) -> Result<Response, ApiError> {
    let form = form_of(&call, &["name", "scopes", "days"])?;
    let days = form.get("days").unwrap_or("365").parse::<u32>().ok().filter(|days| (1..=3650).contains(days));
    let days = days.ok_or_else(|| form.malformed("days", "must be a whole number from 1 to 3650"))?;
    let expires_at = call.app.clock.now() + Duration::from_secs(u64::from(days) * 24 * 3600);
    let request = KeyRequest {
        name: Some(form.get("name").unwrap_or_default().to_owned()),
        scopes: Some(form.all("scopes").map(str::to_owned).collect()),
        expires_at: Some(time::millis(expires_at)),
        ..KeyRequest::default()
    };
    let IssuedKey { key, secret } = clients::issue_one(&call, request).await?;
    let name = key.name.as_deref().unwrap_or_default();
    let main = html! {
        (layout::heading("New key"))
        section .panel aria-label="New key" {
            @match &secret {
                Some(secret) => {
                    p { "The key " (name) " is shown once, here:" }
                    p { code #secret { (secret) } (parts::copy(secret, "the key")) }
                }
                None => p { "The client has a valid key of the name " (name) "; its secret is not shown again. Revoke it to make another." }
            }
            p { a href={ "/dashboard/clients/" (key.client) } { "Back to the client" } }
        }
    };
    Ok(layout::page(&call, Section::Clients, "New key", &main))
}

async fn revoke(call: Call<'_>) -> Result<Response, ApiError> {
    form_of(&call, &[])?;
    clients::revoke_one(&call).await?;
    Ok(done(call.app, &format!("/dashboard/clients/{}", call.text("client_id")), "The key is revoked."))
}
