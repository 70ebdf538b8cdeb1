//! `forgerun check`: a sound store, and a store that is damaged in every way that the check names.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forgerun_core::delivery::Delivery;
use forgerun_core::id::{DeliveryId, JobId};
use forgerun_core::job::{Head, Job};
use forgerun_store::sqlite::Sqlite;
use forgerun_store::testing::{Cluster, connect};
use forgerun_store::{CheckReport, FindingKind};
use rusqlite::params;
use serde_json::json;

use crate::crash::{Connection, check as check_jobs, first_key, load, start};
use crate::process::{Ended, Server, forgerun, run};

fn checked(url: &str) -> Ended {
    run(&mut forgerun(&["check", "--database-url", url]))
}

/// Fails if the check finds something.
pub(crate) fn is_sound(url: &str) {
    let checked = checked(url);
    assert_eq!(checked.code, Some(0), "{}{}", checked.stdout, checked.stderr);
    assert!(checked.stdout.starts_with("the store is sound: "), "{}", checked.stdout);
}

/// Jobs that ended, one with a large result, and deliveries that nobody takes. Returns the id of the
/// job with the result and the key of its client.
pub(super) fn fill(server: &Server) -> (String, String) {
    let key = first_key(server.address);
    let mut connection = Connection::open(server.address, &key).unwrap();
    let hook = json!({"url": "http://127.0.0.1:9/hook", "events": ["*"]});
    let (status, webhook) = connection.ask("POST", "/v1/webhooks", &hook.to_string()).unwrap();
    assert_eq!(status, 201, "{webhook}");
    let schedule = json!({"cron": "0 0 1 1 *", "job": {"type": "EXECUTE", "work_kind": "SUCCESS_FAST"}});
    let (status, schedule) = connection.ask("PUT", "/v1/schedules/yearly", &schedule.to_string()).unwrap();
    assert!(status < 300, "{schedule}");
    let ended = load(&[server.address], &key, 12);
    check_jobs(server.address, &key, &ended);
    let work = json!({"job_type": "plot", "queue": "plots", "payload": {}});
    let (status, job) = connection.ask("POST", "/v1/jobs", &work.to_string()).unwrap();
    assert_eq!(status, 202, "{job}");
    let fetch = json!({"queues": ["plots"]}).to_string();
    let (status, fetched) = connection.ask("POST", "/ojs/v1/workers/fetch", &fetch).unwrap();
    assert_eq!(status, 200, "{fetched}");
    let token = &fetched["jobs"][0]["lease_token"];
    let id = job["job_id"].as_str().unwrap();
    let ack = json!({"job_id": id, "lease_token": token, "result": "x".repeat(100_000)});
    let (status, acked) = connection.ask("POST", "/ojs/v1/workers/ack", &ack.to_string()).unwrap();
    assert_eq!(status, 200, "{acked}");
    (id.to_owned(), key)
}

/// A store in a file that no server uses any more.
fn filled(folder: &Path) -> PathBuf {
    let path = folder.join("jobs.db");
    let server = start(&format!("sqlite:{}", path.display()));
    fill(&server);
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));
    path
}

const BY_SQL: [(FindingKind, &str); 25] = [
    (FindingKind::SetAside, "INSERT INTO set_aside SELECT 1, id, 0, 'a test' FROM jobs LIMIT 1"),
    (FindingKind::JobUnreadable, "UPDATE jobs SET body = x'ff' WHERE n = 1"),
    (FindingKind::JobColumns, "UPDATE jobs SET shelf = 'elsewhere' WHERE n = 1"),
    (FindingKind::InputUnreadable, "INSERT OR REPLACE INTO inputs VALUES (1, x'ff')"),
    (FindingKind::InputWithoutJob, "INSERT INTO inputs VALUES (1000000, x'')"),
    (FindingKind::OutcomeMissing, "DELETE FROM outcomes WHERE rowid = 1"),
    (FindingKind::OutcomeDigest, "UPDATE outcomes SET bytes = bytes || x'20' WHERE rowid = 1"),
    (
        FindingKind::OutcomeWithoutJob,
        "INSERT INTO outcomes SELECT randomblob(16), randomblob(16), digest, bytes FROM outcomes LIMIT 1",
    ),
    (FindingKind::ExecutionWithoutJob, "INSERT INTO executions VALUES (randomblob(16), randomblob(16))"),
    (FindingKind::ResultMissing, "DELETE FROM results"),
    (
        FindingKind::ResultWithoutOutcome,
        "INSERT INTO results (execution, media_type, size, bytes) VALUES (randomblob(16), 'text/plain', 0, x'')",
    ),
    (FindingKind::BlobMissing, "DELETE FROM blobs"),
    (FindingKind::BlobDigest, "UPDATE results SET digest = zeroblob(32) WHERE blob IS NOT NULL"),
    (FindingKind::Counts, "UPDATE counts SET succeeded = succeeded + 1"),
    (FindingKind::LimitCount, "INSERT INTO limits VALUES ('a-limit', 3, 0)"),
    (FindingKind::JournalUnreadable, "UPDATE journal SET entries = x'ff' WHERE seq = 3"),
    (FindingKind::JournalGap, "DELETE FROM journal WHERE seq = (SELECT max(seq) FROM journal)"),
    (FindingKind::DeliveryUnreadable, "UPDATE deliveries SET body = x'ff' WHERE n = 1"),
    (FindingKind::DeliveryColumns, "UPDATE deliveries SET due_at = 5 WHERE n = 2"),
    (
        FindingKind::DeliveryOrder,
        "DELETE FROM deliveries WHERE place =
             (SELECT min(place) FROM deliveries AS other WHERE other.job = deliveries.job)",
    ),
    (FindingKind::DeliveryWithoutJob, "UPDATE deliveries SET job = randomblob(16) WHERE n = 1"),
    (FindingKind::RecordUnreadable, "UPDATE records SET bytes = x'ff'"),
    (FindingKind::RecordColumns, "UPDATE records SET grp = 'elsewhere'"),
    (FindingKind::WebhookUnreadable, "UPDATE webhooks SET body = x'ff'"),
    (FindingKind::WebhookColumns, "UPDATE webhooks SET url = 'http://example.com'"),
];

