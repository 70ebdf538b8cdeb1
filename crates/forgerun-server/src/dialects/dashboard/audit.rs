//! The audit trail.

use axum::response::Response;
use forgerun_core::time::Time;
use forgerun_wire::admin::AuditEntryView;
use maud::{Markup, html};

use super::access::page;
use super::layout::{self, Section};
use super::parts::{self, number};
use crate::dialects::admin::audit;
use crate::http::{
    ApiError,
    query::QueryString,
    routing::{Call, Route},
};

pub(super) const ROUTES: &[Route] = &[page("/dashboard/audit", "audit", |call| Box::pin(list(call)))];

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let found = audit::listed(&call).await?;
    let (query, now) = (call.query()?, call.app.clock.now());
    let main = html! {
        (layout::heading("Audit"))
        p .under { "Changes by operators, what clients set up, keys and log-ins, the latest first." }
        (filters(&query))
        section #audit .scroll data-live aria-label="Audit" {
            @if found.items.is_empty() { div .panel { (parts::nothing("No entries.")) } } @else {
                table .rows {
                    thead { tr {
                        th scope="col" { "When" } th scope="col" { "Actor" } th scope="col" { "Action" } th scope="col" { "Target" }
                        th scope="col" { "Address" } th .n scope="col" { "Count" } th scope="col" { "Node" }
                    } }
                    tbody { @for entry in &found.items { (row(entry, now)) } }
                }
            }
            (parts::pager(&call, found.next_cursor.as_deref()))
        }
    };
    Ok(layout::page(&call, Section::Audit, "Audit", &main))
}

/// A form whose fields are the parameters of the list.
fn filters(query: &QueryString) -> Markup {
    let value = |name: &str| query.get(name).unwrap_or_default().to_owned();
    html! {
        form .filters method="get" action="/dashboard/audit" role="search" aria-label="Filter" {
            div .fields {
                @for (name, label, hint) in [
                    ("actor", "Actor", "operator"), ("action", "Action", "pause_queue"), ("target", "Target has", "mail"),
                    ("since", "Since", "2026-05-28T00:00:00Z"), ("until", "Until", "2026-05-29T00:00:00Z"),
                ] {
                    div { label for={ "filter-" (name) } { (label) } input id={ "filter-" (name) } name=(name) value=(value(name)) placeholder=(hint); }
                }
            }
            div .actions {
                button .primary type="submit" { "Filter" }
                a .button href="/dashboard/audit" { "Clear" }
            }
        }
    }
}

fn row(entry: &AuditEntryView, now: Time) -> Markup {
    html! {
        tr data-row={ (entry.chain) "." (entry.seq) } {
            th scope="row" { (parts::moment(now, &entry.at)) }
            td data-label="Actor" { a href={ "/dashboard/audit?actor=" (parts::encoded(&entry.actor)) } { (entry.actor) } }
            td data-label="Action" { a href={ "/dashboard/audit?action=" (entry.action) } { (entry.action) } }
            td data-label="Target" { (entry.target) }
            td data-label="Address" { (entry.address) }
            td .n data-label="Count" { (number(entry.count)) }
            td data-label="Node" { (entry.node) span .bound { "entry " (entry.seq) } }
        }
    }
}
