//! Results over HTTP: whole, in part, again, as a file, too late; in rows and beside them, on every
//! store.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use forgerun_core::Command;
use forgerun_core::command::{HeldJob, LeaseProof, Output, Succeed};
use forgerun_core::id::ClientId;
use forgerun_core::job::Job;
use forgerun_problem::Digest;
use forgerun_server::Bounds;
use forgerun_server::limits::{DOWNLOADS_MAX, DOWNLOADS_PER_CLIENT_MAX};
use forgerun_store::Store;
use forgerun_store::memory::Memory;
use forgerun_store::postgres::{Options, Postgres};
use forgerun_store::sqlite::Sqlite;
use forgerun_store::testing::Cluster;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::http::Answer;
use super::server::{Client, Server};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Beside the rows, and more than a few chunks of any kind.
const LARGE: usize = 700_001;

fn bytes(size: usize) -> Vec<u8> {
    (0..size as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A job that left this; the path of its result.
async fn left(server: &Server, client: &Client, output: Output) -> String {
    let id = client.job().await;
    let job = server.claim(true).await;
    assert_eq!(job.id.to_string(), id);
    finish(server, &job, output).await;
    format!("/v1/jobs/{id}/result")
}

async fn finish(server: &Server, job: &Job, output: Output) {
    let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None };
    let succeed = Succeed { held, output: Some(Arc::new(output)) };
    server.app.engine.act(Command::Succeed(succeed)).await.unwrap();
}

async fn kept(server: &Server, media_type: &str, name: Option<&str>, size: usize) -> Output {
    let mut intake = server.app.engine.begin_result(media_type, name.map(str::to_owned));
    for part in bytes(size).chunks(99_999) {
        intake.write(Bytes::copy_from_slice(part)).await.unwrap();
    }
    intake.finish().await.unwrap()
}

fn digest_field(bytes: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Digest::of(bytes).0))
}

async fn get(client: &Client, path: &str, headers: &[(&str, &str)]) -> Answer {
    send(client, "GET", path, headers).await
}

async fn send(client: &Client, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let call = client.call(method, path);
    headers.iter().fold(call, |call, (name, value)| call.header(name, value)).send().await
}

#[tokio::test]
async fn a_file_comes_with_its_name_size_tag_and_digest() {
    let server = Server::start().await;
    let client = server.client().await;
    let output = kept(&server, "application/pdf", Some("Jahresübersicht.pdf"), LARGE).await;
    let path = left(&server, &client, output).await;
    let answer = client.get(&path).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body == bytes(LARGE), "byte for byte");
    let digest = digest_field(&answer.body);
    for (name, value) in [
        ("content-type", "application/pdf"),
        ("content-length", "700001"),
        (
            "content-disposition",
            "attachment; filename=\"Jahres_bersicht.pdf\"; filename*=UTF-8''Jahres%C3%BCbersicht.pdf",
        ),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store, no-transform"),
        ("vary", "Accept"),
        ("repr-digest", &digest),
        ("content-digest", &digest),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    assert_eq!(answer.header("transfer-encoding"), None);
    let etag = answer.header("etag").unwrap();
    assert!(etag.len() == 66 && etag.starts_with('"') && etag.ends_with('"'), "{etag}");

    let head = send(&client, "HEAD", &path, &[("range", "bytes=5-9")]).await;
    assert_eq!((head.status, head.body.len()), (200, 0), "a range is for GET");
    for name in
        ["content-type", "content-length", "content-disposition", "accept-ranges", "etag", "repr-digest"]
    {
        assert_eq!(head.header(name), answer.header(name), "{name}");
    }
}