/// An ended job that is paused.
fn break_job(path: &Path) {
    let file = rusqlite::Connection::open(path).unwrap();
    let found = file.query_row("SELECT id, head, body FROM jobs WHERE n = 1", [], |row| {
        Ok((row.get::<_, [u8; 16]>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, Vec<u8>>(2)?))
    });
    let (id, head, body) = found.unwrap();
    let head = Arc::new(Head::decode(&head).unwrap());
    let mut job = Job::decode(JobId::from_u128(u128::from_be_bytes(id)), head, &body).unwrap();
    assert!(job.state.is_final());
    job.paused = true;
    file.execute("UPDATE jobs SET body = ?1 WHERE n = 1", params![job.encode()]).unwrap();
}

/// A delivery that was sent more often than it was taken.
fn break_delivery(path: &Path) {
    let file = rusqlite::Connection::open(path).unwrap();
    let found = file.query_row("SELECT id, body FROM deliveries WHERE n = 1", [], |row| {
        Ok((row.get::<_, [u8; 16]>(0)?, row.get::<_, Vec<u8>>(1)?))
    });
    let (id, body) = found.unwrap();
    let mut delivery = Delivery::decode(DeliveryId::from_u128(u128::from_be_bytes(id)), &body).unwrap();
    delivery.attempts = delivery.fence + 1;
    file.execute("UPDATE deliveries SET body = ?1 WHERE n = 1", params![delivery.encode()]).unwrap();
}

/// A page of an index overwritten, as by a disk that wrote to the wrong place.
fn break_page(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let size = file.metadata().unwrap().len();
    for page in (2..size / 4096).step_by(2) {
        file.write_all_at(&[0xa5; 64], page * 4096 + 8).unwrap();
    }
}

fn kinds(report: &CheckReport) -> BTreeSet<FindingKind> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

#[tokio::test]
async fn damage_of_every_kind_is_found_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_owned();
    let path = tokio::task::spawn_blocking(move || filled(&data)).await.unwrap();
    let sound = Sqlite::check(&path, None).await.unwrap();
    assert_eq!(sound.findings, []);
    assert!(sound.n_jobs >= 13 && sound.n_deliveries > 13 && sound.n_results == 1, "{sound:?}");
    let copy = folder.path().join("damaged.db");
    let mut named = BTreeSet::new();
    let mut check = async |expected: FindingKind, damage: &dyn Fn(&Path)| {
        fs::copy(&path, &copy).unwrap();
        damage(&copy);
        let report = Sqlite::check(&copy, None).await.unwrap();
        assert!(kinds(&report).contains(&expected), "{expected:?}: {:?}", report.findings);
        named.insert(expected);
    };
    for (expected, sql) in BY_SQL {
        check(expected, &|path: &Path| {
            let n = rusqlite::Connection::open(path).unwrap().execute(sql, []).unwrap();
            assert!(n > 0, "{sql}");
        })
        .await;
    }
    check(FindingKind::JobRule, &break_job).await;
    check(FindingKind::DeliveryRule, &break_delivery).await;
    check(FindingKind::DatabaseDamaged, &break_page).await;
    check(FindingKind::DatabaseDamaged, &|path: &Path| fs::write(path, "this is no database").unwrap()).await;
    assert_eq!(named, FindingKind::ALL.iter().copied().collect());
    let results = folder.path().join("results");
    fs::rename(&results, folder.path().join("moved")).unwrap();
    let report = Sqlite::check(&path, None).await.unwrap();
    assert_eq!(kinds(&report), BTreeSet::from([FindingKind::BlobMissing]));
}

#[tokio::test]
async fn a_damaged_postgresql_is_named_and_a_sound_one_is_not() {
    let url = Cluster::shared().database().await;
    let database = url.clone();
    let served = tokio::task::spawn_blocking(move || {
        let server = start(&database);
        fill(&server);
        is_sound(&database);
        server.signal("TERM");
        server.wait().code
    });
    assert_eq!(served.await.unwrap(), Some(0));
    is_sound(&url);
    let client = connect(&url).await;
    let damage = [
        ("job-columns", "UPDATE jobs SET due_at = 7"),
        ("counts", "UPDATE counts SET failed = failed + 1"),
        ("outcome-digest", "UPDATE outcomes SET bytes = bytes || '\\x20'"),
        ("blob-missing", "DELETE FROM blob_chunks"),
        ("journal-gap", "DELETE FROM journal WHERE seq = (SELECT max(seq) FROM journal)"),
        ("job-unreadable", "UPDATE jobs SET body = '\\xff'"),
    ];
    for (name, sql) in damage {
        client.batch_execute(sql).await.unwrap();
        let checked = checked(&url);
        let is_named = checked.stdout.lines().any(|line| line.starts_with(&format!("{name}: ")));
        assert!(is_named, "{name}: {}{}", checked.stdout, checked.stderr);
        assert_eq!(checked.code, Some(1));
    }
}

#[test]
fn a_store_that_is_not_there_is_not_sound() {
    let ended = checked("sqlite:/nonexistent/jobs.db");
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stderr.contains("there is no store at"), "{}", ended.stderr);
}
