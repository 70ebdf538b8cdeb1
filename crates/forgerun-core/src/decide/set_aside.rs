//! Unreadable rows: set aside by the batch that loaded them, and restored on request.

use alloc::format;
use alloc::vec::Vec;

use super::working_set::WorkingSet;
use crate::command::Answer;
use crate::delivery::{Delivery, DeliveryStage};
use crate::job::{Job, Shelf};
use crate::rows::Wants;
use crate::set_aside::{RowId, SetAside, Unreadable};

pub(super) fn wants(row: RowId, wants: &mut Wants) {
    match row {
        RowId::Job(id) => drop(wants.jobs.insert(id)),
        RowId::Delivery(id) => drop(wants.deliveries.insert(id)),
    }
}

/// A job on a shelf that its own bytes contradict: one of the two is damaged. A claim could not
/// hand it out, and would find it again for ever.
pub(super) fn misplaced(job: &Job, shelf: &Shelf) -> Unreadable {
    let reason = match job.shelf() {
        Some(own) => format!("its bytes put it on the shelf {own:?}, and its row on {shelf:?}"),
        None => format!("by its bytes it is {:?} and on no shelf, and its row is on {shelf:?}", job.state),
    };
    Unreadable { row: RowId::Job(job.id), reason, next: None }
}

impl WorkingSet<'_> {
    /// Sets aside unreadable rows, and unblocks what waits behind them in their chains.
    pub(super) fn set_aside(&mut self, unreadable: Vec<Unreadable>) {
        for Unreadable { row, reason, next } in unreadable {
            self.changes.set_aside.push(SetAside { row, at: self.now, reason });
            let next = next.and_then(|id| self.outbox.delivery(id));
            if let Some(next) = next.filter(|next| next.stage == DeliveryStage::Blocked).cloned() {
                self.outbox.save(Delivery { stage: DeliveryStage::Waiting(self.now), ..next }, self.now);
            }
        }
    }

    /// Returns a row to service: since it could be loaded, it is readable. Writing it unchanged
    /// makes claims and timers find it again. A delivery leaves its chain, which has moved on.
    pub(super) fn restore(&mut self, row: RowId) -> Answer {
        match row {
            RowId::Job(id) => {
                if let Some(slot) = self.find(id) {
                    self.change(slot);
                    self.workflow_restored(slot);
                }
            }
            RowId::Delivery(id) => {
                if let Some(delivery) = self.outbox.delivery(id).cloned() {
                    let stage = match delivery.stage {
                        DeliveryStage::Blocked => DeliveryStage::Waiting(self.now),
                        open_or_settled => open_or_settled,
                    };
                    self.outbox.save(Delivery { stage, chained: false, ..delivery }, self.now);
                }
            }
        }
        self.changes.restored.push(row);
        Answer::Settled
    }
}
