//! The key that signs job tokens: made once, and shared by all nodes.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::codec::{Corrupt, Fields, Writer};
use crate::record::{RecordKind, Stored};

/// The only key of its kind.
const KEY: &str = "jobs";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKey {
    pub secret: [u8; 32],
}

impl TokenKey {
    /// Key of its record.
    pub fn record_name() -> String {
        KEY.to_string()
    }
}

impl Stored for TokenKey {
    const KIND: RecordKind = RecordKind::TokenKey;

    fn key(&self) -> String {
        TokenKey::record_name()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(40);
        Writer(&mut bytes).bytes(1, &self.secret);
        bytes
    }

    fn decode(_key: &str, bytes: &[u8]) -> Result<TokenKey, Corrupt> {
        let mut secret = None;
        for field in Fields(bytes) {
            let field = field?;
            if field.tag == 1 {
                secret = Some(field.bytes.try_into().map_err(|_| Corrupt)?);
            }
        }
        Ok(TokenKey { secret: secret.ok_or(Corrupt)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_read_back_as_it_was_written() {
        let key = TokenKey { secret: [7; 32] };
        assert_eq!(TokenKey::of(&key.to_record(1)), Ok(key));
        assert_eq!(TokenKey::decode(KEY, &[]), Err(Corrupt));
    }
}
