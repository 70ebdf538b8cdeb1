//! The public keys: the same after a restart and on every node, and old and new side by side while
//! they are changed.

use serde_json::Value;

use crate::process::{Server, forgerun, run};

const PATH: &str = "/.well-known/forgerun/webhook-keys";

fn keys(server: &Server) -> Vec<Value> {
    let answer = server.get(PATH);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: application/jwk-set+json\r\n"), "{answer}");
    assert!(answer.contains("cache-control: public, max-age=60\r\n"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let document: Value = serde_json::from_str(body).unwrap();
    document["keys"].as_array().unwrap().clone()
}

#[test]
fn the_published_keys_outlive_the_server_and_are_changed_with_an_overlap() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let serve = || Server::start(&mut forgerun(&["serve", "--listen", "127.0.0.1:0", "--data", data]));
    let stop = |server: Server| {
        server.signal("TERM");
        assert_eq!(server.wait().code, Some(0));
    };
    let server = serve();
    let first = keys(&server);
    assert_eq!((first.len(), &first[0]["kty"], &first[0]["crv"]), (1, &"OKP".into(), &"Ed25519".into()));
    assert_eq!(first[0].get("d"), None, "only the public half");
    stop(server);
    let rotated = run(&mut forgerun(&["webhook", "rotate-key", "--data", data]));
    assert_eq!(rotated.code, Some(0), "{}", rotated.stderr);
    let server = serve();
    let both = keys(&server);
    assert_eq!(both.len(), 2);
    // Receivers get to know the new key before it signs.
    assert_eq!(both[0], first[0]);
    assert!(rotated.stdout.contains(both[1]["kid"].as_str().unwrap()), "{}", rotated.stdout);
    stop(server);
}

#[test]
fn a_server_that_does_not_sign_publishes_no_key() {
    let mut command = forgerun(&["dev", "--listen", "127.0.0.1:0"]);
    let server = Server::start(command.env("FORGERUN_WEBHOOKS__SIGN", "false"));
    assert_eq!(keys(&server), Vec::<Value>::new());
}

#[test]
fn keys_of_a_memory_store_cannot_be_changed_from_outside() {
    let ended = run(&mut forgerun(&["webhook", "rotate-key", "--database-url", "memory:"]));
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("the keys are in the database"), "{}", ended.stderr);
}
