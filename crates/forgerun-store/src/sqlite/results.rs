//! Results and the rows of their blobs: which blob is named by a result, which is loose, and since when.

use std::sync::Arc;

use forgerun_core::codec::Corrupt;
use forgerun_core::command::{Blob, Content, Output};
use forgerun_core::id::{BlobId, ExecutionId};
use forgerun_core::rows::NewResult;
use forgerun_core::time::Time;
use rusqlite::{Connection, Row, params};

use super::cells;
use super::load::sql_limit;
use super::many::many;
use super::statements::statements;
use crate::{BlobPlace, DoomedBlob, Error, Fault, StoredResult, Sweep};

statements! {
    INSERT_RESULT = "
        INSERT OR FAIL INTO results (execution, media_type, file_name, size, expires_at, bytes, blob, digest)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ";

    DELETE_RESULT = "
        DELETE FROM results
        WHERE execution = ?1
    ";

    RESULT = "
        SELECT media_type, file_name, size, expires_at, bytes, blob, digest
        FROM results
        WHERE execution = ?1
    ";

    /// The bite is found on `results_expires` alone, in its own order, so that both statements mean the same rows.
    LET_EXPIRED_GO = "
        UPDATE blobs
        SET loose_at = ?1
        WHERE id IN (
            SELECT blob
            FROM results INDEXED BY results_expires
            WHERE removed = 0 AND expires_at IS NOT NULL AND expires_at <= ?1
            ORDER BY expires_at, rowid
            LIMIT ?2
        )
    ";

    REMOVE_EXPIRED = "
        UPDATE results
        SET removed = 1, bytes = NULL, blob = NULL, digest = NULL
        WHERE rowid IN (
            SELECT rowid
            FROM results INDEXED BY results_expires
            WHERE removed = 0 AND expires_at IS NOT NULL AND expires_at <= ?1
            ORDER BY expires_at, rowid
            LIMIT ?2
        )
    ";

    BEGIN_BLOB = "
        INSERT INTO blobs (id, loose_at, place)
        VALUES (?1, ?2, ?3)
    ";

    NOTE_UPLOAD = "
        UPDATE blobs
        SET upload = ?2
        WHERE id = ?1
    ";

    STORE_ID = "
        SELECT id
        FROM store
    ";

    HAS_BLOB = "
        SELECT count(*) > 0
        FROM blobs
        WHERE id = ?1
    ";

    TOUCH_BLOB = "
        UPDATE blobs
        SET loose_at = ?2
        WHERE id = ?1 AND loose_at IS NOT NULL AND doomed = 0
    ";

    /// Once a file is being deleted, nobody can name it any more.
    NAME_BLOB = "
        UPDATE blobs
        SET loose_at = NULL
        WHERE id = ?1 AND loose_at IS NOT NULL AND doomed = 0
    ";

    LET_GO = "
        UPDATE blobs
        SET loose_at = ?2
        WHERE id = (SELECT blob FROM results WHERE execution = ?1)
    ";

    /// Found on `blobs_loose` alone. Those that are doomed already come again: whoever was to delete them did not get round to it. What
    /// lies in a place that this process does not reach is left.
    LOOSE = "
        SELECT id, place, upload
        FROM blobs INDEXED BY blobs_loose
        WHERE loose_at IS NOT NULL AND loose_at < ?1 AND place <= ?3
        ORDER BY loose_at
        LIMIT ?2
    ";

    DOOM = "
        UPDATE blobs
        SET doomed = 1
        WHERE id = ?1
    ";

    BURY = "
        DELETE FROM blobs
        WHERE id = ?1 AND doomed = 1
    ";
}

/// Writes results; each takes possession of its blob.
pub(super) fn insert(db: &Connection, results: &[NewResult]) -> Result<(), Error> {
    let mut name = db.prepare_cached(NAME_BLOB)?;
    for blob in results.iter().filter_map(|result| blob_of(&result.output)) {
        if name.execute(params![blob.id.to_bytes()])? != 1 {
            return Err(Error::new(Fault::Rejected, format!("there is no blob {} to be named", blob.id)));
        }
    }
    many(db, INSERT_RESULT, results, |row, result| {
        let Output { media_type, file_name, content } = &*result.output;
        let blob = blob_of(&result.output);
        row.put(result.execution.to_bytes())?;
        row.put(media_type.as_str())?;
        row.put(file_name.as_deref())?;
        row.put(i64::try_from(result.size).map_err(|_| Corrupt)?)?;
        row.put(result.expires_at.map(Time::as_micros))?;
        row.put(match content {
            Content::Inline(bytes) => Some(bytes.as_slice()),
            Content::Stored(_) => None,
        })?;
        row.put(blob.map(|blob| blob.id.to_bytes()))?;
        row.put(blob.map(|blob| blob.digest))
    })
}

fn blob_of(output: &Arc<Output>) -> Option<&Blob> {
    match &output.content {
        Content::Inline(_) => None,
        Content::Stored(blob) => Some(blob),
    }
}

