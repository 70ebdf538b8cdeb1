//! Clients and keys.

use forge_client::forge::Key;
use forge_server::Exit;
use serde_json::json;

use super::Trouble;
use super::connection::Connection;
use super::flags::{Clients, Keys};
use super::screen::Screen;

pub(super) async fn clients(command: &Clients) -> Result<Exit, Trouble> {
    match command {
        Clients::Create(flags) => {
            let screen = Screen::of(&flags.connection);
            let made = flags.connection.operator()?.forge().create_client().await?;
            match screen.json {
                true => screen.json(&json!({"client_id": made.client_id}))?,
                false => screen.line(&made.client_id)?,
            }
        }
    }
    Ok(Exit::Done)
}

pub(super) async fn keys(command: &Keys) -> Result<Exit, Trouble> {
    match command {
        Keys::Issue(flags) => {
            let client = flags.connection.operator()?;
            let key = client.forge().issue_key(&flags.client_id, flags.rotate).await?;
            show(&flags.connection, &key)
        }
        Keys::Renew(flags) => {
            let key = flags.connection.client()?.forge().renew_key(&flags.client_id).await?;
            show(&flags.connection, &key)
        }
        Keys::Revoke(flags) => {
            flags.connection.operator()?.forge().revoke_key(&flags.client_id, &flags.key_id).await?;
            let screen = Screen::of(&flags.connection);
            if screen.json {
                screen.json(&json!({"revoked": true}))?;
            } else {
                screen.note(&format!("{} is revoked", flags.key_id));
            }
            Ok(Exit::Done)
        }
    }
}

/// The secret alone on standard output, so that a script can keep it.
fn show(connection: &Connection, key: &Key) -> Result<Exit, Trouble> {
    let screen = Screen::of(connection);
    if screen.json {
        screen.json(&serde_json::to_value(key).unwrap_or_default())?;
        return Ok(Exit::Done);
    }
    match &key.api_key {
        Some(secret) => {
            screen.line(secret)?;
            let until = key.expires_at.as_deref().unwrap_or("revoked");
            screen.note(&format!("key {}, good until {until}; it is not shown again", key.key_id));
            Ok(Exit::Done)
        }
        None => {
            let text =
                format!("the client has the key {} ({}…); --rotate replaces it", key.key_id, key.key_prefix);
            screen.note(&text);
            Ok(Exit::Failure)
        }
    }
}
