//! Which listener has which identity over TLS.

use std::path::PathBuf;
use std::sync::Arc;

use forgerun_engine::Clock;
use tokio::task::JoinSet;

use super::ServeError;
use crate::config::Config;
use crate::connections::{HTTP_PROTOCOLS, TlsFiles, TlsIdentity, TlsPort};

/// TLS on the main port; `None` if it is off.
pub(super) fn main_port(config: &Config) -> Result<Option<TlsPort>, ServeError> {
    let tls = &config.server.tls;
    let Some(files) = files("server.tls", &tls.cert, &tls.key)? else {
        return match &tls.client_ca {
            None => Ok(None),
            Some(_) => Err(incomplete("server.tls", "client_ca", "cert")),
        };
    };
    let (client_ca, anonymous) = (tls.client_ca.clone(), tls.open_probes);
    let identity = read(TlsFiles { client_ca, anonymous, protocols: HTTP_PROTOCOLS, ..files })?;
    Ok(Some(TlsPort { identity, plain: tls.plain_http }))
}

/// TLS of gRPC: its own identity, or else that of the main port.
#[cfg(feature = "grpc")]
pub(super) fn grpc_port(config: &Config) -> Result<Option<TlsIdentity>, ServeError> {
    if let Some(files) = files("grpc.tls", &config.grpc.tls_cert, &config.grpc.tls_key)? {
        return read(files).map(Some);
    }
    let tls = &config.server.tls;
    let Some(files) = files("server.tls", &tls.cert, &tls.key)? else { return Ok(None) };
    read(TlsFiles { client_ca: tls.client_ca.clone(), ..files }).map(Some)
}

/// Reads the files of these identities again when they change, until the result is dropped.
pub(super) fn follow<'a>(
    clock: &Arc<dyn Clock>,
    identities: impl Iterator<Item = &'a TlsIdentity>,
) -> JoinSet<()> {
    identities.map(|identity| identity.clone().follow(clock.clone())).collect()
}

fn files(
    section: &'static str,
    cert: &Option<PathBuf>,
    key: &Option<PathBuf>,
) -> Result<Option<TlsFiles>, ServeError> {
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some(TlsFiles::new(cert, key))),
        (Some(_), None) => Err(incomplete(section, "cert", "key")),
        (None, Some(_)) => Err(incomplete(section, "key", "cert")),
    }
}

fn incomplete(section: &str, set: &str, missing: &str) -> ServeError {
    ServeError::Certificate(format!("{section}.{set} is set, and {section}.{missing} is not"))
}

fn read(files: TlsFiles) -> Result<TlsIdentity, ServeError> {
    TlsIdentity::read(files).map_err(|error| ServeError::Certificate(error.to_string()))
}