/// Deletes the result of an execution and lets its blob go.
pub(super) fn delete(db: &Connection, execution: ExecutionId, at: Time) -> Result<(), Error> {
    db.prepare_cached(LET_GO)?.execute(params![execution.to_bytes(), at.as_micros()])?;
    db.prepare_cached(DELETE_RESULT)?.execute(params![execution.to_bytes()])?;
    Ok(())
}

/// What is known of the result of an execution.
pub(super) fn result(db: &Connection, execution: ExecutionId) -> Result<Option<Box<StoredResult>>, Error> {
    let mut statement = db.prepare_cached(RESULT)?;
    let mut found = statement.query(params![execution.to_bytes()])?;
    Ok(found.next()?.map(kept).transpose()?.map(Box::new))
}

fn kept(row: &Row<'_>) -> Result<StoredResult, Error> {
    let size = row.get::<_, i64>(2)?.cast_unsigned();
    let inline: Option<Vec<u8>> = row.get(4)?;
    let content = match (inline, row.get::<_, Option<[u8; 16]>>(5)?) {
        (Some(bytes), _) => Some(Content::Inline(bytes)),
        (None, Some(id)) => {
            let id = BlobId::from_u128(u128::from_be_bytes(id));
            Some(Content::Stored(Blob { id, size, digest: cells::array(row, 6)? }))
        }
        (None, None) => None,
    };
    let expires_at = row.get::<_, Option<i64>>(3)?.map(Time::from_micros);
    Ok(StoredResult { media_type: row.get(0)?, file_name: row.get(1)?, size, expires_at, content })
}

/// Removes a bite of expired contents, and says how many.
pub(super) fn remove_expired(db: &Connection, sweep: &Sweep) -> Result<usize, Error> {
    let bite = params![sweep.results_until.as_micros(), sql_limit(sweep.limit)];
    db.prepare_cached(LET_EXPIRED_GO)?.execute(bite)?;
    Ok(db.prepare_cached(REMOVE_EXPIRED)?.execute(bite)?)
}

/// Notes a blob that is about to be written.
pub(super) fn begin_blob(db: &Connection, blob: BlobId, now: Time, place: BlobPlace) -> Result<(), Error> {
    db.prepare_cached(BEGIN_BLOB)?.execute(params![blob.to_bytes(), now.as_micros(), place as i16])?;
    Ok(())
}

/// Notes the upload in parts that is under way for a blob, or that there is none any more.
pub(super) fn note_upload(db: &Connection, blob: BlobId, upload: Option<&str>) -> Result<(), Error> {
    db.prepare_cached(NOTE_UPLOAD)?.execute(params![blob.to_bytes(), upload])?;
    Ok(())
}

/// What tells this database from others.
pub(super) fn store_id(db: &Connection) -> Result<u128, Error> {
    Ok(u128::from_be_bytes(db.query_row(STORE_ID, [], |row| row.get(0))?))
}

/// Those of some blobs that have no row.
pub(super) fn unknown(db: &Connection, blobs: Vec<BlobId>) -> Result<Vec<BlobId>, Error> {
    let mut has = db.prepare_cached(HAS_BLOB)?;
    let mut unknown = Vec::new();
    for blob in blobs {
        if !has.query_row(params![blob.to_bytes()], |row| row.get::<_, bool>(0))? {
            unknown.push(blob);
        }
    }
    Ok(unknown)
}

/// A loose blob is young again.
pub(super) fn touch_blob(db: &Connection, blob: BlobId, now: Time) -> Result<(), Error> {
    db.prepare_cached(TOUCH_BLOB)?.execute(params![blob.to_bytes(), now.as_micros()])?;
    Ok(())
}

/// Chooses a bite of blobs whose bytes are to be deleted, in places up to `reach`. From then on no result can name them.
pub(super) fn doom(db: &Connection, sweep: &Sweep, reach: BlobPlace) -> Result<Vec<DoomedBlob>, Error> {
    let mut statement = db.prepare_cached(LOOSE)?;
    let bite = params![sweep.loose_before.as_micros(), sql_limit(sweep.limit), reach as i16];
    let mut found = statement.query(bite)?;
    let mut blobs = Vec::new();
    while let Some(row) = found.next()? {
        let id = BlobId::from_u128(u128::from_be_bytes(cells::array(row, 0)?));
        blobs.push(DoomedBlob { id, place: BlobPlace::of(row.get(1)?)?, upload: row.get(2)? });
    }
    let mut doom = db.prepare_cached(DOOM)?;
    for blob in &blobs {
        doom.execute(params![blob.id.to_bytes()])?;
    }
    Ok(blobs)
}

/// Forgets blobs whose bytes are deleted.
pub(super) fn bury(db: &Connection, blobs: &[BlobId]) -> Result<(), Error> {
    let mut bury = db.prepare_cached(BURY)?;
    blobs.iter().try_for_each(|blob| bury.execute(params![blob.to_bytes()]).map(drop)).map_err(Error::from)
}
