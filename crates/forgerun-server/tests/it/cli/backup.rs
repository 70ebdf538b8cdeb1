//! `forgerun backup` and `forgerun restore`: under load, into places that are taken, and from backups
//! that are damaged.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[cfg(feature = "s3")]
use forgerun_store::testing::S3Server;
use tempfile::TempDir;

use super::check::{fill, is_sound};
use crate::crash::{Connection, check as check_jobs, load, start};
use crate::process::{Ended, forgerun, run};

struct Folders(TempDir);

impl Folders {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn data(&self, name: &str) -> String {
        format!("sqlite:{}", self.path(name).join("jobs.db").display())
    }

    fn run(&self, command: &str, place: &str, data: &str) -> Ended {
        run(&mut forgerun(&[command, place, "--database-url", &self.data(data)]))
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_restored_backup_has_all_that_was_acknowledged_before_it_began() {
    let folders = Folders(tempfile::tempdir().unwrap());
    let server = start(&folders.data("first"));
    let (plot, key) = fill(&server);
    let before = load(&[server.address], &key, 100);
    let place = folders.path("backup");
    let backed_up = std::thread::scope(|scope| {
        let busy = scope.spawn(|| load(&[server.address], &key, 400));
        let backed_up = folders.run("backup", text(&place), "first");
        busy.join().unwrap();
        backed_up
    });
    assert!(backed_up.expect(0).starts_with("backup "), "{}", backed_up.stdout);
    drop(server);

    let again = folders.run("backup", text(&place), "first");
    assert!(again.code == Some(1) && again.stderr.contains("is not empty"), "{}", again.stderr);
    folders.run("restore", text(&place), "second").expect(0);
    is_sound(&folders.data("second"));
    let again = folders.run("restore", text(&place), "second");
    assert!(again.code == Some(1) && again.stderr.contains("is there already"), "{}", again.stderr);

    let restored = start(&folders.data("second"));
    let plots = BTreeSet::from([plot.clone()]);
    check_jobs(restored.address, &key, &before.union(&plots).cloned().collect());
    let mut connection = Connection::open(restored.address, &key).unwrap();
    let (status, result) = connection.ask("GET", &format!("/v1/jobs/{plot}/result"), "").unwrap();
    assert_eq!((status, result.as_str().map(str::len)), (200, Some(100_000)));
}

#[test]
fn a_backup_that_is_damaged_or_not_complete_is_not_restored() {
    let folders = Folders(tempfile::tempdir().unwrap());
    let server = start(&folders.data("first"));
    fill(&server);
    let place = folders.path("backup");
    folders.run("backup", text(&place), "first").expect(0);
    drop(server);
    let refused = |data: &str, words: &str| {
        let refused = folders.run("restore", text(&place), data);
        assert!(refused.code == Some(1) && refused.stderr.contains(words), "{words}: {}", refused.stderr);
        assert!(!folders.path(data).join("jobs.db").exists(), "no server may start on it");
    };
    let database = place.join("forgerun.db");
    let mut bytes = fs::read(&database).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&database, &bytes).unwrap();
    refused("second", "the backup is damaged: forgerun.db");
    fs::remove_file(&database).unwrap();
    refused("third", "forgerun.db");
    let manifest = fs::read_to_string(place.join("backup.json")).unwrap();
    fs::write(place.join("backup.json"), manifest.replace("forgerun.db", "../../forgerun.db")).unwrap();
    refused("fourth", "names the file ../../forgerun.db");
    fs::remove_file(place.join("backup.json")).unwrap();
    refused("fifth", "there is no complete backup at");
}

#[test]
fn what_cannot_be_backed_up_is_refused_with_the_way_out() {
    let folders = Folders(tempfile::tempdir().unwrap());
    let missing = folders.run("backup", text(&folders.path("backup")), "nothing");
    assert!(missing.code == Some(1) && missing.stderr.contains("there is no store at"), "{}", missing.stderr);
    let odd = folders.run("backup", "ftp://example.com/backup", "nothing");
    assert_eq!(odd.code, Some(1), "the store is looked at first: {}", odd.stderr);
    let postgres = run(&mut forgerun(&["backup", "b", "--database-url", "postgres://localhost/jobs"]));
    assert!(postgres.code == Some(2) && postgres.stderr.contains("pg_dump"), "{}", postgres.stderr);
}

#[cfg(feature = "s3")]
#[test]
fn a_backup_in_an_object_store_is_restored() {
    let (folders, objects) = (Folders(tempfile::tempdir().unwrap()), S3Server::start());
    let server = start(&folders.data("first"));
    let (plot, key) = fill(&server);
    let (id, secret) = objects.options().key.unwrap();
    let with_objects = |command: &str, data: &str| {
        let mut command =
            forgerun(&[command, "s3://results/backups/monday", "--database-url", &folders.data(data)]);
        command.env("FORGERUN_RESULTS__ENDPOINT", objects.endpoint());
        command.env("FORGERUN_RESULTS__ACCESS_KEY_ID", &id);
        run(command.env("FORGERUN_RESULTS__SECRET_ACCESS_KEY", &secret))
    };
    with_objects("backup", "first").expect(0);
    drop(server);
    assert!(with_objects("backup", "first").stderr.contains("is not empty"));
    with_objects("restore", "second").expect(0);
    is_sound(&folders.data("second"));
    let restored = start(&folders.data("second"));
    let mut connection = Connection::open(restored.address, &key).unwrap();
    let (status, result) = connection.ask("GET", &format!("/v1/jobs/{plot}/result"), "").unwrap();
    assert_eq!((status, result.as_str().map(str::len)), (200, Some(100_000)));
}