#[tokio::test]
async fn json_is_shown_in_place_unless_it_has_a_name_and_small_results_have_tags_too() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = left(&server, &client, Output::inline("application/json", br#"{"a":1}"#)).await;
    let answer = client.get(&path).await;
    assert_eq!((answer.status, answer.text()), (200, r#"{"a":1}"#));
    assert_eq!(
        (answer.header("content-length"), answer.header("content-disposition")),
        (Some("7"), Some("inline"))
    );
    assert_eq!(answer.header("content-security-policy"), Some("sandbox"));
    assert_eq!(answer.header("content-digest"), Some(digest_field(&answer.body).as_str()));
    let part = get(&client, &path, &[("range", "bytes=-3")]).await;
    assert_eq!((part.status, part.text(), part.header("content-range")), (206, ":1}", Some("bytes 4-6/7")));

    let named = Output { file_name: Some("a.json".into()), ..Output::inline("application/json", b"{}") };
    let path = left(&server, &client, named).await;
    let disposition = client.get(&path).await.header("content-disposition").map(str::to_owned);
    assert_eq!(disposition.as_deref(), Some("attachment; filename=\"a.json\""));

    let nameless = left(&server, &client, Output::inline("text/csv", b"a,b")).await;
    let id = nameless.split('/').nth(3).unwrap();
    let disposition = client.get(&nameless).await.header("content-disposition").map(str::to_owned);
    assert_eq!(disposition, Some(format!("attachment; filename=\"{id}.csv\"")));
}

#[tokio::test]
async fn a_type_that_is_none_is_served_as_plain_bytes() {
    let server = Server::start().await;
    let client = server.client().await;
    for media_type in ["", "text/plain\r\nx: y", "nonsense"] {
        let path = left(&server, &client, Output::inline(media_type, b"x")).await;
        let answer = client.get(&path).await;
        assert_eq!((answer.status, answer.header("x")), (200, None), "{media_type:?}");
        assert_eq!(answer.header("content-type"), Some("application/octet-stream"), "{media_type:?}");
    }
}

#[tokio::test]
async fn json_says_its_charset_where_the_status_of_a_job_does() {
    let server = Server::start().await;
    let client = server.client().await;
    for (media_type, forge, operations) in [
        ("application/json", "application/json", "application/json; charset=utf-8"),
        (
            "application/json; charset=UTF-8",
            "application/json; charset=UTF-8",
            "application/json; charset=UTF-8",
        ),
        ("application/geo+json", "application/geo+json", "application/geo+json"),
        ("text/csv", "text/csv", "text/csv"),
    ] {
        let path = left(&server, &client, Output::inline(media_type, b"[1]")).await;
        assert_eq!(client.get(&path).await.header("content-type"), Some(forge));
        assert_eq!(client.get(&format!("/api{path}")).await.header("content-type"), Some(operations));
    }
}

#[tokio::test]
async fn a_part_of_another_version_than_the_wanted_one_is_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = left(&server, &client, Output::inline("text/csv", b"a,b")).await;
    let etag = client.get(&path).await.header("etag").unwrap().to_owned();
    assert_eq!(get(&client, &path, &[("if-match", &etag), ("range", "bytes=1-")]).await.status, 206);
    let other = get(&client, &path, &[("if-match", "\"another\"")]).await;
    other.refused(412, "RFA_REQUEST_PRECONDITION_FAILED");
}

#[tokio::test]
async fn whoever_cannot_read_the_type_may_have_it_as_a_file() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = left(&server, &client, Output::inline("application/json", b"[1]")).await;
    let own = get(&client, &path, &[("accept", "application/json")]).await;
    let file = get(&client, &path, &[("accept", "application/octet-stream")]).await;
    let both = get(&client, &path, &[("accept", "application/octet-stream, application/json;q=0.1")]).await;
    for answer in [&own, &both] {
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    }
    assert_eq!((file.status, file.header("content-type")), (200, Some("application/octet-stream")));
    assert!(file.header("content-disposition").unwrap().ends_with(".json\""));
    assert_eq!((file.text(), own.text()), ("[1]", "[1]"));
    assert_ne!(file.header("etag"), own.header("etag"), "two forms, two tags");

    for accept in ["application/pdf", "image/*", "nonsense"] {
        let refused =
            get(&client, &path, &[("accept", accept)]).await.refused(406, "RFA_REQUEST_NOT_ACCEPTABLE");
        assert_eq!(refused["type"], "/problems/not-acceptable", "{accept}");
    }
    for accept in ["application/json;q=0", "*/*;q=0", "application/octet-stream;q=0"] {
        assert_eq!(get(&client, &path, &[("accept", accept)]).await.status, 406, "{accept}");
    }
}

#[tokio::test]
async fn parts_put_together_are_the_whole_and_no_other_part_is_sent() {
    let server = Server::start().await;
    let client = server.client().await;
    let output = kept(&server, "video/mp4", None, LARGE).await;
    let path = left(&server, &client, output).await;
    let all = bytes(LARGE);
    for (range, first, last) in [
        ("bytes=0-0", 0, 0),
        ("bytes=0-", 0, LARGE - 1),
        ("bytes=1-131072", 1, 131_072),
        ("bytes=262143-262144", 262_143, 262_144),
        ("bytes=700000-", LARGE - 1, LARGE - 1),
        ("bytes=-1", LARGE - 1, LARGE - 1),
        ("bytes=-300000", LARGE - 300_000, LARGE - 1),
        ("bytes=-99999999999999999999", 0, LARGE - 1),
        ("bytes=500000-99999999999999999999", 500_000, LARGE - 1),
    ] {
        let answer = get(&client, &path, &[("range", range)]).await;
        assert_eq!(answer.status, 206, "{range}");
        assert!(answer.body == all[first..=last], "{range}");
        assert_eq!(answer.header("content-range"), Some(format!("bytes {first}-{last}/{LARGE}").as_str()));
        assert_eq!(answer.header("content-length"), Some((last - first + 1).to_string().as_str()));
        assert_eq!(answer.header("repr-digest"), Some(digest_field(&all).as_str()), "of the whole");
        assert_eq!(answer.header("content-digest"), None);
    }
    for range in ["bytes=700001-", "bytes=99999999999999999999-", "bytes=-0"] {
        let answer = get(&client, &path, &[("range", range)]).await;
        let refused = answer.refused(416, "RFA_REQUEST_MALFORMED");
        assert_eq!(answer.header("content-range"), Some("bytes */700001"), "{range}");
        assert_eq!(
            (&refused["type"], &refused["details"]["size"]),
            (&json!("/problems/range-not-satisfiable"), &json!(LARGE))
        );
    }
    for range in ["bytes=5-2", "bytes=a-b", "bytes=0-1,5-6", "items=0-5", "bytes", "0-5", ""] {
        let answer = get(&client, &path, &[("range", range)]).await;
        assert_eq!((answer.status, answer.body.len()), (200, LARGE), "{range}");
        assert_eq!(answer.header("content-range"), None);
    }
}

#[tokio::test]
async fn an_empty_result_is_whole_or_not_satisfiable() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = left(&server, &client, Output::inline("text/plain", b"")).await;
    for headers in [&[][..], &[("range", "bytes=-5")], &[("range", "bytes=x")]] {
        let answer = get(&client, &path, headers).await;
        assert_eq!((answer.status, answer.header("content-length")), (200, Some("0")), "{headers:?}");
    }
    let answer = get(&client, &path, &[("range", "bytes=0-")]).await;
    answer.refused(416, "RFA_REQUEST_MALFORMED");
    assert_eq!(answer.header("content-range"), Some("bytes */0"));
}

