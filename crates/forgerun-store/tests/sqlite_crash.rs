//! What a killed process leaves behind: everything it acknowledged, and a file that opens.
//!
//! The test runs itself again as a child that submits one job after the other and says which are written; then kills it
//! without warning, in the middle of whatever it is doing.
#![cfg(feature = "sqlite")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::sync::Arc;

use forgerun_core::command::{NewJob, Submit};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{Head, Input, Job, Name};
use forgerun_core::rows::{Object, Render};
use forgerun_core::time::Time;
use forgerun_core::{Batch, Command, decide, wants};
use forgerun_store::sqlite::Sqlite;
use forgerun_store::{Filter, Store};

/// Tells the child where its file is.
const FILE: &str = "FORGE_CRASH_TEST_FILE";

/// Enough that the log is copied back a few times before the end.
const ACKNOWLEDGED: usize = 400;

struct Nothing;

impl Render for Nothing {
    fn outcome(&self, _: &Job, _: &[ItemEnd]) -> Object {
        Object { bytes: Vec::new(), digest: [0; 32] }
    }
}

async fn submit(store: &Sqlite, n: u128) -> JobId {
    let now = Time::from_millis(1);
    let head = Arc::new(Head::new(ClientId::from_u128(1), Name::new("mail").unwrap(), now));
    // Ten pages each, so that the log fills up.
    let input = Arc::new(Input { payload: vec![7; 40_000], ..Input::default() });
    let job = NewJob { id: JobId::v7(1, n), id_given: false, head, input };
    let id = job.id;
    let submit =
        Command::Submit(Submit { jobs: vec![job], idempotency: None, queue_max: None, refuse_paused: false });
    let batch = Batch { now, seed: 1, commands: vec![submit] };
    store.transact(wants(&batch), Box::new(move |rows| decide(&batch, rows, &Nothing))).await.unwrap();
    id
}

/// The child: never ends by itself.
async fn submit_for_ever(path: &Path) {
    let store = Sqlite::open(path).unwrap();
    let start = store.read(forgerun_store::Query::JournalEnd).await.unwrap();
    let forgerun_store::Page::Position(start) = start else { panic!("no position: {start:?}") };
    for n in start as u128 + 1.. {
        let id = submit(&store, n).await;
        println!("written {id}");
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    if let Some(path) = std::env::var_os(FILE) {
        return submit_for_ever(Path::new(&path)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let mut acknowledged = BTreeSet::new();
    for _ in 0..3 {
        let mut child = Process::new(std::env::current_exe().unwrap())
            .args(["what_was_acknowledged_survives_a_kill", "--exact", "--nocapture"])
            .env(FILE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let written = lines.filter_map(|line| line.strip_prefix("written ")?.parse::<JobId>().ok());
        acknowledged.extend(written.take(ACKNOWLEDGED));
        child.kill().unwrap();
        child.wait().unwrap();

        let store: &dyn Store = &Sqlite::open(&path).unwrap();
        let jobs = store.jobs(Filter { limit: usize::MAX, ..Filter::default() }).await.unwrap();
        let there: BTreeSet<JobId> = jobs.iter().map(|job| job.id).collect();
        assert!(
            acknowledged.is_subset(&there),
            "{} of {} are lost",
            acknowledged.difference(&there).count(),
            there.len()
        );
        let counted: i64 = store.queues().await.unwrap()[0].counts.0.iter().sum();
        assert_eq!(
            (counted as usize, store.journal_end().await.unwrap() as usize),
            (there.len(), there.len())
        );
    }
}
