//! What is SQLite's own: files, two processes, full disks, damage. What every store must do is in the conformance suite.
#![cfg(feature = "sqlite")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use forgerun_core::command::{
    Claim, Content, HeldJob, LeaseProof, NewJob, Output, Submit, Succeed, WorkerKind,
};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{Head, Input, Job, Name};
use forgerun_core::queue::Owner;
use forgerun_core::rows::{Changes, Object, Render};
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_core::{Answer, Batch, Command, decide, wants};
use forgerun_store::sqlite::{Options, Sqlite};
use forgerun_store::{Error, Fault, Filter, JobsAhead, Store, Sweep, Wakeup};
use tempfile::TempDir;

const CLIENT: ClientId = ClientId::from_u128(7);

/// Says in a few bytes how a job ended.
struct Terse;

impl Render for Terse {
    fn outcome(&self, job: &Job, _: &[ItemEnd]) -> Object {
        Object { bytes: format!("{:?}", job.state).into_bytes(), digest: [1; 32] }
    }
}

fn now() -> Time {
    Time::from_millis(1_000)
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn job(n: u128) -> NewJob {
    let head = Head::new(CLIENT, name("mail"), now());
    let input = Input { payload: b"{}".to_vec(), ..Input::default() };
    NewJob { id: JobId::v7(1, n), id_given: false, head: Arc::new(head), input: Arc::new(input) }
}

fn submit(jobs: impl IntoIterator<Item = u128>) -> Command {
    Command::Submit(Submit {
        jobs: jobs.into_iter().map(job).collect(),
        idempotency: None,
        queue_max: None,
        refuse_paused: false,
    })
}

fn claim(limit: usize) -> Command {
    Command::Claim(Claim {
        worker: name("worker"),
        worker_kind: WorkerKind::External(Owner::client(CLIENT)),
        queues: vec![name("mail")],
        limit,
        lease: None,
        lease_default: Duration::from_secs(30),
        start: true,
        active_max: None,
    })
}

async fn transact(store: &dyn Store, commands: Vec<Command>) -> Result<Changes, Error> {
    let batch = Batch { now: now(), seed: 1, commands };
    store.transact(wants(&batch), Box::new(move |rows| decide(&batch, rows, &Terse))).await
}

fn claimed(changes: &Changes) -> Vec<Job> {
    match changes.answers.as_slice() {
        [Answer::Claimed { jobs, .. }] => jobs.clone(),
        other => panic!("no claim: {other:?}"),
    }
}

async fn succeed(store: &dyn Store, jobs: &[Job]) {
    let output = Arc::new(Output::inline("text/plain", b"done"));
    let succeed = |job: &Job| {
        let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None };
        Command::Succeed(Succeed { held, output: Some(output.clone()) })
    };
    transact(store, jobs.iter().map(succeed).collect()).await.unwrap();
}

async fn listed(store: &dyn Store) -> usize {
    store.jobs(Filter { limit: usize::MAX, ..Filter::default() }).await.unwrap().len()
}

/// A folder, and the file in it.
fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    (folder, path)
}

