//! Common parts of outgoing HTTP requests: connection and trust. Webhooks add which addresses may
//! be called (`webhooks/dial.rs`), traces the bounds of a collector's answer
//! (`traces/exporter.rs`).

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::limits::ANSWER_HEAD_BYTES_MAX;

/// A connection, and the task that drives it. Both end together.
pub(crate) struct HttpConnection {
    pub(crate) requests: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl HttpConnection {
    /// Opens HTTP/1.1 over this stream.
    pub(crate) async fn open(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<HttpConnection, hyper::Error> {
        let builder = http1::Builder::new().max_buf_size(ANSWER_HEAD_BYTES_MAX).to_owned();
        let (requests, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(async move {
            // Errors are reported to the request.
            let _ = connection.await;
        });
        Ok(HttpConnection { requests, driver })
    }
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        // A server that neither reads nor answers would keep it for ever.
        self.driver.abort();
    }
}

/// TLS that trusts these certificates, or the system's. Loading the latter takes a while.
pub(crate) fn tls_connector(roots: Option<RootCertStore>) -> TlsConnector {
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows TLS 1.2 and 1.3")
        .with_root_certificates(roots.unwrap_or_else(system_roots))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(config))
}

fn system_roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (n_roots, _) = roots.add_parsable_certificates(found.certs);
    if n_roots == 0 {
        tracing::error!("no trusted certificates on this system: https requests will fail");
    }
    roots
}

/// Whether a handshake failed because the certificate is not trusted.
pub(crate) fn is_untrusted(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(cause, Some(rustls::Error::InvalidCertificate(_)))
}
