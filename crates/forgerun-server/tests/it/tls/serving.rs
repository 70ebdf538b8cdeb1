//! What is answered over TLS: both protocols, plain HTTP, old versions, client certificates, and
//! certificates that change.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::version::{TLS12, TLS13};

use super::*;

async fn raw(world: &World, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    answer
}

#[tokio::test]
async fn http2_and_http1_are_answered_alike_over_both_versions_of_tls() {
    let world = World::start().await;
    let client = world.server.client().await;
    for version in [&TLS12, &TLS13] {
        let mut sender = world.http2(Connect { versions: &[version], ..H2 }).await;
        let request = world.request("POST", "/v1/jobs").header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {}", client.key));
        let body = Full::new(Bytes::from(json!({"job_type": "a"}).to_string()));
        let (status, job) = ask(&mut sender, request.body(body).unwrap()).await;
        assert_eq!(status, 202, "{job}");
        let path = format!("/v1/jobs/{}", job["job_id"].as_str().unwrap());
        let request = world.request("GET", &path).header("authorization", format!("Bearer {}", client.key));
        let (status, view) = ask(&mut sender, request.body(empty()).unwrap()).await;
        assert_eq!((status.as_u16(), &view["job_id"]), (200, &job["job_id"]));

        let mut stream = world.tls(Connect { versions: &[version], ..HTTP1 }).await.unwrap();
        let key = &client.key;
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n");
        stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains(job["job_id"].as_str().unwrap()), "{answer}");
    }
}

#[tokio::test]
async fn a_request_over_http2_names_one_host() {
    let world = World::start().await;
    let mut sender = world.http2(H2).await;
    let same = format!("localhost:{}", world.address.port());
    for (host, expected) in [(same.as_str(), 200), ("elsewhere.example", 400)] {
        let request = world.request("GET", "/health").header("host", host).body(empty()).unwrap();
        assert_eq!(ask(&mut sender, request).await.0, expected, "{host}");
    }
}

#[tokio::test]
async fn plain_http_is_refused_with_a_problem_or_redirected_by_choice() {
    let world = World::start().await;
    let request = b"GET /v1/jobs?limit=1 HTTP/1.1\r\nhost: jobs.example:8443\r\n\r\n";
    let refused = String::from_utf8(raw(&world, request).await).unwrap();
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
    assert!(refused.contains("application/problem+json") && refused.contains("https://"), "{refused}");
    let redirecting = World::with(&[], |files| files, ConnectionTerms::default(), PlainHttp::Redirect).await;
    let redirected = String::from_utf8(raw(&redirecting, request).await).unwrap();
    assert!(redirected.starts_with("HTTP/1.1 308 "), "{redirected}");
    assert!(redirected.contains("location: https://jobs.example:8443/v1/jobs?limit=1\r\n"), "{redirected}");
    let hostless = String::from_utf8(raw(&redirecting, b"GET / HTTP/1.0\r\n\r\n").await).unwrap();
    assert!(hostless.starts_with("HTTP/1.0 400 "), "there is no address to go to: {hostless}");
}

/// A hello of a client that speaks this version of TLS at best.
fn hello(minor: u8) -> Vec<u8> {
    let mut body = vec![3, minor];
    body.extend([7; 32]);
    body.push(0);
    // Suites of TLS 1.2 and of old versions, no compression; groups, formats, and signatures.
    body.extend([0, 4, 0xc0, 0x2b, 0xc0, 0x09, 1, 0]);
    let groups = [0, 10, 0, 6, 0, 4, 0, 0x1d, 0, 0x17];
    let formats = [0, 11, 0, 2, 1, 0];
    let signatures = [0, 13, 0, 4, 0, 2, 4, 3];
    let extensions = [&groups[..], &formats, &signatures].concat();
    body.extend([0, extensions.len() as u8]);
    body.extend(extensions);
    let mut message = vec![1, 0, 0, body.len() as u8];
    message.extend(body);
    let mut record = vec![0x16, 3, 1, 0, message.len() as u8];
    record.extend(message);
    record
}

