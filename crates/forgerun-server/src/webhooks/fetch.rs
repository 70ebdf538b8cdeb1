//! Fetches a server's public keys, for verification on the command line.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::HOST;
use axum::http::{Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use tokio::time::timeout;

use super::dial::{Dialler, SystemResolver};
use super::keys::{PublicKey, read_document};
use super::send_error::SendError;
use super::target::{Objection, Target};
use crate::config::PrivateTargets;
use crate::limits::WEBHOOK_KEYS_BYTES_MAX;

/// Timeout of fetching keys.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A JWK set at a URL: `https://…/.well-known/forgerun/webhook-keys`.
    Url(String),
    File(PathBuf),
}

impl KeySource {
    /// A URL or the path of a file.
    pub fn parse(text: &str) -> KeySource {
        if text.contains("://") {
            KeySource::Url(text.to_owned())
        } else {
            KeySource::File(Path::new(text).into())
        }
    }
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum NoKeys {
    /// The URL is not allowed.
    #[error("could not fetch the keys: the URL {0}")]
    Url(Objection),
    /// The request failed.
    #[error("could not fetch the keys: {0}")]
    Server(SendError),
    #[error("could not read {path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// The set has no usable key.
    #[error(
        "could not find an Ed25519 key: it must be a JWK set, as /.well-known/forgerun/webhook-keys shows it"
    )]
    None,
}

pub async fn keys(source: &KeySource) -> Result<Vec<PublicKey>, NoKeys> {
    let document = match source {
        KeySource::Url(url) => {
            let target = Target::parse(url, PrivateTargets::Allow).map_err(NoKeys::Url)?;
            let fetched = timeout(PATIENCE, get(&target)).await.unwrap_or(Err(SendError::Slow));
            fetched.map_err(NoKeys::Server)?
        }
        KeySource::File(path) => {
            std::fs::read(path).map_err(|source| NoKeys::File { path: path.clone(), source })?.into()
        }
    };
    let keys = read_document(&document).unwrap_or_default();
    if keys.is_empty() { Err(NoKeys::None) } else { Ok(keys) }
}

async fn get(target: &Target) -> Result<Bytes, SendError> {
    let dialler = Dialler::new(Arc::new(SystemResolver::default()), PrivateTargets::Allow, None);
    let mut connection = dialler.dial(target).await?;
    let request = Request::builder()
        .method(Method::GET)
        .uri(target.path_and_query())
        .header(HOST, target.authority())
        .body(Full::default());
    let answer = connection.requests.send_request(request.map_err(|_| SendError::BadTarget)?).await;
    let answer = answer.map_err(|_| SendError::Closed)?;
    if answer.status() != StatusCode::OK {
        return Err(SendError::Status(answer.status().as_u16()));
    }
    let body = Limited::new(answer.into_body(), WEBHOOK_KEYS_BYTES_MAX).collect().await;
    Ok(body.map_err(|_| SendError::Closed)?.to_bytes())
}
