//! Contents that take the place of others.

use forgerun_core::command::{Blob, Content};

use super::{BlobShelves, Tables};
use crate::Rewrite;

impl Tables {
    pub(super) fn rewrite(&mut self, row: Rewrite, blobs: &BlobShelves) {
        match row {
            Rewrite::Input(job, input) => {
                self.inputs.entry(job).and_modify(|kept| *kept = input);
            }
            Rewrite::Outcome(execution, object) => {
                self.outcomes.entry(execution).and_modify(|kept| kept.object = object);
            }
            Rewrite::Result(execution, bytes) => {
                let content = self.results.get_mut(&execution).and_then(|kept| kept.content.as_mut());
                if let Some(Content::Inline(kept)) = content {
                    *kept = bytes;
                }
            }
            Rewrite::Blob { execution, old, new, at } => {
                let content = self.results.get_mut(&execution).and_then(|kept| kept.content.as_mut());
                if let Some(Content::Stored(kept)) = content
                    && kept.id == old
                    && blobs.name([new].into_iter()).is_ok()
                {
                    *kept = Blob { id: new, ..*kept };
                    blobs.release(Some(old), at);
                }
            }
            Rewrite::Log { job, last, content } => self.logs.rewrite(job, last, content),
        }
    }
}