#[tokio::test]
async fn versions_before_tls_1_2_are_refused() {
    let world = World::start().await;
    // SSL 3.0, TLS 1.0 and 1.1. The alert is fatal: protocol_version.
    for minor in [0, 1, 2] {
        let answer = raw(&world, &hello(minor)).await;
        assert_eq!((answer[0], &answer[5..]), (0x15, &[2, 70][..]), "3.{minor}: {answer:?}");
    }
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(&hello(3)).await.unwrap();
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!((answer[0], answer[5]), (0x16, 2), "the same hello with TLS 1.2 is answered by a hello");
}

#[tokio::test]
async fn without_a_client_certificate_only_probes_are_answered() {
    let with_ca = |anonymous: bool| {
        World::with(
            &[],
            move |files| TlsFiles {
                client_ca: Some(files.cert.with_file_name("ca.pem")),
                anonymous,
                ..files
            },
            ConnectionTerms::default(),
            PlainHttp::Refuse,
        )
    };
    let world = with_ca(true).await;
    let mut stranger = world.http2(H2).await;
    let mut known = world.http2(Connect { certificate: Some((&world.authority, "client")), ..H2 }).await;
    for (path, for_stranger, for_known) in [
        ("/health", 200, 200),
        ("/ready", 200, 200),
        ("/metrics", 200, 200),
        ("/", 403, 200),
        ("/openapi.json", 403, 200),
        ("/v1/jobs", 403, 401),
        ("/ojs/v1/health", 403, 200),
        ("/dashboard", 403, 303),
        ("/healthy", 403, 404),
    ] {
        let get = || world.request("GET", path).body(empty()).unwrap();
        let (status, problem) = ask(&mut stranger, get()).await;
        assert_eq!(status, for_stranger, "{path}");
        // The dashboard answers with a page.
        let is_told = problem.is_null() || problem.to_string().contains("certificate");
        assert!(status == 200 || is_told, "{path}: {problem}");
        assert_eq!(ask(&mut known, get()).await.0, for_known, "{path}");
    }
    // One of another authority is refused by the handshake, or with the first read in TLS 1.3.
    let other = Authority::new();
    let foreign = Connect { certificate: Some((&other, "client")), versions: &[&TLS12], ..H2 };
    assert!(world.tls(foreign).await.is_err());
    let closed = with_ca(false).await;
    assert!(closed.tls(Connect { versions: &[&TLS12], ..H2 }).await.is_err(), "not even probes");
    let certificate = Some((&closed.authority, "client"));
    assert!(closed.tls(Connect { certificate, versions: &[&TLS12], ..H2 }).await.is_ok());
}

/// The certificate that new connections get.
async fn shown(world: &World) -> Vec<u8> {
    let stream = world.tls(H2).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn a_new_certificate_is_used_and_a_broken_one_leaves_the_old_in_use() {
    let world = World::start().await;
    let first = shown(&world).await;
    assert!(world.identity.read_again().is_none(), "nothing has changed");
    world.authority.sign("server");
    assert!(world.identity.read_again().unwrap().is_ok());
    let second = shown(&world).await;
    assert_ne!(first, second);
    let key = world.authority.key("server");
    let good = std::fs::read(&key).unwrap();
    let foreign = std::fs::read(world.authority.key("client")).unwrap();
    for broken in [&b"nonsense"[..], b"", &foreign] {
        std::fs::write(&key, broken).unwrap();
        let error = world.identity.read_again().unwrap().unwrap_err().to_string();
        assert!(error.contains("server.key"), "{error}");
        assert!(world.identity.read_again().is_none(), "reported once");
        assert_eq!(shown(&world).await, second);
    }
    std::fs::remove_file(&key).unwrap();
    assert!(world.identity.read_again().unwrap().is_err());
    assert!(world.identity.read_again().is_none());
    std::fs::write(&key, good).unwrap();
    assert!(world.identity.read_again().unwrap().is_ok());
    assert_eq!(shown(&world).await, second);
}
