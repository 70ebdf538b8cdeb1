//! `forgerun serve` with an object store for large results: what it needs to start, and what it
//! makes of a mistake.

use std::process::Command;

use forgerun_store::testing::S3Server;

use crate::process::{Server, forgerun, run};

/// A server on a file of its own, with this object store.
fn with_objects(objects: &S3Server, folder: &tempfile::TempDir, secret: &str) -> Command {
    let data = folder.path().to_str().unwrap();
    let options = objects.options();
    let (id, _) = options.key.unwrap();
    let mut serve = forgerun(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
    serve.env("FORGERUN_RESULTS__STORE", format!("s3://{}/{}", options.bucket, options.prefix));
    serve.env("FORGERUN_RESULTS__ENDPOINT", objects.endpoint());
    serve.env("FORGERUN_RESULTS__ACCESS_KEY_ID", id).env("FORGERUN_RESULTS__SECRET_ACCESS_KEY", secret);
    serve
}

#[test]
fn a_server_starts_while_its_object_store_is_away_and_says_so() {
    let (objects, folder) = (S3Server::start(), tempfile::tempdir().unwrap());
    objects.go_away();
    let secret = objects.options().key.unwrap().1;
    let mut server = Server::start(&mut with_objects(&objects, &folder, &secret));
    server.wait_for_log("object store unreachable");
    assert!(server.get("/ready").starts_with("HTTP/1.1 200"));
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));
}

#[test]
fn a_wrong_key_for_the_object_store_stops_the_start() {
    let (objects, folder) = (S3Server::start(), tempfile::tempdir().unwrap());
    let refused = run(&mut with_objects(&objects, &folder, "hunter2"));
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("s3://results/forge/run"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
}
