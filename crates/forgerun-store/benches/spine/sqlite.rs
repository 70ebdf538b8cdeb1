//! SQLite: the store and the bare loop on files of their own, on the same disk.

use std::path::Path;

use forgerun_core::history::encode_entries;
use forgerun_core::job::Job;
use forgerun_core::rows::{Counts, Outcome};
use forgerun_core::{Batch, Changes};
use forgerun_store::memory::Memory;
use forgerun_store::sqlite::Sqlite;
use rusqlite::{Connection, params};
use tokio::runtime::Runtime;

use crate::work::{Work, lifecycle, transact};
use crate::{Options, Took, compare, grown, head, timed};

pub(crate) const LIFECYCLE_BATCH: usize = 256;
const SUBMIT_BATCH: usize = 1024;

pub(crate) fn run(options: &Options) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    println!("\nSQLite, `synchronous=FULL`, {} jobs a round, {} rounds\n", options.jobs, options.rounds);
    if options.grown {
        return grown::run(options, &runtime);
    }
    head("bare loop", "store");
    compare_lifecycle(options, &runtime);
    compare_submit(options, &runtime);
}

fn compare_lifecycle(options: &Options, runtime: &Runtime) {
    let mut work = Work::new();
    let n_batches = options.jobs / LIFECYCLE_BATCH;
    let submits: Vec<Batch> = (0..n_batches).map(|_| work.submit(LIFECYCLE_BATCH)).collect();
    let mut recorded = Vec::new();
    let memory = Memory::new();
    let record = |changes| recorded.push(Rows::of(&changes));
    runtime.block_on(lifecycle(&memory, &mut work.clone(), submits.clone(), LIFECYCLE_BATCH, record));
    drop(memory);
    let store = || {
        let (_folder, store) = new_store();
        let (mut work, submits) = (work.clone(), submits.clone());
        timed(|| runtime.block_on(lifecycle(&store, &mut work, submits, LIFECYCLE_BATCH, drop)))
    };
    compare("lifecycle, batch 256", options, n_batches * LIFECYCLE_BATCH, || bare(&recorded), store);
}

fn compare_submit(options: &Options, runtime: &Runtime) {
    let mut work = Work::new();
    let n_batches = options.jobs / SUBMIT_BATCH;
    let submits: Vec<Batch> = (0..n_batches).map(|_| work.submit_bulk(SUBMIT_BATCH)).collect();
    let memory = Memory::new();
    let record = |submit: &Batch| Rows::of(&runtime.block_on(transact(&memory, submit.clone())));
    let recorded: Vec<Rows> = submits.iter().map(record).collect();
    drop(memory);
    let store = || {
        let (_folder, store) = new_store();
        let submits = submits.clone();
        timed(|| {
            for submit in submits {
                runtime.block_on(transact(&store, submit));
            }
        })
    };
    compare("submit, batch 1024", options, n_batches * SUBMIT_BATCH, || bare(&recorded), store);
}

pub(crate) fn new_store() -> (tempfile::TempDir, Sqlite) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Sqlite::open(&folder.path().join("jobs.db")).expect("a store");
    (folder, store)
}

/// What one transaction writes, ready to be bound.
struct Rows {
    inserted: Vec<(JobRow, Vec<u8>)>,
    updated: Vec<JobRow>,
    outcomes: Vec<Outcome>,
    counts: Vec<(String, [i64; 7])>,
    at: i64,
    entries: Vec<u8>,
}

