//! Large results as objects of an S3 server that is not ours, for both databases.
#![cfg(all(feature = "testing-s3", feature = "sqlite"))]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use forgerun_core::id::BlobId;
use forgerun_core::set_aside::RowId;
use forgerun_core::time::Time;
use forgerun_store::conformance::{Fixture, check, results};
use forgerun_store::objects::{S3, S3Options};
use forgerun_store::postgres::{Options as PostgresOptions, Postgres};
use forgerun_store::sqlite::{Options as SqliteOptions, Sqlite};
use forgerun_store::testing::{Cluster, S3Server, connect};
use forgerun_store::{Fault, ObjectPlace, Store, Sweep};
use tempfile::TempDir;

type Objects = Option<Arc<dyn ObjectPlace>>;

/// A database of either kind.
enum Database {
    Sqlite(TempDir),
    Postgres(String),
}

impl Database {
    async fn both() -> [Database; 2] {
        let url = Cluster::shared().database().await;
        [Database::Sqlite(tempfile::tempdir().unwrap()), Database::Postgres(url)]
    }

    async fn open(&self, objects: Objects) -> Arc<dyn Store> {
        match self {
            Database::Sqlite(folder) => {
                let options = SqliteOptions { objects, ..SqliteOptions::default() };
                Arc::new(Sqlite::open_with(&folder.path().join("jobs.db"), options).unwrap())
            }
            Database::Postgres(url) => {
                let options = PostgresOptions { objects, ..PostgresOptions::new(1) };
                Arc::new(Postgres::connect(url, options).await.unwrap())
            }
        }
    }

    /// As if the database had been restored from a backup.
    async fn lose_rows(&self) {
        let sql = "DELETE FROM blobs";
        match self {
            Database::Sqlite(folder) => {
                let db = rusqlite::Connection::open(folder.path().join("jobs.db")).unwrap();
                db.execute_batch(sql).unwrap();
            }
            Database::Postgres(url) => connect(url).await.batch_execute(sql).await.unwrap(),
        }
    }
}

/// Two nodes on one database, with one object store.
struct Nodes {
    database: Database,
    server: S3Server,
    open: [Arc<dyn Store>; 2],
}

impl Nodes {
    async fn on(database: Database) -> Nodes {
        let server = S3Server::start();
        let open = [database.open(Some(server.objects())).await, database.open(Some(server.objects())).await];
        Nodes { database, server, open }
    }
}

impl Fixture for Nodes {
    fn store(&self) -> Arc<dyn Store> {
        self.open[0].clone()
    }

    fn second(&self) -> Arc<dyn Store> {
        self.open[1].clone()
    }

    fn reopen(&self) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + '_>> {
        Box::pin(self.database.open(Some(self.server.objects())))
    }

    fn damage(&self, _: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        unreachable!("no case here damages rows")
    }

    fn mend(&self, _: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        unreachable!("no case here damages rows")
    }
}

async fn sqlite() -> Nodes {
    Nodes::on(Database::Sqlite(tempfile::tempdir().unwrap())).await
}

async fn postgres() -> Nodes {
    Nodes::on(Database::Postgres(Cluster::shared().database().await)).await
}

macro_rules! cases {
    ($($fixture:ident)+) => {
        $(
            mod $fixture {
                cases! { @ $fixture;
                    results_come_back_as_they_were_handed_in,
                    a_blob_is_read_in_parts_from_any_place,
                    a_blob_belongs_to_the_result_that_names_it,
                    a_blob_that_is_not_there_cannot_be_named,
                    what_no_result_names_is_swept_after_a_while,
                    a_blob_that_is_still_written_is_not_swept,
                    the_content_of_an_expired_result_goes_and_the_rest_stays,
                    expired_results_go_in_bites,
                    a_forgotten_job_lets_its_blob_go,
                }
            }
        )+
    };
    (@ $fixture:ident; $($case:ident,)+) => {
        $(
            #[test]
            fn $case() {
                super::check(super::$fixture, super::results::$case);
            }
        )+
    };
}

cases! { sqlite postgres }

fn at(seconds: i64) -> Time {
    Time::from_millis(1_700_000_000_000 + seconds * 1000)
}

fn blob(n: u128) -> BlobId {
    BlobId::v7(1_700_000_000_000, n)
}

