//! Rows that nobody can use: set aside with the batch that met them, and given another chance when asked.

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

/// A job that a store found on a shelf on which it does not stand by its own bytes: one of the two is damaged. A claim could not hand it
/// out, and would find it again for ever.
pub(super) fn misplaced(job: &Job, shelf: &Shelf) -> Unreadable {
    let reason = match job.shelf() {
        Some(own) => format!("its bytes put it on the shelf {own:?}, and its row on {shelf:?}"),
        None => format!("by its bytes it is {:?} and on no shelf, and its row is on {shelf:?}", job.state),
    };
    Unreadable { row: RowId::Job(job.id), reason, next: None }
}

impl WorkingSet<'_> {
    /// Sets aside what could not be read. What waits behind it in its chain does not wait any longer.
    pub(super) fn set_aside(&mut self, unreadable: Vec<Unreadable>) {
        for Unreadable { row, reason, next } in unreadable {
            self.changes.set_aside.push(SetAside { row, at: self.now, reason });
            let next = next.and_then(|id| self.outbox.delivery(id));
            if let Some(next) = next.filter(|next| next.stage == DeliveryStage::Blocked).cloned() {
                self.outbox.save(Delivery { stage: DeliveryStage::Waiting(self.now), ..next }, self.now);
            }
        }
    }

    /// Lets a row take part again: that it could be loaded means that it can be read by now. Writing it as it is puts it back
    /// where claims and timers look. A delivery stands outside of its chain from now on, which has gone on without it.
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
