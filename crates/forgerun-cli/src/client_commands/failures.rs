//! Failure groups, and their redrives.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::SystemTime;

use forgerun_client::admin::{FailureGroupView, Redrive};
use forgerun_problem::Timestamp;
use serde_json::{Value, json};

use super::CommandError;
use super::flags::{FailureCommand, FailuresFlags, RedriveFlags};
use super::screen::{Screen, now, relative};
use super::table::Table;
use crate::Exit;
use crate::terminal::clean;

pub(super) async fn failures(flags: &FailuresFlags) -> Result<Exit, CommandError> {
    match &flags.command {
        None => list(flags).await,
        Some(FailureCommand::Show(named)) => {
            let screen = Screen::of(&named.connection);
            let group = named.connection.admin()?.admin().failure(&named.group).await?;
            show(&screen, &group)
        }
    }
}

async fn list(flags: &FailuresFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let since = flags.since.and_then(|span| written(now().checked_sub(span)?));
    let groups = flags.connection.admin()?.admin().failures(since.as_deref()).await?;
    if screen.json {
        screen.json(&json!({"items": groups}))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["GROUP", "COUNT", "LAST SEEN", "CODE", "OPERATION", "MESSAGE"], &[5, 4]);
    for group in &groups {
        let seen = if screen.tables { relative(&group.last_seen, now()) } else { group.last_seen.clone() };
        table.row(vec![
            group.group.clone(),
            group.count.to_string(),
            seen,
            group.code.clone(),
            group.operation.clone(),
            group.message.clone(),
        ]);
    }
    table.print(&screen)?;
    if groups.is_empty() {
        screen.note("no failures");
    }
    Ok(Exit::Done)
}

fn written(at: SystemTime) -> Option<String> {
    let micros = at.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_micros();
    Timestamp::from_unix_micros(i64::try_from(micros).ok()?).ok().map(|at| at.to_string())
}

fn show(screen: &Screen, group: &FailureGroupView) -> Result<Exit, CommandError> {
    if screen.json {
        screen.json(&serde_json::to_value(group).unwrap_or(Value::Null))?;
        return Ok(Exit::Done);
    }
    let trend: Vec<String> = group.trend.iter().map(u64::to_string).collect();
    for (name, value) in [
        ("group", group.group.clone()),
        ("type", group.problem_type.clone()),
        ("title", group.title.clone()),
        ("code", group.code.clone()),
        ("operation", group.operation.clone()),
        ("message", group.message.clone()),
        ("count", group.count.to_string()),
        ("first seen", group.first_seen.clone()),
        ("last seen", group.last_seen.clone()),
        ("24 hours", trend.join(" ")),
        ("clients", group.clients.join(", ")),
        ("queues", group.queues.join(", ")),
        ("examples", group.examples.join(", ")),
    ] {
        // A worker's text must not draw on the screen.
        screen.line(&format!("{name:<10}  {}", clean(&value)))?;
    }
    Ok(Exit::Done)
}

pub(super) async fn redrive(flags: &RedriveFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let client = flags.connection.admin()?;
    let terms = Redrive { limit: flags.limit, rate_per_s: flags.rate };
    if flags.dry_run || !flags.yes {
        let preview = client.admin().preview(&flags.group, terms).await?;
        let (matched, would) = (preview.matched, preview.would_redrive);
        if flags.dry_run {
            match screen.json {
                true => screen.json(&serde_json::to_value(&preview).unwrap_or(Value::Null))?,
                false => screen.line(&format!("{would} of {matched} jobs would be tried again"))?,
            }
            return Ok(Exit::Done);
        }
        if would > 0 && !confirmed(&format!("Try {would} of {matched} jobs again?"))? {
            screen.note("nothing was done");
            return Ok(Exit::Failure);
        }
    }
    match client.admin().redrive(&flags.group, terms).await? {
        None if screen.json => screen.json(&json!({"matched": 0}))?,
        None => screen.note("no failed job is left in this group"),
        Some(begun) if screen.json => screen.json(&serde_json::to_value(&begun).unwrap_or(Value::Null))?,
        Some(begun) => {
            screen.line(&begun.job_id)?;
            let (will, matched) = (begun.will_redrive, begun.matched);
            screen.note(&format!(
                "begins {will} of {matched} failed jobs again; its own job has succeeded once they were begun, however they end"
            ));
        }
    }
    Ok(Exit::Done)
}

/// Asks for confirmation; without a terminal `--yes` is required.
fn confirmed(question: &str) -> Result<bool, CommandError> {
    if !io::stdin().is_terminal() {
        return Err(CommandError::Usage(
            "this is not a terminal, so the question cannot be asked: add --yes, or --dry-run for a preview"
                .into(),
        ));
    }
    write!(io::stderr().lock(), "{question} [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
