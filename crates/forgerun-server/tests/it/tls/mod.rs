//! TLS and HTTP/2 on the main port: who is answered, with what, and what an attacker cannot do.

mod commands;
mod frames;
mod hostile;
mod serving;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forgerun_server::config::PlainHttp;
use forgerun_server::connections::{
    ConnectionTerms, HTTP_PROTOCOLS, TlsFiles, TlsIdentity, TlsPort, serve_tls,
};
use forgerun_server::http::HttpService;
use forgerun_server::pages;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use crate::api::server::Server;

/// Far more than anything here takes, so that only a hang fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// An authority and what it has signed, as files.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        std::fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        let authority = Authority { folder, issuer: Issuer::new(params, key) };
        authority.sign("server");
        authority.sign("client");
        authority
    }

    /// Writes a new certificate and its key, both with this name.
    fn sign(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let cert = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.cert(name), cert.pem()).unwrap();
        std::fs::write(self.key(name), key.serialize_pem()).unwrap();
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn cert(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.pem"))
    }

    fn key(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.key"))
    }

    /// The files of a server's main port.
    fn files(&self) -> TlsFiles {
        TlsFiles { protocols: HTTP_PROTOCOLS, ..TlsFiles::new(&self.cert("server"), &self.key("server")) }
    }
}

/// How a client of the tests connects.
#[derive(Clone, Copy)]
struct Connect<'a> {
    protocols: &'a [&'a [u8]],
    versions: &'a [&'static SupportedProtocolVersion],
    /// The name of its certificate.
    certificate: Option<(&'a Authority, &'a str)>,
}

const H2: Connect<'_> =
    Connect { protocols: &[b"h2"], versions: tokio_rustls::rustls::ALL_VERSIONS, certificate: None };

const HTTP1: Connect<'_> = Connect { protocols: &[b"http/1.1"], ..H2 };

/// A server that serves TLS.
struct World {
    authority: Authority,
    server: Server,
    identity: TlsIdentity,
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl World {
    async fn start() -> World {
        World::with(&[], |files| files, ConnectionTerms::default(), PlainHttp::Refuse).await
    }

    async fn on_terms(settings: &[(&str, &str)], terms: ConnectionTerms) -> World {
        World::with(settings, |files| files, terms, PlainHttp::Refuse).await
    }

    async fn with(
        settings: &[(&str, &str)],
        change: impl FnOnce(TlsFiles) -> TlsFiles,
        terms: ConnectionTerms,
        plain: PlainHttp,
    ) -> World {
        let authority = Authority::new();
        let server = Server::with(settings).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let identity = TlsIdentity::read(change(authority.files())).unwrap();
        let service = HttpService::new(server.app.clone(), pages::router(&server.app));
        let port = TlsPort { identity: identity.clone(), plain };
        let serving = tokio::spawn(serve_tls(listener, service, terms, port, std::future::pending()));
        World { authority, server, identity, address, serving }
    }

    async fn tls(&self, connect: Connect<'_>) -> std::io::Result<TlsStream<TcpStream>> {
        tls_to(&self.authority, self.address, connect).await
    }

    /// A connection of HTTP/2.
    async fn http2(&self, connect: Connect<'_>) -> SendRequest<Full<Bytes>> {
        self.http2_with(connect, http2::Builder::new(TokioExecutor::new())).await
    }

    async fn http2_with(
        &self,
        connect: Connect<'_>,
        http: http2::Builder<TokioExecutor>,
    ) -> SendRequest<Full<Bytes>> {
        let stream = self.tls(connect).await.unwrap();
        let (sender, connection) = http.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// A request for this path, which is to be sent over HTTP/2.
    fn request(&self, method: &str, path: &str) -> hyper::http::request::Builder {
        let port = self.address.port();
        Request::builder().method(method).uri(format!("https://localhost:{port}{path}"))
    }
}

/// A connection to a server that this authority signed.
async fn tls_to(
    authority: &Authority,
    address: SocketAddr,
    connect: Connect<'_>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.ca()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(connect.versions)
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match connect.certificate {
        None => config.with_no_client_auth(),
        Some((authority, name)) => {
            let chain = vec![CertificateDer::from_pem_file(authority.cert(name)).unwrap()];
            let key = PrivateKeyDer::from_pem_file(authority.key(name)).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = connect.protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// The status and body of an answer.
async fn ask(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> (StatusCode, serde_json::Value) {
    let answer = tokio::time::timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn empty() -> Full<Bytes> {
    Full::new(Bytes::new())
}
