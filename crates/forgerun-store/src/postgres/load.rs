//! Loads what a batch wants, and its related rows, and locks it until the transaction ends.
//!
//! One trip to the server for what was asked; a second one only if a job among it has a limit, and a third only if
//! somebody is to be told of what happens.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use forgerun_core::client::{ApiKey, Client};
use forgerun_core::codec::Corrupt;
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::job::{Head, IdempotencyKey, Job, Name, Shelf};
use forgerun_core::record::{Record, RecordKey, RecordKind};
use forgerun_core::related::{self, RelatedLimits, RelatedTurns};
use forgerun_core::rows::{CountSet, Counts, KeyRow, LimitRow, MoreRows};
use forgerun_core::scope::KeyScopes;
use forgerun_core::set_aside::{RowId, Unreadable};
use forgerun_core::time::Time;
use forgerun_core::{Rows, Wants, limits};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::connect::Connection;
use super::deliveries;
use super::pipeline::Pipeline;
use super::sql::Sql;
use super::transact::{FailedTry, StatementRunner};
use super::value::{NameText, Uuid};
use crate::{Error, Fault};

/// What was found and is held.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) rows: Rows,
    /// Unique keys that have a row.
    pub(super) uniques: BTreeSet<[u8; 32]>,
    /// Limit rows that are locked.
    pub(super) limits: BTreeSet<Name>,
    seen: HashSet<JobId>,
    /// Whether there is any webhook.
    pub(super) webhooks_exist: bool,
}

/// What a statement of the first stage was sent for.
enum LoadStatement<'a> {
    Begin,
    Lock,
    Clients,
    ApiKeys,
    Jobs,
    Keys,
    Uniques,
    Shelf(&'a Shelf),
    Due,
    DueRecords,
    Active,
    Context,
}

/// What earlier tries of a batch have shown.
#[derive(Default)]
pub(super) struct EarlierTries {
    /// Limits to hold besides those of the loaded jobs.
    pub(super) limits: BTreeSet<Name>,
    /// Counts that must be exact.
    pub(super) exact: CountSet,
    /// Rows that deciding asked for.
    pub(super) more: MoreRows,
    /// Jobs that a key points to and that were not there. A key may outlive a job that it met and did not make.
    gone: BTreeSet<JobId>,
    /// Unique keys of jobs that were loaded.
    uniques: BTreeSet<[u8; 32]>,
}

/// Begins a transaction and loads.
pub(super) async fn load(
    connection: &Connection,
    stage: &StatementRunner<'_>,
    wants: &Wants,
    earlier: &mut EarlierTries,
) -> Result<Loaded, FailedTry> {
    let mut loaded = Loaded::default();
    loaded.load_wants(connection, stage, wants, earlier).await?;
    loaded.check_uniques(wants, earlier)?;
    loaded.check_related(earlier)?;
    loaded.load_turns(connection, stage, wants).await?;
    loaded.load_limits(connection, stage, &earlier.limits).await?;
    deliveries::load(connection, stage, wants, loaded.webhooks_exist, &mut loaded.rows).await?;
    Ok(loaded)
}