fn raw(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

#[tokio::test]
async fn what_was_written_is_there_after_reopening() {
    let (_folder, path) = file();
    let store: Box<dyn Store> = Box::new(Sqlite::open(&path).unwrap());
    transact(&*store, vec![submit(1..=3)]).await.unwrap();
    let jobs = claimed(&transact(&*store, vec![claim(2)]).await.unwrap());
    succeed(&*store, &jobs).await;
    let before = store.jobs(Filter { limit: 10, ..Filter::default() }).await.unwrap();
    drop(store);

    let store: Box<dyn Store> = Box::new(Sqlite::open(&path).unwrap());
    assert_eq!(store.jobs(Filter { limit: 10, ..Filter::default() }).await.unwrap(), before);
    let execution = jobs[0].execution;
    assert_eq!(store.outcome(execution).await.unwrap().unwrap().object.bytes, b"Succeeded");
    let result = store.result(execution).await.unwrap().unwrap();
    assert_eq!(result.content, Some(Content::Inline(b"done".to_vec())));
    assert_eq!(store.inputs(vec![jobs[0].id]).await.unwrap()[0].1.payload, b"{}");
    assert_eq!(store.journal(0, 10).await.unwrap().len(), 3);
    assert_eq!(claimed(&transact(&*store, vec![claim(9)]).await.unwrap()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_leaves_one_file_and_no_log() {
    let (folder, path) = file();
    let store = Sqlite::open(&path).unwrap();
    transact(&store, vec![submit([1])]).await.unwrap();
    drop(store);
    let files = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = files.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["jobs.db"]);
}

#[test]
fn a_missing_folder_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/jobs.db");
    Sqlite::open(&path).unwrap();
    assert!(path.exists());
}

#[test]
fn many_may_open_a_new_file_at_once() {
    let (_folder, path) = file();
    let open = || {
        let path = path.clone();
        std::thread::spawn(move || Sqlite::open(&path).map(drop))
    };
    let threads: Vec<_> = (0..8).map(|_| open()).collect();
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_on_one_file_never_claim_the_same_job() {
    const JOBS: u128 = 200;
    let (_folder, path) = file();
    let first = Arc::new(Sqlite::open(&path).unwrap());
    let second = Arc::new(Sqlite::open(&path).unwrap());
    let mut told = second.wakeups();
    transact(&*second, vec![claim(1)]).await.unwrap();
    transact(&*first, vec![submit(1..=JOBS)]).await.unwrap();

    let claim_all = |store: Arc<Sqlite>| async move {
        let mut ids = Vec::new();
        loop {
            let jobs = claimed(&transact(&*store, vec![claim(3)]).await.unwrap());
            if jobs.is_empty() {
                return ids;
            }
            ids.extend(jobs.iter().map(|job| job.id));
        }
    };
    let (a, b) = (tokio::spawn(claim_all(first)), tokio::spawn(claim_all(second)));
    let (a, b) = (a.await.unwrap(), b.await.unwrap());
    let all: BTreeSet<JobId> = a.iter().chain(&b).copied().collect();
    assert_eq!((a.len() + b.len(), all.len()), (JOBS as usize, JOBS as usize));
    assert_eq!(told.try_recv().unwrap(), Wakeup::Everything, "what the first one submitted was noticed");
}

#[tokio::test]
async fn a_process_that_only_waits_hears_of_others() {
    let (_folder, path) = file();
    let (waiting, busy) = (Sqlite::open(&path).unwrap(), Sqlite::open(&path).unwrap());
    let mut told = waiting.wakeups();
    for n in 1..=3 {
        transact(&busy, vec![submit([n])]).await.unwrap();
        let heard = tokio::time::timeout(Duration::from_secs(20), told.recv()).await;
        assert_eq!(heard.expect("in time").unwrap(), Wakeup::Everything);
    }
}

#[tokio::test]
async fn a_process_alone_hears_of_no_others() {
    let (_folder, path) = file();
    let store = Sqlite::open(&path).unwrap();
    let mut told = store.wakeups();
    // Long enough that the log is copied back and begins anew.
    for batch in 0..100 {
        transact(&store, vec![submit(batch * 300 + 1..=batch * 300 + 300)]).await.unwrap();
        let heard = std::iter::from_fn(|| told.try_recv().ok()).collect::<Vec<_>>();
        assert_eq!(heard, [], "what it does itself is no news");
    }
}

#[tokio::test]
async fn a_job_is_read_once_until_it_changes_or_another_process_writes() {
    let (_folder, path) = file();
    let (store, other) = (Sqlite::open(&path).unwrap(), Sqlite::open(&path).unwrap());
    transact(&store, vec![submit([1])]).await.unwrap();
    let read = async || (&store as &dyn Store).job(JobId::v7(1, 1)).await.unwrap().unwrap();
    let first = read().await;
    assert!(Arc::ptr_eq(&first, &read().await), "nothing happened");
    transact(&store, vec![submit([2])]).await.unwrap();
    assert!(Arc::ptr_eq(&first, &read().await), "another job was submitted");
    let sweep = Sweep { journal_before: Time::from_micros(i64::MAX), ..Sweep::nothing(100) };
    assert!(store.sweep(sweep).await.unwrap().total() > 0);
    assert!(Arc::ptr_eq(&first, &read().await), "the journal was swept");
    transact(&other, vec![submit([3])]).await.unwrap();
    let second = read().await;
    assert!(!Arc::ptr_eq(&first, &second), "nobody knows what the other did");
    transact(&store, vec![submit([4])]).await.unwrap();
    let third = read().await;
    assert!(Arc::ptr_eq(&third, &read().await), "from the next commit on one knows again");
    let jobs = claimed(&transact(&store, vec![claim(1)]).await.unwrap());
    assert_eq!((&jobs[0], third.state), (&*read().await, State::Queued), "it changed");
    succeed(&other, &jobs).await;
    assert_eq!(read().await.state, State::Succeeded, "the other changed it");
}

#[tokio::test]
async fn a_place_in_the_queue_follows_every_commit_of_anybody() {
    let (_folder, path) = file();
    let (store, other) = (Sqlite::open(&path).unwrap(), Sqlite::open(&path).unwrap());
    transact(&store, vec![submit(1..=5)]).await.unwrap();
    let places = async || {
        let store = &store as &dyn Store;
        let mut places = Vec::new();
        for n in 4..=5 {
            let job = store.job(JobId::v7(1, n)).await.unwrap().unwrap();
            places.push(store.ahead(&job, 4).await.unwrap().unwrap());
        }
        places
    };
    assert_eq!(places().await, [JobsAhead::Exactly(3), JobsAhead::About(4)]);
    assert_eq!(places().await, [JobsAhead::Exactly(3), JobsAhead::About(4)], "the same from memory");
    transact(&store, vec![claim(1)]).await.unwrap();
    assert_eq!(places().await, [JobsAhead::Exactly(2), JobsAhead::Exactly(3)]);
    transact(&other, vec![claim(2)]).await.unwrap();
    assert_eq!(places().await, [JobsAhead::Exactly(0), JobsAhead::Exactly(1)]);
}

#[tokio::test]
async fn what_another_process_did_to_a_held_job_is_seen() {
    let (_folder, path) = file();
    let (first, second) = (Sqlite::open(&path).unwrap(), Sqlite::open(&path).unwrap());
    transact(&first, vec![submit([1])]).await.unwrap();
    let jobs = claimed(&transact(&first, vec![claim(1)]).await.unwrap());
    succeed(&second, &jobs).await;
    let held = HeldJob { job: jobs[0].id, proof: LeaseProof::Token(jobs[0].fence), client: None };
    let again = transact(&first, vec![Command::Start(held)]).await.unwrap();
    assert!(matches!(again.answers[..], [Answer::Refused(_)]), "{:?}", again.answers);
}

#[tokio::test]
async fn another_process_that_keeps_the_lock_makes_writes_busy_and_reads_go_on() {
    let (_folder, path) = file();
    let options = Options { busy_timeout: Duration::from_millis(20), ..Options::default() };
    let store = Sqlite::open_with(&path, options).unwrap();
    transact(&store, vec![submit([1])]).await.unwrap();
    let other = raw(&path);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(transact(&store, vec![submit([2])]).await.unwrap_err().fault, Fault::Busy);
    assert_eq!(listed(&store).await, 1);
    other.execute_batch("COMMIT").unwrap();
    transact(&store, vec![submit([2])]).await.unwrap();
    assert_eq!(listed(&store).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_do_not_wait_for_a_transaction_under_way() {
    let (_folder, path) = file();
    let store = Arc::new(Sqlite::open(&path).unwrap());
    transact(&*store, vec![submit([1])]).await.unwrap();
    let (deciding, is_deciding) = tokio::sync::oneshot::channel();
    let (go_on, may_go_on) = mpsc::sync_channel::<()>(1);
    let mut deciding = Some(deciding);
    let writer = store.clone();
    let transaction = tokio::spawn(async move {
        let hold = Box::new(move |_| {
            let _ = deciding.take().map(|deciding| deciding.send(()));
            may_go_on.recv().unwrap();
            Changes::default()
        });
        writer.transact(Default::default(), hold).await
    });
    is_deciding.await.unwrap();
    let reader: &dyn Store = &*store;
    assert!(reader.job(job(1).id).await.unwrap().is_some());
    assert_eq!(listed(reader).await, 1);
    assert_eq!(reader.journal(0, 10).await.unwrap().len(), 1);
    go_on.send(()).unwrap();
    transaction.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_batch_that_changes_nothing_writes_nothing() {
    let (_folder, path) = file();
    let store = Sqlite::open(&path).unwrap();
    let watcher = raw(&path);
    let version = || watcher.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).unwrap();
    let before = version();
    assert!(claimed(&transact(&store, vec![claim(5)]).await.unwrap()).is_empty());
    assert_eq!(version(), before);
    transact(&store, vec![submit([1])]).await.unwrap();
    assert_ne!(version(), before, "the watcher does see commits");
}

/// Submits batches until one is refused, and returns the refusal and how many jobs went in.
async fn fill(store: &dyn Store) -> (Error, usize) {
    for batch in 0..10_000u128 {
        if let Err(error) = transact(store, vec![submit(batch * 50 + 1..=batch * 50 + 50)]).await {
            return (error, batch as usize * 50);
        }
    }
    panic!("the disk never filled up");
}

async fn check_full(store: &dyn Store) -> usize {
    let (error, n_jobs) = fill(store).await;
    assert_eq!(error.fault, Fault::Full, "{error}");
    assert!(n_jobs > 0);
    assert_eq!(listed(store).await, n_jobs, "reads go on, and nothing of the last batch is there");
    assert!(store.job(job(1).id).await.unwrap().is_some());
    let counts: i64 = store.queues().await.unwrap()[0].counts.0.iter().sum();
    assert_eq!(counts as usize, n_jobs);
    assert_eq!(transact(store, vec![submit(1_000_000..=1_000_099)]).await.unwrap_err().fault, Fault::Full);
    n_jobs
}

#[tokio::test]
async fn a_full_file_refuses_writes_serves_reads_and_goes_on_when_there_is_room() {
    let (_folder, path) = file();
    let full = Options { pages_max: Some(100), ..Options::default() };
    let store = Sqlite::open_with(&path, full).unwrap();
    let n_jobs = check_full(&store).await;
    drop(store);
    let store = Sqlite::open(&path).unwrap();
    transact(&store, vec![submit([2_000_000])]).await.unwrap();
    assert_eq!(listed(&store).await, n_jobs + 1);
}

#[tokio::test]
#[ignore = "mounts a file system of two megabytes, which needs root; the test above needs nothing"]
async fn a_full_disk_refuses_writes_and_serves_reads() {
    let folder = tempfile::tempdir().unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let status = std::process::Command::new(program).args(arguments).arg(folder.path()).status().unwrap();
        assert!(status.success(), "{program} {arguments:?}");
    };
    run("mount", &["-t", "tmpfs", "-o", "size=2m", "tmpfs"]);
    let path = folder.path().join("jobs.db");
    let checked = tokio::spawn(async move { check_full(&Sqlite::open(&path).unwrap()).await }).await;
    run("umount", &[]);
    checked.unwrap();
}

#[tokio::test]
async fn a_row_that_is_too_long_spoils_its_batch_and_nothing_else() {
    let (_folder, path) = file();
    let options = Options { row_bytes_max: Some(10_000), ..Options::default() };
    let store = Sqlite::open_with(&path, options).unwrap();
    let mut poison = job(2);
    poison.input = Arc::new(Input { payload: vec![0; 20_000], ..Input::default() });
    let poison = Command::Submit(Submit {
        jobs: vec![poison],
        idempotency: None,
        queue_max: None,
        refuse_paused: false,
    });
    let error = transact(&store, vec![submit([1]), poison, submit([3])]).await.unwrap_err();
    assert_eq!(error.fault, Fault::Rejected, "{error}");
    assert_eq!(listed(&store).await, 0);
    transact(&store, vec![submit([1]), submit([3])]).await.unwrap();
    assert_eq!(listed(&store).await, 2);
}

#[tokio::test]
async fn an_id_that_is_taken_is_rejected() {
    let (_folder, path) = file();
    let store = Sqlite::open(&path).unwrap();
    transact(&store, vec![submit([1])]).await.unwrap();
    let error = transact(&store, vec![submit([2]), submit([1])]).await.unwrap_err();
    assert_eq!(error.fault, Fault::Rejected);
    assert_eq!(listed(&store).await, 1);
}

#[tokio::test]
async fn a_panic_while_deciding_spoils_its_batch_and_nothing_else() {
    let (_folder, path) = file();
    let store = Sqlite::open(&path).unwrap();
    let panicking = Box::new(|_| panic!("on purpose"));
    assert_eq!(store.transact(Default::default(), panicking).await.unwrap_err().fault, Fault::Rejected);
    transact(&store, vec![submit([1])]).await.unwrap();
    assert_eq!(listed(&store).await, 1);
}

#[tokio::test]
async fn a_damaged_row_is_damage_and_its_neighbours_are_not() {
    let (_folder, path) = file();
    let store = Sqlite::open(&path).unwrap();
    transact(&store, vec![submit(1..=2)]).await.unwrap();
    let id = job(1).id;
    raw(&path).execute("UPDATE jobs SET body = x'0105' WHERE id = ?1", [id.to_bytes()]).unwrap();
    let store: &dyn Store = &store;
    assert_eq!(store.job(id).await.unwrap_err().fault, Fault::Corrupt);
    assert!(store.job(job(2).id).await.unwrap().is_some());
    let changes = transact(store, vec![claim(2)]).await.unwrap();
    assert_eq!(changes.updated.iter().map(|job| job.id).collect::<Vec<_>>(), [job(2).id]);
    transact(store, vec![submit([3])]).await.unwrap();
}

#[tokio::test]
async fn a_row_of_the_journal_or_an_outcome_that_cannot_be_read_hides_no_other() {
    let (_folder, path) = file();
    let store: &dyn Store = &Sqlite::open(&path).unwrap();
    transact(store, vec![submit(1..=2)]).await.unwrap();
    let jobs = claimed(&transact(store, vec![claim(2)]).await.unwrap());
    succeed(store, &jobs).await;
    let [bad, good] = [&jobs[0], &jobs[1]].map(|job| job.execution);
    let db = raw(&path);
    let sql = "UPDATE outcomes SET digest = x'01' WHERE execution = ?1";
    assert_eq!(db.execute(sql, [bad.to_bytes()]).unwrap(), 1);
    let sql = "UPDATE journal SET entries = x'ff' WHERE seq = (SELECT min(seq) + 1 FROM journal)";
    assert_eq!(db.execute(sql, []).unwrap(), 1);

    assert_eq!(store.outcome(bad).await.unwrap_err().fault, Fault::Corrupt);
    let outcomes = store.outcomes(vec![bad, good]).await.unwrap();
    assert_eq!(outcomes.iter().map(|outcome| outcome.execution).collect::<Vec<_>>(), [good]);
    let rows = store.journal(0, 9).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.entries.is_empty()).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn a_file_that_cannot_be_used_says_why() {
    let (folder, path) = file();
    std::fs::write(&path, vec![b'x'; 8192]).unwrap();
    let fault = |path: &Path| Sqlite::open(path).map(drop).unwrap_err().fault;
    assert_eq!(fault(&path), Fault::Corrupt);
    assert_eq!(fault(&path.join("below/a/file.db")), Fault::Unavailable);
    assert_eq!(fault(folder.path()), Fault::Unavailable, "a folder is no file");
}

#[test]
fn a_file_of_a_newer_version_is_refused_with_both_versions_named() {
    let (_folder, path) = file();
    drop(Sqlite::open(&path).unwrap());
    let newer =
        "INSERT INTO schema_version (version, name, checksum, applied_at) VALUES (99, 'future', 0, '')";
    raw(&path).execute(newer, []).unwrap();
    let error = Sqlite::open(&path).map(drop).unwrap_err();
    assert_eq!(error.fault, Fault::TooNew);
    let text = error.to_string();
    assert!(text.contains("knows version 99; this program knows versions up to "), "{text}");
    assert_eq!(Sqlite::schema(&path).unwrap_err().to_string(), text);
}

#[tokio::test]
async fn a_file_that_a_newer_version_only_expanded_is_used() {
    let (_folder, path) = file();
    drop(Sqlite::open(&path).unwrap());
    let known = Sqlite::schema(&path).unwrap().known;
    let expand = format!(
        "ALTER TABLE jobs ADD COLUMN later TEXT;
         CREATE TABLE later (x);
         INSERT INTO schema_version (version, name, checksum, compatible_from, applied_at)
         VALUES ({}, 'later', 0, {known}, '')",
        known + 1
    );
    raw(&path).execute_batch(&expand).unwrap();
    let store = Sqlite::open(&path).unwrap();
    transact(&store, vec![submit([1])]).await.unwrap();
    let status = Sqlite::schema(&path).unwrap();
    assert_eq!((status.applied, status.pending.len()), (known + 1, 0));
}

#[tokio::test]
async fn a_sweep_has_its_turn_between_batches_that_never_end() {
    let (_folder, path) = file();
    let store = Arc::new(Sqlite::open(&path).unwrap());
    let (enough, stop) = mpsc::sync_channel::<()>(0);
    let busy = store.clone();
    let batches = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let submit = |n| runtime.block_on(transact(&*busy, vec![submit([n])])).map(drop);
        let is_wanted = || stop.try_recv() == Err(mpsc::TryRecvError::Empty);
        (0..).take_while(|_| is_wanted()).try_for_each(submit)
    });
    for _ in 0..20 {
        tokio::time::timeout(Duration::from_secs(20), store.sweep(Sweep::nothing(100)))
            .await
            .unwrap()
            .unwrap();
    }
    drop(enough);
    batches.await.unwrap().unwrap();
}

#[tokio::test]
async fn journal_numbers_never_come_back_after_a_sweep() {
    let (_folder, path) = file();
    let store = Sqlite::open(&path).unwrap();
    let store: &dyn Store = &store;
    for n in 1..=3 {
        transact(store, vec![submit([n])]).await.unwrap();
    }
    let sweep = |limit| Sweep {
        journal_before: Time::MAX,
        tombstones_before: Time::MAX,
        revoked_keys_before: Time::MAX,
        ..Sweep::nothing(limit)
    };
    assert_eq!(store.sweep(sweep(2)).await.unwrap().total(), 2);
    assert_eq!(store.sweep(sweep(9)).await.unwrap().total(), 1);
    assert_eq!(store.journal_end().await.unwrap(), 3);
    transact(store, vec![submit([4])]).await.unwrap();
    let seqs: Vec<i64> = store.journal(3, 9).await.unwrap().iter().map(|row| row.seq).collect();
    assert_eq!(seqs, [4]);
}

/// A record as a newer version may leave it: of a kind that this one does not know, and due.
const UNKNOWN: &str =
    "INSERT INTO records (kind, key, grp, due_at, version, bytes) VALUES (62, 'k', '', 1, 1, '')";

#[tokio::test]
async fn a_due_record_of_a_kind_that_only_newer_versions_know_is_left_alone() {
    let (_folder, path) = file();
    let store: Box<dyn Store> = Box::new(Sqlite::open(&path).unwrap());
    raw(&path).execute_batch(UNKNOWN).unwrap();
    assert_eq!(store.next_due().await.unwrap(), None, "nobody waits for it");
    let due = transact(&*store, vec![Command::Due(9)]).await.unwrap();
    assert!(matches!(due.answers[0], Answer::Due { n_records: 0, more: false, .. }), "{:?}", due.answers);
}
