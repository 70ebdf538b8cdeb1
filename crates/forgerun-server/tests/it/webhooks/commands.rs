//! `forgerun webhook listen` and `forgerun webhook verify`, as a user runs them.

use std::fs;
use std::path::Path;

use forgerun_engine::{Clock, SystemClock};
use forgerun_server::webhooks::keys::{KeySet, Signer};
use forgerun_server::webhooks::standard::WebhookSecret;
use forgerun_server::webhooks::{DeliveryRequest, SendVerdict};
use forgerun_store::testing::free_port;

use super::receiver::{Receiver, delivery_request, options, sender};
use crate::cli;
use crate::process::{Ended, Server, forgerun, run};

fn secret() -> WebhookSecret {
    WebhookSecret::from_bytes(vec![5; 32]).unwrap()
}

fn keys() -> KeySet {
    KeySet { signing: Signer::from_seed(&[7; 32]).unwrap(), others: Vec::new() }
}

fn signed(url: &str) -> DeliveryRequest {
    DeliveryRequest {
        secrets: vec![secret()],
        ..delivery_request(url, r#"{"status":500,"title":"Job Failed"}"#)
    }
}

async fn deliver(delivery_request: &DeliveryRequest, key: &Signer) -> SendVerdict {
    sender(options())
        .send(&delivery_request.target, delivery_request.request(SystemClock.now(), Some(key)))
        .await
}

#[tokio::test]
async fn listen_prints_each_delivery_and_says_whether_both_signatures_hold() {
    let document: &'static str = keys().document().to_string().leak();
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{document}", document.len());
    let issuer = Receiver::answering(answer.leak()).await;
    let text = secret().to_text();
    let keys_url = format!("http://{}/.well-known/forgerun/webhook-keys", issuer.address);
    let arguments = ["webhook", "listen", "--port", "0", "--secret", &text, "--keys", &keys_url];
    let listener = Server::start(&mut forgerun(&arguments));
    let delivery_request = signed(&format!("http://{}/hook?x=1", listener.address));
    assert_eq!(deliver(&delivery_request, &keys().signing).await, SendVerdict::Delivered(204));
    assert_eq!(
        deliver(&delivery_request, &Signer::from_seed(&[8; 32]).unwrap()).await,
        SendVerdict::Delivered(204)
    );
    listener.signal("INT");
    let Ended { code, stdout, .. } = listener.wait();
    assert_eq!(code, Some(0), "{stdout}");
    let (first, second) = stdout.split_once("seen before").expect(&stdout);
    assert!(first.contains("POST http://127.0.0.1:") && first.contains("/hook?x=1"), "{first}");
    assert!(first.contains("job_failed, attempt 1, delivery 01890a5d"), "{first}");
    assert!(
        first.contains("  | \"title\": \"Job Failed\"") || first.contains("\"title\": \"Job Failed\""),
        "{first}"
    );
    assert!(first.contains("RFC 9421 signature: holds"), "{first}");
    assert!(first.contains("Standard Webhooks signature: holds"), "{first}");
    assert!(second.contains("RFC 9421 signature: DOES NOT HOLD"), "{second}");
    assert!(second.contains("is not among those given"), "{second}");
    assert!(second.contains("Standard Webhooks signature: holds"), "{second}");
}

#[tokio::test]
async fn listen_answers_as_it_is_told_and_says_what_it_cannot_check() {
    let listener = Server::start(&mut forgerun(&["webhook", "listen", "--port", "0", "--answer", "410"]));
    let delivery_request = signed(&format!("http://{}/", listener.address));
    assert_eq!(deliver(&delivery_request, &keys().signing).await, SendVerdict::Gone);
    listener.signal("INT");
    let Ended { code, stdout, .. } = listener.wait();
    assert_eq!(code, Some(0));
    assert!(stdout.contains("RFC 9421 signature: not checked; give --keys"), "{stdout}");
    assert!(stdout.contains("Standard Webhooks signature: not checked; give --secret"), "{stdout}");
}

#[tokio::test]
async fn listen_says_nothing_of_secrets_for_the_callback_of_a_job() {
    let listener = Server::start(&mut forgerun(&["webhook", "listen", "--port", "0"]));
    let callback =
        delivery_request(&format!("http://{}/", listener.address), r#"{"status":500,"title":"Job Failed"}"#);
    assert_eq!(deliver(&callback, &keys().signing).await, SendVerdict::Delivered(204));
    listener.signal("INT");
    let stdout = listener.wait().stdout;
    assert!(stdout.contains("RFC 9421 signature: not checked; give --keys"), "{stdout}");
    assert!(!stdout.contains("Standard Webhooks") && !stdout.contains("--secret"), "{stdout}");
}

#[test]
fn listen_registers_itself_keeps_what_comes_hands_it_on_and_leaves_nothing_behind() {
    let server = cli::dev();
    let behind = Server::start(&mut forgerun(&["webhook", "listen", "--port", "0", "--answer", "202"]));
    let folder = tempfile::tempdir().unwrap();
    let (kept, forward) = (folder.path().to_str().unwrap(), format!("http://{}/in?a=1", behind.address));
    let arguments = ["webhook", "listen", "--port", "0", "--register", "--forward", &forward, "--save", kept];
    let mut listener = Server::start(&mut cli::command(&server, &arguments));
    cli::ask(&server, &["submit", "--kind", "SUCCESS_FAST", "--wait"]).expect(0);
    assert!(listener.wait_for_output("RFC 9421 signature").contains("holds"));
    assert!(listener.wait_for_output("Standard Webhooks signature").contains("holds"));
    assert!(listener.wait_for_output("handed on").contains("202"));
    let url = format!("http://{}/", listener.address);
    listener.signal("TERM");
    assert_eq!(listener.wait().code, Some(0));
    assert!(server.get("/v1/webhooks").contains(r#""webhooks":[]"#), "it is removed at the end");
    behind.signal("INT");
    assert!(behind.wait().stdout.contains("/in?a=1"));
    let mut bodies = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let body = bodies.find(|path| path.extension().is_some_and(|extension| extension == "body")).unwrap();
    let headers = body.with_extension("headers");
    let keys = format!("http://{}/.well-known/forgerun/webhook-keys", server.address);
    let arguments =
        ["webhook", "verify", "--headers", headers.to_str().unwrap(), "--body", body.to_str().unwrap()];
    let verified = run(&mut forgerun(&[&arguments[..], &["--url", &url, "--keys", &keys]].concat()));
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
}

#[test]
fn listen_does_not_begin_without_its_server_or_with_a_bad_target() {
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let mut listen = forgerun(&["webhook", "listen", "--port", "0", "--register"]);
    assert_eq!(run(listen.env("FORGERUN_URL", nobody)).code, Some(6));
    assert_eq!(
        run(&mut forgerun(&["webhook", "listen", "--port", "0", "--forward", "ftp://a"])).code,
        Some(2)
    );
}

const URL: &str = "https://example.com/hook";

/// A delivery in files.
fn write(folder: &Path) {
    let delivery_request = signed(URL);
    let request = delivery_request.request(SystemClock.now(), Some(&keys().signing));
    let header = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
        format!("{name}: {}\r\n", value.to_str().unwrap())
    };
    let head: String = request.headers().iter().map(header).collect();
    fs::write(folder.join("headers"), format!("POST /hook HTTP/1.1\r\n{head}")).unwrap();
    fs::write(folder.join("body"), &delivery_request.contents.body).unwrap();
    fs::write(folder.join("keys"), keys().document().to_string()).unwrap();
}

fn verify(folder: &Path, url: &str, further: &[&str]) -> Ended {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (headers, body, keys) = (path("headers"), path("body"), path("keys"));
    let secret = secret().to_text();
    let mut arguments = vec!["webhook", "verify", "--headers", &headers, "--body", &body, "--url", url];
    arguments.extend(["--secret", &secret, "--keys", &keys]);
    arguments.extend(further);
    run(&mut forgerun(&arguments))
}

#[test]
fn verify_says_of_both_signatures_that_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let ended = verify(folder.path(), URL, &["--method", "POST"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.stdout.matches("=> holds").count(), 2, "{}", ended.stdout);
}

#[test]
fn verify_explains_what_is_wrong_and_ends_with_1() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let wrong_url = verify(folder.path(), "http://example.com/hook", &[]);
    assert_eq!(wrong_url.code, Some(1));
    assert!(
        wrong_url.stdout.contains("it holds for the URL https://example.com/hook"),
        "{}",
        wrong_url.stdout
    );
    fs::write(folder.path().join("body"), r#"{"status":501,"title":"Job Failed"}"#).unwrap();
    let changed = verify(folder.path(), URL, &[]);
    assert_eq!(changed.code, Some(1));
    assert!(changed.stdout.contains("BAD   Content-Digest is not that of the body"), "{}", changed.stdout);
    assert!(changed.stdout.contains("none of 1 signatures was made with the secret"), "{}", changed.stdout);
    write(folder.path());
    let late = verify(folder.path(), URL, &["--tolerance", "0", "--any-age"]);
    assert_eq!(late.code, Some(0), "{}", late.stdout);
}

#[test]
fn verify_without_means_or_files_is_a_mistake_of_usage() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let missing = run(&mut forgerun(&[
        "webhook",
        "verify",
        "--headers",
        "nowhere",
        "--body",
        "nowhere",
        "--url",
        URL,
        "--secret",
        "whsec_x",
    ]));
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("a secret is whsec_"), "{}", missing.stderr);
    let without = run(&mut forgerun(&["webhook", "verify", "--headers", "a", "--body", "b", "--url", URL]));
    assert_eq!(without.code, Some(2));
    assert!(without.stderr.contains("nothing to verify with"), "{}", without.stderr);
    let empty = folder.path().join("keys");
    fs::write(&empty, "{}").unwrap();
    let no_keys = verify(folder.path(), URL, &[]);
    assert_eq!(no_keys.code, Some(1));
    assert!(no_keys.stderr.contains("JWK set"), "{}", no_keys.stderr);
}

#[test]
fn a_listener_whose_port_is_taken_says_which() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let ended = run(&mut forgerun(&["webhook", "listen", "--port", &address.port().to_string()]));
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains(&format!("could not listen on {address}")), "{}", ended.stderr);
}
