//! Queues and workers.

use forge_client::Client;
use forge_server::Exit;
use serde_json::{Value, json};

use super::Trouble;
use super::flags::{ConnectionFlags, QueueCommand, QueuesFlags};
use super::screen::{Screen, now, relative};
use super::table::Table;

/// Queues whose counts are asked for, one call each.
const COUNTED_MAX: usize = 100;

pub(super) async fn queues(flags: &QueuesFlags) -> Result<Exit, Trouble> {
    match &flags.command {
        None => list(flags).await,
        Some(QueueCommand::Pause(named)) => {
            named.connection.client()?.ojs().pause_queue(&named.queue).await?;
            told(&Screen::of(&named.connection), &named.queue, true)
        }
        Some(QueueCommand::Resume(named)) => {
            named.connection.client()?.ojs().resume_queue(&named.queue).await?;
            told(&Screen::of(&named.connection), &named.queue, false)
        }
    }
}

fn told(screen: &Screen, queue: &str, paused: bool) -> Result<Exit, Trouble> {
    match screen.json {
        true => screen.json(&json!({"queue": queue, "paused": paused}))?,
        false => screen.line(if paused { "paused" } else { "active" })?,
    }
    Ok(Exit::Done)
}

async fn list(flags: &QueuesFlags) -> Result<Exit, Trouble> {
    let screen = Screen::of(&flags.connection);
    let client = flags.connection.client()?;
    let mut queues = Vec::new();
    for queue in client.ojs().queues().await?.into_iter().take(COUNTED_MAX) {
        let stats = counts(&client, &queue.name).await?;
        queues.push(json!({"name": queue.name, "paused": queue.paused, "stats": stats}));
    }
    if screen.json {
        screen.json(&json!({"queues": queues}))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["QUEUE", "STATUS", "WAITING", "ACTIVE", "LATER", "RETRYING"], &[0]);
    for queue in &queues {
        let status = if queue["paused"] == true { "paused" } else { "active" };
        let count = |name: &str| queue["stats"][name].as_u64().unwrap_or(0).to_string();
        let name = queue["name"].as_str().unwrap_or_default().to_owned();
        let row = [
            name,
            status.to_owned(),
            count("available"),
            count("active"),
            count("scheduled"),
            count("retryable"),
        ];
        table.row(row.into());
    }
    table.print(&screen)?;
    Ok(Exit::Done)
}

async fn counts(client: &Client, queue: &str) -> Result<Value, Trouble> {
    let mut answer = client.ojs().queue_stats(queue).await?;
    Ok(answer["stats"].take())
}

pub(super) async fn workers(flags: &ConnectionFlags) -> Result<Exit, Trouble> {
    let screen = Screen::of(&flags.connection);
    let workers = flags.connection.client()?.ojs().workers().await?;
    if screen.json {
        screen.json(&json!({"workers": workers}))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["WORKER", "STATE", "JOBS", "QUEUES", "LAST SEEN"], &[0, 3]);
    for worker in &workers {
        let text = |name: &str| worker[name].as_str().unwrap_or_default().to_owned();
        let queues: Vec<&str> =
            worker["queues"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let seen = text("last_heartbeat_at");
        let seen = if screen.tables { relative(&seen, now()) } else { seen };
        let n_jobs = worker["active_jobs"].as_u64().unwrap_or(0);
        let jobs = match worker["concurrency"].as_u64() {
            Some(most) => format!("{n_jobs}/{most}"),
            None => n_jobs.to_string(),
        };
        table.row(vec![text("worker_id"), text("state"), jobs, queues.join(","), seen]);
    }
    table.print(&screen)?;
    if workers.is_empty() {
        screen.note("no workers");
    }
    Ok(Exit::Done)
}
