//! Large results beside an SQLite database: where the files are, and what a killed process leaves of them.
#![cfg(feature = "sqlite")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use bytes::Bytes;
use forgerun_core::id::BlobId;
use forgerun_core::time::Time;
use forgerun_store::sqlite::Sqlite;
use forgerun_store::{Store, Sweep};

/// Tells the child where its file is.
const FILE: &str = "FORGE_RESULTS_TEST_FILE";

fn at(seconds: i64) -> Time {
    Time::from_millis(1_700_000_000_000 + seconds * 1000)
}

fn sweep(loose_before: Time) -> Sweep {
    Sweep { loose_before, ..Sweep::nothing(100) }
}

/// Every file below the folder of results.
fn files(database: &Path) -> Vec<PathBuf> {
    let Ok(folders) = std::fs::read_dir(database.with_file_name("results")) else { return Vec::new() };
    let inside = |folder: std::fs::DirEntry| std::fs::read_dir(folder.path()).unwrap();
    folders.flat_map(|folder| inside(folder.unwrap())).map(|file| file.unwrap().path()).collect()
}

#[tokio::test]
async fn a_blob_is_a_file_beside_the_database_until_it_is_swept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data").join("jobs.db");
    let store = Sqlite::open(&path).unwrap();
    let blob = BlobId::v7(1_700_000_000_000, 0xab);
    let mut sink = store.blobs().begin(blob, at(0)).await.unwrap();
    sink.write(Bytes::from_static(b"hello ")).await.unwrap();
    sink.write(Bytes::from_static(b"world")).await.unwrap();
    sink.finish().await.unwrap();
    let file = folder.path().join("data/results/ab").join(blob.to_string());
    assert_eq!(std::fs::read(&file).unwrap(), b"hello world");

    // Whoever has it open reads on although it is deleted.
    let source = store.blobs().open(blob).await.unwrap();
    assert_eq!(store.sweep(sweep(at(1))).await.unwrap().total(), 1);
    assert!(!file.exists());
    assert_eq!(source.read(6, 100).await.unwrap(), "world");
}

#[tokio::test]
async fn a_file_that_somebody_else_deleted_does_not_stop_the_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let store = Sqlite::open(&path).unwrap();
    for n in 1..=3 {
        store.blobs().begin(BlobId::v7(1, n), at(0)).await.unwrap().finish().await.unwrap();
    }
    std::fs::remove_file(&files(&path)[0]).unwrap();
    assert_eq!(store.sweep(sweep(at(1))).await.unwrap().total(), 3);
    assert_eq!(files(&path), Vec::<PathBuf>::new());
    assert_eq!(store.sweep(sweep(at(1))).await.unwrap().total(), 0);
}

/// The child: writes one blob after the other and never names one. Never ends by itself.
async fn keep_for_ever(path: &Path) {
    let store = Sqlite::open(path).unwrap();
    for n in 0.. {
        let blob = BlobId::v7(1, u128::from(std::process::id()) << 32 | n);
        let mut sink = store.blobs().begin(blob, at(0)).await.unwrap();
        sink.write(Bytes::from(vec![7; 300_000])).await.unwrap();
        sink.finish().await.unwrap();
        println!("finished {blob}");
    }
}

#[tokio::test]
async fn killed_between_the_bytes_and_the_row_leaves_only_what_a_sweep_removes() {
    if let Some(path) = std::env::var_os(FILE) {
        return keep_for_ever(Path::new(&path)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let mut finished: Vec<BlobId> = Vec::new();
    for _ in 0..3 {
        let mut child = Process::new(std::env::current_exe().unwrap())
            .args([
                "killed_between_the_bytes_and_the_row_leaves_only_what_a_sweep_removes",
                "--exact",
                "--nocapture",
            ])
            .env(FILE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let said = lines.filter_map(|line| line.strip_prefix("finished ")?.parse::<BlobId>().ok());
        finished.extend(said.take(20));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let store = Sqlite::open(&path).unwrap();
    for blob in &finished {
        let source = store.blobs().open(*blob).await.unwrap();
        assert_eq!(source.read(299_999, 10).await.unwrap(), Bytes::from_static(&[7]), "all of it is there");
    }
    let n_files = files(&path).len();
    assert!(n_files >= 60, "{n_files}");
    assert_eq!(store.sweep(sweep(at(0))).await.unwrap().total(), 0, "they are too young");
    assert!(store.sweep(sweep(at(1))).await.unwrap().total() >= n_files);
    assert_eq!(files(&path), Vec::<PathBuf>::new());
}
