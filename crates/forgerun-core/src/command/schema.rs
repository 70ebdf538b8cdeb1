//! Commands about the schemas of a client.

use alloc::string::String;
use alloc::vec::Vec;

use crate::id::ClientId;

#[derive(Clone, Debug)]
pub enum SchemaCommand {
    /// A new schema. Refused if this version of the type, or the address, exists.
    Register {
        client: ClientId,
        job_type: String,
        version: String,
        uri: String,
        text: Vec<u8>,
    },
    Delete {
        client: ClientId,
        job_type: String,
        version: String,
    },
}

impl SchemaCommand {
    /// Client, job type and version.
    pub fn subject(&self) -> (ClientId, &str, &str) {
        match self {
            SchemaCommand::Register { client, job_type, version, .. }
            | SchemaCommand::Delete { client, job_type, version } => (*client, job_type, version),
        }
    }
}
