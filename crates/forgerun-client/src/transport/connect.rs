//! Connections over TCP, with TLS where the address says https.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tower_service::Service;

use crate::error::Unreachable;
use crate::limits::CONNECT_TIMEOUT;

use super::trust::Identity;
use super::{innermost, other_scheme};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Makes connections.
#[derive(Clone)]
pub struct Connector {
    tcp: HttpConnector,
    roots: Option<Arc<RootCertStore>>,
    /// The client's own certificate, for servers that ask for one.
    identity: Option<Identity>,
    /// Reading the certificates of the system takes a while, and plain http needs none.
    tls: Arc<OnceLock<TlsConnector>>,
    /// What is spoken over TLS.
    protocol: &'static [u8],
}

impl Connector {
    /// `roots`: whom to trust; the system's certificates if `None`.
    pub fn new(roots: Option<RootCertStore>) -> Connector {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        // Small requests; waiting for more to send would only delay them.
        tcp.set_nodelay(true);
        let roots = roots.map(Arc::new);
        Connector { tcp, roots, identity: None, tls: Arc::default(), protocol: b"http/1.1" }
    }

    /// The same with a certificate of the client.
    pub(crate) fn with_identity(self, identity: Option<Identity>) -> Connector {
        Connector { identity, tls: Arc::default(), ..self }
    }

    /// A connection to the host of this address.
    ///
    /// # Errors
    /// If there is nobody, or TLS fails.
    pub async fn open(&self, uri: &Uri) -> Result<Stream, Unreachable> {
        self.clone().connect(uri.clone()).await.map_err(|error| {
            let host = uri.authority().map(ToString::to_string).unwrap_or_default();
            let other_scheme = other_scheme(error.as_ref(), uri.scheme_str(), &host);
            Unreachable { other_scheme, ..Unreachable::new(host, innermost(error.as_ref()), false) }
        })
    }

    /// The same for HTTP/2.
    #[cfg(feature = "grpc")]
    pub(crate) fn for_http2(&self) -> Connector {
        Connector { tls: Arc::default(), protocol: b"h2", ..self.clone() }
    }

    fn tls(&self) -> &TlsConnector {
        self.tls.get_or_init(|| {
            let roots = self.roots.clone().unwrap_or_else(|| Arc::new(system_roots()));
            let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("the provider knows TLS 1.2 and 1.3")
                .with_root_certificates(roots);
            let mut config = match &self.identity {
                None => config.with_no_client_auth(),
                Some(identity) => {
                    config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.clone())))
                }
            };
            config.alpn_protocols = vec![self.protocol.to_vec()];
            TlsConnector::from(Arc::new(config))
        })
    }

    async fn connect(mut self, uri: Uri) -> Result<Stream, BoxError> {
        let https = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tcp = self.tcp.call(uri).await?;
        if !https {
            return Ok(Stream::Plain(tcp));
        }
        let name = ServerName::try_from(host)?;
        let tls = self.tls().connect(name, tcp.into_inner());
        let tls = timeout(CONNECT_TIMEOUT, tls).await.map_err(|_| "the TLS handshake took too long")??;
        Ok(Stream::Tls(Box::new(TokioIo::new(tls))))
    }
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

/// A connection, for hyper to speak over.
#[derive(Debug)]
pub enum Stream {
    /// Plain TCP.
    Plain(TokioIo<TcpStream>),
    /// TLS.
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
        }
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}
