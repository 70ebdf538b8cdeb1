//! Workflows: submit, list, show, cancel, retry, signal.

use forgerun_client::forge::{Filter, WaitView, Workflow, WorkflowStep, Workflows};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::CommandError;
use super::flags::{
    JobFlags, SignalFlags, WorkflowCancelFlags, WorkflowCommand, WorkflowRetryFlags, WorkflowsFlags,
};
use super::ids;
use super::jobs::PAGE;
use super::screen::{Screen, now, relative};
use super::submit::read_json;
use super::table::Table;
use crate::Exit;

pub(super) async fn workflows(flags: &WorkflowsFlags) -> Result<Exit, CommandError> {
    match &flags.command {
        None => list(flags).await,
        Some(WorkflowCommand::Submit(submit)) => {
            let screen = Screen::of(&submit.connection);
            let description = read_description(&submit.description)?;
            let client = submit.connection.client()?;
            let begun =
                client.forge().submit_workflow(&description, submit.idempotency_key.as_deref()).await?;
            match screen.json {
                true => screen.json(&serde_json::to_value(&begun).unwrap_or(Value::Null))?,
                false => screen.line(&begun.workflow_id)?,
            }
            Ok(Exit::Done)
        }
        Some(WorkflowCommand::Show(named)) => {
            let client = named.connection.client()?;
            let workflow = client.forge().workflow(&ids::whole(&client, &named.id).await?).await?;
            show(named, &workflow)
        }
        Some(WorkflowCommand::Cancel(WorkflowCancelFlags { named, no_compensate })) => {
            let client = named.connection.client()?;
            let workflow = client
                .forge()
                .cancel_workflow(&ids::whole(&client, &named.id).await?, !no_compensate)
                .await?;
            changed(named, &workflow)
        }
        Some(WorkflowCommand::Retry(WorkflowRetryFlags { named, from })) => {
            let client = named.connection.client()?;
            let workflow = client
                .forge()
                .retry_workflow(&ids::whole(&client, &named.id).await?, from.as_deref())
                .await?;
            changed(named, &workflow)
        }
        Some(WorkflowCommand::Signal(SignalFlags { named, name, payload })) => {
            let body = read_json("--payload", payload)?;
            let client = named.connection.client()?;
            let id = ids::whole(&client, &named.id).await?;
            changed(named, &client.forge().signal(&id, name, &body).await?)
        }
    }
}

/// The description of a workflow: JSON, a file with or without `@`, or standard input. A
/// description is an object, so a file whose name begins with a brace needs `@`.
fn read_description(text: &str) -> Result<Box<RawValue>, CommandError> {
    let is_written_out = text.trim_start().starts_with(['{', '[']) || text == "-" || text.starts_with('@');
    match is_written_out {
        true => read_json("FILE", text),
        false => read_json("FILE", &format!("@{text}")),
    }
}

async fn list(flags: &WorkflowsFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let (client, wanted) = (flags.connection.client()?, flags.limit as usize);
    let mut filter = Filter { states: flags.states.clone(), name: flags.name.clone(), ..Filter::default() };
    let mut page = Workflows { workflows: Vec::new(), next_cursor: None };
    loop {
        filter.limit = Some((wanted - page.workflows.len()).min(PAGE));
        let next = client.forge().workflows(&filter).await?;
        page.workflows.extend(next.workflows);
        page.next_cursor = next.next_cursor.clone();
        filter.cursor = next.next_cursor;
        // A page may be short or empty while there is more.
        if filter.cursor.is_none() || page.workflows.len() >= wanted {
            break;
        }
    }
    if screen.json {
        screen.json(&serde_json::to_value(&page).unwrap_or(Value::Null))?;
        return Ok(Exit::Done);
    }
    let heading = &["ID", "STATE", "TYPE", "NAME", "DONE", "STEPS", "SUBMITTED"];
    let mut table = Table::new(heading, &[3]).with_state(1).with_ids(&[0]);
    for workflow in &page.workflows {
        let created = &workflow.created_at;
        let created = if screen.tables { relative(created, now()) } else { created.clone() };
        table.row(vec![
            workflow.workflow_id.clone(),
            workflow.state.clone(),
            workflow.form.clone(),
            workflow.name.clone(),
            workflow.steps_succeeded.to_string(),
            workflow.steps_total.to_string(),
            created,
        ]);
    }
    table.print(&screen)?;
    if page.workflows.is_empty() {
        screen.note("no workflows");
    } else if page.next_cursor.is_some() {
        screen.note(&format!("the newest {}; more with --limit", page.workflows.len()));
    }
    Ok(Exit::Done)
}

