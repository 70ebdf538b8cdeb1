//! Clients and keys.

use forgerun_core::client::ApiKey;
use serde::{Deserialize, Serialize};

use crate::{request_body, time};

/// A client that was registered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Client"))]
pub struct ClientView {
    /// Who it is.
    pub client_id: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

request_body! {
    /// What may be asked of a new key.
    pub KEY = "KeyRequest" {
        /// Make a new one even if there is a good one.
        "rotate": or(truth(), false),
    }
    ; examples {"rotate": {"value": {"rotate": true}}}
}

/// The same as a value.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct KeyRequest {
    /// Make a new one even if there is a good one.
    #[serde(default)]
    pub rotate: bool,
}

/// A key. The secret is shown once, when the key is made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Key"))]
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

request_body! {
    /// Which key to revoke.
    pub REVOKE = "RevokeRequest" {
        /// The key.
        "key_id": text(),
    }
    ; required &["key_id"]
    ; examples {"revoke": {"value": {"key_id": "01890a5d-b1c2-7d3e-8f40-5a6b7c8d9e0f"}}}
}

/// The same as a value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RevokeRequest {
    /// The key.
    pub key_id: String,
}

/// A key was revoked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Revoked"))]
pub struct RevokedView {
    /// Always true.
    pub revoked: bool,
}
