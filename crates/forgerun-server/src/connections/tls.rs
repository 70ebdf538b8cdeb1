//! The server's identity over TLS: certificate chain and key, and the authority of client
//! certificates, from PEM files that are read again when they change.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forgerun_engine::Clock;
use forgerun_problem::Digest;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tracing::{info, warn};

use crate::limits::TLS_FILES_READ_EVERY;

/// The files of an identity, and its protocols.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub cert: PathBuf,
    pub key: PathBuf,
    /// If set, clients need a certificate of one of these authorities.
    pub client_ca: Option<PathBuf>,
    /// Whether a handshake without a client certificate succeeds, for requests that need none.
    pub anonymous: bool,
    /// Application protocols, the preferred one first.
    pub protocols: &'static [&'static [u8]],
}

impl TlsFiles {
    /// For HTTP/2 alone, without client certificates.
    pub fn new(cert: &Path, key: &Path) -> TlsFiles {
        let (cert, key) = (cert.to_owned(), key.to_owned());
        TlsFiles { cert, key, client_ca: None, anonymous: false, protocols: &[b"h2"] }
    }
}

/// The TLS identity of a listener. New connections get the certificate that was read last.
#[derive(Clone)]
pub struct TlsIdentity(Arc<Identity>);

struct Identity {
    files: TlsFiles,
    current: Mutex<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    /// What the files contained, or why they could not be read, when they were looked at last.
    seen: String,
}

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

impl BadCertificate {
    fn new(path: &Path, reason: impl fmt::Display) -> BadCertificate {
        BadCertificate { path: path.to_owned(), reason: reason.to_string() }
    }
}

impl TlsIdentity {
    pub fn read(files: TlsFiles) -> Result<TlsIdentity, BadCertificate> {
        let pem = Pem::read(&files)?;
        let current = Current { config: pem.config(&files)?, seen: pem.fingerprint() };
        Ok(TlsIdentity(Arc::new(Identity { files, current: Mutex::new(current) })))
    }

    /// Uses the files again if they have changed since the last look: `None` if they have not.
    /// After an error the certificate from before stays in use.
    pub fn read_again(&self) -> Option<Result<(), BadCertificate>> {
        let files = &self.0.files;
        let pem = Pem::read(files);
        let seen = match &pem {
            Ok(pem) => pem.fingerprint(),
            Err(error) => error.to_string(),
        };
        if self.lock().seen == seen {
            return None;
        }
        let config = pem.and_then(|pem| pem.config(files));
        let mut current = self.lock();
        current.seen = seen;
        Some(config.map(|config| current.config = config))
    }

    /// Reads the files again for as long as it is polled.
    pub async fn follow(self, clock: Arc<dyn Clock>) {
        loop {
            clock.sleep(TLS_FILES_READ_EVERY).await;
            let identity = self.clone();
            let Ok(changed) = spawn_blocking(move || identity.read_again()).await else { return };
            let cert = self.0.files.cert.display();
            match changed {
                None => {}
                Some(Ok(())) => info!(%cert, "TLS certificate read again"),
                Some(Err(error)) => {
                    warn!(%cert, %error, "TLS certificate not usable: the one before stays in use")
                }
            }
        }
    }

    /// Whether requests must be checked for a client certificate.
    pub(super) fn wants_client_certificates(&self) -> bool {
        self.0.files.client_ca.is_some()
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.lock().config.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        // Never half changed, so a panic elsewhere is harmless.
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The contents of the files.
struct Pem {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Pem {
    fn read(files: &TlsFiles) -> Result<Pem, BadCertificate> {
        let read =
            |path: &PathBuf| std::fs::read(path).map_err(|error: io::Error| BadCertificate::new(path, error));
        Ok(Pem {
            cert: read(&files.cert)?,
            key: read(&files.key)?,
            client_ca: files.client_ca.as_ref().map(read).transpose()?,
        })
    }

    fn fingerprint(&self) -> String {
        let parts = [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()];
        parts.into_iter().flatten().map(|bytes| format!("{:02x?}", Digest::of(bytes).0)).collect()
    }

    fn config(&self, files: &TlsFiles) -> Result<Arc<ServerConfig>, BadCertificate> {
        let chain = certificates(&files.cert, &self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| BadCertificate::new(&files.key, error))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and 1.3");
        let builder = match files.client_ca.as_ref().zip(self.client_ca.as_ref()) {
            None => builder.with_no_client_auth(),
            Some((path, pem)) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path, pem)? {
                    roots.add(certificate).map_err(|error| BadCertificate::new(path, error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if files.anonymous { verifier.allow_unauthenticated() } else { verifier };
                let verifier = verifier.build().map_err(|error| BadCertificate::new(path, error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| BadCertificate::new(&files.key, error))?;
        config.alpn_protocols = files.protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

/// At least one certificate.
fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, BadCertificate> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| BadCertificate::new(path, error))?;
    match chain.is_empty() {
        true => Err(BadCertificate::new(path, "it has no certificate in PEM")),
        false => Ok(chain),
    }
}
