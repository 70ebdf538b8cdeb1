//! Queues and workers.

use forgerun_client::Client;
use serde_json::{Value, json};

use super::CommandError;
use super::flags::{ConnectionFlags, QueueCommand, QueueFlags, QueuesFlags};
use super::screen::{Screen, now, relative};
use super::table::Table;
use crate::Exit;

/// Queues whose counts are loaded, one call each.
const COUNTED_MAX: usize = 100;

pub(super) async fn queues(flags: &QueuesFlags) -> Result<Exit, CommandError> {
    match &flags.command {
        None if flags.connection.is_operator() => list_all(flags).await,
        None => list(flags).await,
        Some(QueueCommand::Pause(named)) => set_paused(named, true).await,
        Some(QueueCommand::Resume(named)) => set_paused(named, false).await,
    }
}

/// The operator's pause applies to all queues of the name, a client's to its own.
async fn set_paused(named: &QueueFlags, paused: bool) -> Result<Exit, CommandError> {
    let (connection, queue) = (&named.connection, &named.queue);
    match paused {
        _ if connection.is_operator() => {
            connection.admin()?.admin().set_paused(queue, paused).await?;
        }
        true => {
            let client = connection.client()?;
            check_known(&client, queue).await?;
            client.ojs().pause_queue(queue).await?;
        }
        false => connection.client()?.ojs().resume_queue(queue).await?,
    }
    told(&Screen::of(connection), queue, paused)
}

/// Refuses an unknown name: the server would pause the queue before its first job, so a typo would
/// go unnoticed.
async fn check_known(client: &Client, queue: &str) -> Result<(), CommandError> {
    let known = client.ojs().queues().await?;
    if known.iter().any(|known| known.name == queue) {
        return Ok(());
    }
    let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).take(COUNTED_MAX).collect();
    Err(CommandError::Refused(format!("there is no queue {queue:?}; there are {}", names.join(", "))))
}

/// Queues of all owners, by name.
async fn list_all(flags: &QueuesFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let queues = flags.connection.admin()?.admin().queues().await?;
    if screen.json {
        screen.json(&json!({"items": queues}))?;
        return Ok(Exit::Done);
    }
    let mut table =
        Table::new(&["QUEUE", "STATUS", "WAITING", "ACTIVE", "LATER", "FAILED", "OLDEST (S)", "PER S"], &[0]);
    for queue in &queues {
        let status = if queue.paused { "paused" } else { "active" };
        table.row(vec![
            queue.name.clone(),
            status.to_owned(),
            queue.waiting.to_string(),
            queue.active.to_string(),
            queue.scheduled.to_string(),
            queue.failed.to_string(),
            queue.oldest_waiting_s.map_or_else(String::new, |seconds| seconds.to_string()),
            queue.last_minute.ended_per_s.to_string(),
        ]);
    }
    table.print(&screen)?;
    Ok(Exit::Done)
}

fn told(screen: &Screen, queue: &str, paused: bool) -> Result<Exit, CommandError> {
    match screen.json {
        true => screen.json(&json!({"queue": queue, "paused": paused}))?,
        false => screen.line(if paused { "paused" } else { "active" })?,
    }
    Ok(Exit::Done)
}

async fn list(flags: &QueuesFlags) -> Result<Exit, CommandError> {
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

async fn counts(client: &Client, queue: &str) -> Result<Value, CommandError> {
    let mut answer = client.ojs().queue_stats(queue).await?;
    Ok(answer["stats"].take())
}

pub(super) async fn workers(flags: &ConnectionFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    if flags.connection.is_operator() {
        return all_workers(flags, &screen).await;
    }
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

async fn all_workers(flags: &ConnectionFlags, screen: &Screen) -> Result<Exit, CommandError> {
    let workers = flags.connection.admin()?.admin().workers().await?;
    if screen.json {
        screen.json(&json!({"items": workers}))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["WORKER", "CLIENT", "STATE", "JOBS", "QUEUES", "LAST SEEN"], &[0, 4]);
    for worker in &workers {
        let seen = &worker.last_seen_at;
        let seen = if screen.tables { relative(seen, now()) } else { seen.clone() };
        let jobs = match worker.concurrency {
            Some(most) => format!("{}/{most}", worker.jobs.len()),
            None => worker.jobs.len().to_string(),
        };
        let (id, client, state) = (worker.id.clone(), worker.client.clone(), worker.state.clone());
        table.row(vec![id, client, state, jobs, worker.queues.join(","), seen]);
    }
    table.print(screen)?;
    if workers.is_empty() {
        screen.note("no workers");
    }
    Ok(Exit::Done)
}
