//! Commands about the API keys of a client.

use core::time::Duration;

use crate::client::ApiKey;
use crate::id::{ClientId, KeyId};

#[derive(Clone, Debug)]
pub enum KeyCommand {
    /// Create a key, unless the client has a valid one: then the answer is that one.
    Create {
        key: ApiKey,
        /// Revoke the valid keys and create a new one in any case.
        rotate: bool,
        /// The caller has no key and may only create the client's first one.
        first_only: bool,
    },
    /// Replace all keys by a new one. Refused if there is no valid one, unless the caller shows one
    /// that expired within `grace`.
    Renew {
        key: ApiKey,
        /// Digest of the key that the caller used; `None` for the operator, who needs no key.
        shown: Option<[u8; 32]>,
        /// How long after its expiry a key can still be renewed (ruling C-114).
        grace: Duration,
    },
    Revoke {
        client: ClientId,
        key: KeyId,
    },
    Used {
        client: ClientId,
        key: KeyId,
    },
}

impl KeyCommand {
    pub const fn client(&self) -> ClientId {
        match self {
            KeyCommand::Create { key, .. } | KeyCommand::Renew { key, .. } => key.client,
            KeyCommand::Revoke { client, .. } | KeyCommand::Used { client, .. } => *client,
        }
    }
}
