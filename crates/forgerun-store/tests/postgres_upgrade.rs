//! Schemas that are not quite this version's: one that a newer version has expanded, and one that an older version made and this one brings up to date.
//! On both the store does what every store must do; cases that touch every table are run.
#![cfg(all(feature = "testing", feature = "postgres"))]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use forgerun_core::set_aside::RowId;
use forgerun_store::Store;
use forgerun_store::conformance::{Fixture, check, forget, journal, random, restart, results, webhooks};
use forgerun_store::postgres::{Options, Postgres};
use forgerun_store::testing::{Cluster, connect};

/// Two nodes on one database.
struct Nodes {
    url: String,
    first: Arc<Postgres>,
    second: Arc<Postgres>,
}

impl Fixture for Nodes {
    fn store(&self) -> Arc<dyn Store> {
        self.first.clone()
    }

    fn second(&self) -> Arc<dyn Store> {
        self.second.clone()
    }

    fn reopen(&self) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + '_>> {
        Box::pin(async { node(&self.url, 3).await as Arc<dyn Store> })
    }

    fn damage(&self, _: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        unreachable!("no case here damages rows")
    }

    fn mend(&self, _: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        unreachable!("no case here damages rows")
    }
}

async fn node(url: &str, number: u64) -> Arc<Postgres> {
    Arc::new(Postgres::connect(url, Options::new(number)).await.unwrap())
}

/// What an expanding step may do: columns that may be empty or have a default on every table, indexes, tables.
const EXPAND: &str = "
    DO $$
    DECLARE name text;
    BEGIN
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'migrations' LOOP
            EXECUTE format('ALTER TABLE %I ADD COLUMN later_text text, ADD COLUMN later_number bigint NOT NULL DEFAULT 7', name);
            EXECUTE format('CREATE INDEX ON %I (later_number)', name);
        END LOOP;
    END $$;
    CREATE TABLE later (id uuid PRIMARY KEY);
    INSERT INTO migrations (version, name, checksum, compatible_from)
    SELECT max(version) + 1, 'later', 0, max(version) FROM migrations";

/// The first node was there before the schema was expanded, the second comes after that.
async fn expanded() -> Nodes {
    let url = Cluster::shared().database().await;
    let first = node(&url, 1).await;
    connect(&url).await.batch_execute(EXPAND).await.unwrap();
    let second = node(&url, 2).await;
    Nodes { url, first, second }
}

/// The steps of the first release.
const FIRST_RELEASE: usize = 11;

/// The schema of the first release, brought up to date by two nodes that start together.
async fn upgraded() -> Nodes {
    let url = Cluster::shared().database().await;
    make_older(&url).await;
    let (first, second) = tokio::join!(node(&url, 1), node(&url, 2));
    Nodes { url, first, second }
}

/// Leaves what the first release left.
async fn make_older(url: &str) {
    let client = connect(url).await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/postgres");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in &files[..FIRST_RELEASE] {
        client.batch_execute(&std::fs::read_to_string(file).unwrap()).await.unwrap();
    }
    // What the store notes of its steps, taken from a database that it made.
    let model = Cluster::shared().database().await;
    node(&model, 1).await;
    let steps = connect(&model).await;
    let steps = steps.query("SELECT version, name, checksum FROM migrations ORDER BY version", &[]).await;
    let table = "CREATE TABLE migrations (version integer NOT NULL PRIMARY KEY, name text NOT NULL,
                                          checksum bigint NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())";
    client.batch_execute(table).await.unwrap();
    let note = "INSERT INTO migrations (version, name, checksum) VALUES ($1, $2, $3)";
    for step in &steps.unwrap()[..FIRST_RELEASE] {
        let (version, name, checksum): (i32, String, i64) = (step.get(0), step.get(1), step.get(2));
        client.execute(note, &[&version, &name, &checksum]).await.unwrap();
    }
}

macro_rules! cases {
    ($($fixture:ident { $($file:ident::$case:ident,)+ })+) => {
        $(
            mod $fixture {
                use super::*;

                $(
                    #[test]
                    fn $case() {
                        check(super::$fixture, $file::$case);
                    }
                )+
            }
        )+
    };
}

cases! {
    expanded {
        random::random_commands_do_what_they_do_in_memory,
        random::random_commands_at_once_leave_everything_sound,
        restart::everything_survives_a_restart,
        results::a_blob_belongs_to_the_result_that_names_it,
        results::what_no_result_names_is_swept_after_a_while,
        forget::a_sweep_is_bounded_and_leaves_what_is_young,
        journal::a_reader_misses_nothing_while_many_write,
        webhooks::deliveries_go_with_their_job_or_are_swept,
    }
    upgraded {
        random::random_commands_do_what_they_do_in_memory,
        random::random_commands_at_once_leave_everything_sound,
        restart::everything_survives_a_restart,
        results::a_blob_belongs_to_the_result_that_names_it,
        results::what_no_result_names_is_swept_after_a_while,
        forget::a_sweep_is_bounded_and_leaves_what_is_young,
        journal::a_reader_misses_nothing_while_many_write,
        webhooks::deliveries_go_with_their_job_or_are_swept,
    }
}