#[tokio::test]
async fn a_copy_that_is_the_result_is_not_sent_again() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = left(&server, &client, Output::inline("text/plain", b"hello")).await;
    let first = client.get(&path).await;
    let etag = first.header("etag").unwrap();
    for known in [etag, &format!("W/{etag}"), &format!("\"x\", {etag}"), "*"] {
        for method in ["GET", "HEAD"] {
            let again =
                send(&client, method, &path, &[("if-none-match", known), ("range", "bytes=9-")]).await;
            assert_eq!((again.status, again.body.len()), (304, 0), "{method} {known}");
            assert_eq!((again.header("etag"), again.header("content-type")), (Some(etag), None));
        }
    }
    for known in ["\"x\"", "x", "", etag.trim_matches('"')] {
        assert_eq!(get(&client, &path, &[("if-none-match", known)]).await.status, 200, "{known}");
    }
    let part = [("range", "bytes=1-2"), ("if-range", etag)];
    assert_eq!(get(&client, &path, &part).await.text(), "el");
    for stale in ["\"x\"", &format!("W/{etag}"), "Sun, 15 Nov 2026 00:00:00 GMT"] {
        let answer = get(&client, &path, &[("range", "bytes=1-2"), ("if-range", stale)]).await;
        assert_eq!((answer.status, answer.text()), (200, "hello"), "{stale}");
    }
}

