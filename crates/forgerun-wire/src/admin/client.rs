//! Clients and their keys as the operator sees them. Never a secret.

use forgerun_core::client::{ApiKey, Client};
use forgerun_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::forge::scope_words;
use crate::time;

/// A client.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminClient {
    /// Which client.
    pub client_id: String,
    /// What people call it.
    #[serde(default)]
    pub name: Option<String>,
    /// When it registered.
    pub created_at: String,
    /// How many good keys it has.
    pub good_keys: usize,
    /// When one of its keys was last used, give or take a minute.
    pub last_used_at: Option<String>,
}

impl AdminClient {
    /// The client at this moment, with all its keys.
    pub fn new(client: &Client, name: Option<String>, keys: &[ApiKey], now: Time) -> AdminClient {
        AdminClient {
            client_id: client.id.to_string(),
            name,
            created_at: time::millis(client.created_at),
            good_keys: keys.iter().filter(|key| key.is_good(now)).count(),
            last_used_at: keys.iter().filter_map(|key| key.last_used_at).max().map(time::millis),
        }
    }
}

/// A client in full.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminClientDetail {
    /// As in a list.
    #[serde(flatten)]
    pub client: AdminClient,
    /// Its keys, oldest first, revoked ones included while they are kept.
    pub keys: Vec<AdminKey>,
}

/// A key, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminKey {
    /// Which key.
    pub key_id: String,
    /// How the secret begins.
    pub key_prefix: String,
    /// Its name; null for the primary key.
    #[serde(default)]
    pub name: Option<String>,
    /// What it may be used for.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Whether it is valid now.
    pub good: bool,
    /// When it was made.
    pub created_at: String,
    /// When it stops working.
    pub expires_at: Option<String>,
    /// From when on it is refused: in the future for a replaced key that stays valid for a while.
    pub revoked_at: Option<String>,
    /// When it was last used, give or take a minute.
    pub last_used_at: Option<String>,
}

impl AdminKey {
    /// The key at this moment.
    pub fn new(key: &ApiKey, now: Time) -> AdminKey {
        AdminKey {
            key_id: key.id.to_string(),
            key_prefix: key.prefix.clone(),
            name: key.name.clone(),
            scopes: scope_words(key.scopes),
            good: key.is_good(now),
            created_at: time::millis(key.created_at),
            expires_at: key.expires_at.map(time::millis),
            revoked_at: key.revoked_at.map(time::millis),
            last_used_at: key.last_used_at.map(time::millis),
        }
    }
}
