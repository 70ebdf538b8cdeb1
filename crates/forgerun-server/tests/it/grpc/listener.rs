//! The listener: TLS, deadlines, tenants, what hides and repeats as over HTTP, and the process that
//! it belongs to.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use forgerun_store::Fault;
use forgerun_wire::grpc::error::ErrorDetails;
use serde_json::json;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::Code;

use super::*;
use crate::api::faulty::{Faulty, Mood};
use crate::process;

fn certificate(folder: &std::path::Path) -> (std::path::PathBuf, std::path::PathBuf, RootCertStore) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    (cert, key, roots)
}

#[tokio::test]
async fn a_listener_with_a_certificate_speaks_tls_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key, roots) = certificate(folder.path());
    let identity = TlsIdentity::read(TlsFiles::new(&cert, &key)).unwrap();
    let server = Server::with(&[("grpc.addr", "127.0.0.1:0")]).await;
    let world = World::listening(server, Some(identity)).await;
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let channel = Channel::over(stream, world.address).await;
    let mut ojs = OjsServiceClient::new(channel);
    let taken = ojs.enqueue(world.request(v1::EnqueueRequest { r#type: "a".into(), ..Default::default() }));
    assert!(taken.await.is_ok());
    let plain = OjsServiceClient::new(Channel::connect(world.address).await);
    let refused = plain.clone().manifest(v1::ManifestRequest {}).await;
    assert!(refused.is_err(), "{refused:?}");
    let wrong = TlsIdentity::read(TlsFiles::new(&cert, &cert)).unwrap_err().to_string();
    assert!(wrong.contains("cert.pem"), "{wrong}");
}

#[tokio::test]
async fn a_deadline_ends_a_call_and_a_stream() {
    let world = World::start().await;
    let wait = Some(prost_types::Duration { seconds: 30, nanos: 0 });
    let mut fetch = world.request(v1::FetchRequest { queues: vec!["q".into()], wait, ..Default::default() });
    fetch.metadata_mut().insert("grpc-timeout", "50m".parse().unwrap());
    let status = world.ojs().await.fetch(fetch).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let info = ErrorDetails::read(status.details()).info.unwrap();
    assert_eq!(info.reason, "OJS_BACKEND_TIMEOUT");
    let mut stream = world.request(v1::StreamJobsRequest { queues: vec!["q".into()], ..Default::default() });
    stream.metadata_mut().insert("grpc-timeout", "50m".parse().unwrap());
    let mut stream = world.ojs().await.stream_jobs(stream).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap_err().code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn a_repetition_by_the_other_protocol_is_the_same_job() {
    let world = World::start().await;
    let mut request = world.request(v1::EnqueueRequest { r#type: "a".into(), ..Default::default() });
    request.metadata_mut().insert("x-ojs-idempotency-key", "k".parse().unwrap());
    let job = world.ojs().await.enqueue(request).await.unwrap().into_inner().job.unwrap();
    let again = world.client.call("POST", "/ojs/v1/jobs").header("idempotency-key", "k");
    let again = again.json(json!({"type": "a", "args": []})).send().await.expect(200);
    assert_eq!(again["job"]["id"], job.id);
}

#[tokio::test]
async fn a_tenant_and_what_is_hidden_are_as_over_http() {
    let world = World::with(&[("auth.hide_foreign", "true")]).await;
    let of_tenant = |tenant: &str, job_id: &str| {
        let mut request = world.request(v1::GetJobRequest { job_id: job_id.into() });
        request.metadata_mut().insert("x-ojs-tenant", tenant.parse().unwrap());
        request
    };
    let mut request = world.request(v1::EnqueueRequest { r#type: "a".into(), ..Default::default() });
    request.metadata_mut().insert("x-ojs-tenant", "acme".parse().unwrap());
    let job = world.ojs().await.enqueue(request).await.unwrap().into_inner().job.unwrap();
    assert!(world.ojs().await.get_job(of_tenant("acme", &job.id)).await.is_ok());
    let status = world.ojs().await.get_job(of_tenant("other", &job.id)).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let stranger = world.server.client().await;
    let request = with_key(&stranger, v1::GetJobRequest { job_id: job.id.clone() });
    assert_eq!(world.ojs().await.get_job(request).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(world.server.call("GET", "/ojs/v1/health").send().await.status, 200);
}

#[tokio::test]
async fn trouble_of_the_store_is_a_status_that_tells_no_secrets() {
    let store = Faulty::new();
    let world = World::on(store.clone(), &[], Bounds::default()).await;
    let job = world.push("q").await;
    let read = async || {
        let request = world.request(v1::GetJobRequest { job_id: job.id.clone() });
        world.ojs().await.get_job(request).await.unwrap_err()
    };
    for (mood, code, reason) in [
        (Mood::Broken(Fault::Unknown), Code::Internal, "OJS_BACKEND_ERROR"),
        (Mood::Broken(Fault::Unavailable), Code::Unavailable, "OJS_BACKEND_UNAVAILABLE"),
        (Mood::Broken(Fault::Timeout), Code::DeadlineExceeded, "OJS_BACKEND_TIMEOUT"),
        (Mood::Panicking, Code::Internal, "OJS_BACKEND_ERROR"),
    ] {
        store.set(mood);
        let status = read().await;
        let details = ErrorDetails::read(status.details());
        let info = details.info.expect("every error has it");
        assert_eq!((status.code(), info.reason.as_str()), (code, reason), "{mood:?}");
        assert_eq!(info.metadata["retryable"], "true");
        assert!(!format!("{status:?}").contains("secret"), "{status:?}");
    }
    store.set(Mood::Fine);
    assert_eq!(world.job(&job.id).await.id, job.id, "and the server goes on");
}

/// The second line that a server prints where it serves gRPC.
fn grpc_address(server: &mut process::Server) -> SocketAddr {
    let line = server.wait_for_output("for gRPC on");
    line.trim_end().rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_server_says_where_it_serves_grpc_and_stops_with_streams_open() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let mut server = process::Server::start(
        process::forgerun(&["serve", "--listen", "127.0.0.1:0", "--data", data])
            .env("FORGERUN_GRPC__ADDR", "127.0.0.1:0")
            .env("FORGERUN_AUTH__MODE", "open"),
    );
    let address = grpc_address(&mut server);
    let mut ojs = OjsServiceClient::new(Channel::connect(address).await);
    let manifest = ojs.manifest(v1::ManifestRequest {}).await.unwrap().into_inner();
    assert_eq!(manifest.protocols, ["http", "grpc"]);
    let request = v1::StreamJobsRequest { queues: vec!["q".into()], ..Default::default() };
    let mut stream = ojs.stream_jobs(request).await.expect("open mode needs no key on loopback").into_inner();
    server.signal("TERM");
    let ended = tokio::time::timeout(Duration::from_secs(60), stream.message()).await.expect("it ends");
    assert_eq!(ended.unwrap_err().code(), Code::Unavailable);
    let ended = tokio::task::spawn_blocking(move || server.wait()).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn a_certificate_that_cannot_be_used_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let started = |variables: &[(&str, &str)]| {
        let mut command = process::forgerun(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
        command.env("FORGERUN_GRPC__ADDR", "127.0.0.1:0").stdin(Stdio::null());
        command.envs(variables.iter().copied());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (child.wait().unwrap().code(), said)
    };
    let (code, said) = started(&[("FORGERUN_GRPC__TLS__CERT", "nothing.pem")]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("grpc.tls.key is not"), "{said}");
    let both = [("FORGERUN_GRPC__TLS__CERT", "nothing.pem"), ("FORGERUN_GRPC__TLS__KEY", "nothing.pem")];
    let (code, said) = started(&both);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("nothing.pem"), "{said}");
}

#[test]
fn dev_goes_without_grpc_where_its_port_is_taken_and_says_so_once() {
    // Held by us, or by another server: it is taken either way.
    let _taken = std::net::TcpListener::bind("127.0.0.1:9090");
    let server = process::Server::start(&mut process::forgerun(&["dev", "--listen", "127.0.0.1:0"]));
    server.signal("TERM");
    let ended = server.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("gRPC is not served").count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("choose another with grpc.addr"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("--listen"), "{}", ended.stderr);

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut asked_for = process::forgerun(&["dev", "--listen", "127.0.0.1:0"]);
    let ended = process::run(asked_for.env("FORGERUN_GRPC__ADDR", &address));
    assert!(ended.code != Some(0) && ended.stderr.contains(&address), "{:?} {}", ended.code, ended.stderr);
}