impl Loaded {
    async fn load_wants(
        &mut self,
        connection: &Connection,
        stage: &StatementRunner<'_>,
        wants: &Wants,
        earlier: &EarlierTries,
    ) -> Result<(), FailedTry> {
        let exact_too = &earlier.exact;
        let exact = count_locks(&[&wants.exact, exact_too]);
        self.rows.uncertain = uncertain(wants, exact_too);
        let owners: Vec<Uuid> = wants.clients.iter().map(|&id| id.into()).collect();
        let ids: Vec<Uuid> = wants.jobs.union(&wants.jobs_sought).map(|&id| id.into()).collect();
        let clients: Vec<Uuid> = wants.keys.iter().map(|key| key.client.into()).collect();
        let operations: Vec<&str> = wants.keys.iter().map(|key| key.operation.as_str()).collect();
        let keys: Vec<&str> = wants.keys.iter().map(|key| key.key.as_str()).collect();
        let uniques: Vec<&[u8]> = wants.uniques.union(&earlier.uniques).map(|key| key.as_slice()).collect();
        let shelves: Vec<(i16, &str, i64)> = wants
            .shelves
            .iter()
            .map(|(shelf, &n)| (shelf.lane as i16, shelf.name.as_str(), n as i64))
            .collect();
        let due = wants.due.map(|due| (due.now.as_micros(), due.limit as i64));
        let record_kinds: Vec<i16> = wants.records.iter().map(|key| key.kind as i16).collect();
        let record_keys: Vec<&str> = wants.records.iter().map(|key| key.key.as_str()).collect();
        let due_records = wants.due.map(|due| (due.now.as_micros(), limits::DUE_RECORDS_MAX as i64));
        let counts: Vec<&str> = wants.counts.iter().map(Name::as_str).collect();

        let mut parts = vec![LoadStatement::Begin];
        let mut pipeline = Pipeline::new(connection);
        pipeline.push(Sql::Begin, []);
        // Before anything is held: whoever waits here keeps nobody waiting. The counts are read when this is held.
        if !exact.is_empty() {
            pipeline.push(Sql::LockCounts, [&exact]);
            parts.push(LoadStatement::Lock);
        }
        // Clients and jobs by id come first: they wait for others, and must not while holding what others skip.
        if !owners.is_empty() {
            pipeline.push(Sql::LockClients, [&owners]);
            pipeline.push(Sql::FindApiKeys, [&owners]);
            parts.extend([LoadStatement::Clients, LoadStatement::ApiKeys]);
        }
        if !keys.is_empty() || !uniques.is_empty() {
            pipeline.push(Sql::LockRelated, [&ids, &clients, &operations, &keys, &uniques]);
            parts.push(LoadStatement::Jobs);
        } else if !ids.is_empty() {
            pipeline.push(Sql::LockJobs, [&ids]);
            parts.push(LoadStatement::Jobs);
        }
        if !keys.is_empty() {
            pipeline.push(Sql::FindKeys, [&clients, &operations, &keys]);
            parts.push(LoadStatement::Keys);
        }
        if !uniques.is_empty() {
            pipeline.push(Sql::FindUniques, [&uniques]);
            parts.push(LoadStatement::Uniques);
        }
        for ((lane, name, n), shelf) in shelves.iter().zip(wants.shelves.keys()) {
            pipeline.push(Sql::LockShelf, [lane, name, n]);
            parts.push(LoadStatement::Shelf(shelf));
        }
        if let Some((now, n)) = &due {
            pipeline.push(Sql::LockDue, [now, n]);
            parts.push(LoadStatement::Due);
        }
        if let Some((now, n)) = &due_records {
            pipeline.push(Sql::LockDueRecords, [now, n, &RecordKind::KNOWN]);
            parts.push(LoadStatement::DueRecords);
        }
        if wants.active {
            pipeline.push(Sql::CountActive, []);
            parts.push(LoadStatement::Active);
        }
        pipeline.push(Sql::FindContext, [&record_kinds, &record_keys, &counts]);
        parts.push(LoadStatement::Context);
        self.rows.counts = wants.counts.iter().map(|name| (name.clone(), Counts::default())).collect();
        for (part, rows) in parts.into_iter().zip(stage.load(pipeline).await?) {
            self.take(part, rows, wants).map_err(FailedTry::open)?;
        }
        Ok(())
    }

    fn take(&mut self, part: LoadStatement<'_>, rows: Vec<Row>, wants: &Wants) -> Result<(), Error> {
        match part {
            LoadStatement::Begin | LoadStatement::Lock => {}
            LoadStatement::Clients => {
                let clients =
                    rows.iter().map(read_client).map(|client| client.map(|client| (client.id, client)));
                self.rows.clients = clients.collect::<Result<_, _>>()?;
            }
            LoadStatement::ApiKeys => {
                self.rows.api_keys = rows.iter().map(read_api_key).collect::<Result<_, _>>()?
            }
            LoadStatement::Jobs => self.take_named(&rows, wants)?,
            LoadStatement::Keys => self.rows.keys = rows.iter().map(read_key).collect::<Result<_, _>>()?,
            LoadStatement::Uniques => {
                for row in &rows {
                    let key = sized(cell(row, 0)?)?;
                    self.uniques.insert(key);
                    self.rows.uniques.insert(key, cell::<Uuid>(row, 1)?.into());
                }
            }
            LoadStatement::Shelf(shelf) => {
                let found = self.take_jobs(&rows)?;
                self.rows.shelves.insert(shelf.clone(), found);
            }
            LoadStatement::Due => self.rows.due = self.take_jobs(&rows)?,
            LoadStatement::DueRecords => {
                for row in &rows {
                    let record = read_record(row)?;
                    self.rows.records_due.push(record.key.clone());
                    self.rows.records.insert(record.key.clone(), record);
                }
            }
            LoadStatement::Active => {
                let active: i64 = cell(rows.first().ok_or(Corrupt)?, 0)?;
                self.rows.active = u64::try_from(active).unwrap_or(0);
            }
            LoadStatement::Context => rows.iter().try_for_each(|row| self.take_context(row))?,
        }
        Ok(())
    }

