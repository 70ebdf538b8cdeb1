//! Clients and their API keys. Of a client nothing changes but that it has had a key; keys come and go. Secrets are not here: a key is known by the
//! digest of its secret.

use alloc::string::String;
use core::time::Duration;

use crate::id::{ClientId, KeyId};
use crate::time::Time;

/// Somebody who owns jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its identity.
    pub id: ClientId,
    /// When it registered.
    pub created_at: Time,
    /// It has had a key, so the next one needs credentials: also when that key is long gone.
    pub keyed: bool,
}

impl Client {
    /// A client that registers now.
    pub const fn new(id: ClientId, created_at: Time) -> Client {
        Client { id, created_at, keyed: false }
    }
}

/// A key that speaks for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Its identity.
    pub id: KeyId,
    /// For whom it speaks.
    pub client: ClientId,
    /// SHA-256 of the secret. The secret has 256 random bits, so a fast digest is enough.
    pub digest: [u8; 32],
    /// The first characters of the secret, to tell keys apart.
    pub prefix: String,
    /// When it was made.
    pub created_at: Time,
    /// It is refused from then on.
    pub expires_at: Option<Time>,
    /// It is refused since then.
    pub revoked_at: Option<Time>,
    /// When it was last used, give or take a minute.
    pub last_used_at: Option<Time>,
}

impl ApiKey {
    /// Whether it opens doors at `now`.
    pub fn is_good(&self, now: Time) -> bool {
        self.is_good_within(now, Duration::ZERO)
    }

    /// Whether it opens doors at `now`, or did no longer than `grace` ago and was not revoked.
    pub fn is_good_within(&self, now: Time, grace: Duration) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires_at| now < expires_at + grace)
    }
}