fn changed(named: &JobFlags, workflow: &Workflow) -> Result<Exit, CommandError> {
    let screen = Screen::of(&named.connection);
    let summary = &workflow.summary;
    match screen.json {
        true => screen.json(&json!({"workflow_id": summary.workflow_id, "state": summary.state}))?,
        false => screen.line(&summary.state)?,
    }
    Ok(Exit::Done)
}

/// The type of a step's job, or what it is instead; of a list how many elements succeeded.
fn what(step: &WorkflowStep) -> String {
    match &step.elements {
        Some(of) => {
            let failed = if of.failed > 0 { format!(", {} failed", of.failed) } else { String::new() };
            format!("for_each {}/{}{failed}", of.succeeded, of.total)
        }
        None if matches!(&*step.kind, "for_each" | "workflow") => step.kind.to_string(),
        None => step.wait.as_ref().map_or_else(|| step.job_type.clone().unwrap_or_default(), awaited),
    }
}

/// What a step waits for, in a few words.
fn awaited(wait: &WaitView) -> String {
    match (&wait.signal, &wait.until, &wait.span) {
        (Some(signal), ..) => {
            let timeout = wait.timeout.as_deref().unwrap_or_default();
            format!("signal {signal} within {timeout}")
        }
        (None, Some(until), _) => format!("until {until}"),
        (None, None, span) => format!("for {}", span.as_deref().unwrap_or_default()),
    }
}

/// The workflow in a line, and its steps as a table.
fn show(named: &JobFlags, workflow: &Workflow) -> Result<Exit, CommandError> {
    let screen = Screen::of(&named.connection);
    if screen.json {
        screen.json(&serde_json::to_value(workflow).unwrap_or(Value::Null))?;
        return Ok(Exit::Done);
    }
    let heading = &["STEP", "STATE", "TYPE", "AFTER", "JOB", "ERROR"];
    let mut table = Table::new(heading, &[5, 3, 2]).with_state(1).with_ids(&[4]);
    for step in &workflow.steps {
        table.row(vec![
            step.id.clone(),
            step.state.to_string(),
            what(step),
            step.depends_on.join(" "),
            step.job_id.clone().unwrap_or_default(),
            step.error.clone().unwrap_or_default(),
        ]);
        if let Some(undo) = step.compensation.as_ref().filter(|undo| undo.state != "NOT_RUN") {
            table.row(vec![
                format!("{} (compensation)", step.id),
                undo.state.to_string(),
                undo.job_type.clone().unwrap_or_default(),
                String::new(),
                undo.job_id.clone().unwrap_or_default(),
                undo.error.clone().unwrap_or_default(),
            ]);
        }
    }
    table.print(&screen)?;
    let summary = &workflow.summary;
    let done = format!("{} of {} steps succeeded", summary.steps_succeeded, summary.steps_total);
    screen.note(&format!("{} {}: {done}", summary.form, summary.state));
    for (step, wait) in workflow.steps.iter().filter_map(|step| Some((step, step.wait.as_ref()?))) {
        if let (Some(signal), Some(url)) = (&wait.signal, &wait.url) {
            screen.note(&format!("{} waits for signal {signal}: {url}", step.id));
        }
    }
    Ok(Exit::Done)
}
