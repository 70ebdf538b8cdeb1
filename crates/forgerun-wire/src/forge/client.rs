//! Clients and keys.

use forgerun_core::client::ApiKey;
use forgerun_core::limits::KEY_OVERLAP_MAX;
use forgerun_core::scope::{KeyScope, KeyScopes};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::admin::{AdminKey, ClientLimitsView, ClientUsageView};
use crate::request::integer;
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

/// A client as it sees itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ClientDetail"))]
pub struct ClientDetailView {
    /// Who it is.
    #[serde(flatten)]
    pub client: ClientView,
    /// When it registered.
    pub created_at: String,
    /// Its limits.
    pub limits: ClientLimitsView,
    /// What it uses.
    pub usage: ClientUsageView,
}

request_body! {
    /// What may be asked of a new key.
    pub KEY = "KeyRequest" {
        /// Make a new one even if there is a valid one of that name.
        "rotate": or(truth(), false),
        /// The name of a further key; without it, the key is the client's primary one.
        "name": maybe(name(100)),
        /// What a named key may be used for: by default everything.
        "scopes": maybe(json!({"type": "array", "minItems": 1, "uniqueItems": true, "items": words(&KeyScope::ALL.map(KeyScope::word))})),
        /// When a named key expires.
        "expires_at": maybe(time()),
        /// How many seconds a replaced key stays valid.
        "overlap_s": or(overlap(), 0),
    }
    ; examples {
        "rotate": {"value": {"rotate": true, "overlap_s": 3600}},
        "named": {"value": {"name": "ci", "scopes": ["submit", "read"]}}
    }
}

request_body! {
    /// How to renew a key.
    pub RENEW = "RenewRequest" {
        /// How many seconds the replaced key stays valid.
        "overlap_s": or(overlap(), 0),
    }
    ; examples {"overlap": {"value": {"overlap_s": 3600}}}
}

fn overlap() -> Value {
    integer(0, KEY_OVERLAP_MAX.as_secs() as i64)
}

/// The same as a value.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct KeyRequest {
    /// Make a new one even if there is a valid one of that name.
    #[serde(default)]
    pub rotate: bool,
    /// The name of a further key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What a named key may be used for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// When a named key expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// How many seconds a replaced key stays valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_s: Option<u64>,
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
    /// The name of a further key; absent for the primary one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What a named key may be used for; absent for the primary one, which has all scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// When it was made.
    pub created_at: String,
    /// When it stops working.
    pub expires_at: Option<String>,
}

/// The names of scopes.
pub fn scope_words(scopes: KeyScopes) -> Vec<String> {
    scopes.iter().map(|scope| scope.word().to_owned()).collect()
}

impl KeyView {
    /// The key, with its secret if it was just made.
    pub fn new(key: &ApiKey, secret: Option<String>) -> KeyView {
        KeyView {
            api_key: secret,
            key_id: key.id.to_string(),
            key_prefix: key.prefix.clone(),
            name: key.name.clone(),
            scopes: key.name.is_some().then(|| scope_words(key.scopes)),
            created_at: time::millis(key.created_at),
            expires_at: key.expires_at.map(time::millis),
        }
    }
}

request_body! {
    /// How long a job token is valid.
    pub JOB_TOKEN = "JobTokenRequest" {
        /// In seconds.
        "expires_in_s": or(integer(1, 86_400), 3600),
    }
    ; examples {"hour": {"value": {"expires_in_s": 3600}}}
}

/// A token that reads one job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "JobToken"))]
pub struct JobTokenView {
    /// The token, to be sent as `Authorization: Bearer` or as the query parameter `token`.
    pub token: String,
    /// When it stops working.
    pub expires_at: String,
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

/// The keys of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "KeyList"))]
pub struct KeyListView {
    /// Oldest first, revoked ones included while they are kept. Never a secret.
    pub items: Vec<AdminKey>,
}

/// A key was revoked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Revoked"))]
pub struct RevokedView {
    /// Always true.
    pub revoked: bool,
}
