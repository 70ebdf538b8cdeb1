//! Clients and their API keys: all that is read and written of them.

use forgerun_core::Changes;
use forgerun_core::client::{ApiKey, Client};
use forgerun_core::codec::Corrupt;
use forgerun_core::id::{ClientId, KeyId};
use forgerun_core::scope::KeyScopes;
use forgerun_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::cells;
use super::statements::statements;
use crate::Error;

statements! {
    CLIENT = "
        SELECT created_at, keyed
        FROM clients
        WHERE id = ?1
    ";

    /// An id that is taken is rejected.
    INSERT_CLIENT = "
        INSERT INTO clients (id, created_at, keyed)
        VALUES (?1, ?2, ?3)
    ";

    MARK_KEYED = "
        UPDATE clients
        SET keyed = 1
        WHERE id = ?1
    ";

    /// Along `api_keys_client`, oldest first.
    KEYS_OF_CLIENT = "
        SELECT id, client, digest, prefix, created_at, expires_at, revoked_at, last_used_at, name, scopes
        FROM api_keys
        WHERE client = ?1
        ORDER BY id
    ";

    KEY_BY_DIGEST = "
        SELECT id, client, digest, prefix, created_at, expires_at, revoked_at, last_used_at, name, scopes
        FROM api_keys
        WHERE digest = ?1
        ORDER BY id
        LIMIT 1
    ";

    PUT_KEY = "
        INSERT OR REPLACE INTO api_keys
            (id, client, digest, prefix, created_at, expires_at, revoked_at, last_used_at, name, scopes)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    ";

    /// Found on `api_keys_revoked` alone.
    SWEEP_KEYS = "
        DELETE FROM api_keys
        WHERE id IN (SELECT id FROM api_keys WHERE revoked_at < ?1 ORDER BY revoked_at LIMIT ?2)
    ";
}

/// The client with this id.
pub(super) fn client(db: &Connection, id: ClientId) -> Result<Option<Client>, Error> {
    let read =
        |row: &Row<'_>| Ok(Client { id, created_at: Time::from_micros(row.get(0)?), keyed: row.get(1)? });
    Ok(db.prepare_cached(CLIENT)?.query_row(params![id.to_bytes()], read).optional()?)
}

/// The keys of a client, oldest first.
pub(super) fn keys_of(db: &Connection, client: ClientId) -> Result<Vec<ApiKey>, Error> {
    let mut statement = db.prepare_cached(KEYS_OF_CLIENT)?;
    statement.query_and_then(params![client.to_bytes()], key)?.collect()
}

/// The key whose secret has this digest.
pub(super) fn key_by_digest(db: &Connection, digest: [u8; 32]) -> Result<Option<ApiKey>, Error> {
    let mut statement = db.prepare_cached(KEY_BY_DIGEST)?;
    statement.query(params![digest])?.next()?.map(key).transpose()
}

/// Writes new clients, who has had a key, and keys that are new or changed.
pub(super) fn write(db: &Connection, changes: &Changes) -> Result<(), Error> {
    for client in &changes.clients {
        let row = params![client.id.to_bytes(), client.created_at.as_micros(), client.keyed];
        db.prepare_cached(INSERT_CLIENT)?.execute(row)?;
    }
    for id in &changes.clients_keyed {
        db.prepare_cached(MARK_KEYED)?.execute(params![id.to_bytes()])?;
    }
    for key in changes.api_keys.values() {
        db.prepare_cached(PUT_KEY)?.execute(params![
            key.id.to_bytes(),
            key.client.to_bytes(),
            key.digest,
            key.prefix,
            key.created_at.as_micros(),
            key.expires_at.map(Time::as_micros),
            key.revoked_at.map(Time::as_micros),
            key.last_used_at.map(Time::as_micros),
            key.name,
            key.scopes.to_bits(),
        ])?;
    }
    Ok(())
}

/// Deletes at most `limit` keys revoked before this, and says how many.
pub(super) fn sweep(db: &Connection, before: Time, limit: i64) -> Result<usize, Error> {
    Ok(db.prepare_cached(SWEEP_KEYS)?.execute(params![before.as_micros(), limit])?)
}

fn key(row: &Row<'_>) -> Result<ApiKey, Error> {
    let time = |column: usize| Ok::<_, Error>(row.get::<_, Option<i64>>(column)?.map(Time::from_micros));
    Ok(ApiKey {
        id: KeyId::from_bytes(cells::bytes(row, 0)?).ok_or(Corrupt)?,
        client: ClientId::from_bytes(cells::bytes(row, 1)?).ok_or(Corrupt)?,
        digest: cells::array(row, 2)?,
        prefix: row.get(3)?,
        created_at: Time::from_micros(row.get(4)?),
        expires_at: time(5)?,
        revoked_at: time(6)?,
        last_used_at: time(7)?,
        name: row.get(8)?,
        scopes: KeyScopes::from_bits(row.get(9)?),
    })
}
