//! The audit trail: an entry with the change that it describes, and its removal after retention.

use alloc::string::ToString;
use core::time::Duration;

use super::working_set::WorkingSet;
use crate::audit::{AuditAction, AuditActor, AuditChain, AuditCount, AuditEntry, AuditLink, shortened};
use crate::command::{Answer, Audited, AuditedChange, Refusal};
use crate::limits;
use crate::record::{RecordKey, Stored};
use crate::rows::Wants;
use crate::time::Time;

pub(super) fn wants(audited: &Audited, now: Time, wants: &mut Wants) {
    wants.records.insert(AuditChain::record_key(audited.by.node.clone()));
    if let AuditedChange::Command(command) = &audited.change {
        super::wants_of(command, now, wants);
    }
}

impl WorkingSet<'_> {
    pub(super) fn audited(&mut self, audited: &Audited) -> Result<Answer, Refusal> {
        let (answer, action) = match &audited.change {
            AuditedChange::Command(command) => (self.execute(command)?, command.audited_as()),
            AuditedChange::Event(action) => (Answer::Settled, Some(action.clone())),
        };
        let is_change = !matches!(answer, Answer::Unchanged(_) | Answer::Key { created: false, .. });
        if let Some(action) = action.filter(|_| is_change) {
            self.append_audit(&audited.by, &action);
        }
        Ok(answer)
    }

    fn append_audit(&mut self, by: &AuditActor, what: &AuditAction) {
        let mut chain = match self.record::<AuditChain>(by.node.clone()) {
            Some(chain) => chain,
            None => self.new_audit_chain(by),
        };
        // Later than the one before even if the clock is not, so that keys are in order.
        let at = self.now.max(chain.last_at + Duration::from_micros(1));
        let by = AuditActor {
            actor: shortened(&by.actor),
            address: shortened(&by.address),
            request: shortened(&by.request),
            node: by.node.clone(),
            keep: by.keep,
        };
        let what = AuditAction { action: shortened(&what.action), target: shortened(&what.target), ..*what };
        let (seq, previous) = (chain.head.seq + 1, chain.head.hash);
        let entry = AuditEntry { chain: chain.number, seq, at, by, what, previous };
        chain.head = entry.link();
        chain.last_at = at;
        self.put_record(&entry);
        self.put_record(&chain);
    }

    fn new_audit_chain(&mut self, by: &AuditActor) -> AuditChain {
        let key = AuditCount::record_key(AuditCount::KEY.to_string());
        let count = self.seek_record::<AuditCount>(&key).unwrap_or_default();
        let count = AuditCount { n_chains: count.n_chains + 1 };
        self.put_record(&count);
        let (head, anchor) = (AuditLink::default(), AuditLink::default());
        AuditChain { node: by.node.clone(), number: count.n_chains, head, last_at: Time::ZERO, anchor }
    }

    /// Removes an entry after its retention, from the beginning of its chain only. One that is due
    /// before those ahead of it waits: another node may just remove them, or they are missing.
    pub(super) fn audit_due(&mut self, key: RecordKey) {
        let Some(entry) = self.record::<AuditEntry>(key.key.clone()) else {
            // Unreadable: left for `forgerun audit verify` to report.
            return self.never_due(key);
        };
        let due_at = entry.at + entry.by.keep;
        if due_at > self.now {
            return;
        }
        let chain = AuditChain::record_key(entry.by.node.clone());
        let Some(mut chain) = self.seek_record::<AuditChain>(&chain) else {
            return self.due_later(key, self.now + limits::AUDIT_REMOVAL_RETRY);
        };
        if entry.seq > chain.anchor.seq + 1 {
            return self.due_later(key, self.now + limits::AUDIT_REMOVAL_RETRY);
        }
        if entry.seq == chain.anchor.seq + 1 {
            chain.anchor = entry.link();
            self.put_record(&chain);
        }
        self.remove_record(key);
    }
}
