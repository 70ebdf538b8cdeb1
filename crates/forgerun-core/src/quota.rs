//! Quotas: the total requests of a client. Nodes count in memory and add to this record
//! periodically.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::codec::{Corrupt, Fields, Writer};
use crate::id::ClientId;
use crate::record::{RecordKind, Stored};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaCount {
    pub client: ClientId,
    /// In a record, the total; in a command, the number to add.
    pub n_requests: u64,
}

impl Stored for QuotaCount {
    const KIND: RecordKind = RecordKind::QuotaCount;

    fn key(&self) -> String {
        self.client.to_string()
    }

    /// Never due: spent quota stays spent.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        let mut out = Writer(&mut bytes);
        out.bytes(1, &self.client.to_bytes());
        out.number(2, self.n_requests);
        bytes
    }

    fn decode(_key: &str, bytes: &[u8]) -> Result<QuotaCount, Corrupt> {
        let nobody = ClientId::from_u128(0);
        let mut count = QuotaCount { client: nobody, n_requests: 0 };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => count.client = ClientId::from_u128(field.id()?),
                2 => count.n_requests = field.number()?,
                _ => {}
            }
        }
        if count.client == nobody { Err(Corrupt) } else { Ok(count) }
    }
}