fn bytes(size: usize) -> Bytes {
    (0..size as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

async fn sweep(store: &Arc<dyn Store>, loose_before: Time) -> usize {
    store.sweep(Sweep { loose_before, ..Sweep::nothing(100) }).await.unwrap().blobs
}

async fn write(store: &Arc<dyn Store>, n: u128, content: Bytes) {
    let mut sink = store.blobs().begin(blob(n), at(0)).await.unwrap();
    sink.write(content).await.unwrap();
    sink.finish().await.unwrap();
}

/// All of a blob, in the steps in which downloads ask.
async fn read(store: &Arc<dyn Store>, n: u128, size: usize) -> Vec<u8> {
    let source = store.blobs().open(blob(n)).await.unwrap();
    let mut found = Vec::new();
    while found.len() < size {
        found.extend_from_slice(&source.read(found.len() as u64, 300_000).await.unwrap());
    }
    found
}

/// Larger than two parts of an upload.
const IN_PARTS: usize = 20 * 1024 * 1024 + 1;

#[tokio::test]
async fn a_large_blob_is_uploaded_in_parts_and_becomes_one_object() {
    for database in Database::both().await {
        let server = S3Server::start();
        let store = database.open(Some(server.objects())).await;
        let content = bytes(IN_PARTS);
        let mut sink = store.blobs().begin(blob(1), at(0)).await.unwrap();
        let mut rest = content.clone();
        while !rest.is_empty() {
            sink.write(rest.split_to(rest.len().min(3_000_000))).await.unwrap();
        }
        assert_eq!(server.files().len(), 2, "two parts are there, and the rest is in memory");
        sink.finish().await.unwrap();
        assert_eq!(server.files().len(), 1);

        assert!(read(&store, 1, IN_PARTS).await == content);
        let source = store.blobs().open(blob(1)).await.unwrap();
        let from = 8 * 1024 * 1024 - 5;
        assert_eq!(source.read(from as u64, 10).await.unwrap(), content.slice(from..from + 10));
        assert_eq!(source.read(0, 4).await.unwrap(), content.slice(..4), "and back again");
        assert_eq!(sweep(&store, at(1)).await, 1);
        assert_eq!(server.files().len(), 0);
    }
}

#[tokio::test]
async fn the_parts_of_an_upload_that_was_broken_off_are_swept() {
    for database in Database::both().await {
        let server = S3Server::start();
        let store = database.open(Some(server.objects())).await;
        let mut sink = store.blobs().begin(blob(1), at(0)).await.unwrap();
        sink.write(bytes(IN_PARTS)).await.unwrap();
        drop(sink);
        assert_eq!(server.files().len(), 2);
        drop(store);

        let store = database.open(Some(server.objects())).await;
        assert_eq!(sweep(&store, at(0)).await, 0, "it is too young");
        assert_eq!(server.files().len(), 2);
        assert_eq!(sweep(&store, at(1)).await, 1);
        assert_eq!(server.files().len(), 0);
        assert_eq!(sweep(&store, at(1)).await, 0);
    }
}

#[tokio::test]
async fn objects_that_no_row_names_are_swept_and_those_of_others_left() {
    let server = S3Server::start();
    for database in Database::both().await {
        let store = database.open(Some(server.objects())).await;
        for n in 1..=3 {
            write(&store, n, bytes(100_000)).await;
        }
        database.lose_rows().await;
        write(&store, 4, bytes(100_000)).await;
        let others = server.files().len() - 4;
        assert_eq!(sweep(&store, at(0)).await, 3);
        assert_eq!(server.files().len(), 1 + others);
        assert!(read(&store, 4, 100_000).await == bytes(100_000));
    }
    assert_eq!(server.files().len(), 2, "each database left the other's alone");
}

#[tokio::test]
async fn while_the_object_store_is_away_nothing_is_taken_for_kept_and_nothing_is_lost() {
    for database in Database::both().await {
        let server = S3Server::start();
        let store = database.open(Some(server.objects())).await;
        write(&store, 1, bytes(100_000)).await;
        let mut begun = store.blobs().begin(blob(2), at(0)).await.unwrap();
        begun.write(bytes(IN_PARTS)).await.unwrap();
        server.go_away();

        let unfinished = begun.finish().await.unwrap_err();
        assert_eq!(unfinished.fault, Fault::Unavailable);
        assert!(unfinished.to_string().contains("s3://results/forge/run"), "{unfinished}");
        let mut small = store.blobs().begin(blob(3), at(0)).await.unwrap();
        small.write(bytes(100_000)).await.unwrap();
        assert_eq!(small.finish().await.unwrap_err().fault, Fault::Unavailable);
        assert_eq!(store.blobs().open(blob(1)).await.err().unwrap().fault, Fault::Unavailable);
        assert_eq!(sweep(&store, at(1)).await, 0, "a sweep goes on with the rest");

        server.come_back();
        assert!(read(&store, 1, 100_000).await == bytes(100_000));
        write(&store, 4, bytes(100_000)).await;
        assert_eq!(sweep(&store, at(1)).await, 4);
        assert_eq!(server.files().len(), 0);
    }
}

#[tokio::test]
async fn what_was_written_before_there_was_an_object_store_is_read_and_swept() {
    for database in Database::both().await {
        let before = database.open(None).await;
        write(&before, 1, bytes(700_000)).await;
        let server = S3Server::start();
        let store = database.open(Some(server.objects())).await;
        write(&store, 2, bytes(700_000)).await;
        for n in [1, 2] {
            assert!(read(&store, n, 700_000).await == bytes(700_000));
        }
        assert_eq!(server.files().len(), 1);

        // A node without it cannot read the second, and leaves it where it is.
        assert!(before.blobs().open(blob(2)).await.is_err());
        assert_eq!(sweep(&before, at(1)).await, 1, "the first");
        assert_eq!(server.files().len(), 1);
        assert_eq!(sweep(&store, at(1)).await, 1, "the second");
        assert_eq!(server.files().len(), 0);
    }
}

#[tokio::test]
async fn a_wrong_key_or_bucket_is_told_from_a_store_that_is_away() {
    let server = S3Server::start();
    let with = |change: fn(&mut S3Options)| {
        let mut options = server.options();
        change(&mut options);
        S3::new(options).unwrap()
    };
    with(|_| ()).check().await.unwrap();
    let no_bucket = with(|options| options.bucket = "typo".into());
    assert_eq!(no_bucket.check().await.unwrap_err().fault, Fault::Rejected);
    let wrong_key = with(|options| options.key = Some(("AKFORGERUNTESTS".into(), "hunter2".into())));
    let error = wrong_key.check().await.unwrap_err();
    assert_eq!(error.fault, Fault::Rejected);
    assert!(!format!("{error} {error:?} {wrong_key:?}").contains("hunter2"), "{error}");
    server.go_away();
    assert_eq!(with(|_| ()).check().await.unwrap_err().fault, Fault::Unavailable);
}