    /// A record, counts of a queue, or whether there is any webhook.
    fn take_context(&mut self, row: &Row) -> Result<(), Error> {
        if cell::<Option<i16>>(row, 0)?.is_some() {
            let record = read_record(row)?;
            self.rows.records.insert(record.key.clone(), record);
        } else if let Some(queue) = cell::<Option<NameText>>(row, 1)? {
            self.rows.counts.entry(queue.0).or_default().merge(&read_counts(row, 6)?);
        } else {
            self.webhooks_exist = cell::<i64>(row, 4)? > 0;
        }
        Ok(())
    }

    /// Adds the jobs that are loaded by their ids. They come first.
    fn take_named(&mut self, rows: &[Row], wants: &Wants) -> Result<(), Error> {
        for row in rows {
            let id: JobId = cell::<Uuid>(row, 0)?.into();
            match read_job(row) {
                Ok(job) if self.seen.insert(id) => self.rows.jobs.push(job),
                Ok(_) => {}
                Err(error) if wants.jobs_sought.contains(&id) && !wants.jobs.contains(&id) => {
                    self.note_unreadable(id, error)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Notes a job that cannot be read, and that no command names.
    fn note_unreadable(&mut self, id: JobId, error: Error) -> Result<(), Error> {
        if error.fault != Fault::Corrupt {
            return Err(error);
        }
        self.seen.insert(id);
        let (row, reason) = (RowId::Job(id), error.to_string());
        self.rows.unreadable.push(Unreadable { row, reason, next: None });
        Ok(())
    }

    /// Adds the jobs that are not there yet, and notes those that cannot be read; returns the ids of all, in the order of the
    /// rows.
    fn take_jobs(&mut self, rows: &[Row]) -> Result<Vec<JobId>, Error> {
        let mut ids = Vec::with_capacity(rows.len());
        for row in rows {
            let id: JobId = cell::<Uuid>(row, 0)?.into();
            ids.push(id);
            if !self.seen.insert(id) {
                continue;
            }
            match read_job(row) {
                Ok(job) => self.rows.jobs.push(job),
                Err(error) => self.note_unreadable(id, error)?,
            }
        }
        Ok(ids)
    }

    /// Unique keys that are known only now that their jobs are here. Their holders are locked in the order of all jobs, so it begins anew.
    fn check_uniques(&self, wants: &Wants, earlier: &mut EarlierTries) -> Result<(), FailedTry> {
        let mut uniques = related::uniques(wants, &self.rows.jobs);
        uniques.retain(|key| !earlier.uniques.contains(key));
        if uniques.is_empty() {
            return Ok(());
        }
        earlier.uniques.append(&mut uniques);
        Err(FailedTry::race("the unique key of a job was not known"))
    }

    /// Keys are read after their jobs were locked. One that points elsewhere was set in between, and its job is found the
    /// next time; if it is not, it is gone, since a job and its key become visible together.
    fn check_related(&self, earlier: &mut EarlierTries) -> Result<(), FailedTry> {
        let of_keys = self.rows.keys.values().flat_map(|row| &row.jobs);
        let related = of_keys.chain(self.rows.uniques.values());
        let missing: BTreeSet<JobId> = related.filter(|id| !self.seen.contains(id)).copied().collect();
        if missing.is_subset(&earlier.gone) {
            return Ok(());
        }
        earlier.gone = missing;
        Err(FailedTry::race("a key was set while it was looked up"))
    }

    /// The turns of the loaded jobs, and the jobs that step forward. Their rows come before all limits in the order of keys.
    async fn load_turns(
        &mut self,
        connection: &Connection,
        stage: &StatementRunner<'_>,
        wants: &Wants,
    ) -> Result<(), FailedTry> {
        let turns = related::turns(wants, &self.rows.shelves, &self.rows.jobs);
        if turns.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = turns.rows.iter().map(Name::as_str).collect();
        let behind: Vec<(i16, &str, i64)> = turns
            .behind
            .iter()
            .map(|(shelf, &n)| (shelf.lane as i16, shelf.name.as_str(), n as i64))
            .collect();
        let without_key: Vec<(i16, &str, i64, i16)> = turns
            .without_key
            .iter()
            .map(|((shelf, priority), &n)| (shelf.lane as i16, shelf.name.as_str(), n as i64, *priority))
            .collect();
        let first = Uuid::from(RelatedTurns::FIRST_PLACE);

        let mut pipeline = Pipeline::new(connection);
        pipeline.push(Sql::LockLimits, [&names]);
        pipeline.push(Sql::FindLimits, [&names]);
        for (lane, name, n) in &behind {
            pipeline.push(Sql::LockShelf, [lane, name, n]);
            pipeline.push(Sql::CountShelf, [lane, name, n]);
        }
        for (lane, name, n, priority) in &without_key {
            pipeline.push(Sql::LockShelfFrom, [lane, name, n, priority, &first]);
        }
        let mut answers = stage.load(pipeline).await?.into_iter().skip(1);
        let mut next = || answers.next().unwrap_or_default();
        let limits: Result<Vec<_>, Error> = next().iter().map(read_limit).collect();
        self.rows.limits.extend(limits.map_err(FailedTry::open)?);
        for shelf in turns.behind.keys() {
            let found = self.take_jobs(&next()).map_err(FailedTry::open)?;
            let n_behind: i64 = next().first().map_or(Ok(0), |row| cell(row, 0)).map_err(FailedTry::open)?;
            if found.is_empty() && n_behind > 0 {
                // All that may step forward are held by others. Without them their key would seem to have no jobs.
                return Err(FailedTry::race("the next jobs of a fair key are held by another transaction"));
            }
            self.rows.shelves.insert(shelf.clone(), found);
        }
        for of in turns.without_key.keys() {
            let found = self.take_jobs(&next()).map_err(FailedTry::open)?;
            self.rows.behind_turns.insert(of.clone(), found);
        }
        self.limits.extend(turns.rows.iter().cloned());
        self.rows.turns = turns;
        Ok(())
    }

    /// Limits of the loaded jobs, in the order of their keys; then who waits for a place that may become free.
    async fn load_limits(
        &mut self,
        connection: &Connection,
        stage: &StatementRunner<'_>,
        limits_too: &BTreeSet<Name>,
    ) -> Result<(), FailedTry> {
        let RelatedLimits { keys: mut all, parked } = related::limits(&self.rows.jobs);
        all.extend(limits_too.iter().cloned());
        if all.is_empty() {
            return Ok(());
        }
        let n = limits::UNPARK_MAX as i64;
        let names: Vec<&str> = all.iter().map(Name::as_str).collect();
        let shelves: Vec<(i16, &str)> =
            parked.iter().map(|shelf| (shelf.lane as i16, shelf.name.as_str())).collect();

        let mut pipeline = Pipeline::new(connection);
        pipeline.push(Sql::LockLimits, [&names]);
        pipeline.push(Sql::FindLimits, [&names]);
        for (lane, name) in &shelves {
            pipeline.push(Sql::LockShelf, [lane, name, &n]);
            pipeline.push(Sql::CountShelf, [lane, name, &n]);
        }
        let mut answers = stage.load(pipeline).await?.into_iter().skip(1);
        let mut next = || answers.next().unwrap_or_default();
        let limits: Result<Vec<_>, Error> = next().iter().map(read_limit).collect();
        self.rows.limits.extend(limits.map_err(FailedTry::open)?);
        for shelf in parked {
            let found = self.take_jobs(&next()).map_err(FailedTry::open)?;
            let n_parked: i64 = next().first().map_or(Ok(0), |row| cell(row, 0)).map_err(FailedTry::open)?;
            if n_parked > found.len() as i64 && stage.may_retry {
                // Somebody else looks at a job that waits for the place that may become free here. They wait for our lock on the
                // limit, so going on without the job could leave it waiting for ever.
                return Err(FailedTry::race("a waiting job is held by another transaction"));
            }
            self.rows.shelves.insert(shelf, found);
        }
        self.limits.append(&mut all);
        Ok(())
    }
}

/// What is locked for counts that must be exact, in an order that all nodes share: a number for each queue, and zero for the
/// jobs that workers hold. Two queues with one number wait for each other now and then.
fn count_locks(exact: &[&CountSet]) -> Vec<i32> {
    let active = exact.iter().any(|set| set.active).then_some(0);
    let queues =
        exact.iter().flat_map(|set| set.queues.union(&set.turns)).map(|queue| number_of(queue.as_str()));
    let locks: BTreeSet<i32> = queues.chain(active).collect();
    locks.into_iter().collect()
}

/// FNV-1a: the same on every node, whatever its version.
fn number_of(queue: &str) -> i32 {
    let hash =
        queue.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.cast_signed()
}

/// The counts that are loaded without being locked.
fn uncertain(wants: &Wants, exact_too: &CountSet) -> CountSet {
    let locked = |queue: &&Name| wants.exact.queues.contains(*queue) || exact_too.queues.contains(*queue);
    let shelves = wants.shelves.keys().map(|shelf| &shelf.name);
    CountSet {
        queues: wants.counts.iter().filter(|queue| !locked(queue)).cloned().collect(),
        turns: shelves.filter(|queue| !exact_too.turns.contains(*queue)).cloned().collect(),
        active: wants.active && !wants.exact.active && !exact_too.active,
    }
}

/// A column of a row.
pub(super) fn cell<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, Error> {
    row.try_get(column).map_err(|error| Error::new(Fault::Corrupt, error))
}

fn sized(bytes: &[u8]) -> Result<[u8; 32], Error> {
    Ok(bytes.try_into().map_err(|_| Corrupt)?)
}

/// A job from `id, head, body`.
pub(super) fn read_job(row: &Row) -> Result<Job, Error> {
    read_job_at(row, 0)
}

/// The same, from this column on.
pub(super) fn read_job_at(row: &Row, first: usize) -> Result<Job, Error> {
    let id: JobId = cell::<Uuid>(row, first)?.into();
    let head = Head::decode(cell(row, first + 1)?)?;
    Ok(Job::decode(id, Arc::new(head), cell(row, first + 2)?)?)
}

/// A record from `kind, key, grp, due_at, version, bytes`.
pub(super) fn read_record(row: &Row) -> Result<Record, Error> {
    let kind = u8::try_from(cell::<i16>(row, 0)?).ok().and_then(RecordKind::from_u8).ok_or(Corrupt)?;
    Ok(Record {
        key: RecordKey { kind, key: cell(row, 1)? },
        group: cell(row, 2)?,
        due_at: cell::<Option<i64>>(row, 3)?.map(Time::from_micros),
        version: cell::<i64>(row, 4)?.cast_unsigned(),
        bytes: cell(row, 5)?,
    })
}

/// Counts, from this column on.
pub(super) fn read_counts(row: &Row, first: usize) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    for (n, count) in counts.0.iter_mut().enumerate() {
        *count = cell(row, first + n)?;
    }
    Ok(counts)
}

/// SHA-256 digests and fingerprints.
pub(super) fn read_digest(row: &Row, column: usize) -> Result<[u8; 32], Error> {
    sized(cell(row, column)?)
}

/// A client from `id, created_at`.
pub(super) fn read_client(row: &Row) -> Result<Client, Error> {
    let created_at = Time::from_micros(cell(row, 1)?);
    Ok(Client { id: cell::<Uuid>(row, 0)?.into(), created_at, keyed: cell(row, 2)? })
}

/// A key from `id, client, digest, prefix, created_at, expires_at, revoked_at, last_used_at,
/// name, scopes`.
pub(super) fn read_api_key(row: &Row) -> Result<ApiKey, Error> {
    let moment = |column| Ok::<_, Error>(cell::<Option<i64>>(row, column)?.map(Time::from_micros));
    Ok(ApiKey {
        id: cell::<Uuid>(row, 0)?.into(),
        client: cell::<Uuid>(row, 1)?.into(),
        digest: read_digest(row, 2)?,
        prefix: cell(row, 3)?,
        created_at: Time::from_micros(cell(row, 4)?),
        expires_at: moment(5)?,
        revoked_at: moment(6)?,
        last_used_at: moment(7)?,
        name: cell(row, 8)?,
        scopes: KeyScopes::from_bits(cell::<Option<i16>>(row, 9)?.map(|bits| bits as u8)),
    })
}

fn read_key(row: &Row) -> Result<(IdempotencyKey, KeyRow), Error> {
    let client: ClientId = cell::<Uuid>(row, 0)?.into();
    let key = IdempotencyKey { client, operation: cell(row, 1)?, key: cell(row, 2)? };
    let jobs = cell::<Vec<Uuid>>(row, 4)?.into_iter().map(JobId::from).collect();
    Ok((key, KeyRow { fingerprint: read_digest(row, 3)?, jobs }))
}

pub(super) fn read_limit(row: &Row) -> Result<(Name, LimitRow), Error> {
    let active = u32::try_from(cell::<i64>(row, 1)?).map_err(|_| Corrupt)?;
    Ok((cell::<NameText>(row, 0)?.0, LimitRow { active, turn_at: Time::from_micros(cell(row, 2)?) }))
}
