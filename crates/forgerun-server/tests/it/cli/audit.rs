//! `forgerun audit`: a trail of two servers, whole and damaged, by SQLite and PostgreSQL.

use std::process::Command;

use forgerun_store::testing::{Cluster, connect};

use crate::process::{Ended, Server, forgerun, run};

const TOKEN: &str = "the-operator-and-nobody-else";

fn start(url: &str) -> Server {
    let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", url]);
    Server::start(command.env("FORGERUN_AUTH__ADMIN_TOKEN", TOKEN))
}

fn operate(server: &Server, arguments: &[&str]) {
    let mut command: Command = forgerun(arguments);
    command.env("FORGERUN_URL", format!("http://{}", server.address));
    let ended = run(command.env("FORGERUN_ADMIN_TOKEN", TOKEN));
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
}

fn audit(what: &str, url: &str) -> Ended {
    run(&mut forgerun(&["audit", what, "--database-url", url]))
}

/// Three changes by each of two servers on one database. One of them goes on to run.
fn two_servers(url: &str) -> Server {
    let (first, second) = (start(url), start(url));
    for change in ["pause", "resume", "pause"] {
        operate(&first, &["queues", change, "default"]);
        operate(&second, &["queues", change, "default"]);
    }
    second.signal("TERM");
    assert_eq!(second.wait().code, Some(0));
    first
}

fn is_whole(url: &str) {
    let verified = audit("verify", url);
    let expected = "the audit trail is whole: 6 entries in 2 chains, 0 removed by retention\n";
    assert_eq!((verified.code, verified.stdout.as_str()), (Some(0), expected), "{}", verified.stderr);
}

fn has_faults(url: &str, words: &str) {
    let verified = audit("verify", url);
    assert_eq!(verified.code, Some(1), "{}", verified.stdout);
    assert!(verified.stdout.contains(words), "{words}: {}", verified.stdout);
}

/// The middle entry of the first chain.
const MIDDLE: &str = "kind = 45 AND key LIKE '%.00000001.000000000002'";

#[test]
fn an_entry_that_is_missing_or_changed_in_a_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let url = format!("sqlite:{}", path.display());
    let server = two_servers(&url);
    is_whole(&url);
    let exported = audit("export", &url);
    assert_eq!((exported.code, exported.stdout.lines().count()), (Some(0), 6), "{}", exported.stderr);
    assert!(exported.stdout.contains("\"pause_queue\""), "{}", exported.stdout);
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));

    let file = rusqlite::Connection::open(&path).unwrap();
    let run = |sql: &str| file.execute_batch(sql).unwrap();
    run("CREATE TEMP TABLE good AS SELECT * FROM records");
    let restore = || run("DELETE FROM records; INSERT INTO records SELECT * FROM good");
    run(&format!("DELETE FROM records WHERE {MIDDLE}"));
    has_faults(&url, "missing: entry 2 of node ");
    restore();
    // The action, by one letter: the row stays readable.
    let renamed = "unhex(replace(hex(bytes), hex('resume'), hex('rename')))";
    run(&format!("UPDATE records SET bytes = {renamed} WHERE {MIDDLE}"));
    has_faults(&url, "changed: entry 2 of node ");
    restore();
    run("DELETE FROM records WHERE kind = 46 AND key = (SELECT key FROM records WHERE kind = 46 LIMIT 1)");
    has_faults(&url, " as a whole");
    restore();
    is_whole(&url);
}

#[tokio::test]
async fn an_entry_that_is_missing_in_postgresql_is_named() {
    let url = Cluster::shared().database().await;
    let server = two_servers(&url);
    is_whole(&url);
    let client = connect(&url).await;
    client.batch_execute(&format!("DELETE FROM records WHERE {MIDDLE}")).await.unwrap();
    has_faults(&url, "missing: entry 2 of node ");
    drop(server);
}

#[test]
fn a_database_that_is_not_there_has_no_trail() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("nothing");
    let ended = run(&mut forgerun(&["audit", "verify", "--data", data.to_str().unwrap()]));
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stderr.contains("there is no store at"), "{}", ended.stderr);
}
