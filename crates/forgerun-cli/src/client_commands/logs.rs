//! `logs`: what workers printed while they worked on a job.

use std::time::Duration;

use forgerun_client::forge::{LogFilter, LogLine};
use forgerun_client::{Client, Clock, Error, SystemClock};
use serde_json::Value;

use super::CommandError;
use super::flags::LogsFlags;
use super::ids;
use super::screen::Screen;
use crate::Exit;
use crate::terminal::clean;

/// Lines of a page.
const PAGE: usize = 1000;

/// Attempts to reconnect before the command ends, and the pause between them.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_secs(3);

pub(super) async fn logs(flags: &LogsFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let client = flags.connection.client()?;
    let id = ids::whole(&client, &flags.id).await?;
    let filter = LogFilter {
        attempt: flags.attempt,
        stream: flags.stream.clone(),
        text: flags.text.clone(),
        ..LogFilter::default()
    };
    match flags.follow {
        true => follow(&client, &screen, &id, &filter).await,
        false => print_all(&client, &screen, &id, filter).await,
    }
}

async fn print_all(
    client: &Client,
    screen: &Screen,
    id: &str,
    mut filter: LogFilter,
) -> Result<Exit, CommandError> {
    filter.limit = Some(PAGE);
    let mut noted = false;
    loop {
        let page = client.forge().logs(id, &filter).await?;
        if page.dropped > 0 && !noted {
            noted = true;
            screen.note(&dropped(page.dropped));
        }
        for line in &page.lines {
            print(screen, line)?;
        }
        // A page may be short or empty while there is more.
        match page.next_cursor.and_then(|cursor| cursor.parse().ok()) {
            Some(after) => filter.after = Some(after),
            None => return Ok(Exit::Done),
        }
    }
}

async fn follow(
    client: &Client,
    screen: &Screen,
    id: &str,
    filter: &LogFilter,
) -> Result<Exit, CommandError> {
    let mut stream = client.forge().follow_logs(id, filter)?;
    let (mut connected, mut away) = (false, 0);
    loop {
        match stream.next().await {
            Ok(None) => return Ok(Exit::Done),
            Ok(Some(event)) => {
                (connected, away) = (true, 0);
                match event.name.as_str() {
                    "log" => {
                        if let Ok(line) = serde_json::from_str(&event.data) {
                            print(screen, &line)?;
                        }
                    }
                    "dropped" => screen.note(&dropped(event.json()["dropped"].as_u64().unwrap_or(0))),
                    _ => {}
                }
            }
            // The server was there, so it probably comes back.
            Err(error @ Error::Unreachable(_)) if connected && away < TRIES => {
                away += 1;
                screen.note(&format!("{error}; trying again"));
                SystemClock.sleep(BETWEEN).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn dropped(n_lines: u64) -> String {
    format!("{n_lines} older lines were deleted: the log was too long")
}

/// The text alone if it is piped, so that it is what the worker printed.
fn print(screen: &Screen, line: &LogLine) -> Result<(), CommandError> {
    if screen.json {
        let line = serde_json::to_value(line).unwrap_or(Value::Null);
        return Ok(screen.line(&line.to_string())?);
    }
    if !screen.tables {
        return Ok(screen.line(&line.text)?);
    }
    let time = line.at.get(11..23).unwrap_or_default();
    let level = if line.level == "info" { String::new() } else { format!("{} ", line.level.to_uppercase()) };
    Ok(screen.line(&clean(&format!("{time}  {:<7} {level}{}", line.stream, line.text)))?)
}
