//! What can be asked about the API keys of a client.

use core::time::Duration;

use crate::client::ApiKey;
use crate::id::{ClientId, KeyId};

/// Something about the keys of a client.
#[derive(Clone, Debug)]
pub enum KeyCommand {
    /// A key, unless there is a good one already: then that one is answered.
    Create {
        /// The key, if it is needed. `key.client` is the client.
        key: ApiKey,
        /// Revoke the good ones and make a new one in any case.
        rotate: bool,
        /// The asker has no key and may only make a client's first one.
        first_only: bool,
    },
    /// A new key in place of those there are; refused where there is no good one, unless an expired one is shown in time.
    Renew {
        /// The new key. `key.client` is the client.
        key: ApiKey,
        /// The digest of the key that the asker showed; `None` for one who needs none, such as the operator.
        shown: Option<[u8; 32]>,
        /// How long after its end a key can still be renewed (ruling C-114).
        grace: Duration,
    },
    /// No key any more.
    Revoke {
        /// Whose key.
        client: ClientId,
        /// Which key.
        key: KeyId,
    },
    /// The key was used at this moment.
    Used {
        /// Whose key.
        client: ClientId,
        /// Which key.
        key: KeyId,
    },
}

impl KeyCommand {
    /// The client it is about.
    pub const fn client(&self) -> ClientId {
        match self {
            KeyCommand::Create { key, .. } | KeyCommand::Renew { key, .. } => key.client,
            KeyCommand::Revoke { client, .. } | KeyCommand::Used { client, .. } => *client,
        }
    }
}