/// Reads an answer up to so many bytes of its body, then hangs up: head and what came of the body.
async fn cut_off(client: &Client, path: &str, after: usize) -> (String, Vec<u8>) {
    let mut connection = TcpStream::connect(client.address).await.unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n", client.key);
    connection.write_all(request.as_bytes()).await.unwrap();
    let (mut received, mut buffer) = (Vec::new(), [0; 8192]);
    loop {
        let n = connection.read(&mut buffer).await.unwrap();
        assert_ne!(n, 0, "the server hung up first");
        received.extend_from_slice(&buffer[..n]);
        let head = received.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        if let Some(head) = head.filter(|head| received.len() >= head + after) {
            let body = received.split_off(head);
            return (String::from_utf8(received).unwrap(), body);
        }
    }
}

#[tokio::test]
async fn a_download_that_was_cut_off_goes_on_where_it_ended_on_every_store() {
    let folder = tempfile::tempdir().unwrap();
    let url = Cluster::shared().database().await;
    let stores: [Arc<dyn Store>; 3] = [
        Arc::new(Memory::new()),
        Arc::new(Sqlite::open(&folder.path().join("jobs.db")).unwrap()),
        Arc::new(Postgres::connect(&url, Options::new(1)).await.unwrap()),
    ];
    const SIZE: usize = 3_000_001;
    for store in stores {
        let server = Server::on(store, &[], Bounds::default()).await;
        let client = server.client().await;
        let output = kept(&server, "application/zip", Some("all.zip"), SIZE).await;
        let path = left(&server, &client, output).await;
        let (head, mut received) = cut_off(&client, &path, 1_000_000).await;
        let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
        assert!(received.len() < SIZE, "it was cut off");
        let range = format!("bytes={}-", received.len());
        let rest = get(&client, &path, &[("range", &range), ("if-range", etag)]).await;
        assert_eq!(rest.status, 206);
        received.extend_from_slice(&rest.body);
        assert!(received == bytes(SIZE), "byte for byte");
        assert_eq!(rest.header("repr-digest"), Some(digest_field(&received).as_str()));
    }
}

#[tokio::test]
async fn the_content_goes_at_the_time_of_its_class_and_the_answer_says_when_it_was() {
    let server = Server::start().await;
    let client = server.client().await;
    let small = left(&server, &client, Output::inline("application/json", b"{}")).await;
    let file = left(&server, &client, Output::inline("text/csv", b"a,b")).await;
    let large = kept(&server, "video/mp4", None, 10_000_001).await;
    let large = left(&server, &client, large).await;
    let report = large.replace("/result", "/report");
    // Days that have passed, and what is still there then.
    for (days, there) in [
        (0, [true, true, true]),
        (1, [true, true, false]),
        (5, [true, true, false]),
        (1, [true, false, false]),
    ] {
        server.clock.advance(days * DAY);
        for (path, there) in [&small, &file, &large].into_iter().zip(there) {
            let answer = client.get(path).await;
            if there {
                assert_eq!(answer.status, 200, "{path} after {days} more days");
                continue;
            }
            // On /v1 what is over is not found (C-72, catalogue); /api/v1 says 410.
            let refused = answer.refused(404, "RFA_JOB_NOT_FOUND");
            assert_eq!(refused["type"], "/problems/result-expired");
            let kept = if *path == large { "which is 1 d" } else { "which is 7 d" };
            assert!(refused["detail"].as_str().unwrap().contains(kept), "{refused}");
            assert!(refused["details"]["expired_at"].is_string());
        }
    }
    client.get(&report).await.expect(200);
    server.clock.advance(23 * DAY);
    server.app.engine.run(Command::Due(10)).await.unwrap();
    client.get(&small).await.refused(404, "RFA_JOB_NOT_FOUND");
}

#[tokio::test]
async fn the_periods_are_configurable_and_fixed_when_the_job_is_submitted() {
    let server = Server::with(&[
        ("jobRetention.completedJobs.smallResultsDays", "2"),
        ("jobRetention.completedJobs.defaultDays", "4"),
        ("jobRetention.completedJobs.largeResultsDays", "3"),
    ])
    .await;
    let client = server.client().await;
    for (output, days) in [
        (Output::inline("application/json", b"{}"), 2),
        (Output::inline("text/csv", b"a"), 4),
        (kept(&server, "video/mp4", None, 10_000_001).await, 3),
    ] {
        let path = left(&server, &client, output).await;
        let id = path.split('/').nth(3).unwrap().parse().unwrap();
        let job = server.app.engine.store().job(id).await.unwrap().unwrap();
        let expires_at = job.result.as_ref().and_then(|note| note.expires_at).unwrap();
        assert_eq!(expires_at.since(job.finished_at.unwrap()), days * DAY);
    }
}

