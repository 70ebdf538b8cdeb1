//! A store with many jobs beside a new one: whole jobs, opening, memory, size.
//!
//! Filling leaves caches and memory behind. So a process that has filled a store leaves measuring to another.

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;

use forgerun_store::sqlite::Sqlite;
use rusqlite::Connection;
use tokio::runtime::Runtime;

use crate::sqlite::{LIFECYCLE_BATCH, new_store};
use crate::work::{Work, lifecycle, transact};
use crate::{Options, Took, compare, head, timed};

/// Jobs of a transaction while a store is filled: as many as one submission may have.
const FILL_BATCH: usize = 1000;

pub(crate) fn run(options: &Options, runtime: &Runtime) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = options.store.clone().unwrap_or_else(|| folder.path().join("grown.db"));
    if path.exists() {
        return measure(options, runtime, &path);
    }
    let took = timed(|| fill(options, runtime, &path));
    println!("filled in {:.0} s\n", took.wall.as_secs_f64());
    let mut other = Command::new(std::env::current_exe().expect("this program"));
    other.args(std::env::args_os().skip(1)).arg("--store").arg(&path);
    assert!(other.status().expect("it starts").success(), "the other process measures");
}

/// Every job is submitted, and most have ended, by the store itself. The oldest go first, so those that wait are the newest.
fn fill(options: &Options, runtime: &Runtime, path: &Path) {
    let store = Sqlite::open(path).expect("a store");
    let mut work = Work::new();
    for _ in 0..options.waiting / FILL_BATCH {
        runtime.block_on(transact(&store, work.submit_bulk(FILL_BATCH)));
    }
    for _ in 0..options.ended / FILL_BATCH {
        let submits = vec![work.submit_bulk(FILL_BATCH)];
        runtime.block_on(lifecycle(&store, &mut work, submits, FILL_BATCH, drop));
    }
}

fn measure(options: &Options, runtime: &Runtime, path: &Path) {
    let mut opened = None;
    let took = timed(|| opened = Some(Sqlite::open(path).expect("a store")));
    let grown = opened.expect("opened");
    let resident = memory_mb("VmRSS:");
    let content = Content::of(path);
    println!("{} jobs have ended, {} wait; {:.2} GB", content.ended, content.waiting, content.gigabytes);
    println!("opening: {:.1} ms, then resident: {resident:.0} MB", took.wall.as_secs_f64() * 1e3);
    let grown_work = RefCell::new(Work::after(content.n_last.cast_unsigned()));
    let round = |store: &Sqlite, work: &RefCell<Work>| -> Took {
        let mut work = work.borrow_mut();
        let submits = (0..options.jobs / LIFECYCLE_BATCH).map(|_| work.submit(LIFECYCLE_BATCH)).collect();
        timed(|| runtime.block_on(lifecycle(store, &mut work, submits, LIFECYCLE_BATCH, drop)))
    };
    // Batch by batch, so that little of the memory is the benchmark's own.
    for _ in 0..options.jobs / LIFECYCLE_BATCH {
        let mut work = grown_work.borrow_mut();
        let submits = vec![work.submit(LIFECYCLE_BATCH)];
        runtime.block_on(lifecycle(&grown, &mut work, submits, LIFECYCLE_BATCH, drop));
    }
    println!(
        "resident after {} jobs: {:.0} MB, at most {:.0} MB\n",
        options.jobs,
        memory_mb("VmRSS:"),
        memory_mb("VmHWM:"),
    );
    let (_folder, new) = new_store();
    let new_work = RefCell::new(Work::new());
    head("new store", "grown store");
    let title = "lifecycle, batch 256";
    compare(title, options, options.jobs, || round(&new, &new_work), || round(&grown, &grown_work));
}

/// What is in a file.
struct Content {
    ended: i64,
    waiting: i64,
    /// The number of the newest job.
    n_last: i64,
    gigabytes: f64,
}

impl Content {
    fn of(path: &Path) -> Content {
        let db = Connection::open(path).expect("the file");
        let sql =
            "SELECT sum(succeeded), sum(queued), (SELECT max(n) FROM jobs) FROM counts WHERE queue <> ''";
        let numbers = db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        let (ended, waiting, n_last) = numbers.expect("the counts");
        let gigabytes = path.metadata().map_or(f64::NAN, |file| file.len() as f64 / 1e9);
        Content { ended, waiting, n_last, gigabytes }
    }
}

/// What this process has in memory, in megabytes: by a name of `/proc/self/status`.
fn memory_mb(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib: f64 = line.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN);
    kib * 1024.0 / 1e6
}
