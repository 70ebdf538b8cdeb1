//! The page of a signal: what is asked, until when, and a form; or that it was answered.

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::state::State;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::time;
use maud::{Markup, html};
use serde_json::Value;

use super::form::{FieldKind, Form, FormField, VALUE, shown};
use crate::dialects::dashboard::bare_page;
use crate::http::{ApiError, routing::Call};
use crate::workflows::AskedSignal;

/// The page; `wrong` is the error of the last attempt.
pub(super) async fn show(
    call: &Call<'_>,
    asked: &AskedSignal,
    wrong: Option<&str>,
) -> Result<Response, ApiError> {
    let wait = asked.wait();
    let schema: Value = serde_json::from_slice(&wait.schema).unwrap_or_default();
    let text = |member: &str| schema.get(member).and_then(Value::as_str);
    let title = text("title").unwrap_or(&wait.name);
    let workflow = workflow_name(call, asked).await?;
    let is_open = asked.job.state == State::Running;
    let main = html! {
        main #main .login {
            h1 { (title) }
            @if let Some(about) = text("description") { p { (about) } }
            @if is_open {
                form method="post" action=(call.exchange.uri.path()) {
                    (inputs(&Form::of(&wait.schema)))
                    @if let Some(wrong) = wrong { p .error role="alert" { (wrong) } }
                }
                @if let Some(until) = asked.job.ends_by_itself_at() {
                    p .muted { "Open until " time datetime=(time::millis(until)) { (time::millis(until)) } "." }
                }
            } @else {
                p role="status" { (ending(asked.job.state)) }
            }
            p .muted { "Asked by the workflow " b { (workflow) } ", as signal " code { (wait.name) } "." }
        }
    };
    let code = match (is_open, wrong) {
        (true, Some(_)) => StatusCode::BAD_REQUEST,
        (_, _) => StatusCode::OK,
    };
    Ok(bare_page(code, title, &main))
}

/// The name of the workflow, or its id.
async fn workflow_name(call: &Call<'_>, asked: &AskedSignal) -> Result<String, ApiError> {
    let Some(step) = asked.job.head.workflow else { return Ok(String::new()) };
    let own = call.app.engine.store().job(step.workflow).await?;
    let name = own.and_then(|own| Some(own.head.workflow_head.as_ref()?.name.clone()));
    Ok(name.filter(|name| !name.is_empty()).unwrap_or_else(|| step.workflow.to_string()))
}

fn ending(state: State) -> &'static str {
    match state {
        State::Succeeded => "This was answered. Nothing is left to do here.",
        State::Canceled => "This is no longer asked: the workflow was stopped.",
        State::Failed => "The time for an answer is over.",
        State::Created | State::Queued | State::Assigned | State::Running => "This is not asked yet.",
    }
}

fn inputs(form: &Form) -> Markup {
    html! {
        @match form {
            Form::Confirm => (submit("Confirm")),
            Form::Answers(answers) => {
                @for answer in answers {
                    button .primary type="submit" name=(VALUE) value=(shown(answer)) { (word(answer)) }
                }
            }
            Form::Value(kind) => {
                label for="f-value" { "Answer" }
                (input("f-value", VALUE, kind, true))
                (submit("Send"))
            }
            Form::Object(fields) => {
                @for (place, field) in fields.iter().enumerate() { (labelled(place, field)) }
                (submit("Send"))
            }
            Form::Json => {
                label for="f-value" { "Answer, as JSON" }
                textarea #f-value name=(VALUE) rows="8" required {}
                (submit("Send"))
            }
        }
    }
}

fn submit(label: &str) -> Markup {
    html! { button .primary type="submit" { (label) } }
}

fn word(answer: &Value) -> String {
    match answer {
        Value::Bool(true) => "Yes".into(),
        Value::Bool(false) => "No".into(),
        other => shown(other),
    }
}

fn labelled(place: usize, field: &FormField) -> Markup {
    let id = format!("f-{place}");
    html! {
        label for=(id) { (field.title) @if !field.is_required && field.kind != FieldKind::Boolean { span .muted { " (optional)" } } }
        (input(&id, &field.name, &field.kind, field.is_required))
        @if !field.about.is_empty() { p .muted { (field.about) } }
    }
}

fn input(id: &str, name: &str, kind: &FieldKind, is_required: bool) -> Markup {
    html! {
        @match kind {
            FieldKind::Text => input id=(id) type="text" name=(name) required[is_required];,
            FieldKind::Number => input id=(id) type="number" step="any" name=(name) required[is_required];,
            FieldKind::Integer => input id=(id) type="number" step="1" name=(name) required[is_required];,
            FieldKind::Boolean => input id=(id) type="checkbox" name=(name) value="true";,
            FieldKind::Choice(choices) => {
                select id=(id) name=(name) required[is_required] {
                    @if !is_required { option value="" { "–" } }
                    @for choice in choices { option value=(shown(choice)) { (word(choice)) } }
                }
            }
        }
    }
}

pub(super) fn refusal(refused: &RefusedRequest) -> Markup {
    html! {
        main #main .login {
            h1 { (refused.kind.entry().title) }
            p role="alert" { (refused.detail) }
            @for violation in &refused.violations { p { code { (violation.pointer) } " " (violation.detail) } }
        }
    }
}
