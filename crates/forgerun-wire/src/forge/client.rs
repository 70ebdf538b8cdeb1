//! Clients and keys.

use forgerun_core::client::ApiKey;
use serde::{Deserialize, Serialize};

use crate::time;

/// A client that was registered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientView {
    /// Who it is.
    pub client_id: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What may be asked of a new key.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct KeyRequest {
    /// Make a new one even if there is a good one.
    #[serde(default)]
    pub rotate: bool,
}

/// A key. The secret is shown once, when the key is made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyView {
    /// The secret; null for a key that was there before.
    pub api_key: Option<String>,
    /// Which key.
    pub key_id: String,
    /// How the secret begins.
    pub key_prefix: String,
    /// When it was made.
    pub created_at: String,
    /// When it stops working.
    pub expires_at: Option<String>,
}

impl KeyView {
    /// The key, with its secret if it was just made.
    pub fn new(key: &ApiKey, secret: Option<String>) -> KeyView {
        KeyView {
            api_key: secret,
            key_id: key.id.to_string(),
            key_prefix: key.prefix.clone(),
            created_at: time::millis(key.created_at),
            expires_at: key.expires_at.map(time::millis),
        }
    }
}

/// Which key to revoke.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RevokeRequest {
    /// The key.
    pub key_id: String,
}

/// A key was revoked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RevokedView {
    /// Always true.
    pub revoked: bool,
}
