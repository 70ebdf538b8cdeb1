//! A file that is being checked.

use std::path::Path;
use std::sync::Arc;

use forgerun_core::id::BlobId;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, params_from_iter};

use super::Sqlite;
use super::backup::BlobReader;
use super::connect::{DatabaseFile, Options};
use crate::check::{BlobAnswer, BlobDigest, Cell, CheckReport, CheckSource, CheckedRow, check};
use crate::{BlobPlace, Boxed, Error, Fault, ObjectPlace, SchemaStatus};

const JOBS: &str = "
    SELECT jobs.id, jobs.client, jobs.queue, jobs.job_type, jobs.state, jobs.priority, jobs.lane, jobs.shelf,
        jobs.due_at, jobs.place, jobs.head, jobs.body, inputs.bytes
    FROM jobs LEFT JOIN inputs ON inputs.job = jobs.n
    WHERE jobs.id > $1
    ORDER BY jobs.id
    LIMIT 500
";

const LOST_INPUTS: &str = "
    SELECT job
    FROM inputs
    WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.n = inputs.job)
    LIMIT 100
";

/// Bytes of a blob in memory at once.
const READ_AT_ONCE: usize = 256 * 1024;

impl Sqlite {
    /// Checks the file at `path`, which servers may use, and the large results beside it. A schema of another version is refused.
    pub async fn check(path: &Path, objects: Option<&Arc<dyn ObjectPlace>>) -> Result<CheckReport, Error> {
        let file = DatabaseFile { path: path.to_owned(), options: Options::default() };
        let opened = open(&file, path, objects);
        let mut source = match opened {
            Err(error) if error.fault == Fault::Corrupt => {
                return Ok(CheckReport::of_damage(format_args!("file {}", path.display()), error));
            }
            opened => opened?,
        };
        check(&mut source).await
    }
}

fn open(
    file: &DatabaseFile,
    path: &Path,
    objects: Option<&Arc<dyn ObjectPlace>>,
) -> Result<CheckedFile, Error> {
    let SchemaStatus { applied, known, pending } = Sqlite::schema(path)?;
    if !pending.is_empty() {
        let text =
            format!("the schema has version {applied}, this program needs {known}: run forgerun migrate");
        return Err(Error::new(Fault::Unavailable, text));
    }
    let db = file.reader()?;
    db.execute_batch("BEGIN")?;
    Ok(CheckedFile { db, has_objects: objects.is_some(), blobs: Sqlite::blob_reader(path, objects)? })
}

struct CheckedFile {
    /// In a transaction that only reads.
    db: Connection,
    has_objects: bool,
    blobs: BlobReader,
}

impl CheckedFile {
    fn query(&self, sql: &str, values: &[Cell]) -> Result<Vec<CheckedRow>, Error> {
        let mut statement = self.db.prepare_cached(sql)?;
        let n_columns = statement.column_count();
        let mut found = statement.query(params_from_iter(values))?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let cell = |column| Ok(Cell::from(row.get_ref(column)?));
            rows.push(CheckedRow((0..n_columns).map(cell).collect::<Result<_, Error>>()?));
        }
        Ok(rows)
    }

    /// One finding per line.
    fn integrity(&self) -> Result<Vec<String>, Error> {
        let rows = self.query("PRAGMA integrity_check(100)", &[])?;
        Ok(rows.iter().map(|row| row.shown(0)).filter(|line| line != "ok").collect())
    }
}

impl CheckSource for CheckedFile {
    fn damage(&mut self) -> Boxed<'_, Vec<String>> {
        let found = match self.integrity() {
            Err(error) if error.fault == Fault::Corrupt => Ok(vec![error.to_string()]),
            found => found,
        };
        Box::pin(async { found })
    }

    fn rows<'a>(&'a mut self, sql: &'a str, values: &'a [Cell]) -> Boxed<'a, Vec<CheckedRow>> {
        let found = self.query(sql, values);
        Box::pin(async { found })
    }

    fn jobs_sql(&self) -> &'static str {
        JOBS
    }

    fn lost_inputs_sql(&self) -> &'static str {
        LOST_INPUTS
    }

    fn blob(&mut self, blob: BlobId, place: BlobPlace) -> Boxed<'_, BlobAnswer> {
        if place == BlobPlace::Objects && !self.has_objects {
            return Box::pin(async { Ok(BlobAnswer::OutOfReach) });
        }
        let blobs = &self.blobs;
        Box::pin(async move {
            let source = match blobs.open(blob).await {
                Err(error) if error.fault == Fault::Corrupt => return Ok(BlobAnswer::Missing),
                opened => opened?,
            };
            let mut digest = BlobDigest::default();
            while digest.size < source.size().unwrap_or_default() {
                digest.update(&source.read(digest.size, READ_AT_ONCE).await?);
            }
            Ok(BlobAnswer::Read(digest))
        })
    }
}

impl From<ValueRef<'_>> for Cell {
    fn from(value: ValueRef<'_>) -> Cell {
        match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(number) => Cell::Number(number),
            // No column of ours holds one, so whatever is compared with it disagrees.
            ValueRef::Real(number) => Cell::Text(number.to_string()),
            ValueRef::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => Cell::from(text),
                Err(_) => Cell::Bytes(text.to_vec()),
            },
            ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
        }
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Cell::Null => ValueRef::Null,
            Cell::Number(number) => ValueRef::Integer(*number),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
            Cell::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
