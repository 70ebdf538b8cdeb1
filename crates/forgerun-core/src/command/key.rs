//! Commands about the API keys of a client.

use core::time::Duration;

use crate::client::ApiKey;
use crate::id::{ClientId, KeyId};
use crate::scope::KeyScopes;

#[derive(Clone, Debug)]
pub enum KeyCommand {
    /// Create a key, unless the client has a valid one of that name: then the answer is that one.
    Create {
        /// Its scopes are set by the rules.
        key: ApiKey,
        /// KeyScopes of a named key; `None` for those of the key it replaces, else all.
        scopes: Option<KeyScopes>,
        /// Replace the valid keys of that name.
        rotate: bool,
        /// How long the replaced keys stay valid.
        overlap: Duration,
        by: KeyCaller,
    },
    /// Replace the primary key by a new one. Refused if there is no valid one, unless the caller
    /// shows one that expired within `grace`.
    Renew {
        key: ApiKey,
        by: KeyCaller,
        /// How long after its expiry a key can still be renewed (ruling C-114).
        grace: Duration,
        /// How long the replaced key stays valid.
        overlap: Duration,
    },
    Revoke {
        client: ClientId,
        key: KeyId,
        by: KeyCaller,
    },
    Used {
        client: ClientId,
        key: KeyId,
    },
}

/// Who changes the keys of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyCaller {
    /// The operator, or the client of a server without keys.
    Operator,
    /// A caller without a key, which may only create the client's first one.
    Anonymous,
    /// The client, by the key with this digest.
    Key([u8; 32]),
}

impl KeyCommand {
    pub const fn client(&self) -> ClientId {
        match self {
            KeyCommand::Create { key, .. } | KeyCommand::Renew { key, .. } => key.client,
            KeyCommand::Revoke { client, .. } | KeyCommand::Used { client, .. } => *client,
        }
    }
}