struct JobRow {
    job: Job,
    lane: Option<u8>,
    shelf: Option<String>,
    due_at: Option<i64>,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl JobRow {
    fn of(job: &Job) -> JobRow {
        let shelf = job.shelf();
        JobRow {
            lane: shelf.as_ref().map(|shelf| shelf.lane as u8),
            shelf: shelf.map(|shelf| shelf.name.as_str().into()),
            due_at: job.due_at().map(|due| due.as_micros()),
            head: job.head.encode(),
            body: job.encode(),
            job: job.clone(),
        }
    }
}

impl Rows {
    fn of(changes: &Changes) -> Rows {
        let mut sum = Counts::default();
        changes.counts.values().for_each(|counts| sum.merge(counts));
        let counts =
            changes.counts.iter().map(|(queue, counts)| (queue.as_str().to_owned(), by_state(counts)));
        Rows {
            inserted: changes.inserted.iter().map(|(job, input)| (JobRow::of(job), input.encode())).collect(),
            updated: changes.updated.iter().map(JobRow::of).collect(),
            outcomes: changes.outcomes.clone(),
            counts: counts.chain([(String::new(), by_state(&sum))]).collect(),
            at: changes.journal.last().map_or(0, |entry| entry.at().as_micros()),
            entries: encode_entries(&changes.journal),
        }
    }
}

/// Writes what was recorded, and nothing else: no reading, no deciding, no encoding, no other thread.
fn bare(recorded: &[Rows]) -> Took {
    let (folder, store) = new_store();
    drop(store);
    let db = bare_connection(&folder.path().join("jobs.db"));
    timed(|| recorded.iter().for_each(|rows| write(&db, rows).expect("the bare loop works")))
}

fn bare_connection(path: &Path) -> Connection {
    let db = Connection::open(path).expect("the file");
    db.set_prepared_statement_cache_capacity(64);
    let settings = "
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = FULL;
        PRAGMA wal_autocheckpoint = 1000;
        PRAGMA temp_store = MEMORY;
        PRAGMA cache_size = -16384;
    ";
    db.execute_batch(settings).expect("the settings");
    db
}

fn write(db: &Connection, rows: &Rows) -> rusqlite::Result<()> {
    db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut insert = db.prepare_cached(
        "INSERT INTO jobs (id, client, queue, job_type, state, priority, lane, shelf, due_at, head, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    let mut insert_input = db.prepare_cached("INSERT INTO inputs (job, bytes) VALUES (?1, ?2)")?;
    for (JobRow { job, lane, shelf, due_at, head, body }, input) in &rows.inserted {
        let n = insert.insert(params![
            job.id.to_bytes(),
            job.head.client.to_bytes(),
            job.head.queue.as_str(),
            job.head.job_type,
            job.state.as_u8(),
            job.head.priority,
            lane,
            shelf,
            due_at,
            head,
            body,
        ])?;
        insert_input.execute(params![n, input])?;
    }
    let mut update = db.prepare_cached(
        "UPDATE jobs SET state = ?2, lane = ?3, shelf = ?4, due_at = ?5, body = ?6 WHERE id = ?1",
    )?;
    for JobRow { job, lane, shelf, due_at, body, .. } in &rows.updated {
        update.execute(params![job.id.to_bytes(), job.state.as_u8(), lane, shelf, due_at, body])?;
    }
    write_rest(db, rows)?;
    db.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}

fn write_rest(db: &Connection, rows: &Rows) -> rusqlite::Result<()> {
    let mut insert =
        db.prepare_cached("INSERT INTO outcomes (execution, job, digest, bytes) VALUES (?1, ?2, ?3, ?4)")?;
    for outcome in &rows.outcomes {
        let (execution, job) = (outcome.execution.to_bytes(), outcome.job.to_bytes());
        insert.execute(params![execution, job, outcome.object.digest, outcome.object.bytes])?;
    }
    let mut add = db.prepare_cached(
        "INSERT INTO counts (queue, created, queued, assigned, running, succeeded, failed, canceled)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (queue) DO UPDATE SET created = created + ?2, queued = queued + ?3, assigned = assigned + ?4,
             running = running + ?5, succeeded = succeeded + ?6, failed = failed + ?7, canceled = canceled + ?8",
    )?;
    for (queue, [a, b, c, d, e, f, g]) in &rows.counts {
        add.execute(params![queue, a, b, c, d, e, f, g])?;
    }
    let mut append = db.prepare_cached("INSERT INTO journal (at, entries) VALUES (?1, ?2)")?;
    append.execute(params![rows.at, rows.entries])?;
    Ok(())
}

/// The counts by state; the spine has nothing that is held, waits or expires.
fn by_state(counts: &Counts) -> [i64; 7] {
    *counts.0.first_chunk().expect("more than seven")
}
