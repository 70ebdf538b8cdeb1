//! Reads the audit trail of a store: pages for the operator, the whole for export, and the check of
//! its chains.

use forgerun_core::audit::{AuditChain, AuditCount, AuditEntry, AuditVerdict, Verifier};
use forgerun_core::time::Time;
use forgerun_engine::StoreClock;
use forgerun_store::{Error, Store};
use forgerun_wire::admin::AuditEntryView;

use crate::Running;
use crate::config::Config;
use crate::limits::{AUDIT_READ_AT_ONCE, AUDIT_SEARCHED_MAX};
use crate::serve::{ServeError, open_existing};

/// Which entries are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditFilter {
    pub(crate) actor: Option<String>,
    pub(crate) action: Option<String>,
    /// Part of the target.
    pub(crate) target: Option<String>,
    pub(crate) since: Option<Time>,
    pub(crate) until: Option<Time>,
}

impl AuditFilter {
    /// The key behind which to begin.
    pub(crate) fn first_key(&self) -> String {
        self.until.map(AuditEntry::key_at).unwrap_or_default()
    }

    fn is_before(&self, entry: &AuditEntry) -> bool {
        self.since.is_some_and(|since| entry.at < since)
    }

    fn matches(&self, entry: &AuditEntry) -> bool {
        let is = |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|wanted| wanted == text);
        let has = |wanted: &Option<String>, text: &str| {
            wanted.as_ref().is_none_or(|wanted| text.contains(wanted.as_str()))
        };
        let is_actor = |actor: &str| {
            let wanted = |wanted: &String| wanted == actor || actor.ends_with(&format!(" ({wanted})"));
            self.actor.as_ref().is_none_or(wanted)
        };
        is_actor(&entry.by.actor)
            && is(&self.action, &entry.what.action)
            && has(&self.target, &entry.what.target)
    }
}

/// A page of entries, the latest first, and the key after which to go on; `None` at the end.
pub(crate) async fn page(
    store: &dyn Store,
    filter: &AuditFilter,
    mut after: String,
    limit: usize,
) -> Result<(Vec<AuditEntry>, Option<String>), Error> {
    let (mut found, mut n_searched) = (Vec::new(), 0);
    while n_searched < AUDIT_SEARCHED_MAX {
        let read: Vec<AuditEntry> = store.records(None, after.clone(), AUDIT_READ_AT_ONCE).await?;
        let is_last = read.is_empty();
        n_searched += read.len();
        for entry in read {
            if filter.is_before(&entry) {
                return Ok((found, None));
            }
            if filter.matches(&entry) {
                if found.len() == limit {
                    return Ok((found, Some(after)));
                }
                after = forgerun_core::record::Stored::key(&entry);
                found.push(entry);
            } else {
                after = forgerun_core::record::Stored::key(&entry);
            }
        }
        if is_last {
            return Ok((found, None));
        }
    }
    Ok((found, Some(after)))
}

/// The line of an entry in an export.
pub(crate) fn line(entry: &AuditEntry) -> String {
    serde_json::to_string(&AuditEntryView::new(entry)).expect("texts and numbers") + "\n"
}

/// Checks the chains of the configured store.
pub fn verify_audit(config: &Config) -> Running<'_, Result<AuditVerdict, ServeError>> {
    Box::pin(async {
        let store = open_existing(config, &StoreClock::default()).await?;
        verify(&*store).await.map_err(ServeError::Store)
    })
}

/// Checks the chains. Servers may go on meanwhile: what they add is not looked at, and if retention
/// removes entries, the check begins again.
pub(crate) async fn verify(store: &dyn Store) -> Result<AuditVerdict, Error> {
    loop {
        let before = chains(store).await?;
        let count: Option<AuditCount> = store.record(AuditCount::KEY.to_owned()).await?;
        let heads: Vec<(u32, u64)> = before.iter().map(|chain| (chain.number, chain.head.seq)).collect();
        let mut verifier = Verifier::new(before.clone(), count.unwrap_or_default());
        let mut after = String::new();
        let mut added = Vec::new();
        loop {
            let read: Vec<AuditEntry> = store.records(None, after.clone(), AUDIT_READ_AT_ONCE).await?;
            let Some(last) = read.last() else { break };
            after = forgerun_core::record::Stored::key(last);
            for entry in &read {
                let head = heads.iter().find(|(chain, _)| *chain == entry.chain).map(|(_, head)| *head);
                match head {
                    Some(head) if entry.seq > head => added.push((entry.chain, entry.seq)),
                    Some(_) | None => verifier.see(entry),
                }
            }
        }
        let verdict = verifier.finish();
        let now = chains(store).await?;
        let has_head = |(chain, seq): &(u32, u64)| {
            now.iter().any(|known| known.number == *chain && known.head.seq >= *seq)
        };
        let is_removed_from = |chain: &AuditChain| {
            now.iter().any(|known| known.number == chain.number && known.anchor != chain.anchor)
        };
        if !verdict.faults.is_empty() && before.iter().any(is_removed_from) {
            continue;
        }
        return Ok(with_foreign(verdict, added.into_iter().filter(|added| !has_head(added)).collect()));
    }
}

/// The verdict with entries beyond the end of their chain.
fn with_foreign(mut verdict: AuditVerdict, added: Vec<(u32, u64)>) -> AuditVerdict {
    let foreign =
        added.into_iter().map(|(chain, seq)| forgerun_core::audit::AuditFault::Foreign { chain, seq });
    verdict.faults.extend(foreign);
    verdict
}

async fn chains(store: &dyn Store) -> Result<Vec<AuditChain>, Error> {
    let (mut chains, mut after) = (Vec::new(), String::new());
    loop {
        let read: Vec<AuditChain> = store.records(None, after, AUDIT_READ_AT_ONCE).await?;
        let Some(last) = read.last() else { return Ok(chains) };
        after = last.node.clone();
        chains.extend(read);
    }
}

/// Writes each entry of the configured store as a line of JSON, the latest first, until `write`
/// returns `false`.
pub fn export_audit<'a>(
    config: &'a Config,
    mut write: impl FnMut(&str) -> bool + 'a,
) -> Running<'a, Result<(), ServeError>> {
    Box::pin(async move {
        let store = open_existing(config, &StoreClock::default()).await?;
        let (filter, mut after) = (AuditFilter::default(), String::new());
        loop {
            let read = page(&*store, &filter, after, AUDIT_READ_AT_ONCE).await.map_err(ServeError::Store)?;
            let (entries, next) = read;
            if !entries.iter().all(|entry| write(&line(entry))) {
                return Ok(());
            }
            match next {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    })
}
