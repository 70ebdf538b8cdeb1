//! `health`: the probe of containers and service managers. Asks once, and waits for seconds at
//! most.

use serde_json::json;

use super::CommandError;
use super::flags::HealthFlags;
use super::screen::Screen;
use crate::Exit;

pub(super) async fn health(flags: &HealthFlags) -> Result<Exit, CommandError> {
    let client = flags.connection.probe()?;
    let status = match flags.ready {
        true => client.ready().await.map(|()| "ready")?,
        false => client.health().await.map(|()| "ok")?,
    };
    let screen = Screen::of(&flags.connection);
    match screen.json {
        true => screen.json(&json!({"status": status}))?,
        false => screen.line(status)?,
    }
    Ok(Exit::Done)
}
