//! Clients and keys.

use std::time::Duration;

use forgerun_client::forge::{Key, KeyRequest};
use forgerun_problem::Timestamp;
use serde_json::json;

use super::CommandError;
use super::connection::Connection;
use super::flags::{Clients, ClientsFlags, Keys};
use super::screen::{Screen, now, relative};
use super::table::Table;
use crate::Exit;

pub(super) async fn clients(flags: &ClientsFlags) -> Result<Exit, CommandError> {
    match &flags.command {
        None => list(&flags.connection).await?,
        Some(Clients::Create(flags)) => {
            let screen = Screen::of(&flags.connection);
            let made = flags.connection.operator()?.forge().create_client(flags.name.as_deref()).await?;
            match screen.json {
                true => screen.json(&json!(made))?,
                false => screen.line(&made.client_id)?,
            }
        }
        Some(Clients::Name(flags)) => {
            let screen = Screen::of(&flags.connection);
            let name = Some(flags.name.as_str()).filter(|name| !name.is_empty());
            let named = flags.connection.operator()?.forge().name_client(&flags.client_id, name).await?;
            match screen.json {
                true => screen.json(&json!(named))?,
                false => screen.note(&format!("{} is named", named.client_id)),
            }
        }
    }
    Ok(Exit::Done)
}

async fn list(connection: &Connection) -> Result<(), CommandError> {
    let screen = Screen::of(connection);
    let clients = connection.admin()?.admin().clients().await?;
    if screen.json {
        screen.json(&json!({"items": clients}))?;
        return Ok(());
    }
    let mut table = Table::new(&["CLIENT", "CREATED", "GOOD KEYS", "LAST USED", "NAME"], &[4]);
    for client in &clients {
        let when = |at: &str| if screen.tables { relative(at, now()) } else { at.to_owned() };
        let last_used = client.last_used_at.as_deref().map(when).unwrap_or_default();
        table.row(vec![
            client.client_id.clone(),
            when(&client.created_at),
            client.good_keys.to_string(),
            last_used,
            client.name.clone().unwrap_or_default(),
        ]);
    }
    table.print(&screen)?;
    Ok(())
}

pub(super) async fn keys(command: &Keys) -> Result<Exit, CommandError> {
    match command {
        Keys::Issue(flags) => {
            let client = flags.connection.operator()?;
            let request = KeyRequest {
                rotate: flags.rotate,
                name: flags.name.clone(),
                scopes: Some(flags.scopes.clone()).filter(|scopes| !scopes.is_empty()),
                expires_at: flags.expires.map(expiry).transpose()?,
                overlap_s: flags.overlap.map(|overlap| overlap.as_secs()),
            };
            let key = client.forge().create_key(&flags.client_id, &request).await?;
            show(&flags.connection, &key)
        }
        Keys::List(flags) => {
            list_keys(&flags.connection, &flags.client_id).await?;
            Ok(Exit::Done)
        }
        Keys::Renew(flags) => {
            let forge = flags.connection.client()?;
            let overlap = flags.overlap.unwrap_or_default();
            let key = forge.forge().renew_key_with_overlap(&flags.client_id, overlap).await?;
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

fn expiry(span: Duration) -> Result<String, CommandError> {
    let at = now().checked_add(span).and_then(|at| Timestamp::try_from(at).ok());
    let at = at.ok_or_else(|| CommandError::Usage("--expires lies too far ahead".to_owned()))?;
    Ok(at.to_string())
}

async fn list_keys(connection: &Connection, client_id: &str) -> Result<(), CommandError> {
    let screen = Screen::of(connection);
    let keys = connection.operator()?.forge().keys(client_id).await?;
    if screen.json {
        screen.json(&json!({"items": keys}))?;
        return Ok(());
    }
    let mut table = Table::new(&["KEY", "NAME", "STATUS", "SCOPES", "EXPIRES", "LAST USED", "PREFIX"], &[3]);
    for key in &keys {
        let when = |at: &str| if screen.tables { relative(at, now()) } else { at.to_owned() };
        let status = match (key.good, &key.revoked_at) {
            (true, None) => "valid",
            (true, Some(_)) => "replaced",
            (false, Some(_)) => "revoked",
            (false, None) => "expired",
        };
        table.row(vec![
            key.key_id.clone(),
            key.name.clone().unwrap_or_else(|| "(primary)".to_owned()),
            status.to_owned(),
            key.scopes.join(","),
            key.revoked_at.as_ref().or(key.expires_at.as_ref()).map(|at| when(at)).unwrap_or_default(),
            key.last_used_at.as_deref().map(when).unwrap_or_default(),
            key.key_prefix.clone(),
        ]);
    }
    table.print(&screen)?;
    Ok(())
}

/// Prints only the secret on standard output, so that a script can store it.
fn show(connection: &Connection, key: &Key) -> Result<Exit, CommandError> {
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
