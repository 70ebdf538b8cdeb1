//! The server's certificate chain and key, from two PEM files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The TLS configuration of a listener, for HTTP/2.
#[derive(Clone)]
pub struct TlsIdentity(Arc<ServerConfig>);

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsIdentity")
    }
}

#[derive(Debug, thiserror::Error)]
#[error("could not use {}: {reason}", path.display())]
pub struct BadCertificate {
    path: PathBuf,
    reason: String,
}

impl TlsIdentity {
    pub fn read(cert: &Path, key: &Path) -> Result<TlsIdentity, BadCertificate> {
        let bad = |path: &Path, reason: String| BadCertificate { path: path.to_owned(), reason };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
            .and_then(Iterator::collect)
            .map_err(|error| bad(cert, error.to_string()))?;
        if chain.is_empty() {
            return Err(bad(cert, "it has no certificate in PEM".to_owned()));
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, error.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|error| bad(key, error.to_string()))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsIdentity(Arc::new(config)))
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.clone())
    }
}
