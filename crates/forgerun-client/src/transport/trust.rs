//! Which servers are trusted, and how the client proves itself: from PEM files.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::error::Error;

/// The client's own certificate chain and key.
pub(crate) type Identity = Arc<CertifiedKey>;

/// The authorities in this file.
pub(crate) fn roots(path: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(path)? {
        roots.add(certificate).map_err(|error| unusable(path, &error))?;
    }
    Ok(roots)
}

pub(crate) fn identity(cert: &Path, key: &Path) -> Result<Identity, Error> {
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
    let identity = CertifiedKey::from_der(chain(cert)?, secret, &aws_lc_rs::default_provider());
    identity.map(Arc::new).map_err(|error| unusable(key, &error))
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(path, &error))?;
    match chain.is_empty() {
        true => Err(unusable(path, &"it has no certificate in PEM")),
        false => Ok(chain),
    }
}

fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> Error {
    Error::Usage(format!("could not use {}: {reason}", path.display()))
}
