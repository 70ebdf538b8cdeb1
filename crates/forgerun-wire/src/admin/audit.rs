//! Entries of the audit trail.

use forgerun_core::audit::AuditEntry;
use serde::{Deserialize, Serialize};

use crate::time;

/// A change, and who made it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "AuditEntry"))]
pub struct AuditEntryView {
    /// When it was recorded.
    pub at: String,
    /// `operator`, `client ID` or `anonymous`.
    pub actor: String,
    /// The caller's address; `several` where wrong keys came from too many to name.
    pub address: String,
    /// What was done, such as `pause_queue`.
    pub action: String,
    /// To what, such as the name of a queue; empty if the action says it all.
    pub target: String,
    /// How often: more than once for wrong keys of one minute.
    pub count: u64,
    /// The request; `null` if there were several.
    pub request_id: Option<String>,
    /// The process that recorded it. Each has a chain of entries.
    pub node: String,
    /// The number of the chain.
    pub chain: u32,
    /// The number in the chain, from 1 without gaps.
    pub seq: u64,
    /// Hash of the entry before it in the chain, SHA-256 in hexadecimal; zeros for the first.
    pub previous: String,
    /// Its own hash.
    pub hash: String,
}

impl AuditEntryView {
    pub fn new(entry: &AuditEntry) -> AuditEntryView {
        AuditEntryView {
            at: time::millis(entry.at),
            actor: entry.by.actor.clone(),
            address: entry.by.address.clone(),
            action: entry.what.action.clone(),
            target: entry.what.target.clone(),
            count: entry.what.count,
            request_id: Some(entry.by.request.clone()).filter(|id| !id.is_empty()),
            node: entry.by.node.clone(),
            chain: entry.chain,
            seq: entry.seq,
            previous: hexadecimal(&entry.previous),
            hash: hexadecimal(&entry.hash()),
        }
    }
}

fn hexadecimal(hash: &[u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