#[tokio::test]
async fn a_result_is_only_for_its_owner_and_only_after_success() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    let path = left(&server, &client, Output::inline("text/plain", b"secret")).await;
    server.call("GET", &path).send().await.refused(401, "RFA_AUTH_INVALID_CREDENTIALS");
    server.call("HEAD", &path).send().await;
    let foreign = other.get(&path).await.refused(403, "RFA_AUTH_FORBIDDEN");
    assert!(!foreign.to_string().contains("secret"));

    let waiting = format!("/v1/jobs/{}/result", client.job().await);
    let refused = client.get(&waiting).await.refused(409, "RFA_JOB_CONFLICT");
    assert_eq!(refused["details"]["state"], "QUEUED");
    server.fail(forgerun_core::catalog::Kind::HandlerError).await;
    let refused = client.get(&waiting).await.refused(409, "RFA_JOB_CONFLICT");
    assert_eq!(
        (&refused["type"], &refused["details"]["state"]),
        (&json!("/problems/result-not-ready"), &json!("FAILED"))
    );
}

#[tokio::test]
async fn a_job_that_left_nothing_has_no_result() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.job().await;
    let job = server.claim(true).await;
    let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None };
    server.app.engine.act(Command::Succeed(Succeed { held, output: None })).await.unwrap();
    assert_eq!(client.get(&format!("/v1/jobs/{id}")).await.header("link"), None);
    let refused = client.get(&format!("/v1/jobs/{id}/result")).await.refused(404, "RFA_JOB_NOT_FOUND");
    assert_eq!(refused["type"], "/problems/result-not-found");
}

#[tokio::test]
async fn a_download_outlives_the_time_that_a_request_may_take() {
    let bounds = Bounds { request_timeout: Duration::from_millis(1500), ..Bounds::default() };
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(&folder.path().join("jobs.db")).unwrap());
    let patient = Server::on(store.clone(), &[], Bounds::default()).await;
    let client = patient.client().await;
    const SIZE: usize = 20_000_000;
    let output = kept(&patient, "video/mp4", None, SIZE).await;
    let path = left(&patient, &client, output).await;
    let server = Server::on(store, &[], bounds).await;
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
        client.key
    );
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut received = vec![0; 1000];
    connection.read_exact(&mut received).await.unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "the reader is slow in real time, which is what is bounded"
    )]
    tokio::time::sleep(Duration::from_millis(2500)).await;
    connection.read_to_end(&mut received).await.unwrap();
    assert!(received.ends_with(&bytes(SIZE)[SIZE - 1000..]));
    assert!(received.len() > SIZE);
}

#[tokio::test]
async fn downloads_at_once_are_bounded_and_small_results_do_not_count() {
    let server = Server::start().await;
    let client = server.client().await;
    let output = kept(&server, "video/mp4", None, LARGE).await;
    let large = left(&server, &client, output).await;
    let small = left(&server, &client, Output::inline("text/plain", b"x")).await;
    let others = 0..DOWNLOADS_MAX as u128;
    let places: Vec<_> = others.map(|n| server.app.downloads.take(ClientId::v4(n)).unwrap()).collect();
    client.get(&large).await.refused(503, "RFA_EXEC_QUEUE_FULL");
    assert_eq!(client.get(&small).await.status, 200);
    assert_eq!(send(&client, "HEAD", &large, &[]).await.status, 200);
    drop(places);
    assert_eq!(client.get(&large).await.status, 200);
    // The place is given back with the last byte.
    while server.app.downloads.n_taken() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_client_that_downloads_and_does_not_read_keeps_nobody_else_from_it_nor_itself_for_long() {
    // Long enough for all that comes before the places are taken back, on a slow machine too.
    let server = Server::with(&[("limits.write_stall_s", "15")]).await;
    let (greedy, other) = (server.client().await, server.client().await);
    let mut paths = Vec::new();
    for client in [&greedy, &other] {
        // More than the kernel takes for a reader that does not read.
        let output = kept(&server, "video/mp4", None, 20_000_000).await;
        paths.push(left(&server, client, output).await);
    }
    let mut unread = Vec::new();
    for _ in 0..DOWNLOADS_PER_CLIENT_MAX {
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        let key = &greedy.key;
        let head =
            format!("GET {} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n", paths[0]);
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut first = [0; 15];
        connection.read_exact(&mut first).await.unwrap();
        unread.push((connection, first));
    }
    assert!(unread.iter().all(|(_, first)| first == b"HTTP/1.1 200 OK"), "it has its share");
    let refused = greedy.get(&paths[0]).await.refused(429, "RFA_REQUEST_RATE_LIMITED");
    assert_eq!(refused["details"]["limit"], DOWNLOADS_PER_CLIENT_MAX);
    assert_eq!(other.get(&paths[1]).await.status, 200);
    // Nobody reads, so the places are taken back.
    let free = async {
        while server.app.downloads.n_taken() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), free).await.expect("all places are free again");
    assert_eq!(greedy.get(&paths[0]).await.status, 200);
}

