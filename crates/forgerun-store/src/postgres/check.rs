//! A database that is being checked.

use std::error::Error as StdError;
use std::sync::Arc;

use bytes::BytesMut;
use forgerun_core::id::BlobId;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Row};

use super::connect::{self, Address};
use super::value::Uuid;
use super::{Postgres, fault};
use crate::check::{BlobAnswer, BlobDigest, Cell, CheckReport, CheckSource, CheckedRow, check};
use crate::{BlobPlace, Boxed, Error, Fault, ObjectPlace, SchemaStatus};

const JOBS: &str = "
    SELECT jobs.id, jobs.client, jobs.queue, jobs.job_type, jobs.state, jobs.priority, jobs.lane, jobs.shelf,
           jobs.due_at, jobs.place, jobs.head, jobs.body, inputs.input
      FROM jobs LEFT JOIN inputs ON inputs.job = jobs.id
     WHERE jobs.id > $1
     ORDER BY jobs.id
     LIMIT 500";

const LOST_INPUTS: &str = "
    SELECT job FROM inputs WHERE NOT EXISTS (SELECT FROM jobs WHERE jobs.id = inputs.job) LIMIT 100";

const CHUNKS: &str = "
    SELECT start, bytes FROM blob_chunks WHERE blob = $1 AND start > $2 ORDER BY start LIMIT 16";

const STORE_ID: &str = "SELECT id FROM store";

/// Reads as of one moment, and takes as long as it takes.
const BEGIN: &str = "SET statement_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Bytes of an object in memory at once.
const READ_AT_ONCE: usize = 1024 * 1024;

impl Postgres {
    /// Checks the database, which servers may use. A schema of another version is refused.
    pub async fn check(url: &str, objects: Option<&Arc<dyn ObjectPlace>>) -> Result<CheckReport, Error> {
        let address = Address::parse(url)?;
        let place = address.place();
        let SchemaStatus { applied, known, pending } = Postgres::schema(url).await?;
        if !pending.is_empty() {
            let text =
                format!("the schema has version {applied}, this program needs {known}: run forgerun migrate");
            return Err(fault::at(&place, Error::new(Fault::Unavailable, text)));
        }
        let checked = async {
            let client = connect::open_bare(&address).await.map_err(fault::report)?;
            client.batch_execute(BEGIN).await.map_err(fault::report)?;
            let mut source = CheckedDatabase { client, objects: None };
            if let Some(objects) = objects {
                let found = source.query(STORE_ID, &[]).await?;
                let id = found
                    .first()
                    .ok_or_else(|| Error::new(Fault::Corrupt, "the database has lost its id"))?;
                source.objects = Some(objects.below(id.id(0)?));
            }
            check(&mut source).await
        };
        checked.await.map_err(|error| fault::at(&place, error))
    }
}

struct CheckedDatabase {
    /// In a transaction that only reads.
    client: Client,
    /// The part of the object store that belongs to this database.
    objects: Option<Arc<dyn ObjectPlace>>,
}

impl CheckedDatabase {
    async fn query(&self, sql: &str, values: &[Cell]) -> Result<Vec<CheckedRow>, Error> {
        let values: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let rows = self.client.query(sql, &values).await.map_err(fault::report)?;
        rows.iter().map(read_row).collect()
    }

    async fn chunks(&self, blob: BlobId) -> Result<BlobAnswer, Error> {
        let (mut digest, mut after) = (BlobDigest::default(), -1);
        loop {
            let values = [Cell::from(blob.to_bytes()), Cell::Number(after)];
            let chunks = self.query(CHUNKS, &values).await?;
            if chunks.is_empty() {
                break;
            }
            for chunk in chunks {
                let (start, bytes) = (chunk.number(0)?.unwrap_or_default(), chunk.bytes(1)?);
                if u64::try_from(start) != Ok(digest.size) {
                    return Ok(BlobAnswer::Missing);
                }
                digest.update(bytes);
                after = start;
            }
        }
        match after {
            -1 => Ok(BlobAnswer::Missing),
            _ => Ok(BlobAnswer::Read(digest)),
        }
    }

    async fn object(&self, blob: BlobId) -> Result<BlobAnswer, Error> {
        let Some(objects) = &self.objects else { return Ok(BlobAnswer::OutOfReach) };
        let source = match objects.open(blob).await {
            Err(error) if error.fault == Fault::Corrupt => return Ok(BlobAnswer::Missing),
            opened => opened?,
        };
        let mut digest = BlobDigest::default();
        while digest.size < source.size().unwrap_or_default() {
            digest.update(&source.read(digest.size, READ_AT_ONCE).await?);
        }
        Ok(BlobAnswer::Read(digest))
    }
}

impl CheckSource for CheckedDatabase {
    /// Its own tools check its files (`pg_amcheck`); pages with wrong checksums fail to be read.
    fn damage(&mut self) -> Boxed<'_, Vec<String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn rows<'a>(&'a mut self, sql: &'a str, values: &'a [Cell]) -> Boxed<'a, Vec<CheckedRow>> {
        Box::pin(self.query(sql, values))
    }

    fn jobs_sql(&self) -> &'static str {
        JOBS
    }

    fn lost_inputs_sql(&self) -> &'static str {
        LOST_INPUTS
    }

    fn blob(&mut self, blob: BlobId, place: BlobPlace) -> Boxed<'_, BlobAnswer> {
        Box::pin(async move {
            match place {
                BlobPlace::Beside => self.chunks(blob).await,
                BlobPlace::Objects => self.object(blob).await,
            }
        })
    }
}

fn read_row(row: &Row) -> Result<CheckedRow, Error> {
    let cell = |n: usize| {
        let column = row.columns()[n].type_();
        Ok(match *column {
            Type::INT2 => row.try_get::<_, Option<i16>>(n).map_err(fault::report)?.map(i64::from).into(),
            Type::INT4 => row.try_get::<_, Option<i32>>(n).map_err(fault::report)?.map(i64::from).into(),
            Type::INT8 => row.try_get::<_, Option<i64>>(n).map_err(fault::report)?.into(),
            Type::UUID => {
                let id = row.try_get::<_, Option<Uuid>>(n).map_err(fault::report)?;
                id.map(|id| id.as_u128().to_be_bytes()).into()
            }
            Type::BYTEA => {
                let bytes = row.try_get::<_, Option<Vec<u8>>>(n).map_err(fault::report)?;
                bytes.map_or(Cell::Null, Cell::Bytes)
            }
            _ => row.try_get::<_, Option<&str>>(n).map_err(fault::report)?.into(),
        })
    };
    Ok(CheckedRow((0..row.len()).map(cell).collect::<Result<_, Error>>()?))
}

impl ToSql for Cell {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Cell::Null => return Ok(IsNull::Yes),
            Cell::Number(number) => match *kind {
                Type::INT2 => return i16::try_from(*number)?.to_sql(kind, out),
                _ => return number.to_sql(kind, out),
            },
            Cell::Text(text) => return text.to_sql(kind, out),
            // The smallest id.
            Cell::Bytes(bytes) if bytes.is_empty() && *kind == Type::UUID => out.extend_from_slice(&[0; 16]),
            Cell::Bytes(bytes) => out.extend_from_slice(bytes),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
