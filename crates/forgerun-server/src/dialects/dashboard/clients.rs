//! Clients and their keys, never a secret.

use axum::response::Response;
use forgerun_core::time::Time;
use forgerun_wire::admin::{AdminClientDetail, AdminKey};
use maud::{Markup, html};

use super::access::{action, done, form_of, page};
use super::layout::{self, Section};
use super::parts::{self, ActionButton};
use crate::dialects::admin::clients;
use crate::http::{
    ApiError,
    routing::{Call, Route},
};

pub(super) const ROUTES: &[Route] = &[
    page("/dashboard/clients", "clients", |call| Box::pin(list(call))),
    page("/dashboard/clients/{client_id}", "clients", |call| Box::pin(show(call))),
    action("/dashboard/clients/{client_id}/keys/{key_id}/revoke", "revoke_key", |call| {
        Box::pin(revoke(call))
    }),
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
            }
            p { a href={ "/dashboard/jobs?client=" (id) } { "Jobs of this client" } }
        }
        (keys(&call, &view, now))
    };
    Ok(layout::page(&call, Section::Clients, "Client", &main))
}

fn keys(call: &Call<'_>, view: &AdminClientDetail, now: Time) -> Markup {
    html! {
        section #keys-of .scroll data-live aria-label="Keys" {
            @if view.keys.is_empty() { div .panel { (parts::nothing("No keys.")) } } @else {
                table .rows {
                    thead { tr { th scope="col" { "Key" } th scope="col" { "Valid" } th scope="col" { "Created" } th scope="col" { "Expires" } th scope="col" { "Last used" } th scope="col" { span .visually-hidden { "Actions" } } } }
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
            td data-label="Valid" {
                @if key.good { (parts::badge("ok", "good")) }
                @else if let Some(at) = &key.revoked_at { (parts::badge("off", "revoked")) " " (parts::moment(now, at)) }
                @else { (parts::badge("warn", "expired")) }
            }
            td data-label="Created" { (parts::moment(now, &key.created_at)) }
            td data-label="Expires" { (parts::maybe_moment(now, key.expires_at.as_deref())) }
            td data-label="Last used" { (parts::maybe_moment(now, key.last_used_at.as_deref())) }
            td .do { @if key.revoked_at.is_none() {
                (ActionButton { path: &path, label: "Revoke key", class: "danger", about: Some(&key.key_prefix) }.show(call))
            } }
        }
    }
}

async fn revoke(call: Call<'_>) -> Result<Response, ApiError> {
    form_of(&call, &[])?;
    clients::revoke_one(&call).await?;
    Ok(done(call.app, &format!("/dashboard/clients/{}", call.text("client_id")), "The key is revoked."))
}
