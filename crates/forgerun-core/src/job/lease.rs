//! Leases: a worker's hold on a job, stored in the job's row.

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use super::{Job, Name};
use crate::codec::{Corrupt, Fields, Writer, micros};
use crate::command::{Blob, Content, LeaseProof, Output, Refusal};
use crate::id::BlobId;
use crate::state::State;
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub worker: Name,
    /// End of the lease, unless extended.
    pub until: Time,
    /// Length of each extension.
    pub length: Duration,
    /// End of the attempt, extensions or not. Set once it runs.
    pub timeout_at: Option<Time>,
    /// A result sent before the attempt ended. Discarded with the lease.
    pub upload: Option<Arc<Output>>,
}

impl Lease {
    pub(super) fn encode(&self, out: &mut Writer<'_>) {
        out.text(1, Some(self.worker.as_str()));
        out.time(2, Some(self.until));
        out.number(3, micros(self.length));
        out.time(4, self.timeout_at);
        if let Some(upload) = &self.upload {
            out.group(5, |out| encode_output(upload, out));
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Lease, Corrupt> {
        let (mut worker, mut until, mut length, mut timeout_at, mut upload) = (None, None, 0, None, None);
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => worker = Name::new(field.str()?),
                2 => until = Some(field.time()?),
                3 => length = field.number()?,
                4 => timeout_at = Some(field.time()?),
                5 => upload = Some(Arc::new(decode_output(field.bytes)?)),
                _ => {}
            }
        }
        let (worker, until) = (worker.ok_or(Corrupt)?, until.ok_or(Corrupt)?);
        Ok(Lease { worker, until, length: Duration::from_micros(length), timeout_at, upload })
    }
}

impl Job {
    /// Refuses a proof that is not of the worker that holds the job.
    pub fn check_holder(&self, proof: &LeaseProof) -> Result<(), Refusal> {
        let holds = match proof {
            LeaseProof::Token(token) => *token == self.fence,
            LeaseProof::Worker(worker) => self.lease.as_ref().is_none_or(|lease| lease.worker == *worker),
            LeaseProof::Anyone => true,
        };
        match self.state {
            // No worker holds a workflow or a wait.
            _ if !holds || !self.head.needs_worker() => Err(Refusal::LeaseLost),
            State::Assigned | State::Running => Ok(()),
            State::Succeeded | State::Failed => Err(Refusal::AlreadyCompleted(self.state)),
            State::Canceled => Err(Refusal::AlreadyCanceled),
            State::Created | State::Queued => Err(Refusal::WrongState(self.state)),
        }
    }
}

fn encode_output(output: &Output, out: &mut Writer<'_>) {
    out.text(1, Some(&output.media_type));
    out.text(2, output.file_name.as_deref());
    match &output.content {
        Content::Inline(bytes) => out.bytes(3, bytes),
        Content::Stored(blob) => {
            out.bytes(4, &blob.id.to_bytes());
            out.number(5, blob.size);
            out.bytes(6, &blob.digest);
        }
    }
}

fn decode_output(bytes: &[u8]) -> Result<Output, Corrupt> {
    let (mut media_type, mut file_name, mut inline) = (String::new(), None, None);
    let (mut id, mut size, mut digest) = (None, 0, [0; 32]);
    for field in Fields(bytes) {
        let field = field?;
        match field.tag {
            1 => media_type = field.text()?,
            2 => file_name = Some(field.text()?),
            3 => inline = Some(field.bytes.to_vec()),
            4 => id = Some(BlobId::from_u128(field.id()?)),
            5 => size = field.number()?,
            6 => digest = field.bytes.try_into().map_err(|_| Corrupt)?,
            _ => {}
        }
    }
    let content = match (inline, id) {
        (Some(bytes), _) => Content::Inline(bytes),
        (None, Some(id)) => Content::Stored(Blob { id, size, digest }),
        (None, None) => return Err(Corrupt),
    };
    Ok(Output { media_type, file_name, content })
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_lease_is_read_back_as_it_was_written() {
        let blob = Blob { id: BlobId::from_u128(9), size: 1 << 40, digest: [7; 32] };
        let uploads = [
            None,
            Some(Output::inline("text/plain", vec![])),
            Some(Output {
                media_type: "image/png".into(),
                file_name: Some("a.png".into()),
                content: Content::Stored(blob),
            }),
        ];
        for upload in uploads {
            let lease = Lease {
                worker: Name::new("w").unwrap(),
                until: Time::from_micros(5),
                length: Duration::from_secs(30),
                timeout_at: Some(Time::from_micros(8)),
                upload: upload.map(Arc::new),
            };
            let mut bytes = Vec::new();
            lease.encode(&mut Writer(&mut bytes));
            assert_eq!(Lease::decode(&bytes), Ok(lease));
        }
    }
}
