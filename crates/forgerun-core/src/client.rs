//! Clients and their API keys. A client only changes once: when it gets its first key. Secrets are
//! not stored: a key is found by the digest of its secret.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use crate::codec::{Corrupt, Fields, Writer};
use crate::id::{ClientId, KeyId};
use crate::record::{RecordKind, Stored};
use crate::scope::KeyScopes;
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    pub id: ClientId,
    pub created_at: Time,
    /// The client has had a key, so creating the next one needs credentials, even if that key is
    /// long gone.
    pub keyed: bool,
}

impl Client {
    pub const fn new(id: ClientId, created_at: Time) -> Client {
        Client { id, created_at, keyed: false }
    }
}

/// The display name of a client. A record of its own: most clients have no name, and no decision
/// depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientName {
    pub client: ClientId,
    /// The name, as [`ClientName::parse`] accepts it. `None` in a command removes the name.
    pub name: Option<String>,
}

impl ClientName {
    pub const RULE: &'static str = "must be 1 to 100 printable characters";

    /// The trimmed name; `None` if it is empty, has over 100 characters, or an unprintable one.
    pub fn parse(text: &str) -> Option<String> {
        let name = text.trim();
        let is_printable = |sign: char| !sign.is_control() && !is_invisible(sign);
        let is_name = (1..=100).contains(&name.chars().count()) && name.chars().all(is_printable);
        is_name.then(|| name.to_owned())
    }
}

/// Characters that are invisible or change the text direction.
const fn is_invisible(sign: char) -> bool {
    matches!(sign, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

impl Stored for ClientName {
    const KIND: RecordKind = RecordKind::ClientName;

    fn key(&self) -> String {
        self.client.to_string()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        Writer(&mut bytes).text(1, self.name.as_deref());
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<ClientName, Corrupt> {
        let client = key.parse().map_err(|_| Corrupt)?;
        let mut name = None;
        for field in Fields(bytes) {
            let field = field?;
            if field.tag == 1 {
                name = Some(field.text()?);
            }
        }
        Ok(ClientName { client, name })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    pub id: KeyId,
    pub client: ClientId,
    /// SHA-256 of the secret. The secret has 256 random bits, so a fast digest is enough.
    pub digest: [u8; 32],
    /// The first characters of the secret, to tell keys apart.
    pub prefix: String,
    pub created_at: Time,
    /// The key is refused from then on.
    pub expires_at: Option<Time>,
    /// The key is refused from then on. In the future for a replaced key that stays valid for a
    /// while.
    pub revoked_at: Option<Time>,
    /// Last use, to within a minute.
    pub last_used_at: Option<Time>,
    /// `None` for the client's primary key.
    pub name: Option<String>,
    pub scopes: KeyScopes,
}

impl ApiKey {
    /// Whether the key is valid at `now`.
    pub fn is_good(&self, now: Time) -> bool {
        self.is_good_within(now, Duration::ZERO)
    }

    /// Whether the key is valid at `now`, or expired no longer than `grace` ago without being
    /// revoked.
    pub fn is_good_within(&self, now: Time, grace: Duration) -> bool {
        !self.is_revoked(now) && self.expires_at.is_none_or(|expires_at| now < expires_at + grace)
    }

    pub fn is_revoked(&self, now: Time) -> bool {
        self.revoked_at.is_some_and(|revoked_at| revoked_at <= now)
    }

    /// Whether a newer key has taken its place. It may still be valid.
    pub const fn is_replaced(&self) -> bool {
        self.revoked_at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_1_to_100_printable_characters() {
        let long = "ä".repeat(100);
        for (text, name) in
            [("Billing", "Billing"), ("  two words ", "two words"), ("7", "7"), (&long, &long)]
        {
            assert_eq!(ClientName::parse(text).as_deref(), Some(name));
        }
        for bad in ["", "  ", "a\nb", "a\u{7f}", "a\u{202e}b", "a\u{200b}b", &"x".repeat(101)] {
            assert_eq!(ClientName::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_name_is_read_back_as_it_was_written() {
        let named = ClientName { client: ClientId::from_u128(7), name: Some("Büro 3".to_owned()) };
        assert_eq!(ClientName::of(&named.to_record(1)), Ok(named));
        assert_eq!(ClientName::decode("x", &[]), Err(Corrupt));
    }
}
