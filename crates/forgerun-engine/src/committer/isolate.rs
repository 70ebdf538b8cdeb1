//! A bad row must not stop the timers, a queue or the deliveries. The committer halves a batch
//! until the failing *command* stands alone. This module handles a single command that still fails
//! because of a *row* it finds by itself (due, claimable or to be delivered): its limit is reduced
//! until one row is left. The command then runs without that row, and the same transaction sets the
//! row aside.

use std::sync::{Arc, Mutex};

use forgerun_core::command::{Claim, DeliveryClaim, DeliveryCommand};
use forgerun_core::delivery::{Chain, Delivery};
use forgerun_core::set_aside::{RowId, Unreadable};
use forgerun_core::{Answer, Changes, Command, Rows, Wants};
use forgerun_store::{Error, Fault};

use super::CommitContext;

/// The first row that a command found by itself.
#[derive(Clone, Debug)]
pub(super) struct FoundRow {
    row: RowId,
    chain: Option<Chain>,
}

/// Observes the rows of a transaction, and hides a bad one.
#[derive(Clone, Default)]
pub(super) struct Probe {
    /// The first row found.
    found: Arc<Mutex<Option<FoundRow>>>,
    /// The row to hide, and why.
    without: Option<(FoundRow, String)>,
}

impl Probe {
    /// Adds the rows behind a hidden delivery, which wait for it.
    pub(super) fn add_wants(&self, wants: &mut Wants) {
        wants.chains.extend(self.without.as_ref().and_then(|(found, _)| found.chain));
    }

    /// Runs before the decision: notes the first row, and hides the bad one.
    pub(super) fn look(&self, command: Option<&Command>, rows: &mut Rows) {
        let first = command.and_then(|command| first_found(command, rows));
        *self.found.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = first;
        if let Some((found, reason)) = &self.without {
            leave_out(found, reason, rows);
        }
    }

    fn found(&self) -> Option<FoundRow> {
        self.found.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }
}

impl CommitContext {
    /// Whether a command finds rows by itself.
    pub(super) fn looks_around(command: &Command) -> bool {
        matches!(command, Command::Due(_) | Command::Claim(_) | Command::Delivery(DeliveryCommand::Take(_)))
    }

    /// Runs a command that failed because of a row it found. It may process fewer rows than
    /// requested, but at least one if there is any.
    pub(super) async fn isolate(&self, command: &Command) -> Result<Changes, Error> {
        let mut last = None;
        for part in parts(command) {
            if let Some(changes) = last.take() {
                self.succeed(&self.batch(Vec::new()), Vec::new(), changes);
            }
            let changes = self.run_part(part).await?;
            if matches!(&changes.answers[..], [Answer::Claimed { jobs, more: false, .. }] if jobs.is_empty())
            {
                last = Some(changes);
                continue;
            }
            return Ok(changes);
        }
        last.ok_or_else(|| Error::new(Fault::Rejected, "there was nothing to ask for"))
    }

    async fn run_part(&self, mut part: Command) -> Result<Changes, Error> {
        loop {
            let probe = Probe::default();
            let error = match self.transact(self.batch(vec![part.clone()]), probe.clone()).await {
                Err(error) if error.fault == Fault::Rejected => error,
                done => return done,
            };
            match (smaller(&part), probe.found()) {
                (Some(smaller), _) => part = smaller,
                (None, Some(found)) => {
                    let probe = Probe { without: Some((found, error.to_string())), ..Probe::default() };
                    return self.transact(self.batch(vec![part]), probe).await;
                }
                (None, None) => return Err(error),
            }
        }
    }
}

/// Splits the command by place. A claim searches one queue after the other.
fn parts(command: &Command) -> Vec<Command> {
    match command {
        Command::Claim(claim) => {
            let of = |queue| Claim { queues: vec![queue], limit: 1, ..claim.clone() };
            claim.queues.iter().cloned().map(of).map(Command::Claim).collect()
        }
        other => vec![smaller(other).unwrap_or_else(|| other.clone())],
    }
}

/// The command with half its limit; `None` if that is one row.
fn smaller(command: &Command) -> Option<Command> {
    match command {
        Command::Due(limit @ 2..) => Some(Command::Due(limit / 2)),
        Command::Delivery(DeliveryCommand::Take(take)) if take.limit > 1 => {
            let take = DeliveryClaim { limit: take.limit / 2, ..take.clone() };
            Some(Command::Delivery(DeliveryCommand::Take(take)))
        }
        _ => None,
    }
}

fn first_found(command: &Command, rows: &Rows) -> Option<FoundRow> {
    match command {
        Command::Due(_) => rows.due.first().map(|&id| FoundRow { row: RowId::Job(id), chain: None }),
        Command::Claim(claim) => {
            let shelf = claim.shelves().next()?;
            let id = *rows.shelves.get(&shelf)?.first()?;
            Some(FoundRow { row: RowId::Job(id), chain: None })
        }
        Command::Delivery(DeliveryCommand::Take(_)) => {
            let id = *rows.deliveries_due.first()?;
            let known = rows.deliveries.iter().find(|known| known.id == id);
            Some(FoundRow { row: RowId::Delivery(id), chain: known.and_then(Delivery::chain) })
        }
        _ => None,
    }
}

/// Replaces the row by an unreadable one.
fn leave_out(found: &FoundRow, reason: &str, rows: &mut Rows) {
    let mut next = None;
    match found.row {
        RowId::Job(id) => rows.jobs.retain(|job| job.id != id),
        RowId::Delivery(id) => {
            rows.deliveries.retain(|delivery| delivery.id != id);
            let behind =
                rows.deliveries.iter().filter(|known| found.chain.is_some() && known.chain() == found.chain);
            next = behind.filter(|known| known.position().is_some()).min_by_key(|known| known.position());
        }
    }
    let next = next.map(|delivery| delivery.id);
    rows.unreadable.push(Unreadable { row: found.row, reason: reason.to_owned(), next });
}
