//! What can be asked about the schemas of a client.

use alloc::string::String;
use alloc::vec::Vec;

use crate::id::ClientId;

/// Registers or deletes a schema.
#[derive(Clone, Debug)]
pub enum SchemaCommand {
    /// A new schema. Refused if the type has this version, or the client this address.
    Register {
        /// Whose it is.
        client: ClientId,
        /// The type of the jobs.
        job_type: String,
        /// Which version.
        version: String,
        /// Its address.
        uri: String,
        /// The schema.
        text: Vec<u8>,
    },
    /// Delete one.
    Delete {
        /// Whose it is.
        client: ClientId,
        /// The type of the jobs.
        job_type: String,
        /// Which version.
        version: String,
    },
}

impl SchemaCommand {
    /// Whose schema, of which type, in which version.
    pub fn subject(&self) -> (ClientId, &str, &str) {
        match self {
            SchemaCommand::Register { client, job_type, version, .. }
            | SchemaCommand::Delete { client, job_type, version } => (*client, job_type, version),
        }
    }
}
