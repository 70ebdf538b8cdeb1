//! Clients and their keys as the operator sees them. Never a secret.

use forgerun_core::client::{ApiKey, Client};
use forgerun_core::client_limits::{ClientLimit, ClientLimits, ClientUsage};
use forgerun_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::forge::scope_words;
use crate::{request_body, time};

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
    /// Its limits.
    #[serde(default)]
    pub limits: ClientLimitsView,
    /// What it uses.
    #[serde(default)]
    pub usage: ClientUsageView,
    /// Its keys, oldest first, revoked ones included while they are kept.
    pub keys: Vec<AdminKey>,
}

/// Limits that the operator set for a client. Null: only those of all clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ClientLimits"))]
pub struct ClientLimitsView {
    /// Requests per minute, beside those of workers.
    pub rate_per_minute: Option<u64>,
    /// Jobs that wait for a worker.
    pub max_waiting: Option<u64>,
    /// Real jobs that workers hold.
    pub max_active: Option<u64>,
    /// Webhooks.
    pub max_webhooks: Option<u64>,
    /// Schedules.
    pub max_schedules: Option<u64>,
    /// Bytes of inputs, results and checkpoints.
    pub storage_bytes: Option<u64>,
}

impl From<&ClientLimits> for ClientLimitsView {
    fn from(limits: &ClientLimits) -> ClientLimitsView {
        ClientLimitsView {
            rate_per_minute: limits.get(ClientLimit::RatePerMinute),
            max_waiting: limits.get(ClientLimit::MaxWaiting),
            max_active: limits.get(ClientLimit::MaxActive),
            max_webhooks: limits.get(ClientLimit::MaxWebhooks),
            max_schedules: limits.get(ClientLimit::MaxSchedules),
            storage_bytes: limits.get(ClientLimit::StorageBytes),
        }
    }
}

/// What a client uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ClientUsage"))]
pub struct ClientUsageView {
    /// Jobs that wait for a worker.
    pub waiting: i64,
    /// Real jobs that workers hold.
    pub active: i64,
    /// Bytes of inputs, results and checkpoints of jobs since they are counted.
    pub storage_bytes: i64,
}

impl From<ClientUsage> for ClientUsageView {
    fn from(usage: ClientUsage) -> ClientUsageView {
        let ClientUsage { waiting, active, bytes } = usage;
        ClientUsageView { waiting: waiting.max(0), active: active.max(0), storage_bytes: bytes.max(0) }
    }
}

request_body! {
    /// Limits of a client. A limit that is absent stays, null lifts it.
    pub CLIENT_LIMITS = "ClientLimitsRequest" {
        /// Requests per minute.
        "rate_per_minute": maybe(integer(1, 1_000_000)),
        /// Jobs that wait for a worker.
        "max_waiting": maybe(at_least(0)),
        /// Real jobs that workers hold.
        "max_active": maybe(at_least(0)),
        /// Webhooks.
        "max_webhooks": maybe(at_least(0)),
        /// Schedules.
        "max_schedules": maybe(at_least(0)),
        /// Bytes of inputs, results and checkpoints.
        "storage_bytes": maybe(at_least(0)),
    }
    ; examples {"storage": {"value": {"storage_bytes": 1_000_000_000, "max_waiting": 10_000, "max_webhooks": null}}}
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
