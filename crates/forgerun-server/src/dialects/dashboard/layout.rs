//! The frame of all pages: navigation, and the result of the last action.

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_wire::problem::RefusedRequest;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::access::{self, HTML};
use super::assets::{SCRIPT, STYLE};
use super::parts;
use crate::app::App;
use crate::http::{Exchange, respond, routing::Call};

/// A part of the dashboard, as the navigation lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Jobs,
    Queues,
    Workers,
    Schedules,
    Workflows,
    Failures,
    Clients,
    Webhooks,
    Sinks,
    Audit,
}

impl Section {
    const ALL: [Section; 11] = [
        Section::Overview,
        Section::Jobs,
        Section::Failures,
        Section::Queues,
        Section::Workers,
        Section::Workflows,
        Section::Schedules,
        Section::Clients,
        Section::Webhooks,
        Section::Sinks,
        Section::Audit,
    ];

    const fn label(self) -> &'static str {
        match self {
            Section::Overview => "Overview",
            Section::Jobs => "Jobs",
            Section::Queues => "Queues",
            Section::Workers => "Workers",
            Section::Schedules => "Schedules",
            Section::Workflows => "Workflows",
            Section::Failures => "Failures",
            Section::Clients => "Clients",
            Section::Webhooks => "Webhooks",
            Section::Sinks => "Sinks",
            Section::Audit => "Audit",
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Section::Overview => "/dashboard",
            Section::Jobs => "/dashboard/jobs",
            Section::Queues => "/dashboard/queues",
            Section::Workers => "/dashboard/workers",
            Section::Schedules => "/dashboard/schedules",
            Section::Workflows => "/dashboard/workflows",
            Section::Failures => "/dashboard/failures",
            Section::Clients => "/dashboard/clients",
            Section::Webhooks => "/dashboard/webhooks",
            Section::Sinks => "/dashboard/sinks",
            Section::Audit => "/dashboard/audit",
        }
    }

    /// Lines in a 16 by 16 grid.
    const fn drawing(self) -> &'static str {
        match self {
            Section::Overview => "M2 9.5 5.5 6l3 3L14 3.5M2 13.5h12",
            Section::Jobs => "M3 4h10M3 8h10M3 12h6",
            Section::Queues => "M2.5 5 8 2.5 13.5 5 8 7.5zM2.5 8 8 10.5 13.5 8M2.5 11 8 13.5 13.5 11",
            Section::Workers => "M5 5h6v6H5zM8 2v3M8 11v3M2 8h3M11 8h3",
            Section::Workflows => "M2 3h4v4H2zM10 2h4v4h-4zM10 10h4v4h-4zM6 5h4M6 5c2.500 0 1.500 7 4 7",
            Section::Schedules => "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.500V8l2.500 1.500",
            Section::Failures => "M8 2.5 14.5 13.5h-13zM8 6.5v3.5M8 11.8v.2",
            Section::Clients => {
                "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 13.5c.5-2.5 2.5-3.5 5-3.5s4.500 1 5 3.5"
            }
            Section::Webhooks => {
                "M6.500 9.500 9.500 6.500M7 4.500l1.200-1.200a3 3 0 0 1 4.300 4.300L11.300 8.800M9 11.500l-1.200 1.200a3 3 0 0 1-4.300-4.300L4.700 7.200"
            }
            Section::Sinks => "M8 2v7M5 6.500 8 9.500l3-3M2.500 10.500v3h11v-3",
            Section::Audit => "M4 2h8v12H4zM6 5h4M6 8h4M6 11h2",
        }
    }
}

pub(super) fn page(call: &Call<'_>, section: Section, title: &str, main: &Markup) -> Response {
    let note = access::note_of(call.exchange);
    let body = framed(call.app, call.exchange, Some(section), note.as_deref(), main);
    let mut response = respond::with_type(StatusCode::OK, HTML, document(title, &body));
    if note.is_some() {
        access::forget_note(call.app, &mut response);
    }
    response
}

pub(in crate::dialects) fn bare(code: StatusCode, title: &str, main: &Markup) -> Response {
    respond::with_type(code, HTML, document(title, main))
}

/// A page that reloads itself: a request from our own page sends the cookie.
pub(super) fn once_more() -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta http-equiv="refresh" content="0"; title { "ForgeRun" } }
            body { main { p { "One moment." } } }
        }
    };
    respond::with_type(StatusCode::OK, HTML, page.into_string())
}

/// A page that goes on to another by itself, as if its link was followed.
pub(super) fn going_on(path: &str) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content={ "0;url=" (path) };
                title { "ForgeRun" }
            }
            body { main { p { "You are logged in. " a href=(path) { "Go on" } } } }
        }
    };
    respond::with_type(StatusCode::OK, HTML, page.into_string())
}

