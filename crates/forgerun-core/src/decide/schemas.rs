//! Schemas: registered once, never changed, deleted.

use alloc::string::ToString;

use super::working_set::WorkingSet;
use crate::command::{Answer, Refusal, SchemaCommand};
use crate::limits;
use crate::record::Stored;
use crate::rows::Wants;
use crate::schema::{SchemaEntry, SchemaIndex, SchemaText};

pub(super) fn wants(command: &SchemaCommand, wants: &mut Wants) {
    let (client, job_type, version) = command.subject();
    wants.records.insert(SchemaIndex::record_key(client.to_string()));
    wants.records.insert(SchemaText::record_key(SchemaText::key_of(client, job_type, version)));
}

impl WorkingSet<'_> {
    pub(super) fn schema(&mut self, command: &SchemaCommand) -> Result<Answer, Refusal> {
        let (client, job_type, version) = command.subject();
        let known: Option<SchemaIndex> = self.record(client.to_string());
        let mut index = known.unwrap_or_else(|| SchemaIndex::new(client));
        let entry = match command {
            SchemaCommand::Register { uri, text, .. } => {
                if index.find(job_type, version).is_some() || index.by_uri(uri).is_some() {
                    return Err(Refusal::SchemaExists);
                }
                if index.entries.len() >= limits::SCHEMAS_MAX {
                    return Err(Refusal::TooManySchemas);
                }
                let entry = SchemaEntry {
                    job_type: job_type.into(),
                    version: version.into(),
                    uri: uri.clone(),
                    created_at: self.now,
                };
                index.insert(entry.clone());
                let (job_type, version) = (entry.job_type.clone(), entry.version.clone());
                self.put_record(&SchemaText { client, job_type, version, text: text.clone() });
                entry
            }
            SchemaCommand::Delete { .. } => {
                let entry = index.remove(job_type, version).ok_or(Refusal::SchemaNotFound)?;
                self.remove_record(SchemaText::record_key(SchemaText::key_of(client, job_type, version)));
                entry
            }
        };
        self.put_record(&index);
        Ok(Answer::Schema(entry.into()))
    }
}