#[tokio::test]
async fn a_status_links_to_the_result_and_says_nothing_of_one_that_is_not_there() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.job().await;
    let status = format!("/v1/jobs/{id}");
    assert_eq!(client.get(&status).await.header("link"), None);
    server.succeed().await;
    let link = client.get(&status).await.header("link").map(str::to_owned);
    assert_eq!(link, Some(format!("</v1/jobs/{id}/result>; rel=\"related\"")));
    assert_eq!(client.get(&format!("{status}/result")).await.status, 200);

    let server = Server::with(&[("server.public_base_url", "https://jobs.example")]).await;
    let client = server.client().await;
    let status = format!("/v1/jobs/{}", client.job().await);
    server.succeed().await;
    let link = client.get(&status).await.header("link").map(str::to_owned);
    let relation = "related https://jobs.example/rels/job-result";
    assert_eq!(link, Some(format!("<https://jobs.example{status}/result>; rel=\"{relation}\"")));
}

#[tokio::test]
async fn under_api_v1_an_expired_result_is_410_and_a_failed_job_keeps_its_record() {
    let server = Server::start().await;
    let client = server.client().await;
    let begin = async || {
        let body = json!({"type": "test", "work_kind": "SUCCESS_FAST"});
        let begun = client.call("POST", "/api/v1/jobs").json(body).send().await.expect(202);
        begun["jobId"].as_str().unwrap().to_owned()
    };
    let done = begin().await;
    let job = server.claim(true).await;
    let output = kept(&server, "application/pdf", Some("a.pdf"), LARGE).await;
    finish(&server, &job, output).await;
    let failed = begin().await;
    server.fail(forgerun_core::catalog::Kind::HandlerError).await;
    let path = format!("/api/v1/reports/{done}");
    let part = get(&client, &path, &[("range", "bytes=-5")]).await;
    assert_eq!((part.status, part.header("content-range")), (206, Some("bytes 699996-700000/700001")));
    let file = client.get(&format!("{path}/download")).await;
    assert_eq!((file.status, file.header("content-type")), (200, Some("application/octet-stream")));
    assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"a.pdf\""));

    server.clock.advance(6 * DAY);
    server.app.engine.run(Command::Due(10)).await.unwrap();
    client.get(&format!("/api/v1/jobs/{failed}")).await.expect(200);
    assert_eq!(client.get(&path).await.status, 200);
    server.clock.advance(DAY + Duration::from_secs(60));
    server.app.engine.run(Command::Due(10)).await.unwrap();
    let kept = client.get(&format!("/api/v1/jobs/{failed}")).await.expect(200);
    assert_eq!(kept["type"], "/problems/job-failed", "the failure object is there too");
    client.get(&format!("/api/v1/jobs/{done}")).await.expect(200);
    let over = client.get(&path).await.expect(410);
    assert_eq!(over["type"], "/problems/result-expired");
    assert!(over["detail"].as_str().unwrap().contains("which is 7 d"), "{over}");
    server.clock.advance(23 * DAY);
    server.app.engine.run(Command::Due(10)).await.unwrap();
    client.get(&format!("/api/v1/jobs/{failed}")).await.expect(410);
}
