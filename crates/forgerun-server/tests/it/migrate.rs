//! `forgerun migrate`: what it says, what it changes, and how it ends.

use forgerun_store::sqlite::Sqlite;
use forgerun_store::testing::{Cluster, NextStep, free_port, step_ahead};

use crate::process::{forgerun, run};

/// A PostgreSQL database that has nothing yet.
async fn database() -> String {
    Cluster::shared().database().await
}

#[tokio::test]
async fn migrate_applies_what_check_says_is_missing() {
    let url = database().await;
    let check = || run(&mut forgerun(&["migrate", "--check", "--database-url", &url]));
    let before = check();
    assert_eq!(before.code, Some(1), "{}", before.stderr);
    assert!(before.stdout.starts_with("missing 1 spine\nmissing 2 items\n"), "{}", before.stdout);
    assert!(before.stdout.contains("the schema has version 0; this program needs version "));
    assert_eq!(check().stdout, before.stdout, "it changes nothing");

    let applied = run(&mut forgerun(&["migrate", "--database-url", &url]));
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    assert!(applied.stdout.starts_with("applied 1 spine\napplied 2 items\n"), "{}", applied.stdout);

    let after = check();
    assert_eq!(after.code, Some(0), "{}", after.stderr);
    assert!(after.stdout.starts_with("nothing is missing: the schema has version "), "{}", after.stdout);
    let again = run(&mut forgerun(&["migrate", "--database-url", &url]));
    assert_eq!((again.code, again.stdout), (Some(0), after.stdout));
}

#[tokio::test]
async fn a_schema_of_a_newer_version_is_told_from_one_that_was_only_expanded() {
    let url = database().await;
    run(&mut forgerun(&["migrate", "--database-url", &url]));
    let check = || run(&mut forgerun(&["migrate", "--check", "--database-url", &url]));
    let version = step_ahead(&url, NextStep::Expanding).await;
    let expanded = check();
    assert_eq!(expanded.code, Some(0), "{}", expanded.stderr);
    let known = version - 1;
    let said = format!(
        "the schema has version {version}; this program knows versions up to {known} and can work with it\n"
    );
    assert_eq!(expanded.stdout, said);

    let version = step_ahead(&url, NextStep::Closing).await;
    let closed = check();
    assert_eq!(closed.code, Some(1), "{}", closed.stdout);
    let why = format!("needs a program that knows version {version}");
    assert!(closed.stderr.contains(&why), "{}", closed.stderr);
    let started = run(&mut forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", &url]));
    assert_eq!(started.code, Some(1), "{}", started.stdout);
    assert!(started.stderr.contains(&why), "{}", started.stderr);
}

#[test]
fn a_database_that_is_not_there_is_told_from_one_that_lacks_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forgerun.db");
    let url = format!("sqlite:{}", path.display());
    for command in [&["migrate", "--check", "--database-url", &url][..], &["migrate", "--database-url", &url]]
    {
        let missing = run(&mut forgerun(command));
        assert_eq!(missing.code, Some(1));
        assert!(missing.stderr.contains("there is no store at "), "{}", missing.stderr);
        assert!(!path.exists());
    }
    drop(Sqlite::open(&path).unwrap());
    let found = run(&mut forgerun(&["migrate", "--check", "--database-url", &url]));
    assert_eq!(found.code, Some(0), "{}", found.stderr);

    let url = format!("postgres://forgerun@127.0.0.1:{}/jobs", free_port());
    let unreachable = run(&mut forgerun(&["migrate", "--check", "--database-url", &url]));
    assert_eq!(unreachable.code, Some(6), "{}", unreachable.stderr);
}