/// The page of a refusal.
pub(super) fn refusal(
    app: &App,
    exchange: &Exchange,
    code: StatusCode,
    refused: &RefusedRequest,
) -> Response {
    let title = refused.kind.entry().title;
    let main = html! {
        (heading(title))
        div .panel role="alert" {
            p { (refused.detail) }
            @for violation in &refused.violations { p { code { (violation.pointer) } " " (violation.detail) } }
            p .muted { "Code " code { (refused.kind.entry().rfa) } ", request " code { (exchange.request_id()) } "." }
        }
        p { a href="/dashboard" { "Back to the overview" } }
    };
    let body = framed(app, exchange, None, None, &main);
    respond::with_type(code, HTML, document(title, &body))
}

pub(super) fn heading(title: &str) -> Markup {
    html! { header .heading { h1 { (title) } } }
}

/// The heading of a page, with its actions.
pub(super) fn heading_with(title: &Markup, actions: &Markup) -> Markup {
    html! { header .heading { h1 { (title) } div .actions { (actions) } } }
}

fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · ForgeRun" }
                link rel="icon" type="image/svg+xml" href="/dashboard/icon.svg";
                link rel="stylesheet" href={ "/dashboard/dashboard.css?" (STYLE.version()) };
                script type="module" src={ "/dashboard/dashboard.js?" (SCRIPT.version()) } {}
            }
            body { (body) }
        }
    };
    parts::directed(page.into_string())
}

fn framed(
    app: &App,
    exchange: &Exchange,
    section: Option<Section>,
    note: Option<&str>,
    main: &Markup,
) -> Markup {
    html! {
        a .skip href="#main" { "Skip to content" }
        div .frame {
            header .side {
                a .brand href="/dashboard" { (mark()) span { "ForgeRun" } }
                nav aria-label="Dashboard" {
                    ul {
                        @for item in Section::ALL {
                            li { a href=(item.path()) aria-current=[(Some(item) == section).then_some("page")] {
                                (icon(item.drawing())) span { (item.label()) }
                            } }
                        }
                    }
                }
                div .side-end {
                    button #live .live type="button" hidden aria-pressed="true" { span .dot {} span .word { "Live" } }
                    button #keys .quiet type="button" hidden { "Keys " kbd { "?" } }
                    @if let Some(operator) = &exchange.operator {
                        p #who .muted { (operator.name) @if operator.name.as_ref() != operator.role.word() { " · " (operator.role.word()) } }
                    }
                    @if access::session(app, exchange).is_some() {
                        form method="post" action="/dashboard/logout" {
                            (parts::csrf(app, exchange))
                            button .quiet type="submit" { "Log out" }
                        }
                    }
                }
            }
            main #main tabindex="-1" {
                div #note aria-live="polite" { @if let Some(note) = note { p .note role="status" { (note) } } }
                (main)
            }
        }
        (help())
    }
}

/// Keyboard shortcuts. Shown by the script.
fn help() -> Markup {
    html! {
        dialog #help aria-labelledby="help-title" {
            h2 #help-title { "Keys" }
            dl .keys {
                dt { kbd { "/" } } dd { "search jobs" }
                dt { kbd { "j" } " " kbd { "k" } } dd { "next and previous row" }
                dt { kbd { "Enter" } } dd { "open the row" }
                dt { kbd { "x" } } dd { "select the row" }
                dt { kbd { "g" } " then " kbd { "o" } " " kbd { "j" } " " kbd { "f" } " " kbd { "q" } " " kbd { "w" } }
                dd { "go to overview, jobs, failures, queues, workers" }
                dt { kbd { "p" } } dd { "pause and resume live updates" }
                dt { kbd { "?" } } dd { "this help" }
            }
            form method="dialog" { button .quiet type="submit" { "Close" } }
        }
    }
}

pub(super) fn icon(drawing: &str) -> Markup {
    html! { svg .icon viewBox="0 0 16 16" aria-hidden="true" focusable="false" { path d=(drawing) {} } }
}

/// The logo: an anvil with a spark.
pub(super) fn mark() -> Markup {
    PreEscaped(
        "<svg class=\"mark\" viewBox=\"0 0 24 24\" aria-hidden=\"true\" focusable=\"false\">\
         <path d=\"M3 8h4v1.500h14c-.5 3-3 4.500-6 5v2l3 3.500H7l3-3.500v-2C6 14 3.500 12 3 8z\"/>\
         <path class=\"spark\" d=\"M14 1.500l1 2.700 2.800.800-2.800.900-1 2.600-.9-2.600-2.800-.9 2.800-.8z\"/></svg>"
            .to_owned(),
    )
}
