//! One bad row must not stop the clock, a queue or the deliveries. A batch is halved until the culprit among its *commands*
//! stands alone; this is about a command that stands alone and still fails because of one of the *rows* it looks for by itself:
//! what is due, what can be claimed, what is to be delivered. It is asked for less and less, until one row is left. Without
//! that row it works, and the same transaction sets the row aside.

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

/// What a transaction tells, and is told, about the rows that it meets.
#[derive(Clone, Default)]
pub(super) struct Probe {
    /// Where the first row that was met is noted.
    found: Arc<Mutex<Option<FoundRow>>>,
    /// The row to go on without, and why.
    without: Option<(FoundRow, String)>,
}

impl Probe {
    /// Adds what must be seen to go on without a delivery: what waits for it.
    pub(super) fn add_wants(&self, wants: &mut Wants) {
        wants.chains.extend(self.without.as_ref().and_then(|(found, _)| found.chain));
    }

    /// Looks at the rows before they are decided on.
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
    /// Whether a command that failed alone may have met a row that is to blame.
    pub(super) fn looks_around(command: &Command) -> bool {
        matches!(command, Command::Due(_) | Command::Claim(_) | Command::Delivery(DeliveryCommand::Take(_)))
    }

    /// Runs a command that failed because of a row it met. What it does may be less than it was asked for, and is never
    /// nothing at all while there is something.
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

/// The command in parts, each of which looks in one place. A claim looks at the head of one queue after the other.
fn parts(command: &Command) -> Vec<Command> {
    match command {
        Command::Claim(claim) => {
            let of = |queue| Claim { queues: vec![queue], limit: 1, ..claim.clone() };
            claim.queues.iter().cloned().map(of).map(Command::Claim).collect()
        }
        other => vec![smaller(other).unwrap_or_else(|| other.clone())],
    }
}

/// The same command for half as much; `None` if one row is all that it asks for.
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

/// Makes of a row one that cannot be read.
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
