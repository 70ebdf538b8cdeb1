//! Sinks and their lag.

use axum::response::Response;
use forgerun_core::time::Time;
use forgerun_wire::admin::AdminSink;
use maud::{Markup, html};

use super::access::page;
use super::layout::{self, Section};
use super::parts::{self, number};
use crate::http::{
    ApiError,
    routing::{Call, Route},
};

pub(super) const ROUTES: &[Route] = &[page("/dashboard/sinks", "sinks", |call| Box::pin(list(call)))];

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let sinks = call.app.sinks.look(call.app).await?;
    let now = call.app.clock.now();
    let main = html! {
        (layout::heading("Sinks"))
        section #sinks .scroll data-live aria-label="Sinks" {
            @if sinks.is_empty() {
                div .panel { (parts::nothing("No broker is configured. Events of all jobs can go to Kafka, NATS and RabbitMQ.")) }
            } @else {
                table .rows {
                    thead { tr {
                        th scope="col" { "Sink" } th scope="col" { "State" } th .n scope="col" { "Lag, events" } th .n scope="col" { "Lag" }
                        th .n scope="col" { "Sent" } th .n scope="col" { "Skipped" } th .n scope="col" { "Refused" } th scope="col" { "Last sent" } th scope="col" { "Node" }
                    } }
                    tbody { @for sink in &sinks { (row(sink, now)) } }
                }
            }
        }
    };
    Ok(layout::page(&call, Section::Sinks, "Sinks", &main))
}

fn row(sink: &AdminSink, now: Time) -> Markup {
    let kind = match sink.state.as_str() {
        "ok" => "ok",
        "behind" => "warn",
        _ => "bad",
    };
    html! {
        tr data-row=(sink.name) {
            th scope="row" { (sink.name) span .bound { (sink.kind) ", at row " (sink.position) " of the journal" } }
            td data-label="State" { (parts::badge(kind, &sink.state)) @if let Some(error) = &sink.last_error { span .why { (error) } } }
            td .n data-label="Lag, events" { (number(sink.lag_events)) }
            td .n data-label="Lag" { (parts::span(sink.lag_seconds)) }
            td .n data-label="Sent" { (number(sink.sent)) }
            td .n data-label="Skipped" { (number(sink.skipped)) }
            td .n data-label="Refused" { (number(sink.refused)) }
            td data-label="Last sent" { (parts::maybe_moment(now, sink.last_sent_at.as_deref())) }
            td data-label="Node" { (sink.node.as_deref().unwrap_or("none")) }
        }
    }
}
